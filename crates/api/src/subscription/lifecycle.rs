//! Statuses of a source subscription, and the actions that change them.

use async_graphql::Enum;

use noetl_domain::lifecycle::{Action, State};

/// Status of a source subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "State")]
pub enum SubscriptionStatus {
    /// Registered, but never activated.
    Registered,
    /// Receives messages.
    Active,
    /// Receives no messages until it is resumed or activated.
    Paused,
    /// Processes the received messages and receives no more.
    Draining,
    /// Ended. Its path is free for another registration.
    Deactivated,
    /// Stored under a name that this server does not know; `statusText` contains the name. The subscription is live, and
    /// can only be deactivated.
    Unknown,
}

/// Action on a source subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Action")]
pub enum SubscriptionAction {
    /// Starts to receive messages.
    Activate,
    /// Stops receiving messages until it is resumed or activated.
    Pause,
    /// Receives messages again after a pause.
    Resume,
    /// Processes the received messages and receives no more.
    Drain,
    /// Ends the subscription.
    Deactivate,
}
