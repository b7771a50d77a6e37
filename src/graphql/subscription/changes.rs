//! Live changes of source subscriptions.
//!
//! The feed is joined before the list is read, so no change is missed. A change that the list already shows is returned
//! only once. After a gap in the feed, the list is read again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::Result;
use async_stream::try_stream;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::feed::read::hub::Hub;
use crate::feed::read::reader::{self, GapReason, Interest, Item, Shards, Start};
use crate::feed::wire::cursor::Position;
use crate::graphql::deadline::with_deadline;
use crate::graphql::errors::{field_error, shard_unavailable};
use crate::graphql::live::{read_error, wait_until_caught_up};
use crate::graphql::shared_reads::{Read, ReadNumber, SharedReads};
use crate::service::fan_out::Listing;
use crate::service::subscriptions::Subscriptions;
use noetl_domain::event::{Event, EventFilter};
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::{Action, REGISTERED, State};
use noetl_domain::list_position::CursorPosition;
use noetl_domain::page::{MAX_PAGE, Page, PageRequest};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::subscriptions::{SubscriptionFilter, SubscriptionRow};

/// Reads of source subscriptions that the readers of their changes share.
pub type SubscriptionReads = SharedReads<(Id, Scope), Option<SubscriptionRow>>;

/// Reads of pages of a list after a gap, by scope, filter, page, and shard of the gap.
pub type PageReads = SharedReads<(Scope, SubscriptionFilter, PageRequest<CursorPosition>, ShardIndex), Arc<PageOfRows>>;

/// A page of source subscriptions.
type PageOfRows = Page<SubscriptionRow>;

/// What a reader of source subscriptions needs.
pub(super) struct Watch {
    pub(super) hub: Hub,
    pub(super) subscriptions: Subscriptions,
    pub(super) reads: SubscriptionReads,
    pub(super) pages: PageReads,
    pub(super) scope: Scope,
    pub(super) filter: SubscriptionFilter,
    /// Maximum time of a read.
    pub(super) deadline: Duration,
}

/// A source subscription after a change.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) row: SubscriptionRow,
    /// Read by which other readers have the same row; `None` if they don't.
    pub(super) read: Option<ReadNumber>,
}

/// Position in the feed of one shard.
#[derive(Debug, Clone, Copy)]
struct Place {
    shard: ShardIndex,
    position: Position,
}

/// Returns the subscriptions in the scope that match now, and then each one again after a change. An event of a log can
/// have another tenant than the subscription, so all events are received and only the subscription must be in the
/// scope. If a shard can't be reached, the stream ends with `SHARD_UNAVAILABLE`, because an item can't report that the
/// subscriptions of the shard are missing.
pub(super) fn changes(watch: Watch) -> impl Stream<Item = Result<Change>> + Send {
    try_stream! {
        let mut feed = reader::read(watch.hub.clone(), Start::Latest, lifecycle_events(), Shards::All).boxed();
        wait_until_caught_up(&mut feed).await?;
        let mut seen: HashMap<Id, Id> = HashMap::new();
        let mut gap = None;
        loop {
            let mut present = std::pin::pin!(watch.list(gap));
            while let Some(row) = with_deadline(watch.deadline, present.try_next()).await? {
                if seen.insert(row.id, row.last_event_id) != Some(row.last_event_id) {
                    yield Change { row, read: None };
                }
            }
            loop {
                let (event, place) = match feed.try_next().await.map_err(read_error)? {
                    Some(Item::Event { live, shard, position, .. }) => (live.event, Place { shard, position }),
                    Some(Item::Gap { gap: missing, shard, .. }) if missing.reason != GapReason::EpochChanged => {
                        gap = Some(Place { shard, position: missing.position });
                        break;
                    }
                    Some(_) => continue,
                    None => return,
                };
                let is_new = seen.get(&event.execution_id).is_none_or(|last| *last < event.event_id);
                let Some(change) = (if is_new { watch.after(&event, place.position).await? } else { None }) else { continue };
                seen.insert(change.row.id, change.row.last_event_id);
                if watch.filter.matches(&change.row) {
                    yield change;
                }
            }
        }
    }
}

impl Watch {
    /// Returns all subscriptions in the scope that match now. Readers that list them after the same gap share the pages.
    fn list(&self, gap: Option<Place>) -> impl Stream<Item = Result<SubscriptionRow>> + Send + '_ {
        try_stream! {
            let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
            loop {
                let page = self.page(&request, gap).await?;
                request.after = page.items.last().map(|row| CursorPosition::Exact(row.position()));
                for row in &page.items {
                    yield row.clone();
                }
                if !page.has_next {
                    return;
                }
            }
        }
    }

    async fn page(&self, request: &PageRequest<CursorPosition>, gap: Option<Place>) -> Result<Arc<PageOfRows>> {
        let Some(Place { shard, position }) = gap else {
            return page(&self.subscriptions, &self.filter, request, &self.scope).await;
        };
        let key = (self.scope.clone(), self.filter.clone(), request.clone(), shard);
        let (subscriptions, (scope, filter, request, _)) = (self.subscriptions.clone(), key.clone());
        let read = move || async move { page(&subscriptions, &filter, &request, &scope).await };
        Ok(self.pages.read(key, position, read).await?.value)
    }

    /// Returns the subscription in its state after this lifecycle event, even if later events exist.
    async fn after<J>(&self, event: &Event<J>, position: Position) -> Result<Option<Change>> {
        let (id, scope, subscriptions) = (event.execution_id, self.scope.clone(), self.subscriptions.clone());
        let read = move || async move { subscriptions.get(id, &scope).await.map_err(field_error) };
        let read = self.reads.read((id, self.scope.clone()), position, read);
        let Read { number, value } = with_deadline(self.deadline, read).await?;
        Ok(value.map(|row| Change { row: in_state_after(row, event), read: Some(number) }))
    }
}

async fn page(
    subscriptions: &Subscriptions,
    filter: &SubscriptionFilter,
    request: &PageRequest<CursorPosition>,
    scope: &Scope,
) -> Result<Arc<PageOfRows>> {
    let Listing { page, unavailable } = subscriptions.list(filter, request, scope).await.map_err(field_error)?;
    unavailable.first().map_or(Ok(()), |shard| Err(shard_unavailable(*shard)))?;
    Ok(Arc::new(page))
}

fn in_state_after<J>(row: SubscriptionRow, event: &Event<J>) -> SubscriptionRow {
    let state_text = event.status.clone().unwrap_or_default();
    SubscriptionRow {
        state: State::from_stored(&state_text),
        state_text,
        last_event_id: event.event_id,
        last_event_type: event.event_type.clone(),
        updated_at: event.created_at,
        ..row
    }
}

fn lifecycle_events() -> Interest {
    let types = Action::ALL.into_iter().map(Action::event_type).chain([REGISTERED]);
    let filter = EventFilter { types: Some(types.map(str::to_owned).collect()), ..EventFilter::default() };
    Interest { filter, scope: Scope::Unrestricted }
}
