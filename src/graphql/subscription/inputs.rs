//! Inputs of source subscriptions.

use async_graphql::{ID, InputObject, OneofObject};

use super::lifecycle::{SubscriptionAction, SubscriptionState};
use crate::graphql::filters::{check_list, check_prefix};
use crate::graphql::scalars::{parse_id, parse_ids};
use crate::service::error::Rejection;
use crate::service::subscriptions::Transition;
use noetl_domain::actor::Actor;
use noetl_storage::subscriptions;

/// Key of a source subscription.
#[derive(Debug, OneofObject)]
pub enum SubscriptionKey {
    /// Id of the subscription.
    Id(ID),
    /// Catalog path. Selects the subscription of the path that is not deactivated, or else the last one.
    Path(String),
}

/// Filter for source subscriptions. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct SubscriptionFilter {
    /// Only subscriptions in one of these states.
    states: Option<Vec<SubscriptionState>>,
    /// Only subscriptions whose path begins with this text.
    path_prefix: Option<String>,
    /// Only subscriptions with one of these ids (at most 1000).
    ids: Option<Vec<ID>>,
}

impl SubscriptionFilter {
    /// Converts the input to the storage layer's filter and parses its ids.
    pub fn parse(self) -> Result<subscriptions::SubscriptionFilter, Rejection> {
        Ok(subscriptions::SubscriptionFilter {
            states: self.states.map(|states| states.into_iter().map(Into::into).collect()),
            path_prefix: check_prefix(self.path_prefix)?,
            ids: self
                .ids
                .map(|ids| check_list("filter.ids", &ids).and_then(|()| parse_ids("filter.ids", &ids)))
                .transpose()?,
        })
    }
}

/// Source subscription to register.
#[derive(Debug, InputObject)]
pub struct RegisterSubscriptionInput {
    /// Catalog path whose newest entry is of kind `subscription`.
    pub path: String,
}

/// Transition of one source subscription.
#[derive(Debug, InputObject)]
pub struct TransitionInput {
    /// Id of the subscription.
    pub id: ID,
    /// `lastEventId` that the caller has read. If a later lifecycle event exists, the transition is refused with
    /// `STALE_VERSION`. By default, the version is not checked.
    expected_last_event_id: Option<ID>,
    /// Reason, written to the log (at most 4096 bytes).
    reason: Option<String>,
}

impl TransitionInput {
    /// Converts the input to the transition that the caller requests, and parses its ids.
    pub fn parse(self, action: SubscriptionAction, by: Option<Actor>, only_own: bool) -> Result<Transition, Rejection> {
        let expected = self.expected_last_event_id.map(|id| parse_id("expectedLastEventId", &id)).transpose()?;
        Ok(Transition {
            id: parse_id("id", &self.id)?,
            action: action.into(),
            expected_last_event_id: expected,
            reason: self.reason,
            by,
            only_own,
        })
    }
}

/// Transition of all source subscriptions that match a filter.
#[derive(Debug, InputObject)]
pub struct BulkTransitionInput {
    /// Action to carry out.
    pub action: SubscriptionAction,
    /// Filter for the subscriptions; at most 1000 may match.
    pub filter: SubscriptionFilter,
    /// Reason, written to the logs (at most 4096 bytes).
    pub reason: Option<String>,
    /// Whether to change nothing and only return the result that is expected (default false).
    #[graphql(default = false)]
    pub dry_run: bool,
}
