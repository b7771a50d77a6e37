//! Interface of the items of all live subscriptions.

use async_graphql::Interface;

use super::event::stream::{CaughtUp, EventDelivery, StreamGap, StreamHeartbeat};
use super::execution::update::ExecutionUpdate;
use super::scalars::Time;
use super::server::status::SystemStatus;
use super::subscription::update::SubscriptionUpdate;

/// An item of a live subscription.
#[derive(Debug, Interface)]
#[graphql(
    name = "LiveItem",
    field(name = "at", ty = "&Time", desc = "Time at which the server made the item."),
    field(
        name = "cursor",
        ty = "Option<&String>",
        desc = "Position in the event feed after the item. Pass it as `start.after` of the live subscription `events` to \
                continue from there. Null if the item has no position."
    )
)]
pub enum AnyLiveItem {
    /// A delivered event.
    EventDelivery(EventDelivery),
    /// The end of the replay.
    CaughtUp(CaughtUp),
    /// Missing or repeated events.
    StreamGap(StreamGap),
    /// A heartbeat.
    StreamHeartbeat(StreamHeartbeat),
    /// An update of an execution.
    ExecutionUpdate(ExecutionUpdate),
    /// An update of a source subscription.
    SubscriptionUpdate(SubscriptionUpdate),
    /// The health of the system.
    SystemStatus(SystemStatus),
}
