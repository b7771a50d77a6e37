//! What one reader of the live feed gets: what is stored from where it starts, then the hub's events, over all shards.
//!
//! Per shard, in order and once, with a word on what is missing. Its cursor goes on on any replica.

use std::time::Duration;

use async_stream::try_stream;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{SelectAll, Stream};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use super::cursor::{Position, StreamCursor};
use super::delivered::LiveEvent;
pub use super::gap::{Gap, GapReason};
use super::hub::Hub;
use super::replay::Replayed;
pub use super::replay::Since;
use super::shard_reader::{From, ShardItem, join, read_shard};
pub use super::source::ReadError;
use crate::domain::event::EventFilter;
use crate::domain::shard::ShardIndex;

/// Seconds between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a reader waits for all shards' streams, as when the whole deployment has just started. It begins with those
/// that are there by then.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a reader starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Start {
    /// With the oldest event that the streams hold.
    Beginning,
    /// With what is published from now on.
    #[default]
    Latest,
    /// Behind a cursor.
    After(StreamCursor),
    /// With what was published from a time on.
    Since(Since),
}

/// What a reader gets.
#[derive(Debug, Clone)]
pub enum Item {
    /// An event that matches the filter.
    Event {
        /// The place behind it.
        cursor: StreamCursor,
        /// Which shard's.
        shard: ShardIndex,
        /// The event.
        live: LiveEvent,
    },
    /// Everything that was published before the reader came has been handed out.
    CaughtUp {
        /// The place behind it.
        cursor: StreamCursor,
    },
    /// Events are missing, or may come again.
    Gap {
        /// The place behind the gap.
        cursor: StreamCursor,
        /// Which shard's events.
        shard: ShardIndex,
        /// The gap.
        gap: Gap,
    },
    /// A sign of life.
    Heartbeat {
        /// Where the reader stands.
        cursor: StreamCursor,
        /// Published events that the reader was not handed yet.
        lag: u64,
    },
}

impl Start {
    fn on(&self, shard: ShardIndex) -> From {
        match self {
            Self::Beginning => From::Beginning,
            Self::Latest => From::Latest,
            Self::After(after) => From::After(after.0.get(usize::from(shard)).copied().unwrap_or_default()),
            Self::Since(since) => From::Since(*since),
        }
    }
}

/// Counts readers for as long as they live.
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

/// Reads all shards. Ends only with an error.
pub fn read(hub: Hub, start: Start, filter: EventFilter) -> impl Stream<Item = Result<Item, ReadError>> + Send {
    try_stream! {
        let _counted = Counted::new();
        let mut behind = usize::from(hub.shards());
        let mut cursor = StreamCursor(vec![Position::default(); behind]);
        let mut shards = SelectAll::new();
        let joined = join_all((0..hub.shards()).map(|shard| timeout(PATIENCE, join(&hub, shard, start.on(shard))))).await;
        if joined.iter().all(Result::is_err) {
            Err(ReadError::of(0, "there are no streams yet"))?;
        }
        for (shard, joined) in (0..).zip(joined) {
            let (from, joined) = (start.on(shard), joined.ok());
            cursor.0[usize::from(shard)] = match (&joined, from) {
                (Some(joined), _) => joined.at,
                (None, From::After(position)) => position,
                (None, From::Beginning) => Position::default(),
                // Whatever there will be is behind its beginning.
                (None, _) if hub.is_missing(shard) => Position::default(),
                (None, _) => Err(ReadError::of(shard, "where it stands can't be told now"))?,
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
            cursor.0[usize::from(shard)] = item.position();
            match item {
                ShardItem::Replayed(Replayed::Delivered(delivered)) => {
                    if let Some(live) = delivered.event.as_ref().filter(|live| filter.matches(&live.event)) {
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
    (0..).zip(&cursor.0).map(behind).sum()
}
