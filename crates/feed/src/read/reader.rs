//! Feed of one reader over all shards: stored events from its start position, then live events from the hub.
//!
//! The events of a shard are delivered in order and once. Missing events are reported as gaps. A cursor is valid on
//! every replica. An event of a bucket that came from another shard waits for the events that the bucket had there.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_stream::try_stream;
use chrono::{DateTime, Utc};
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{FuturesUnordered, Stream, StreamFuture};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

pub use crate::read::delivered::LiveEvent;
pub use crate::read::error::ReadError;
pub use crate::read::gap::{Gap, GapReason};
use crate::read::hub::Hub;
use crate::read::incomplete::{Completed, IncompleteEvents};
pub use crate::read::interests::Interest;
use crate::read::replay::ShardItem;
pub use crate::read::replay::Since;
use crate::read::ring::Place;
use crate::read::shard_reader::{ShardStart, join, read_shard};
use crate::read::stored::Counted;
use crate::read::waiting::{Next, Received, ShardFeed, WaitingStreams, next_comparison};
use crate::wire::cursor::{Position, StreamCursor};
use noetl_domain::feed::FeedId;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_runtime::clock;

/// Time between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Time that a reader waits for the streams of all shards, for example after the whole deployment started. It then
/// starts with the streams that were found.
const FIND_WITHIN: Duration = Duration::from_secs(5);

/// Maximum difference between the clocks of a replica and of the broker. No harm is done by more: events that are read
/// because of it are of other executions.
pub const CLOCK_DIFFERENCE: Duration = Duration::from_secs(30);

/// Start position of a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Start {
    /// The oldest event that the streams hold.
    Beginning,
    /// The first event that is published after the reader joined.
    #[default]
    Latest,
    /// The first event after a cursor.
    After(StreamCursor),
    /// The first event that was published at a time or later.
    Since(Since),
}

/// Shards that a reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shards {
    /// All shards.
    All,
    /// The shard of an execution. Cursors contain no position of the others. As soon as a bucket moves, all shards.
    Of(Id),
}

impl Shards {
    fn of(self, hub: &Hub) -> Range<ShardIndex> {
        match self {
            Self::Of(execution) if !hub.databases().map().has_moves() => {
                let shard = hub.databases().index_of(execution);
                shard..shard + 1
            }
            Self::All | Self::Of(_) => 0..hub.shards(),
        }
    }
}

/// Item that a reader receives.
#[derive(Debug, Clone)]
pub enum Item {
    /// An event in the reader's scope that matches the filter.
    Event {
        /// Position after the event.
        cursor: StreamCursor,
        /// Shard of the event.
        shard: ShardIndex,
        /// Position of the event in the feed of its shard.
        position: Position,
        /// The event.
        live: LiveEvent,
    },
    /// Every event that was published before the reader joined has been delivered.
    CaughtUp {
        /// Position after those events.
        cursor: StreamCursor,
    },
    /// Events are missing, or may be delivered again.
    Gap {
        /// Position after the gap.
        cursor: StreamCursor,
        /// Shard of the gap.
        shard: ShardIndex,
        /// The gap.
        gap: Gap,
    },
    /// Periodic report of position and lag.
    Heartbeat {
        /// Position of the reader.
        cursor: StreamCursor,
        /// Number of published messages after the reader's position.
        lag: u64,
    },
}

impl Item {
    fn of(completed: Completed, cursor: StreamCursor) -> Self {
        let Completed { shard, position, live } = completed;
        Self::Event { cursor, shard, position, live }
    }

    fn lost(gap: Gap, shard: ShardIndex, cursor: StreamCursor) -> Self {
        metrics::counter!("noetl_stream_gaps_total", "reason" => gap.reason.label()).increment(1);
        Self::Gap { cursor, shard, gap }
    }

    /// Returns the position after the item.
    #[must_use]
    pub fn cursor(&self) -> &StreamCursor {
        match self {
            Self::Event { cursor, .. }
            | Self::CaughtUp { cursor }
            | Self::Gap { cursor, .. }
            | Self::Heartbeat { cursor, .. } => cursor,
        }
    }
}

impl Start {
    fn on(&self, shard: ShardIndex) -> ShardStart {
        match self {
            Self::Beginning => ShardStart::Beginning,
            Self::Latest => ShardStart::Latest,
            Self::After(after) => ShardStart::After {
                at: after.positions.get(usize::from(shard)).copied().unwrap_or_default(),
                feed: after.feeds.get(usize::from(shard)).copied().flatten(),
            },
            Self::Since(since) => ShardStart::Since(*since),
        }
    }
}

/// Returns the items of the shards that a reader with this interest may receive. The stream ends only with an error.
pub fn read(
    hub: Hub,
    start: Start,
    interest: Interest,
    shards: Shards,
) -> impl Stream<Item = Result<Item, ReadError>> + Send {
    try_stream! {
        let _counted = Counted::new(metrics::gauge!("noetl_stream_readers"));
        // A time at which no bucket had moved, if the reader does not read all shards.
        let mut unmoved_at = hub.databases().map_confirmed_at();
        let mut read_shards = shards.of(&hub);
        // Shards that have not caught up; `None` after the marker.
        let mut behind = Some(read_shards.len());
        let (mut cursor, opened) = open(&hub, &start, &interest, read_shards.clone()).await?;
        let mut feeds = FuturesUnordered::from_iter(opened);
        let mut places: Vec<Option<Arc<Place>>> = vec![None; cursor.positions.len()];
        let mut waiting = WaitingStreams::default();
        let mut is_partial = read_shards.len() < cursor.positions.len();
        let mut heartbeats = interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut incomplete = IncompleteEvents::default();
        loop {
            if behind == Some(0) && incomplete.is_empty() {
                behind = None;
                yield Item::CaughtUp { cursor: cursor.clone() };
            }
            if !waiting.is_empty() {
                advance(&mut cursor, &places, &waiting);
            }
            if is_partial {
                let confirmed_at = hub.databases().map_confirmed_at();
                if !hub.databases().map().has_moves() {
                    unmoved_at = confirmed_at;
                }
            }
            let step = if incomplete.is_full() { Next::None } else { waiting.next(&hub, &cursor) };
            let Received { shard, item, feed } = match step {
                Next::Item(received) => *received,
                Next::Gap(shard, gap) => {
                    yield Item::lost(gap, shard, incomplete.limit(&cursor));
                    continue;
                }
                Next::None => {
                    let next = tokio::select! {
                        completed = incomplete.next(), if !incomplete.is_empty() => {
                            if let Some(completed) = completed {
                                yield Item::of(completed, incomplete.limit(&cursor));
                            }
                            continue;
                        }
                        next = feeds.next(), if !incomplete.is_full() && !feeds.is_empty() => next,
                        () = next_comparison(), if !waiting.is_empty() => continue,
                        () = first_move(&hub), if is_partial => {
                            is_partial = false;
                            let rest = open_others(&hub, &read_shards, &interest, unmoved_at);
                            behind = behind.map(|behind| behind + rest.len());
                            feeds.extend(rest);
                            read_shards = 0..hub.shards();
                            continue;
                        }
                        _ = heartbeats.tick() => {
                            advance(&mut cursor, &places, &waiting);
                            let lag = read_shards.clone().map(|shard| lag(&hub, shard, &cursor)).sum();
                            yield Item::Heartbeat { lag, cursor: incomplete.limit(&cursor) };
                            continue;
                        }
                    };
                    let Some((Some((shard, item)), feed)) = next else { continue };
                    let received = Received { shard, item, feed };
                    let Some(received) = waiting.add_or_return(received, &hub, &cursor) else { continue };
                    received
                }
            };
            feeds.push(feed.into_future());
            let position = item.position();
            let before = if incomplete.is_empty() { StreamCursor::default() } else { cursor.clone() };
            cursor.positions[usize::from(shard)] = position;
            cursor.feeds[usize::from(shard)] = hub.identity(shard).map(FeedId::tag);
            match item {
                ShardItem::Delivered(delivered) => {
                    let followed = delivered.event.as_ref().filter(|live| interest.includes(&live.event));
                    if let Some(live) = followed {
                        if incomplete.delays(&delivered, live) {
                            incomplete.add(Arc::clone(&delivered), live.event.execution_id);
                        } else {
                            let cursor = incomplete.limit(&cursor);
                            yield Item::Event { cursor, shard, position, live: live.clone() };
                        }
                    }
                }
                ShardItem::Passed(_) => {}
                ShardItem::Gap(gap) => {
                    // A gap may say that events from a position on are void, so the events before it come first.
                    while incomplete.has(shard) && let Some(completed) = incomplete.next().await {
                        yield Item::of(completed, incomplete.limit(&before));
                    }
                    yield Item::lost(gap, shard, incomplete.limit(&cursor));
                }
                ShardItem::CaughtUp(_, place) => {
                    places[usize::from(shard)] = Some(place);
                    behind = behind.map(|behind| behind.saturating_sub(1));
                }
            }
        }
    }
}

/// Joins the feeds of shards, and returns the position of the reader and the feeds.
async fn open(
    hub: &Hub,
    start: &Start,
    interest: &Interest,
    shards: Range<ShardIndex>,
) -> Result<(StreamCursor, Vec<StreamFuture<ShardFeed>>), ReadError> {
    let mut cursor = StreamCursor::unnamed(vec![Position::default(); usize::from(hub.shards())]);
    let mut feeds = Vec::new();
    let joining = |shard| timeout(FIND_WITHIN, join(hub, shard, start.on(shard), interest.clone()));
    let joined = join_all(shards.clone().map(joining)).await;
    if joined.iter().all(Result::is_err) {
        return Err(ReadError::of(shards.start, "no stream was found in time"));
    }
    for (shard, joined) in shards.zip(joined) {
        let (from, joined) = (start.on(shard), joined.ok());
        cursor.positions[usize::from(shard)] = match (&joined, from) {
            (Some(joined), _) => joined.at,
            (None, ShardStart::After { at, .. }) => at,
            (None, ShardStart::Beginning) => Position::default(),
            // The stream does not exist yet, so all its events will be after its beginning.
            (None, _) if hub.is_missing(shard) => Position::default(),
            (None, _) => return Err(ReadError::of(shard, "its position can't be determined")),
        };
        cursor.feeds[usize::from(shard)] = match from {
            ShardStart::After { feed, .. } if joined.is_none() => feed,
            _ => hub.identity(shard).map(FeedId::tag),
        };
        feeds.push(read_shard(hub.clone(), shard, from, interest.clone(), joined).into_future());
    }
    Ok((cursor, feeds))
}

/// Waits until a bucket is being moved. Before its rows are copied, all readers open the streams to which it may go.
async fn first_move(hub: &Hub) {
    loop {
        let map = hub.databases().map();
        if map.has_moves() {
            return;
        }
        hub.databases().map_changed(map.version()).await;
    }
}

/// Opens the streams that the reader of one execution has not opened, from a time on at which no bucket had moved. The
/// client of the reader may have been slow since then, and the bucket has moved.
fn open_others(
    hub: &Hub,
    opened: &Range<ShardIndex>,
    interest: &Interest,
    unmoved_at: DateTime<Utc>,
) -> Vec<StreamFuture<ShardFeed>> {
    let others = (0..hub.shards()).filter(|shard| !opened.contains(shard));
    let from = ShardStart::Since(Since { time: unmoved_at - CLOCK_DIFFERENCE, now: clock::now() });
    others.map(|shard| read_shard(hub.clone(), shard, from, interest.clone(), None).into_future()).collect()
}

/// Moves the cursor to the positions of the feeds of which the reader has received every event that it follows. A feed
/// whose next event waits stays before that event.
fn advance(cursor: &mut StreamCursor, places: &[Option<Arc<Place>>], waiting: &WaitingStreams) {
    let moving = (0..).zip(cursor.positions.iter_mut().zip(places)).filter(|(shard, _)| !waiting.has(*shard));
    for (_, (position, place)) in moving {
        *position = place.as_ref().and_then(|place| place.passed()).unwrap_or_default().max(*position);
    }
}

/// Returns the number of published messages after the cursor in one shard.
fn lag(hub: &Hub, shard: ShardIndex, cursor: &StreamCursor) -> u64 {
    let position = cursor.positions.get(usize::from(shard)).copied().unwrap_or_default();
    hub.head(shard).map_or(0, |head| head.sequence.saturating_sub(position.sequence))
}
