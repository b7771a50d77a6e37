//! Items of the live event subscription.

use async_graphql::{Enum, Interface, SimpleObject};

use super::types::Event;
use crate::scalars::{BigInt, Time};
use noetl_feed::read::reader::{GapReason, Item};
use noetl_runtime::clock;

/// An item of the live event subscription.
#[derive(Debug, Clone, Interface)]
#[graphql(
    field(name = "at", ty = "&Time", desc = "Time at which the server made the item."),
    field(
        name = "cursor",
        ty = "&String",
        desc = "Position after the item. Pass it as `start.after` to continue from there."
    )
)]
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
    /// Cursor of the event. Pass it as `start.after` to any replica to continue after this event. While the large fields
    /// of an earlier event are still read from its shard, the cursor is before that event, so that a reader that
    /// continues from it does not miss it, and gets this event again.
    pub cursor: String,
    /// Time at which this replica made the item.
    pub at: Time,
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
    pub cursor: String,
    /// Time at which the subscription caught up.
    pub at: Time,
}

/// Events of a shard that can't be delivered, or that must be discarded, depending on the reason. If `to` is less than
/// `from`, there are none, but events after the gap may have been delivered before.
#[derive(Debug, Clone, SimpleObject)]
pub struct StreamGap {
    /// Cursor after the gap.
    pub cursor: String,
    /// Time at which this replica noticed the gap.
    pub at: Time,
    /// Index of the shard.
    shard: u16,
    /// First position of these events in the shard's stream.
    from: BigInt,
    /// Last position of these events in the shard's stream.
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
    /// The feed restarted after a loss of data. Discard the events that were received from the positions `from` to
    /// `to`: they are lost, or are delivered again after the gap.
    EpochChanged,
    /// The cursor is not of this feed: it belongs to another deployment, or to an earlier state of this one. Discard all
    /// events of the shard. The subscription continues with the first event that the stream stores.
    Reset,
}

/// Heartbeat, sent every 10 seconds.
#[derive(Debug, Clone, SimpleObject)]
pub struct StreamHeartbeat {
    /// Current cursor of the reader.
    pub cursor: String,
    /// Time of the heartbeat.
    pub at: Time,
    /// Number of published events after the cursor, including events that the filter excludes.
    lag_events: BigInt,
}

impl EventStreamItem {
    /// Returns an item that shows this text as its cursor.
    #[must_use]
    pub fn with_cursor(item: Item, cursor: String) -> Self {
        let at = Time(clock::now());
        match item {
            Item::Event { live, .. } => {
                let (event, payload_omitted) = (Event(live.event), live.partial);
                Self::EventDelivery(EventDelivery { cursor, at, event, payload_omitted })
            }
            Item::CaughtUp { .. } => Self::CaughtUp(CaughtUp { cursor, at }),
            Item::Gap { shard, gap, .. } => {
                let (from, to, reason) = (gap.from.into(), gap.to.into(), gap.reason.into());
                Self::StreamGap(StreamGap { cursor, at, shard, from, to, reason })
            }
            Item::Heartbeat { lag, .. } => {
                Self::StreamHeartbeat(StreamHeartbeat { cursor, at, lag_events: lag.into() })
            }
        }
    }
}

impl From<Item> for EventStreamItem {
    fn from(item: Item) -> Self {
        let cursor = item.cursor().to_text();
        Self::with_cursor(item, cursor)
    }
}
