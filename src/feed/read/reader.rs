//! Feed of one reader over all shards: stored events from its start position, then live events from the hub.
//!
//! The events of a shard are delivered in order and once. Missing events are reported as gaps. A cursor is valid on
//! every replica.

use std::time::Duration;

use async_stream::try_stream;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{SelectAll, Stream};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use crate::feed::read::delivered::LiveEvent;
pub use crate::feed::read::error::ReadError;
pub use crate::feed::read::gap::{Gap, GapReason};
use crate::feed::read::hub::Hub;
use crate::feed::read::replay::Replayed;
pub use crate::feed::read::replay::Since;
use crate::feed::read::shard_reader::{From, ShardItem, join, read_shard};
use crate::feed::wire::cursor::{Position, StreamCursor};
use noetl_domain::event::EventFilter;
use noetl_domain::feed::FeedId;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;

/// Time between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Time that a reader waits for the streams of all shards, for example after the whole deployment started. It then
/// starts with the streams that were found.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// Item that a reader receives.
#[derive(Debug, Clone)]
pub enum Item {
    /// An event in the reader's scope that matches the filter.
    Event {
        /// Position after the event.
        cursor: StreamCursor,
        /// Shard of the event.
        shard: ShardIndex,
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

impl Start {
    fn on(&self, shard: ShardIndex) -> From {
        match self {
            Self::Beginning => From::Beginning,
            Self::Latest => From::Latest,
            Self::After(after) => From::After {
                at: after.positions.get(usize::from(shard)).copied().unwrap_or_default(),
                feed: after.feeds.get(usize::from(shard)).copied().flatten(),
            },
            Self::Since(since) => From::Since(*since),
        }
    }
}

/// Counts a reader in `noetl_stream_readers` until it is dropped.
struct Counted;

impl Counted {
    fn new() -> Self {
        metrics::gauge!("noetl_stream_readers").increment(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("noetl_stream_readers").decrement(1.0);
    }
}

/// Returns the items of all shards that a reader with this scope may receive. The stream ends only with an error.
pub fn read(
    hub: Hub,
    start: Start,
    scope: Scope,
    filter: EventFilter,
) -> impl Stream<Item = Result<Item, ReadError>> + Send {
    try_stream! {
        let _counted = Counted::new();
        let mut behind = usize::from(hub.shards());
        let mut cursor = StreamCursor::unnamed(vec![Position::default(); behind]);
        let mut shards = SelectAll::new();
        let joined = join_all((0..hub.shards()).map(|shard| timeout(PATIENCE, join(&hub, shard, start.on(shard))))).await;
        if joined.iter().all(Result::is_err) {
            Err(ReadError::of(0, "no stream was found in time"))?;
        }
        for (shard, joined) in (0..).zip(joined) {
            let (from, joined) = (start.on(shard), joined.ok());
            cursor.positions[usize::from(shard)] = match (&joined, from) {
                (Some(joined), _) => joined.at,
                (None, From::After { at, .. }) => at,
                (None, From::Beginning) => Position::default(),
                // The stream does not exist yet, so all its events will be after its beginning.
                (None, _) if hub.is_missing(shard) => Position::default(),
                (None, _) => Err(ReadError::of(shard, "its position can't be determined"))?,
            };
            cursor.feeds[usize::from(shard)] = match from {
                From::After { feed, .. } if joined.is_none() => feed,
                _ => hub.identity(shard).map(FeedId::tag),
            };
            shards.push(read_shard(hub.clone(), shard, from, joined));
        }
        let mut heartbeats = interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = tokio::select! {
                item = shards.next() => item,
                _ = heartbeats.tick() => {
                    yield Item::Heartbeat { lag: lag(&hub, &cursor), cursor: cursor.clone() };
                    continue;
                }
            };
            let Some((shard, item)) = next else { break };
            cursor.positions[usize::from(shard)] = item.position();
            cursor.feeds[usize::from(shard)] = hub.identity(shard).map(FeedId::tag);
            match item {
                ShardItem::Replayed(Replayed::Delivered(delivered)) => {
                    if let Some(live) = delivered.event.as_ref().filter(|live| filter.matches(&live.event, &scope)) {
                        yield Item::Event { cursor: cursor.clone(), shard, live: live.clone() };
                    }
                }
                ShardItem::Replayed(Replayed::Gap(gap)) => {
                    metrics::counter!("noetl_stream_gaps_total", "reason" => gap.reason.label()).increment(1);
                    yield Item::Gap { cursor: cursor.clone(), shard, gap };
                }
                ShardItem::CaughtUp(_) => {
                    behind = behind.saturating_sub(1);
                    if behind == 0 {
                        yield Item::CaughtUp { cursor: cursor.clone() };
                    }
                }
            }
        }
    }
}

fn lag(hub: &Hub, cursor: &StreamCursor) -> u64 {
    let behind = |(shard, position): (ShardIndex, &Position)| {
        hub.head(shard).map_or(0, |head| head.sequence.saturating_sub(position.sequence))
    };
    (0..).zip(&cursor.positions).map(behind).sum()
}
