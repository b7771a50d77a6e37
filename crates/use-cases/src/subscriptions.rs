//! Source subscriptions: register, the five transitions, bulk transitions, reads.
//!
//! The transitions of a subscription are serialised, and each is validated against the state that it follows.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::{ReadFailures, ServiceError};
use crate::listing::Listing;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::Action;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{Caller, NamedTenancy, Scope};
use noetl_storage::subscriptions::{SubscriptionFilter, SubscriptionRow};

/// Request for a transition.
#[derive(Debug, Clone)]
pub struct Transition {
    /// The subscription.
    pub id: Id,
    /// The action.
    pub action: Action,
    /// Lifecycle event that must still be the latest one; `None`: no check.
    pub expected_last_event_id: Option<Id>,
    /// Reason, stored in the event.
    pub reason: Option<String>,
    /// The caller.
    pub caller: Caller,
    /// Whether the caller may change only the subscriptions that it registered.
    pub only_own: bool,
}

/// Source subscriptions that a bulk transition changes.
#[derive(Debug, Clone)]
pub enum Selection {
    /// Those with these ids.
    Ids(Vec<Id>),
    /// Those that match a filter. A filter without a condition selects all.
    Filter(SubscriptionFilter),
}

/// Result of a bulk transition for one subscription.
#[derive(Debug, Clone)]
pub struct BulkItem {
    /// Index of the id among the selected ids, if ids were selected.
    pub index: Option<usize>,
    /// Id of the subscription.
    pub id: Id,
    /// The subscription at the time of the selection; `None` if it was not found.
    pub matched: Option<SubscriptionRow>,
    /// The subscription after the transition, or the reason that it was not changed. A dry run returns it unchanged.
    pub outcome: Result<SubscriptionRow, ServiceError>,
}

/// Result of a bulk transition.
#[derive(Debug)]
pub struct Bulk {
    /// The selected subscriptions in the order of the ids, or newest first. A repeated id has the same result each time.
    pub items: Vec<BulkItem>,
    /// Shards whose subscriptions could not be matched.
    pub unavailable: Vec<ShardIndex>,
}

/// Registering source subscriptions.
#[async_trait]
pub trait RegisterSubscription: Debug + Send + Sync {
    /// Returns the path's live subscription. Registers the path's newest catalog entry if none is live. If the live one
    /// has another tenant or organization than the named one, or than the caller's, the request is rejected.
    async fn register(
        &self,
        path: &str,
        named: &NamedTenancy,
        caller: &Caller,
    ) -> Result<SubscriptionRow, ServiceError>;
}

/// Transitions of one source subscription.
#[async_trait]
pub trait TransitionOne: Debug + Send + Sync {
    /// Carries out one transition.
    async fn transition(&self, request: &Transition) -> Result<SubscriptionRow, ServiceError>;
}

/// Transitions of several source subscriptions, selected by ids or by a filter.
#[async_trait]
pub trait TransitionSelected: Debug + Send + Sync {
    /// Carries out an action on all selected subscriptions in the caller's scope. With `dry_run`, only checks whether
    /// the action is allowed.
    async fn transition_all(
        &self,
        action: Action,
        selection: Selection,
        reason: Option<&str>,
        dry_run: bool,
        caller: &Caller,
    ) -> Result<Bulk, ServiceError>;
}

/// Reading source subscriptions.
#[async_trait]
pub trait ReadSubscriptions: Debug + Send + Sync {
    /// Returns a subscription in the scope by id.
    async fn get(&self, id: Id, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError>;

    /// Returns the subscriptions in the scope with these ids, and the errors of those that could not be read.
    async fn by_ids(&self, ids: &[Id], scope: &Scope) -> (Vec<SubscriptionRow>, ReadFailures);

    /// Returns the path's subscription in the scope: the live one, else the one that was live last.
    async fn by_path(&self, path: &str, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError>;

    /// Returns a page in the scope, newest first: by the time of the registration, then by id.
    async fn list(
        &self,
        filter: &SubscriptionFilter,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<Listing<SubscriptionRow>, ServiceError>;

    /// Counts subscriptions in the scope over all shards, up to `limit`.
    async fn total(&self, filter: &SubscriptionFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError>;
}

/// All use cases of source subscriptions.
pub trait Subscriptions: RegisterSubscription + TransitionOne + TransitionSelected + ReadSubscriptions {}

impl<T: RegisterSubscription + TransitionOne + TransitionSelected + ReadSubscriptions> Subscriptions for T {}
