//! Readers of the event feed, compared with the committed events and with the messages in the broker's streams.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Instant;

use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use futures::StreamExt;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor, PgConnection, Postgres};

use noetl_feed::wire::cursor::{Position, StreamCursor};

use super::projections::NO_PROJECTOR_NO_STREAM;
use super::{Deployment, Live, Server, WAIT_TIMEOUT, eventually};

/// Key of an event: execution id and event id.
pub type Key = (i64, i64);

const EVENTS: &str =
    "subscription($filter: LiveEventFilter, $start: EventStart) { events(filter: $filter, start: $start) {
    __typename
    ... on EventDelivery { cursor payloadOmitted event { id: eventId executionId type context shard } }
    ... on CaughtUp { cursor }
    ... on StreamGap { cursor shard from to reason }
    ... on StreamHeartbeat { cursor lagEvents }
} }";

/// Settings of a replica that publishes and delivers events, and does nothing else with them.
pub const ONLY_FEED: [(&str, &str); 2] = [("NOETL_PROJECTOR", "false"), ("NOETL_OUTBOX_RELAY", "false")];

/// Maximum number of shards of a deployment.
const MAX_SHARDS: usize = 16;

/// A reader of live events. It can reconnect to any replica and continues after its last cursor.
pub struct Reader {
    live: Live,
    filter: Value,
    /// Cursor of the last item.
    pub cursor: String,
    /// Keys of all delivered events, in the order of delivery.
    pub seen: Vec<Key>,
    /// All items except heartbeats since the last connect.
    pub items: Vec<Value>,
    /// Events that a client keeps if it handles gaps correctly: shard, position and key. At a gap with the reason
    /// `EPOCH_CHANGED`, the client discards its events from the gap's first position on.
    kept: Vec<(u64, u64, Key)>,
    /// Time and content of the last item, heartbeats included.
    last: (Instant, Value),
}

impl Reader {
    /// Connects and reads until the `CaughtUp` item.
    pub async fn open(server: &Server, start: Value, filter: Value) -> Self {
        Self::open_at(&server.url, start, filter).await
    }

    /// Opens a reader of all events, also the stored ones, as [`Self::open`] does.
    pub async fn from_beginning(server: &Server) -> Self {
        Self::open(server, json!({ "beginning": true }), Value::Null).await
    }

    /// Opens a reader of all later events, as [`Self::open`] does.
    pub async fn from_latest(server: &Server) -> Self {
        Self::open(server, json!({ "latest": true }), Value::Null).await
    }

    /// Connects to an address and reads until the `CaughtUp` item. Waits for streams that do not exist yet.
    pub async fn open_at(url: &str, start: Value, filter: Value) -> Self {
        let (start, filter) = (&start, &filter);
        eventually("a reader catches up", async || {
            let live = Live::open(url, EVENTS, json!({ "start": start, "filter": filter })).await;
            let mut reader = Self {
                live,
                filter: filter.clone(),
                cursor: String::new(),
                seen: Vec::new(),
                items: Vec::new(),
                kept: Vec::new(),
                last: (Instant::now(), Value::Null),
            };
            let caught_up = async {
                while reader.step_allowing_unavailable().await?["__typename"] != "CaughtUp" {}
                Some(())
            };
            tokio::time::timeout(WAIT_TIMEOUT, caught_up).await.expect("the reader catches up")?;
            Some(reader)
        })
        .await
    }

    /// Reconnects to a replica and continues after the last cursor.
    pub async fn reconnect(&mut self, server: &Server) {
        let variables = json!({ "start": { "after": self.cursor }, "filter": self.filter });
        self.live = server.live(EVENTS, variables).await;
        self.items.clear();
    }

    /// Reconnects as [`Self::reconnect`] does and reads until the `CaughtUp` item. Subscribes again while the broker is
    /// unreachable, as the error asks for.
    pub async fn reconnect_when_available(&mut self, server: &Server) {
        eventually("the reader catches up again", async || {
            self.reconnect(server).await;
            while self.step_allowing_unavailable().await?["__typename"] != "CaughtUp" {}
            Some(())
        })
        .await;
    }

    /// Reconnects to an address and continues after the last cursor. Returns `false` if the connection fails.
    pub async fn try_reconnect(&mut self, url: &str) -> bool {
        let variables = json!({ "start": { "after": self.cursor }, "filter": self.filter });
        let Some(live) = Live::try_open(url, EVENTS, variables).await else { return false };
        self.live = live;
        self.items.clear();
        true
    }

    /// Closes the connection. The reader keeps its cursor.
    pub async fn disconnect(&mut self) {
        self.live.close().await;
    }

    /// Reads one item. Returns `None` if the connection has ended.
    pub async fn step(&mut self) -> Option<Value> {
        let item = self.live.next().await?;
        Some(self.note(item))
    }

    /// Reads one item as [`Self::step`] does. Also accepts that the subscription ends because the broker is
    /// unreachable.
    pub async fn step_allowing_unavailable(&mut self) -> Option<Value> {
        let item = self.live.next_allowing_unavailable().await?;
        Some(self.note(item))
    }

    fn note(&mut self, mut item: Value) -> Value {
        let item = item["events"].take();
        item["cursor"].as_str().expect("every item has a cursor").clone_into(&mut self.cursor);
        self.last = (Instant::now(), item.clone());
        if item["__typename"] == "EventDelivery" {
            let key = (number(&item["event"]["executionId"]), number(&item["event"]["id"]));
            let shard = item["event"]["shard"].as_u64().unwrap();
            self.seen.push(key);
            self.kept.push((shard, self.position(shard).sequence, key));
        }
        if item["reason"] == "EPOCH_CHANGED" {
            let from = number(&item["from"]).cast_unsigned();
            self.kept.retain(|(shard, sequence, _)| item["shard"] != *shard || *sequence < from);
        }
        if item["__typename"] != "StreamHeartbeat" {
            self.items.push(item.clone());
        }
        item
    }

    /// Reads until all the given events were delivered. Returns `false` if the connection ends before. Fails if no further
    /// event is delivered for [`WAIT_TIMEOUT`].
    pub async fn until_seen(&mut self, wanted: impl IntoIterator<Item = Key>) -> bool {
        let mut missing: BTreeSet<Key> = wanted.into_iter().collect();
        for key in &self.seen {
            missing.remove(key);
        }
        while !missing.is_empty() {
            match self.next_event_in_time().await {
                Some(true) => {}
                Some(false) => return false,
                None => {
                    let (lacking, (at, item)) = (missing.len(), &self.last);
                    panic!(
                        "{lacking} events were not delivered, such as {:?}; gaps {:?}; the last item came {:?} ago: {item}",
                        missing.first(),
                        self.gaps(),
                        at.elapsed()
                    )
                }
            }
            if let Some(last) = self.seen.last() {
                missing.remove(last);
            }
        }
        true
    }

    /// Reads until a client that handles the gaps of new epochs has exactly the given events. Fails if it has one twice,
    /// or if no further event is delivered for [`WAIT_TIMEOUT`].
    pub async fn until_kept(&mut self, committed: &BTreeSet<Key>) {
        let mut give_up = tokio::time::Instant::now() + WAIT_TIMEOUT;
        while !self.keeps(committed) {
            let Ok(Some(item)) = tokio::time::timeout_at(give_up, self.step()).await else { break };
            if item["__typename"] == "EventDelivery" {
                give_up = tokio::time::Instant::now() + WAIT_TIMEOUT;
            }
        }
        self.assert_kept_exactly(committed);
    }

    /// Returns whether a client that handles the gaps of new epochs has these events and no others.
    pub fn keeps(&self, committed: &BTreeSet<Key>) -> bool {
        let kept = || self.kept.iter().map(|(_, _, key)| *key);
        kept().len() >= committed.len() && kept().collect::<BTreeSet<_>>() == *committed
    }

    /// Reads until one more event was delivered. Returns `false` if the connection ends before, and `None` after
    /// [`WAIT_TIMEOUT`].
    async fn next_event_in_time(&mut self) -> Option<bool> {
        let before = self.seen.len();
        let read = async {
            while self.seen.len() == before {
                if self.step().await.is_none() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(WAIT_TIMEOUT, read).await.ok()
    }

    /// Reads until one more event was delivered. Returns `false` if the connection ends before.
    pub async fn next_event(&mut self) -> bool {
        self.next_event_in_time().await.expect("no event was delivered")
    }

    /// Returns the last cursor's position on a shard.
    pub fn position(&self, shard: u64) -> Position {
        let cursor = StreamCursor::parse(&self.cursor, MAX_SHARDS).unwrap();
        cursor.positions[usize::try_from(shard).unwrap()]
    }

    /// Returns the server's close code, if the server closed the socket with one.
    pub fn close_code(&self) -> Option<u16> {
        self.live.close_code
    }

    /// Returns the gaps since the last connect: shard, first and last position, reason.
    pub fn gaps(&self) -> Vec<(u64, i64, i64, &str)> {
        let gaps = self.items.iter().filter(|item| item["__typename"] == "StreamGap");
        let gap = |item: &'_ Value| (item["shard"].as_u64().unwrap(), number(&item["from"]), number(&item["to"]));
        gaps.map(|item| (gap(item).0, gap(item).1, gap(item).2, item["reason"].as_str().unwrap())).collect()
    }

    /// Reads until the `CaughtUp` item.
    pub async fn caught_up(&mut self) {
        let read =
            async { while self.step().await.expect("the subscription continues")["__typename"] != "CaughtUp" {} };
        tokio::time::timeout(WAIT_TIMEOUT, read).await.expect("caught up");
    }

    /// Reads until all the given events were delivered, and panics unless they are the only ones, each once.
    pub async fn read_exactly(&mut self, committed: &BTreeSet<Key>) {
        assert!(self.until_seen(committed.iter().copied()).await, "the feed ended");
        self.assert_saw_exactly(committed);
    }

    /// Panics unless exactly the given events were delivered, each once.
    pub fn assert_saw_exactly(&self, committed: &BTreeSet<Key>) {
        assert_exactly(&self.seen, committed);
    }

    /// Panics unless a client that handles the gaps of new epochs has exactly the given events, each once.
    pub fn assert_kept_exactly(&self, committed: &BTreeSet<Key>) {
        let kept: Vec<Key> = self.kept.iter().map(|(_, _, key)| *key).collect();
        assert_exactly(&kept, committed);
    }
}

/// Panics unless `found` contains each event of `committed` once and no other event.
pub fn assert_exactly(found: &[Key], committed: &BTreeSet<Key>) {
    let mut counts = BTreeMap::new();
    for key in found {
        *counts.entry(*key).or_insert(0) += 1;
    }
    let missing: Vec<_> = committed.iter().filter(|key| !counts.contains_key(key)).collect();
    let foreign: Vec<_> = counts.keys().filter(|key| !committed.contains(key)).collect();
    let repeated: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    let sound = missing.is_empty() && foreign.is_empty() && repeated.is_empty();
    assert!(sound, "missing: {missing:?}\nnot committed: {foreign:?}\nrepeated: {repeated:?}");
}

/// Panics unless the events of each given execution are in the order of their ids.
pub fn assert_in_order(found: &[Key], executions: impl IntoIterator<Item = i64>) {
    for execution in executions {
        let ids: Vec<i64> = found.iter().filter(|key| key.0 == execution).map(|key| key.1).collect();
        assert!(ids.is_sorted(), "execution {execution}: {ids:?}");
    }
}

/// Inserts an event row as another server does.
pub async fn insert(to: impl Executor<'_, Database = Postgres>, (execution, event): Key) {
    insert_typed(to, (execution, event), "call.done").await;
}

/// Inserts an event row of the given type.
pub async fn insert_typed(to: impl Executor<'_, Database = Postgres>, (execution, event): Key, event_type: &str) {
    try_insert(to, (execution, event), event_type).await.unwrap();
}

/// Inserts an event row. Returns an error if the database is unreachable.
pub async fn try_insert(
    to: impl Executor<'_, Database = Postgres>,
    (execution, event): Key,
    event_type: &str,
) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ($1, $2, $3)")
        .bind(execution)
        .bind(event)
        .bind(event_type)
        .execute(to)
        .await?;
    Ok(())
}

/// Returns the messages that a stream has, in stream order.
pub async fn read_messages(stream: &jetstream::stream::Stream) -> Vec<jetstream::Message> {
    let count = usize::try_from(stream.get_info().await.unwrap().state.messages).unwrap();
    let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
    let messages = consumer.messages().await.unwrap().take(count).map(Result::unwrap);
    tokio::time::timeout(WAIT_TIMEOUT, messages.collect()).await.unwrap()
}

/// Runs SQL statements without parameters.
pub async fn run(connection: &mut PgConnection, statements: &str) {
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(connection).await.unwrap();
}

impl Deployment {
    /// Starts a replica with [`ONLY_FEED`].
    pub async fn feed_replica(&self) -> Server {
        self.replica_with(&ONLY_FEED).await
    }

    /// Starts a replica with [`ONLY_FEED`] and additional settings.
    pub async fn feed_replica_with(&self, settings: &[(&str, &str)]) -> Server {
        self.replica_with(&[&ONLY_FEED[..], settings].concat()).await
    }

    /// Starts a replica that neither publishes nor projects events.
    pub async fn replica_without_feed(&self) -> Server {
        self.replica_with(&NO_PROJECTOR_NO_STREAM).await
    }

    /// Returns all committed events.
    pub async fn committed(&self) -> BTreeSet<Key> {
        let mut all = BTreeSet::new();
        for shard in 0..self.shard_dsns.len() {
            let rows = sqlx::query_as::<_, Key>("SELECT execution_id, event_id FROM noetl.event");
            all.extend(rows.fetch_all(&mut *self.shard_session(shard).await).await.unwrap());
        }
        all
    }

    /// Commits events with the given ids on every shard, in one transaction per shard. The events of a shard belong to
    /// the shard's first execution id.
    pub async fn commit_on_every_shard(&self, events: RangeInclusive<i64>) {
        for shard in 0..self.shard_dsns.len() {
            self.commit_on(shard, self.ids_on(shard, 1, 1)[0], events.clone()).await;
        }
    }

    /// Commits events of one execution on shard 0 in one transaction.
    pub async fn commit(&self, execution: i64, events: RangeInclusive<i64>) {
        self.commit_on(0, execution, events).await;
    }

    async fn commit_on(&self, shard: usize, execution: i64, events: RangeInclusive<i64>) {
        let rows = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type)
             SELECT {execution}, n, 'call.done' FROM generate_series({}, {}) AS n",
            events.start(),
            events.end()
        );
        run(&mut *self.shard_session(shard).await, &rows).await;
    }

    /// Waits until all committed events of all shards are published.
    pub async fn until_all_published(&self) {
        let published = "SELECT count(*) FROM noetl.event, noetl.tail_cursor WHERE pg_visible_in_snapshot(tx_id, done)";
        for shard in 0..self.shard_dsns.len() {
            let committed = self.count(shard, "SELECT count(*) FROM noetl.event").await;
            eventually("everything is published", async || {
                (self.count(shard, published).await >= committed).then_some(())
            })
            .await;
        }
    }

    /// Waits until nothing is left to publish on any shard whose feed has begun: no committed event, and no open batch.
    pub async fn until_nothing_is_left(&self) {
        let left = "SELECT (SELECT count(*) FROM noetl.event, noetl.tail_cursor
                            WHERE NOT pg_visible_in_snapshot(tx_id, done))
                        + (SELECT count(target) FROM noetl.tail_cursor)";
        eventually("nothing is left to publish", async || (self.sum_over_shards(left).await == 0).then_some(())).await;
    }

    /// Publishes all committed events with a replica that is then stopped.
    pub async fn publish_all(&self) {
        let server = self.feed_replica().await;
        self.feeds_begun().await;
        self.until_nothing_is_left().await;
        assert!(server.stop().await.success());
    }

    async fn count(&self, shard: usize, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&mut *self.shard_session(shard).await).await.unwrap()
    }

    /// Waits until the feed of every shard has begun. Events that commit later are published.
    pub async fn feeds_begun(&self) {
        eventually("all feeds have begun", async || {
            let begun = self.sum_over_shards("SELECT count(*) FROM noetl.tail_cursor WHERE lease_until > now()").await;
            (begun == i64::try_from(self.shard_dsns.len()).unwrap()).then_some(())
        })
        .await;
        for shard in 0..self.shard_dsns.len() {
            self.stream(shard).await;
        }
    }

    /// Returns the name of the replica that publishes a shard's events.
    pub async fn leader(&self, shard: usize) -> Option<String> {
        let leader = "SELECT lease_owner FROM noetl.tail_cursor WHERE lease_until > now()";
        sqlx::query_scalar(leader).fetch_optional(&mut *self.shard_session(shard).await).await.unwrap()
    }

    /// Connects to the broker and returns a shard's stream. Waits until the stream exists.
    pub async fn stream(&self, shard: usize) -> (jetstream::Context, jetstream::stream::Stream) {
        let name = if shard == 0 { "noetl_events".to_owned() } else { format!("noetl_events_{shard}") };
        eventually("the stream of the feed exists", async || {
            let context = jetstream::new(async_nats::connect(self.nats.url()).await.ok()?);
            let stream = context.get_stream(&name).await.ok()?;
            Some((context, stream))
        })
        .await
    }

    /// Returns the events of a shard's stream, in stream order.
    pub async fn stored(&self, shard: usize) -> Vec<Key> {
        let key = |message: &jetstream::Message| {
            let event: Value = serde_json::from_slice(&message.payload).unwrap();
            (number(&event["execution_id"]), number(&event["event_id"]))
        };
        read_messages(&self.stream(shard).await.1).await.iter().map(key).collect()
    }

    /// Returns the events of all streams.
    pub async fn stored_everywhere(&self) -> Vec<Key> {
        let mut all = Vec::new();
        for shard in 0..self.shard_dsns.len() {
            all.extend(self.stored(shard).await);
        }
        all
    }

    /// Returns the first `count` ids, starting at `from`, that belong to a shard.
    pub fn ids_on(&self, shard: usize, from: i64, count: usize) -> Vec<i64> {
        let shards = u16::try_from(self.shard_dsns.len()).unwrap();
        let map = noetl_domain::shard::ShardMap::even(shards);
        let here = |id: &i64| usize::from(map.shard_of(noetl_domain::ids::Id::new(*id))) == shard;
        (from..).filter(here).take(count).collect()
    }
}

impl Server {
    /// Returns the epoch of each shard's feed.
    pub async fn feed_epochs(&self) -> Vec<i64> {
        let status = self.data("{ eventStream { shards { feedEpoch } } }", Value::Null).await;
        let shards = status["eventStream"]["shards"].as_array().unwrap();
        shards.iter().map(|shard| shard["feedEpoch"].as_i64().unwrap()).collect()
    }

    /// Waits until the feed of every shard has the given epoch.
    pub async fn until_feed_epoch(&self, epoch: i64) {
        eventually("the epoch increases", async || {
            self.feed_epochs().await.iter().all(|shard| *shard == epoch).then_some(())
        })
        .await;
    }

    /// Returns the replica's name.
    pub async fn name(&self) -> String {
        self.data("{ server { replica } }", Value::Null).await["server"]["replica"].as_str().unwrap().to_owned()
    }
}

fn number(id: &Value) -> i64 {
    id.as_i64().or_else(|| id.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{id} is not an id"))
}
