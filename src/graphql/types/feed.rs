//! What the live event subscription hands out, and the state of the event stream.

use async_graphql::{Enum, Object, SimpleObject, Union};
use chrono::{DateTime, Utc};

use super::event::Event;
use crate::graphql::scalars::BigInt;
use crate::service::clock;
use crate::service::feed::FeedStatus;
use crate::storage::tail::TailStatus;
use crate::stream::names;
use crate::stream::reader::{GapReason, Item};

/// An item of the live event subscription.
#[derive(Debug, Clone, Union)]
pub enum EventStreamItem {
    /// An event.
    EventDelivery(EventDelivery),
    /// Everything published before the reader came has been handed out.
    CaughtUp(CaughtUp),
    /// Something is missing.
    StreamGap(StreamGap),
    /// A sign of life.
    StreamHeartbeat(StreamHeartbeat),
}

/// An event and the place behind it.
#[derive(Debug, Clone, SimpleObject)]
pub struct EventDelivery {
    /// Pass it as `start.after`, on any replica, to go on behind this event.
    cursor: String,
    /// The event.
    event: Event,
    /// Whether large fields of the event are left out, since the shard could not be read when it came, or a value is one
    /// that can't be shown and is replaced by its error; the query `event` may return all of it.
    payload_omitted: bool,
}

/// Everything published before the reader came has been handed out; what follows is live.
#[derive(Debug, Clone, SimpleObject)]
pub struct CaughtUp {
    /// The place behind it.
    cursor: String,
    /// When that was.
    at: DateTime<Utc>,
}

/// Events of a shard that can't be handed out, or that may come again. When `to` is below `from`, nothing is missing.
#[derive(Debug, Clone, SimpleObject)]
pub struct StreamGap {
    /// The place behind the gap.
    cursor: String,
    /// Whose events.
    shard: u16,
    /// The first missing position of the shard's stream.
    from: BigInt,
    /// The last missing position.
    to: BigInt,
    /// Why.
    reason: StreamGapReason,
}

/// Why a part of the stream is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "GapReason")]
pub enum StreamGapReason {
    /// The stream no longer holds it.
    Retention,
    /// The reader was too slow, and the stream no longer holds it.
    SlowConsumer,
    /// The stream began anew after a loss; events behind the gap may have been seen before.
    EpochChanged,
}

/// A sign of life on a quiet stream.
#[derive(Debug, Clone, SimpleObject)]
pub struct StreamHeartbeat {
    /// Where the reader stands.
    cursor: String,
    /// When that was.
    at: DateTime<Utc>,
    /// Published events that the reader was not handed yet.
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

/// How publishing the committed events goes.
#[derive(Debug, Clone, SimpleObject)]
pub struct EventStreamStatus {
    /// Whether this replica takes part in publishing.
    pub enabled: bool,
    /// Whether this replica reaches the broker.
    pub connected: bool,
    /// By shard.
    pub shards: Vec<EventStreamShard>,
}

/// How publishing one shard's events goes.
#[derive(Debug, Clone)]
pub struct EventStreamShard {
    /// The shard.
    pub shard: u16,
    /// `Err`: why it could not be read.
    pub status: Result<FeedStatus, String>,
}

impl EventStreamShard {
    fn read<T: Default>(&self, field: impl Fn(&TailStatus) -> T) -> T {
        self.status.as_ref().ok().and_then(|status| status.tail.as_ref()).map(field).unwrap_or_default()
    }
}

/// How publishing one shard's events goes.
#[Object]
impl EventStreamShard {
    /// The shard.
    async fn shard(&self) -> u16 {
        self.shard
    }

    /// The broker's stream that holds its events.
    async fn stream(&self) -> String {
        names::stream(self.shard)
    }

    /// The replica that publishes now.
    async fn leader(&self) -> Option<String> {
        self.read(|status| status.leader.clone())
    }

    /// Until when it does, unless it renews.
    async fn lease_expires_at(&self) -> Option<DateTime<Utc>> {
        self.read(|status| status.lease_until)
    }

    /// The stream's last position when the last batch was done.
    async fn last_sequence(&self) -> BigInt {
        BigInt(self.read(|status| status.last_sequence))
    }

    /// Events published since the feed began.
    async fn published_events(&self) -> BigInt {
        BigInt(self.read(|status| status.published_events))
    }

    /// Committed events that are not published yet, counted up to 100,000.
    async fn lag_events(&self) -> BigInt {
        BigInt(self.read(|status| status.lag_events))
    }

    /// The age in seconds of the oldest of them.
    async fn lag_seconds(&self) -> f64 {
        self.read(|status| status.lag_seconds)
    }

    /// The age in seconds of the oldest transaction that may still write.
    async fn oldest_open_transaction_seconds(&self) -> Option<f64> {
        self.read(|status| status.oldest_open_transaction_seconds)
    }

    /// Transactions that are prepared and wait for somebody to settle them; their events come when they commit.
    async fn prepared_transactions(&self) -> BigInt {
        BigInt(self.status.as_ref().map_or(0, |status| status.prepared.count))
    }

    /// The age in seconds of the oldest of them.
    async fn oldest_prepared_transaction_seconds(&self) -> Option<f64> {
        self.status.as_ref().ok()?.prepared.oldest_seconds
    }

    /// Goes up when positions of the stream lose their meaning.
    async fn feed_epoch(&self) -> i32 {
        self.read(|status| status.feed_epoch)
    }

    /// What last went wrong, until something goes right.
    async fn last_error(&self) -> Option<String> {
        match &self.status {
            Err(error) => Some(error.clone()),
            Ok(_) => self.read(|status| status.last_error.clone()),
        }
    }
}
