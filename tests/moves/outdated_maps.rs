//! A bucket moves while a replica uses the map of before the move, or a client of the replica is slow: nothing is
//! missing in a response, and no event is lost.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use futures::stream::BoxStream;
use noetl_domain::event::EventFilter;
use noetl_domain::ids::Id;
use noetl_domain::shard::{ShardMap, bucket_of};
use noetl_domain::tenant::Scope;
use noetl_feed::read::hub::Hub;
use noetl_feed::read::reader::{self, CLOCK_DIFFERENCE, Interest, Item, ReadError, Shards, Start};
use noetl_feed::wire::names::StreamNames;
use noetl_runtime::clock;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::{Database, Databases};
use noetl_testkit::feed::{insert, run};
use noetl_testkit::moves::BucketMove;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, QUIET, Server, WAIT_TIMEOUT, eventually};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Returns the databases of a deployment of two shards. No task reads a new map.
fn databases(deployment: &Deployment) -> Databases {
    let database = |name, dsn: &String| Arc::new(Database::new(name, dsn.parse().unwrap(), 4));
    let shards = (0..).zip(&deployment.shard_dsns).map(|(shard, dsn)| database(DatabaseName::Shard(shard), dsn));
    let cluster = database(DatabaseName::Cluster, &deployment.cluster_dsn);
    Databases::new(cluster, shards.collect(), ShardMap::even(2), clock::now())
}

/// A reader of one execution in this process, whose databases learn of a new map only from the test.
struct Follower {
    databases: Databases,
    reader: BoxStream<'static, Result<Item, ReadError>>,
    stop: DropGuard,
}

impl Follower {
    /// Follows the later events of an execution.
    async fn of(deployment: &Deployment, execution: i64) -> Self {
        let (databases, stop) = (databases(deployment), CancellationToken::new());
        let client = async_nats::connect(deployment.nats.url()).await.unwrap();
        let hub = Hub::new(client, &StreamNames::default(), databases.clone(), 1 << 20);
        for shard in 0..2 {
            tokio::spawn(hub.clone().run(shard, stop.clone()));
            tokio::spawn(hub.clone().replay(shard, stop.clone()));
        }
        let filter = EventFilter { execution_ids: Some(vec![Id::new(execution)]), ..EventFilter::default() };
        let own = Interest { filter, scope: Scope::Unrestricted };
        let reader = reader::read(hub, Start::Latest, own, Shards::Of(Id::new(execution))).boxed();
        let mut follower = Self { databases, reader, stop: stop.drop_guard() };
        while !matches!(follower.next().await, Item::CaughtUp { .. }) {}
        follower
    }

    async fn next(&mut self) -> Item {
        timeout(WAIT_TIMEOUT, self.reader.next()).await.expect("an item comes").unwrap().unwrap()
    }

    /// Reads the current map, and returns the events up to the one with the id `last`.
    async fn events_until(mut self, last: i64) -> Vec<i64> {
        assert!(self.databases.refresh_map().await.unwrap());
        let read = async {
            let mut seen = Vec::new();
            while seen.last() != Some(&last) {
                match self.next().await {
                    Item::Event { live, .. } => seen.push(live.event.event_id.get()),
                    Item::Gap { gap, .. } => panic!("{gap:?}"),
                    Item::CaughtUp { .. } | Item::Heartbeat { .. } => {}
                }
            }
            seen
        };
        let seen = timeout(WAIT_TIMEOUT, read).await.expect("all events are delivered");
        drop(self.stop);
        seen
    }
}

/// Commits events of an execution on a shard, one transaction for each, and waits until they are published.
async fn publish(deployment: &Deployment, shard: usize, execution: i64, events: std::ops::RangeInclusive<i64>) {
    let mut database = deployment.shard(shard).await;
    for event in events {
        insert(&mut database, (execution, event)).await;
    }
    deployment.until_all_published().await;
}

/// Moves a bucket completely, except that the rows of the source are kept. `databases` learn of the begin, as the mover
/// waits for it, and not of the switch.
async fn move_bucket(deployment: &Deployment, databases: &Databases, execution: i64, from: usize, to: usize) {
    let moving = deployment.begin_move(execution, from, to).await;
    assert!(databases.refresh_map().await.unwrap());
    deployment.copy_bucket(moving).await;
    deployment.switch_bucket(moving).await;
    deployment.settle_bucket(moving).await;
}

#[tokio::test]
async fn a_reader_of_one_execution_gets_each_event_of_its_moved_bucket_once_also_if_it_or_its_replica_is_late() {
    let deployment = Deployment::start(2).await;
    let _server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.feeds_begun().await;
    let (moved, other) = (deployment.ids_on(0, 1, 2), deployment.ids_on(1, 1, 1)[0]);
    for (shard, execution) in [(0, moved[0]), (0, moved[1]), (1, other)] {
        publish(&deployment, shard, execution, 1..=1).await;
    }
    // The second one waits for longer than the first one takes.
    tokio::join!(
        a_slow_reader_of_one_execution_gets_each_event_of_its_moved_bucket_once_and_in_order(&deployment, moved[0]),
        a_reader_of_one_execution_misses_no_event_if_its_replica_learns_late_that_the_bucket_has_moved(
            &deployment,
            moved[1]
        )
    );
}

/// The client does not read while the bucket moves away and back.
async fn a_slow_reader_of_one_execution_gets_each_event_of_its_moved_bucket_once_and_in_order(
    deployment: &Deployment,
    moved: i64,
) {
    let follower = Follower::of(deployment, moved).await;

    // The client does not read until the bucket has moved twice, so the reader has not opened the other stream.
    publish(deployment, 0, moved, 2..=20).await;
    move_bucket(deployment, &follower.databases, moved, 0, 1).await;
    publish(deployment, 1, moved, 21..=40).await;
    move_bucket(deployment, &follower.databases, moved, 1, 0).await;
    publish(deployment, 0, moved, 41..=60).await;
    assert_eq!(follower.events_until(60).await, (2..=60).collect::<Vec<i64>>());
}

/// The replica could not read the cluster database for longer than the clocks may differ, and the bucket moved meanwhile.
async fn a_reader_of_one_execution_misses_no_event_if_its_replica_learns_late_that_the_bucket_has_moved(
    deployment: &Deployment,
    moved: i64,
) {
    let mut follower = Follower::of(deployment, moved).await;

    let moving = deployment.begin_move(moved, 0, 1).await;
    deployment.copy_bucket(moving).await;
    deployment.switch_bucket(moving).await;
    deployment.settle_bucket(moving).await;
    publish(deployment, 1, moved, 2..=3).await;
    let late = Instant::now() + CLOCK_DIFFERENCE;
    let mut waits_since = Instant::now();
    while waits_since < late {
        waits_since = Instant::now();
        assert!(matches!(follower.next().await, Item::Heartbeat { .. }), "the reader has opened the other stream");
    }
    assert_eq!(follower.events_until(3).await, [2, 3]);
}

/// Copies a bucket with its outbox rows, as a move does before its switch.
async fn copied(deployment: &Deployment, execution: i64) -> BucketMove {
    let moving = deployment.begin_move(execution, 0, 1).await;
    deployment.copy_bucket(moving).await;
    deployment.until_map_is_known().await;
    moving
}

/// Requests that name an outbox row by its id or its execution, and the number of rows that their responses show.
const REQUESTS: [(&str, &str, &str); 4] = [
    ("", "query($node: ID!) { found: node(id: $node) { ... on OutboxEntry { status } } }", "/found/status"),
    (
        "",
        "query($execution: ID!) { outbox { entries(filter: { executionId: $execution }) {
             nodes { status } totalCount { value } } } }",
        "/outbox/entries/nodes/0/status",
    ),
    (
        "",
        "query($execution: ID!) { outbox { entries(filter: { executionId: $execution }) { totalCount { value } } } }",
        "/outbox/entries/totalCount/value",
    ),
    (
        "UPDATE noetl.outbox SET status = 'FAILED', available_at = now() + interval '1 hour'",
        "mutation($id: ID!) { retryOutbox(input: { select: { ids: [$id] } }) { matched retried userErrors { code } } }",
        "/retryOutbox/retried",
    ),
];

#[tokio::test]
async fn outbox_rows_are_found_if_the_map_changes_before_or_while_they_are_read() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let executions = deployment.ids_on(0, 1, REQUESTS.len() + 1);
    let (last, executions) = executions.split_last().unwrap();
    Box::pin(outbox_rows_are_found_although_the_map_of_the_replica_is_outdated(&deployment, &server, executions)).await;
    // The ids of outbox rows count the rows of the shard.
    let entry = format!("outbox-0-{}", executions.len() + 1);
    Box::pin(an_outbox_row_is_found_if_the_map_changes_while_it_is_read(&deployment, &server, *last, &entry)).await;
}

/// A request looks for a new map before it uses one that may be outdated.
async fn outbox_rows_are_found_although_the_map_of_the_replica_is_outdated(
    deployment: &Deployment,
    server: &Server,
    executions: &[i64],
) {
    let unrelated = bucket_of(Id::new(deployment.ids_on(1, 1, 1)[0]));
    for (number, (execution, (before, query, value))) in (1..).zip(executions.iter().copied().zip(REQUESTS)) {
        deployment.fill_outbox(0, &[execution], 1).await;
        deployment.on_shard(0, before).await;
        let moving = copied(deployment, execution).await;
        // The replica can read the version of the map, but not the map.
        let mut cluster = deployment.cluster().await;
        let broken = format!(
            "UPDATE noetl.shard_bucket SET shard = 99 WHERE bucket = {unrelated};
             UPDATE noetl.bucket_move SET changed_at = clock_timestamp()"
        );
        run(&mut cluster, &broken).await;
        deployment.switch_bucket(moving).await;
        deployment.settle_bucket(moving).await;
        let id = format!("0-{number}");
        let node = format!("outbox-{id}");
        let mut variables = json!({ "id": id, "node": node, "execution": execution.to_string() });
        variables.as_object_mut().unwrap().retain(|name, _| query.contains(&format!("${name}:")));
        let response = server.data(query, variables);
        tokio::pin!(response);
        let looks = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND query = 'SELECT version FROM noetl.shard_map_version'
                       AND query_start > (SELECT max(changed_at) FROM noetl.bucket_move)";
        let looked = eventually("the request has looked for a new map", async || {
            (deployment.in_cluster(looks).await > 0).then_some(())
        });
        tokio::select! {
            early = &mut response => panic!("the old map was used: {early}"),
            () = looked => {}
        }
        run(&mut cluster, &format!("UPDATE noetl.shard_bucket SET shard = 1 WHERE bucket = {unrelated}")).await;
        let response = response.await;
        let found = response.pointer(value).unwrap_or(&Value::Null);
        assert!(*found == json!("PENDING") || *found == json!(1), "{query}: {response}");
    }
}

/// The bucket is switched after the request has read the id of the row on the source.
async fn an_outbox_row_is_found_if_the_map_changes_while_it_is_read(
    deployment: &Deployment,
    server: &Server,
    execution: i64,
    entry: &str,
) {
    deployment.fill_outbox(0, &[execution], 1).await;
    let moving = copied(deployment, execution).await;
    let mut lock = deployment.shard(0).await;
    run(&mut lock, "BEGIN; LOCK TABLE noetl.outbox_forward").await;
    let response = status_of(server, entry);
    tokio::pin!(response);
    let waits = "SELECT count(*) FROM pg_locks WHERE relation = 'noetl.outbox_forward'::regclass AND NOT granted";
    let waiting = eventually("the current id is read", async || {
        let count: i64 = sqlx::query_scalar(waits).fetch_one(&mut lock).await.unwrap();
        (count > 0).then_some(())
    });
    tokio::select! {
        early = &mut response => panic!("the id was not read: {early}"),
        () = waiting => {}
    }
    deployment.switch_bucket(moving).await;
    deployment.until_map_is_known().await;
    run(&mut lock, "ROLLBACK").await;
    assert_eq!(response.await, "PENDING");
}

async fn status_of(server: &Server, node: &str) -> Value {
    let query = "query($node: ID!) { node(id: $node) { ... on OutboxEntry { status } } }";
    server.data(query, json!({ "node": node })).await["node"]["status"].take()
}
