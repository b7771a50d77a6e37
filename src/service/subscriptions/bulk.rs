//! Transitions of several source subscriptions, selected by a filter. A filter without a condition selects all of them.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};

use super::Subscriptions;
use super::transition::{Transition, state_after};
use crate::service::bounds::check_reason;
use crate::service::error::{Rejection, ServiceError};
use crate::service::fan_out::Listing;
use noetl_domain::lifecycle::Action;
use noetl_domain::list_position::CursorPosition;
use noetl_domain::page::{MAX_PAGE, PageRequest};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{Caller, Scope};
use noetl_storage::subscriptions::{SubscriptionFilter, SubscriptionRow};

/// Maximum number of subscriptions in one bulk transition.
const MAX_BULK: usize = 1000;
/// Number of transitions of one bulk that run at the same time.
const BULK_CONCURRENCY: usize = 8;

/// Result of a bulk transition for one subscription.
#[derive(Debug)]
pub struct BulkItem {
    /// The subscription at the time of the match.
    pub matched: SubscriptionRow,
    /// The subscription after the transition, or the reason that it was not changed. A dry run returns it unchanged.
    pub outcome: Result<SubscriptionRow, ServiceError>,
}

/// Result of a bulk transition.
#[derive(Debug)]
pub struct Bulk {
    /// The matched subscriptions, newest first.
    pub items: Vec<BulkItem>,
    /// Shards whose subscriptions could not be matched.
    pub unavailable: Vec<ShardIndex>,
}

impl Subscriptions {
    /// Carries out an action on all matching subscriptions in the caller's scope. With `dry_run`, only checks whether
    /// the action is allowed.
    #[tracing::instrument(level = "debug", name = "subscriptions.transition_all", skip_all, fields(action = ?action))]
    pub async fn transition_all(
        &self,
        action: Action,
        filter: &SubscriptionFilter,
        reason: Option<&str>,
        dry_run: bool,
        caller: &Caller,
    ) -> Result<Bulk, ServiceError> {
        check_reason(reason)?;
        let (matched, unavailable) = self.matching(filter, &caller.scope).await?;
        let items = stream::iter(matched).map(async |matched: SubscriptionRow| {
            let outcome = if dry_run {
                state_after(&matched, action).map_err(ServiceError::from).map(|_| matched.clone())
            } else {
                let reason = reason.map(str::to_owned);
                let (id, caller) = (matched.id, caller.clone());
                let request = Transition { id, action, expected_last_event_id: None, reason, caller, only_own: false };
                self.transition(&request).await
            };
            BulkItem { matched, outcome }
        });
        Ok(Bulk { items: items.buffered(BULK_CONCURRENCY).collect().await, unavailable })
    }

    async fn matching(
        &self,
        filter: &SubscriptionFilter,
        scope: &Scope,
    ) -> Result<(Vec<SubscriptionRow>, Vec<ShardIndex>), ServiceError> {
        let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        let (mut matched, mut missing) = (Vec::<SubscriptionRow>::new(), BTreeSet::new());
        loop {
            let Listing { page, unavailable } = self.list(filter, &request, scope).await?;
            missing.extend(unavailable);
            matched.extend(page.items);
            if matched.len() > MAX_BULK || (page.has_next && matched.len() == MAX_BULK) {
                let message = format!("more than {MAX_BULK} subscriptions are selected; narrow the selection");
                return Err(Rejection::invalid("select", message).into());
            }
            if !page.has_next {
                return Ok((matched, missing.into_iter().collect()));
            }
            request.after = matched.last().map(|row| CursorPosition::Exact(row.position()));
        }
    }
}
