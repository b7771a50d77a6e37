//! What one reader of the live feed gets: replay from where it starts, then the hub's events, over all shards.
//!
//! Per shard, in order and once. A reader registers at the hub first and replays only up to where the hub stood; one that
//! falls out of the hub's ring does the same again from its own place. What is gone is said as a [`Item::Gap`].

use std::sync::Arc;
use std::time::Duration;

use async_stream::try_stream;
use futures::future::join_all;
use futures::stream::{BoxStream, SelectAll, Stream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use super::cursor::{Position, StreamCursor};
use super::hub::{Hub, Registration};
use super::replay::{Delivered, ReadError};
use crate::domain::event::{Event, EventFilter};
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
}

/// Why a part of the feed is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// The stream no longer holds it.
    Retention,
    /// The feed began anew; events behind the gap may have been seen before.
    EpochChanged,
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
        event: Arc<Event>,
    },
    /// Everything that was published before the reader came has been handed out.
    CaughtUp {
        /// The place behind it.
        cursor: StreamCursor,
    },
    /// Events are missing.
    Gap {
        /// The place behind the gap.
        cursor: StreamCursor,
        /// Which shard's events.
        shard: ShardIndex,
        /// The first missing sequence.
        from: u64,
        /// The last missing sequence.
        to: u64,
        /// Why.
        reason: GapReason,
    },
    /// A sign of life.
    Heartbeat {
        /// Where the reader stands.
        cursor: StreamCursor,
        /// Published events that the reader was not handed yet.
        lag: u64,
    },
}

/// What one shard gives.
#[derive(Debug)]
enum ShardItem {
    Delivered(Arc<Delivered>),
    Gap { shard: ShardIndex, from: u64, to: u64, reason: GapReason, position: Position },
    CaughtUp { shard: ShardIndex, position: Position },
}

/// Reads all shards. Ends only with an error.
pub fn read(hub: Hub, start: Start, filter: EventFilter) -> impl Stream<Item = Result<Item, ReadError>> + Send {
    try_stream! {
        let mut behind = usize::from(hub.shards());
        let mut cursor = StreamCursor(vec![Position::default(); behind]);
        let mut shards = SelectAll::new();
        let joined = join_all((0..hub.shards()).map(|shard| timeout(PATIENCE, hub.register(shard)))).await;
        if joined.iter().all(Result::is_err) {
            Err(super::replay::broker(0, "there are no streams yet"))?;
        }
        for (shard, registration) in (0..).zip(joined) {
            let from = match &start {
                Start::Beginning => Some(Position::default()),
                Start::Latest => None,
                Start::After(after) => after.0.get(usize::from(shard)).copied(),
            };
            let registration = registration.ok();
            let head = registration.as_ref().map(|registration| registration.head);
            cursor.0[usize::from(shard)] = from.or(head).unwrap_or_default();
            shards.push(read_shard(hub.clone(), shard, from, registration));
        }
        let mut heartbeats = interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = tokio::select! {
                item = shards.try_next() => Some(item),
                _ = heartbeats.tick() => None,
            };
            let Some(item) = next else {
                yield Item::Heartbeat { lag: lag(&hub, &cursor), cursor: cursor.clone() };
                continue;
            };
            let Some(item) = item? else { break };
            cursor.0[usize::from(item.shard())] = item.position();
            match item {
                ShardItem::Delivered(delivered) => {
                    if let Some(event) = delivered.event.as_ref().filter(|event| filter.matches(event)) {
                        let event = Arc::clone(event);
                        yield Item::Event { cursor: cursor.clone(), shard: delivered.shard, event };
                    }
                }
                ShardItem::Gap { shard, from, to, reason, .. } => {
                    yield Item::Gap { cursor: cursor.clone(), shard, from, to, reason };
                }
                ShardItem::CaughtUp { .. } => {
                    behind = behind.saturating_sub(1);
                    if behind == 0 {
                        yield Item::CaughtUp { cursor: cursor.clone() };
                    }
                }
            }
        }
    }
}

impl ShardItem {
    fn shard(&self) -> ShardIndex {
        match self {
            Self::Delivered(delivered) => delivered.shard,
            Self::Gap { shard, .. } | Self::CaughtUp { shard, .. } => *shard,
        }
    }

    fn position(&self) -> Position {
        match self {
            Self::Delivered(delivered) => delivered.position,
            Self::Gap { position, .. } | Self::CaughtUp { position, .. } => *position,
        }
    }
}

fn lag(hub: &Hub, cursor: &StreamCursor) -> u64 {
    let behind = |(shard, position): (ShardIndex, &Position)| {
        hub.head(shard).map_or(0, |head| head.sequence.saturating_sub(position.sequence))
    };
    (0..).zip(&cursor.0).map(behind).sum()
}

/// One shard: from behind `from` (`None`: from where the hub stands), replayed and then live. Says once that it has
/// caught up. `None` as the registration: the hub has not found the stream yet, and the other shards don't wait for it.
fn read_shard(
    hub: Hub,
    shard: ShardIndex,
    from: Option<Position>,
    first: Option<Registration>,
) -> BoxStream<'static, Result<ShardItem, ReadError>> {
    let stream = try_stream! {
        let first = match first {
            Some(registration) => registration,
            None => hub.register(shard).await,
        };
        let Registration { mut head, mut live } = first;
        let mut at = from.unwrap_or(head);
        let mut caught_up = false;
        loop {
            if at.sequence < head.sequence {
                let mut replayed = std::pin::pin!(replay(&hub, shard, at, head.sequence));
                while let Some(item) = replayed.try_next().await? {
                    at = item.position();
                    yield item;
                }
            }
            if !caught_up {
                caught_up = true;
                yield ShardItem::CaughtUp { shard, position: at };
            }
            loop {
                match live.recv().await {
                    Ok(delivered) if delivered.position.sequence <= at.sequence && !renewed(at, &delivered) => {}
                    Ok(delivered) => {
                        if renewed(at, &delivered) {
                            yield epoch_gap(shard, at, &delivered);
                        }
                        at = delivered.position;
                        yield ShardItem::Delivered(delivered);
                    }
                    Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return,
                }
            }
            metrics::counter!("noetl_stream_readers_lagged_total").increment(1);
            Registration { head, live } = hub.register(shard).await;
        }
    };
    stream.boxed()
}

/// The stream's messages from behind `at` up to sequence `until`.
fn replay(
    hub: &Hub,
    shard: ShardIndex,
    mut at: Position,
    until: u64,
) -> impl Stream<Item = Result<ShardItem, ReadError>> {
    try_stream! {
        let stream = hub.stream(shard).await?;
        let extent = stream.extent().await?;
        if at.sequence > 0 && extent.first > at.sequence + 1 {
            let (from, to) = (at.sequence + 1, extent.first - 1);
            at.sequence = to;
            yield ShardItem::Gap { shard, from, to, reason: GapReason::Retention, position: at };
        }
        let until = until.min(extent.last);
        if extent.first <= until && at.sequence < until {
            let mut messages = stream.from(at.sequence + 1).await?;
            while let Some(message) = messages.try_next().await.map_err(|error| super::replay::broker(shard, error))? {
                let last = message.info().is_ok_and(|info| info.pending == 0);
                let delivered = Arc::new(stream.decode(&message).await?);
                if renewed(at, &delivered) {
                    yield epoch_gap(shard, at, &delivered);
                }
                at = delivered.position;
                yield ShardItem::Delivered(delivered);
                if last || at.sequence >= until {
                    break;
                }
            }
        }
    }
}

/// Whether a message belongs to a later epoch than the reader has seen.
fn renewed(at: Position, delivered: &Delivered) -> bool {
    at.epoch != 0 && delivered.position.epoch > at.epoch
}

fn epoch_gap(shard: ShardIndex, at: Position, delivered: &Delivered) -> ShardItem {
    let position = Position { sequence: delivered.position.sequence.saturating_sub(1), ..delivered.position };
    let (from, to) = (at.sequence + 1, position.sequence.max(at.sequence));
    ShardItem::Gap { shard, from, to, reason: GapReason::EpochChanged, position }
}
