//! Transitions of several source subscriptions, selected by a filter. A filter without a condition selects all of them.

use std::collections::{BTreeSet, HashMap};

use futures::{StreamExt, stream};

use super::Subscriptions;
use super::transition::{Transition, state_after};
use crate::service::bounds::check_reason;
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use crate::service::fan_out::Listing;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::Action;
use noetl_domain::list_position::CursorPosition;
use noetl_domain::page::{MAX_PAGE, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{Caller, Scope};
use noetl_storage::subscriptions::{SubscriptionFilter, SubscriptionRow};

/// Maximum number of subscriptions in one bulk transition.
const MAX_BULK: usize = 1000;
/// Maximum number of subscriptions that are counted for the refusal of a selection.
const MAX_COUNTED: i64 = 100_000;
/// Number of transitions of one bulk that run at the same time.
const BULK_CONCURRENCY: usize = 8;

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

impl Subscriptions {
    /// Carries out an action on all selected subscriptions in the caller's scope. With `dry_run`, only checks whether
    /// the action is allowed.
    #[tracing::instrument(level = "debug", name = "subscriptions.transition_all", skip_all, fields(action = ?action))]
    pub async fn transition_all(
        &self,
        action: Action,
        selection: Selection,
        reason: Option<&str>,
        dry_run: bool,
        caller: &Caller,
    ) -> Result<Bulk, ServiceError> {
        check_reason(reason)?;
        let (ids, filter) = match selection {
            Selection::Ids(ids) => {
                (ids.clone(), SubscriptionFilter { ids: Some(ids), ..SubscriptionFilter::default() })
            }
            Selection::Filter(filter) => (Vec::new(), filter),
        };
        let (matched, unavailable) = self.matching(&filter, &caller.scope).await?;
        let items = stream::iter(matched).map(async |matched: SubscriptionRow| {
            let outcome = if dry_run {
                state_after(&matched, action).map_err(ServiceError::from).map(|_| matched.clone())
            } else {
                let reason = reason.map(str::to_owned);
                let (id, caller) = (matched.id, caller.clone());
                let request = Transition { id, action, expected_last_event_id: None, reason, caller, only_own: false };
                self.transition(&request).await
            };
            BulkItem { index: None, id: matched.id, matched: Some(matched), outcome }
        });
        let items: Vec<BulkItem> = items.buffered(BULK_CONCURRENCY).collect().await;
        let items = if ids.is_empty() { items } else { self.in_order(&ids, items, &unavailable) };
        Ok(Bulk { items, unavailable })
    }

    /// Returns the results of the selected ids, in their order.
    fn in_order(&self, ids: &[Id], items: Vec<BulkItem>, unavailable: &[ShardIndex]) -> Vec<BulkItem> {
        let found: HashMap<Id, BulkItem> = items.into_iter().map(|item| (item.id, item)).collect();
        let item = |(index, id): (usize, &Id)| match found.get(id) {
            Some(item) => BulkItem { index: Some(index), ..item.clone() },
            None => self.missing(index, *id, unavailable),
        };
        ids.iter().enumerate().map(item).collect()
    }

    /// Returns the result of a selected id that was not found.
    fn missing(&self, index: usize, id: Id, unavailable: &[ShardIndex]) -> BulkItem {
        let (shard, field) = (self.databases.index_of(id), format!("select.ids.{index}"));
        let rejection = if unavailable.contains(&shard) {
            let message = format!("shard {shard} can't be reached; the subscription was not changed");
            Rejection::new(RejectionCode::ShardUnavailable, &field, message)
        } else {
            Rejection::not_found(&field, format!("there is no subscription {id}"))
        };
        BulkItem { index: Some(index), id, matched: None, outcome: Err(rejection.into()) }
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
                return Err(too_many(self.total(filter, MAX_COUNTED, scope).await?).into());
            }
            if !page.has_next {
                return Ok((matched, missing.into_iter().collect()));
            }
            request.after = matched.last().map(|row| CursorPosition::Exact(row.position()));
        }
    }
}

fn too_many(total: Total) -> Rejection {
    let more = if total.capped { "more than " } else { "" };
    let message =
        format!("the selection has {more}{} subscriptions; at most {MAX_BULK} are allowed, so narrow it", total.value);
    Rejection::invalid("select", message)
}
