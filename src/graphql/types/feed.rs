//! Items of the live event subscription, and the status of the event stream.

use async_graphql::{Enum, Object, SimpleObject, Union};
use chrono::{DateTime, Utc};

use super::event::Event;
use crate::feed::read::reader::{GapReason, Item};
use crate::feed::wire::names;
use crate::graphql::scalars::BigInt;
use crate::runtime::clock;
use crate::service::feed::FeedStatus;
use noetl_storage::tail::TailStatus;

/// An item of the live event subscription.
#[derive(Debug, Clone, Union)]
pub enum EventStreamItem {
    /// A delivered event.
    EventDelivery(EventDelivery),
    /// The end of the replay.
    CaughtUp(CaughtUp),
    /// Missing or repeated events.
    StreamGap(StreamGap),
    /// A heartbeat.
    StreamHeartbeat(StreamHeartbeat),
}

/// A delivered event with its cursor.
#[derive(Debug, Clone, SimpleObject)]
pub struct EventDelivery {
    /// Cursor of the event. Pass it as `start.after` to any replica to continue after this event.
    cursor: String,
    /// The event.
    event: Event,
    /// Whether the event is incomplete: its large fields could not be read from the shard, or a value can't be shown
    /// and is omitted or replaced by an error. The query `event` may return the complete event.
    payload_omitted: bool,
}

/// Marks the end of the replay: all events published before the subscription started have been delivered. Later events
/// are live.
#[derive(Debug, Clone, SimpleObject)]
pub struct CaughtUp {
    /// Cursor to continue from.
    cursor: String,
    /// Time at which the subscription caught up.
    at: DateTime<Utc>,
}

/// Events of a shard that can't be delivered, or that may be delivered again. If `to` is less than `from`, no event is
/// missing.
#[derive(Debug, Clone, SimpleObject)]
pub struct StreamGap {
    /// Cursor after the gap.
    cursor: String,
    /// Index of the shard.
    shard: u16,
    /// First missing position in the shard's stream.
    from: BigInt,
    /// Last missing position in the shard's stream.
    to: BigInt,
    /// Reason for the gap.
    reason: StreamGapReason,
}

/// Reason for a gap in the event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "GapReason")]
pub enum StreamGapReason {
    /// The stream no longer stores the events.
    Retention,
    /// The reader was too slow, and the stream no longer stores the events.
    SlowConsumer,
    /// The feed restarted after a loss of data. Events after the gap may have been delivered before.
    EpochChanged,
}

/// Heartbeat, sent every 10 seconds.
#[derive(Debug, Clone, SimpleObject)]
pub struct StreamHeartbeat {
    /// Current cursor of the reader.
    cursor: String,
    /// Time of the heartbeat.
    at: DateTime<Utc>,
    /// Number of published events after the cursor, including events that the filter excludes.
    lag_events: BigInt,
}

impl From<Item> for EventStreamItem {
    fn from(item: Item) -> Self {
        match item {
            Item::Event { cursor, live, .. } => Self::EventDelivery(EventDelivery {
                cursor: cursor.to_text(),
                event: Event(live.event),
                payload_omitted: live.partial,
            }),
            Item::CaughtUp { cursor } => Self::CaughtUp(CaughtUp { cursor: cursor.to_text(), at: clock::now() }),
            Item::Gap { cursor, shard, gap } => Self::StreamGap(StreamGap {
                cursor: cursor.to_text(),
                shard,
                from: gap.from.into(),
                to: gap.to.into(),
                reason: gap.reason.into(),
            }),
            Item::Heartbeat { cursor, lag } => Self::StreamHeartbeat(StreamHeartbeat {
                cursor: cursor.to_text(),
                at: clock::now(),
                lag_events: lag.into(),
            }),
        }
    }
}

/// Status of the event stream.
#[derive(Debug, Clone, SimpleObject)]
pub struct EventStreamStatus {
    /// Whether this replica takes part in publishing events.
    pub enabled: bool,
    /// Whether this replica is connected to the broker.
    pub connected: bool,
    /// Status of each shard's event stream.
    pub shards: Vec<EventStreamShard>,
}

/// Status of one shard's event stream.
#[derive(Debug, Clone)]
pub struct EventStreamShard {
    /// Index of the shard.
    pub shard: u16,
    /// Status of the feed.
    pub status: Result<FeedStatus, UnreadableShard>,
}

/// The status of a shard's feed could not be read.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("shard {0} can't be reached")]
pub struct UnreadableShard(pub u16);

impl EventStreamShard {
    fn read<T: Default>(&self, field: impl Fn(&TailStatus) -> T) -> T {
        self.status.as_ref().ok().and_then(|status| status.tail.as_ref()).map(field).unwrap_or_default()
    }
}

/// Status of one shard's event stream. If the shard can't be read, `lastError` says so and the measured values are 0 or
/// null.
#[Object]
impl EventStreamShard {
    /// Index of the shard.
    async fn shard(&self) -> u16 {
        self.shard
    }

    /// Name of the broker's stream that stores the shard's events.
    async fn stream(&self) -> String {
        names::stream(self.shard)
    }

    /// Replica that publishes the shard's events; null if no replica holds the lease.
    async fn leader(&self) -> Option<String> {
        self.read(|status| status.leader.clone())
    }

    /// Time at which the leader's lease expires if it is not renewed.
    async fn lease_expires_at(&self) -> Option<DateTime<Utc>> {
        self.read(|status| status.lease_until)
    }

    /// Last position of the stream after the last completed batch.
    async fn last_sequence(&self) -> BigInt {
        BigInt(self.read(|status| status.last_sequence))
    }

    /// Number of events published since the feed began.
    async fn published_events(&self) -> BigInt {
        BigInt(self.read(|status| status.published_events))
    }

    /// Number of committed events that are not published yet, counted up to 100,000.
    async fn lag_events(&self) -> BigInt {
        BigInt(self.read(|status| status.lag_events))
    }

    /// Age in seconds of the oldest event that is not published yet; 0 if there is none.
    async fn lag_seconds(&self) -> f64 {
        self.read(|status| status.lag_seconds)
    }

    /// Age in seconds of the oldest open write transaction; null if there is none.
    async fn oldest_open_transaction_seconds(&self) -> Option<f64> {
        self.read(|status| status.oldest_open_transaction_seconds)
    }

    /// Number of prepared transactions that are neither committed nor rolled back. Their events are published after
    /// they commit.
    async fn prepared_transactions(&self) -> BigInt {
        BigInt(self.status.as_ref().map_or(0, |status| status.prepared.count))
    }

    /// Age in seconds of the oldest prepared transaction; null if there is none.
    async fn oldest_prepared_transaction_seconds(&self) -> Option<f64> {
        self.status.as_ref().ok()?.prepared.oldest_seconds
    }

    /// Epoch of the feed. It increases when earlier positions of the stream become invalid.
    async fn feed_epoch(&self) -> i32 {
        self.read(|status| status.feed_epoch)
    }

    /// Last publishing error; null after the next success.
    async fn last_error(&self) -> Option<String> {
        match &self.status {
            Err(error) => Some(error.to_string()),
            Ok(_) => self.read(|status| status.last_error.clone()),
        }
    }
}
