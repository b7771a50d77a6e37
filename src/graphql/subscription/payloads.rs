//! Payloads of the mutations of source subscriptions.

use async_graphql::SimpleObject;

use super::types::SourceSubscription;
use crate::graphql::audit::AuditedPayload;
use crate::graphql::errors::{UserError, item_error};
use crate::service::subscriptions::BulkItem;

/// Result of registering a source subscription or changing its state.
#[derive(Debug, SimpleObject)]
pub(super) struct SubscriptionPayload {
    /// Subscription after the mutation; null if the request was refused.
    pub(super) subscription: Option<SourceSubscription>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of a bulk transition.
#[derive(Debug, SimpleObject)]
pub(super) struct TransitionSubscriptionsPayload {
    /// Results, one for each selected subscription, newest subscription first.
    pub(super) results: Vec<TransitionSubscriptionsResult>,
    /// Shards that could not be reached. Their subscriptions were not selected.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of a bulk transition for one source subscription.
#[derive(Debug, SimpleObject)]
pub(super) struct TransitionSubscriptionsResult {
    /// Subscription after the transition. In a dry run, or if the transition was refused: the subscription as selected.
    pub(super) subscription: SourceSubscription,
    /// Whether the transition was carried out. In a dry run: whether it would be carried out.
    applied: bool,
    /// Reasons the transition was refused; empty if it was not refused.
    user_errors: Vec<UserError>,
}

impl TransitionSubscriptionsResult {
    /// Creates the result. A fault becomes a user error, so that it does not hide the results of the others.
    pub(super) fn new(item: BulkItem) -> Self {
        match item.outcome {
            Ok(changed) => Self { subscription: changed.into(), applied: true, user_errors: Vec::new() },
            Err(error) => {
                Self { subscription: item.matched.into(), applied: false, user_errors: vec![item_error(error)] }
            }
        }
    }
}

impl AuditedPayload for SubscriptionPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.subscription.iter().map(|subscription| subscription.key().to_string()).collect()
    }
}

impl AuditedPayload for TransitionSubscriptionsPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().map(|result| result.subscription.key().to_string()).collect()
    }
}
