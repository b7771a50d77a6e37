//! The root of all live subscriptions.

use async_graphql::{Context, Error, Result, Subscription};
use async_stream::try_stream;
use futures::{Stream, StreamExt, TryStreamExt};

use super::errors::{fault, shard_unavailable, stream_unavailable};
use super::inputs::{EventFilter, EventStart, SubscriptionFilter};
use super::schema::Services;
use super::types::feed::EventStreamItem;
use super::types::subscription::SourceSubscription;
use crate::domain::event::{Event, EventFilter as Wanted};
use crate::domain::lifecycle::{Action, REGISTERED};
use crate::domain::page::{MAX_PAGE, PageRequest};
use crate::service::clock;
use crate::service::fan_out::Listing;
use crate::service::subscriptions::Subscriptions;
use crate::storage::subscriptions::{SubscriptionFilter as Which, SubscriptionRow};
use crate::stream::hub::Hub;
use crate::stream::reader::{self, Item, ReadError, Start};

/// The root of all live subscriptions.
#[derive(Debug)]
pub struct Subscription;

/// The root of all live subscriptions.
#[Subscription]
impl Subscription {
    /// Committed events as they are published, each once, each log in order; replayable from a cursor on any replica.
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which events; all by default.")] filter: Option<EventFilter>,
        #[graphql(desc = "Where to start; with what is published from now on by default.")] start: Option<EventStart>,
    ) -> Result<impl Stream<Item = Result<EventStreamItem>> + use<>> {
        let hub = hub(ctx)?;
        let filter = filter.unwrap_or_default().parse().map_err(fault)?;
        let shards = usize::from(hub.shards());
        let start = start.map_or(Ok(Start::Latest), |start| start.parse(shards, clock::now())).map_err(fault)?;
        Ok(reader::read(hub, start, filter).map_ok(EventStreamItem::from).map_err(broken))
    }

    /// Source subscriptions as they stand now, then each again after each change of its state.
    async fn subscription_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which ones; all by default.")] filter: Option<SubscriptionFilter>,
    ) -> Result<impl Stream<Item = Result<SourceSubscription>> + use<>> {
        let filter = filter.unwrap_or_default().parse().map_err(fault)?;
        let subscriptions = ctx.data::<Services>()?.subscriptions.clone();
        Ok(changes(hub(ctx)?, subscriptions, filter).map_ok(SourceSubscription))
    }
}

fn hub(ctx: &Context<'_>) -> Result<Hub> {
    ctx.data::<Services>()?.hub.clone().ok_or_else(stream_unavailable)
}

fn broken(error: ReadError) -> Error {
    tracing::warn!(%error, "a live subscription ends");
    stream_unavailable()
}

/// What matches now, then what changes. The feed is joined before the list is read, so no change falls between; one that
/// the list shows already is handed out once.
fn changes(
    hub: Hub,
    subscriptions: Subscriptions,
    filter: Which,
) -> impl Stream<Item = Result<SubscriptionRow>> + Send {
    try_stream! {
        let mut feed = reader::read(hub, Start::Latest, lifecycle_events()).boxed();
        wait_for_place(&mut feed).await?;
        let mut seen = std::collections::HashMap::new();
        let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        loop {
            let Listing { page, unavailable } = subscriptions.list(&filter, &request).await.map_err(fault)?;
            if let Some(shard) = unavailable.first() {
                Err(shard_unavailable(*shard))?;
            }
            request.after = page.items.last().map(|row| row.id.get());
            for row in page.items {
                seen.insert(row.id, row.last_event_id);
                yield row;
            }
            if !page.has_next {
                break;
            }
        }
        while let Some(item) = feed.try_next().await.map_err(broken)? {
            let Item::Event { live, .. } = item else { continue };
            let event = live.event;
            let fresh = seen.get(&event.execution_id).is_none_or(|last| *last < event.event_id);
            let Some(row) = (if fresh { after(&subscriptions, &event).await? } else { None }) else { continue };
            seen.insert(row.id, row.last_event_id);
            if filter.matches(&row) {
                yield row;
            }
        }
    }
}

/// A reader that starts with the latest says at once that it has caught up: from there on it misses nothing.
async fn wait_for_place(feed: &mut (impl Stream<Item = Result<Item, ReadError>> + Unpin)) -> Result<()> {
    while let Some(item) = feed.try_next().await.map_err(broken)? {
        if matches!(item, Item::CaughtUp { .. }) {
            return Ok(());
        }
    }
    Err(stream_unavailable())
}

/// The subscription as this lifecycle event left it, though later ones may have followed.
async fn after(subscriptions: &Subscriptions, event: &Event) -> Result<Option<SubscriptionRow>> {
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

fn lifecycle_events() -> Wanted {
    let types = Action::ALL.into_iter().map(Action::event_type).chain([REGISTERED]);
    Wanted { types: Some(types.map(str::to_owned).collect()), ..Wanted::default() }
}
