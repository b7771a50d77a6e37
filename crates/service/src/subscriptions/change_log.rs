//! The server's log of lifecycle changes: one line for each event that changes the state of a source subscription.

use noetl_domain::actor::Actor;
use noetl_storage::subscriptions::SubscriptionRow;

/// Writes a committed lifecycle event to the log.
pub(super) fn log_change(changed: &SubscriptionRow, reason: Option<&str>, by: Option<&Actor>) {
    tracing::info!(
        subscription = %changed.id,
        path = changed.path,
        event_type = changed.last_event_type,
        event = %changed.last_event_id,
        state = %changed.state,
        reason,
        actor = by.map(Actor::subject),
        "a source subscription changed"
    );
}
