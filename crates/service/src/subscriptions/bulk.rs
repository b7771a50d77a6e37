//! Transitions of several source subscriptions, several at a time.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use futures::{StreamExt, stream};

use super::Subscriptions;
use super::transition::state_after;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::{Action, State};
use noetl_domain::page::{MAX_PAGE, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{Caller, Scope};
use noetl_storage::subscriptions::{SubscriptionFilter, SubscriptionRow};
use noetl_use_cases::bounds::check_reason;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};
use noetl_use_cases::listing::Listing;
use noetl_use_cases::subscriptions::{
    Bulk, BulkItem, ReadSubscriptions, Selection, Transition, TransitionOne, TransitionSelected,
};

/// Maximum number of subscriptions in one bulk transition.
const MAX_BULK: usize = 1000;
/// Maximum number of subscriptions that are counted for the refusal of a selection.
const MAX_COUNTED: i64 = 100_000;
/// Number of transitions of one bulk that run at the same time.
const BULK_CONCURRENCY: usize = 8;

#[async_trait]
impl TransitionSelected for Subscriptions {
    #[tracing::instrument(level = "debug", name = "subscriptions.transition_all", skip_all, fields(action = ?action))]
    async fn transition_all(
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
            Selection::Filter(filter) => (Vec::new(), without_deactivated(filter)),
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
}

impl Subscriptions {
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
        let (map, field) = (self.databases.map(), format!("select.ids.{index}"));
        // The map that was used may be an earlier one.
        let read_on = map.shards_of(id).find(|shard| unavailable.contains(shard));
        let rejection = if let Some(shard) = read_on {
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
            request.after = matched.last().map(SubscriptionRow::position);
        }
    }
}

/// Returns the filter without deactivated subscriptions, unless it names states. They are kept for ever, so a
/// selection would have more and more of them, and an activation would bring them back.
fn without_deactivated(filter: SubscriptionFilter) -> SubscriptionFilter {
    if filter.states.is_some() {
        return filter;
    }
    let live = State::ALL.into_iter().filter(|state| *state != State::Deactivated);
    SubscriptionFilter { states: Some(live.collect()), ..filter }
}

fn too_many(total: Total) -> Rejection {
    let more = if total.capped { "more than " } else { "" };
    let message =
        format!("the selection has {more}{} subscriptions; at most {MAX_BULK} are allowed, so narrow it", total.value);
    Rejection::invalid("select", message)
}
