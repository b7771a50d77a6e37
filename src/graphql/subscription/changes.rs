//! Live changes of source subscriptions.
//!
//! The feed is joined before the list is read, so no change is missed. A change that the list already shows is returned
//! only once. After a gap in the feed, the list is read again.

use std::collections::HashMap;
use std::time::Duration;

use async_graphql::Result;
use async_stream::try_stream;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::feed::read::hub::Hub;
use crate::feed::read::reader::{self, GapReason, Item, Start};
use crate::graphql::deadline::with_deadline;
use crate::graphql::errors::{field_error, shard_unavailable};
use crate::graphql::live::{read_error, wait_until_caught_up};
use crate::service::fan_out::Listing;
use crate::service::subscriptions::Subscriptions;
use noetl_domain::event::{Event, EventFilter};
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::{Action, REGISTERED, State};
use noetl_domain::list_position::CursorPosition;
use noetl_domain::page::{MAX_PAGE, PageRequest};
use noetl_domain::tenant::Scope;
use noetl_storage::subscriptions::{SubscriptionFilter, SubscriptionRow};

/// Returns the subscriptions in the scope that match now, and then each one again after a change. An event of a log can
/// have another tenant than the subscription, so all events are received and only the subscription must be in the
/// scope. If a shard can't be reached, the stream ends with `SHARD_UNAVAILABLE`, because an item can't report that the
/// subscriptions of the shard are missing.
pub(super) fn changes(
    hub: Hub,
    subscriptions: Subscriptions,
    scope: Scope,
    filter: SubscriptionFilter,
    deadline: Duration,
) -> impl Stream<Item = Result<SubscriptionRow>> + Send {
    try_stream! {
        let mut feed = reader::read(hub, Start::Latest, Scope::Unrestricted, lifecycle_events()).boxed();
        wait_until_caught_up(&mut feed).await?;
        let mut seen: HashMap<Id, Id> = HashMap::new();
        loop {
            let mut present = std::pin::pin!(list(&subscriptions, &scope, &filter));
            while let Some(row) = with_deadline(deadline, present.try_next()).await? {
                if seen.insert(row.id, row.last_event_id) != Some(row.last_event_id) {
                    yield row;
                }
            }
            loop {
                let event = match feed.try_next().await.map_err(read_error)? {
                    Some(Item::Event { live, .. }) => live.event,
                    Some(Item::Gap { gap, .. }) if gap.reason != GapReason::EpochChanged => break,
                    Some(_) => continue,
                    None => return,
                };
                let is_new = seen.get(&event.execution_id).is_none_or(|last| *last < event.event_id);
                let Some(row) = (if is_new { with_deadline(deadline, after(&subscriptions, &scope, &event)).await? } else { None }) else { continue };
                seen.insert(row.id, row.last_event_id);
                if filter.matches(&row) {
                    yield row;
                }
            }
        }
    }
}

/// Returns all subscriptions in the scope that match now.
fn list<'a>(
    subscriptions: &'a Subscriptions,
    scope: &'a Scope,
    filter: &'a SubscriptionFilter,
) -> impl Stream<Item = Result<SubscriptionRow>> + Send + 'a {
    try_stream! {
        let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        loop {
            let Listing { page, unavailable } = subscriptions.list(filter, &request, scope).await.map_err(field_error)?;
            if let Some(shard) = unavailable.first() {
                Err(shard_unavailable(*shard))?;
            }
            request.after = page.items.last().map(|row| CursorPosition::Exact(row.position()));
            for row in page.items {
                yield row;
            }
            if !page.has_next {
                return;
            }
        }
    }
}

/// Returns the subscription in its state after this lifecycle event, even if later events exist.
async fn after<J>(subscriptions: &Subscriptions, scope: &Scope, event: &Event<J>) -> Result<Option<SubscriptionRow>> {
    let row = subscriptions.get(event.execution_id, scope).await.map_err(field_error)?;
    let state_text = event.status.clone().unwrap_or_default();
    Ok(row.map(|row| SubscriptionRow {
        state: State::from_stored(&state_text),
        state_text,
        last_event_id: event.event_id,
        last_event_type: event.event_type.clone(),
        updated_at: event.created_at,
        ..row
    }))
}

fn lifecycle_events() -> EventFilter {
    let types = Action::ALL.into_iter().map(Action::event_type).chain([REGISTERED]);
    EventFilter { types: Some(types.map(str::to_owned).collect()), ..EventFilter::default() }
}
