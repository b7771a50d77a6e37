//! Live events.

use async_graphql::{Context, Result, Subscription};
use futures::{Stream, TryStreamExt};

use super::inputs::{EventStart, LiveEventFilter};
use super::render_cache::{LiveItem, RenderCache};
use crate::access::{LIVE, principal, scope_of};
use crate::audience::Audience;
use crate::deadline::{WithDeadline, deadline};
use crate::errors::field_error;
use crate::live::{hub, read_error};
use noetl_feed::read::reader::{self, Interest, Shards, Start};
use noetl_runtime::clock;

/// Live events.
#[derive(Debug, Default)]
pub struct EventSubscription;

#[Subscription]
impl EventSubscription {
    /// Committed events in the order of publication, each event once. A subscription can continue from a cursor on any
    /// replica.
    ///
    /// Order within an execution: the events of one commit come in the order of their ids, and commits come in commit
    /// order. Only if the feed finds several commits at the same time (those of a few milliseconds, or the backlog after
    /// a pause of the feed), all their events come in the order of their ids. An event comes after every event with a
    /// smaller id that its writer had read. After a gap with the reason `EPOCH_CHANGED`, events can come again in another
    /// order.
    #[graphql(guard = "LIVE")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<LiveEventFilter>,
        #[graphql(desc = "Start position (default: events that are published from now on).")] start: Option<EventStart>,
    ) -> Result<impl Stream<Item = Result<WithDeadline<LiveItem>>> + use<>> {
        let (hub, deadline) = (hub(ctx)?, deadline(ctx)?);
        let filter = filter.unwrap_or_default().parse().map_err(field_error)?;
        let shards = usize::from(hub.shards());
        let start = start.map_or(Ok(Start::Latest), |start| start.parse(shards, clock::now())).map_err(field_error)?;
        let (reader, cache) = (principal(ctx)?, ctx.data::<RenderCache>()?.clone());
        let audience = Audience::of_operation(ctx, reader);
        let interest = Interest { filter, scope: scope_of(reader) };
        let items = reader::read(hub, start, interest, Shards::All).map_err(read_error);
        let item = move |item| LiveItem::new(item, audience.clone(), cache.clone());
        Ok(items.map_ok(move |read| WithDeadline::new(item(read), deadline)))
    }
}
