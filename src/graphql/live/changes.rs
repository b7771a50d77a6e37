//! Source subscriptions as they change.
//!
//! The feed is joined before the list is read, so no change falls between; one that the list shows already is handed out
//! once. Where the feed has a gap, the list is read again.

use std::collections::HashMap;
use std::time::Duration;

use async_graphql::Result;
use async_stream::try_stream;
use futures::{Stream, StreamExt, TryStreamExt};

use super::timed::in_time;
use super::{broken, wait_for_place};
use crate::domain::event::{Event, EventFilter};
use crate::domain::ids::Id;
use crate::domain::lifecycle::{Action, REGISTERED};
use crate::domain::page::{MAX_PAGE, PageRequest};
use crate::graphql::errors::{fault, shard_unavailable};
use crate::service::fan_out::Listing;
use crate::service::subscriptions::Subscriptions;
use crate::storage::subscriptions::{SubscriptionFilter, SubscriptionRow};
use crate::stream::hub::Hub;
use crate::stream::reader::{self, GapReason, Item, Start};

/// What matches now, then what changes. A shard that can't be reached ends it with `SHARD_UNAVAILABLE`: there is no place
/// to say that its subscriptions are missing.
pub(super) fn changes(
    hub: Hub,
    subscriptions: Subscriptions,
    filter: SubscriptionFilter,
    deadline: Duration,
) -> impl Stream<Item = Result<SubscriptionRow>> + Send {
    try_stream! {
        let mut feed = reader::read(hub, Start::Latest, lifecycle_events()).boxed();
        wait_for_place(&mut feed).await?;
        let mut seen: HashMap<Id, Id> = HashMap::new();
        loop {
            let mut present = std::pin::pin!(list(&subscriptions, &filter));
            while let Some(row) = in_time(deadline, present.try_next()).await? {
                if seen.insert(row.id, row.last_event_id) != Some(row.last_event_id) {
                    yield row;
                }
            }
            loop {
                let event = match feed.try_next().await.map_err(broken)? {
                    Some(Item::Event { live, .. }) => live.event,
                    Some(Item::Gap { gap, .. }) if gap.reason != GapReason::EpochChanged => break,
                    Some(_) => continue,
                    None => return,
                };
                let fresh = seen.get(&event.execution_id).is_none_or(|last| *last < event.event_id);
                let Some(row) = (if fresh { in_time(deadline, after(&subscriptions, &event)).await? } else { None }) else { continue };
                seen.insert(row.id, row.last_event_id);
                if filter.matches(&row) {
                    yield row;
                }
            }
        }
    }
}

/// Everything that matches now.
fn list<'a>(
    subscriptions: &'a Subscriptions,
    filter: &'a SubscriptionFilter,
) -> impl Stream<Item = Result<SubscriptionRow>> + Send + 'a {
    try_stream! {
        let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        loop {
            let Listing { page, unavailable } = subscriptions.list(filter, &request).await.map_err(fault)?;
            if let Some(shard) = unavailable.first() {
                Err(shard_unavailable(*shard))?;
            }
            request.after = page.items.last().map(|row| row.id.get());
            for row in page.items {
                yield row;
            }
            if !page.has_next {
                return;
            }
        }
    }
}

/// The subscription as this lifecycle event left it, though later ones may have followed.
async fn after<J>(subscriptions: &Subscriptions, event: &Event<J>) -> Result<Option<SubscriptionRow>> {
    let row = subscriptions.get(event.execution_id).await.map_err(fault)?;
    let state = event.status.as_deref().and_then(|status| status.parse().ok());
    Ok(row.zip(state).map(|(row, state)| SubscriptionRow {
        state,
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
