//! The root of all live subscriptions.

mod changes;
mod executions;
pub mod rendered;
pub mod status;
pub mod timed;

use std::time::Duration;

use async_graphql::{Context, Error, ID, Result, Subscription};
use futures::{Stream, StreamExt, TryStreamExt};

use super::access::{LIVE, principal};
use super::errors::{fault, stream_unavailable};
use super::inputs::{EventFilter, EventStart, SubscriptionFilter};
use super::scalars::parse_id;
use super::schema::Services;
use super::types::execution::Execution;
use super::types::server::SystemStatus;
use super::types::subscription::SourceSubscription;
use crate::feed::read::hub::Hub;
use crate::feed::read::reader::{self, Item, ReadError, Start};
use crate::runtime::clock;
use rendered::{Audience, LiveItem, Rendered, Selection};
use status::LatestStatus;
use timed::Timed;

/// The root of all live subscriptions.
#[derive(Debug)]
pub struct Subscription;

/// The root of all live subscriptions.
#[Subscription]
impl Subscription {
    /// Committed events in the order of publication: each event once, and each log in order. A subscription can
    /// continue from a cursor on any replica.
    #[graphql(guard = "LIVE")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<EventFilter>,
        #[graphql(desc = "Start position (default: events that are published from now on).")] start: Option<EventStart>,
    ) -> Result<impl Stream<Item = Result<Timed<LiveItem>>> + use<>> {
        let (hub, deadline) = (hub(ctx)?, deadline(ctx)?);
        let filter = filter.unwrap_or_default().parse().map_err(fault)?;
        let shards = usize::from(hub.shards());
        let start = start.map_or(Ok(Start::Latest), |start| start.parse(shards, clock::now())).map_err(fault)?;
        let (reader, rendered) = (principal(ctx)?, ctx.data::<Rendered>()?.clone());
        let audience = ctx.data_opt::<Selection>().map(|selection| Audience::of(*selection, reader));
        let items = reader::read(hub, start, filter).map_err(broken);
        let item = move |item| LiveItem::new(item, audience.clone(), rendered.clone());
        Ok(items.map_ok(move |read| Timed::new(item(read), deadline)))
    }

    /// An execution in its current state, and again after each change. Changes that arrive together are combined. The
    /// same state may be returned twice.
    #[graphql(guard = "LIVE")]
    async fn execution_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution.")] id: ID,
    ) -> Result<impl Stream<Item = Result<Timed<Execution>>> + use<>> {
        let id = parse_id("id", &id).map_err(fault)?;
        let (executions, deadline) = (ctx.data::<Services>()?.executions.clone(), deadline(ctx)?);
        let rows = executions::changes(hub(ctx)?, executions, id, deadline);
        Ok(rows.map_ok(move |row| Timed::new(Execution(row), deadline)))
    }

    /// Source subscriptions in their current state, and each one again after each change of its state. If a shard can't
    /// be reached, the live subscription ends with `SHARD_UNAVAILABLE`, because its items can't report that source
    /// subscriptions are missing.
    #[graphql(guard = "LIVE")]
    async fn subscription_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<SubscriptionFilter>,
    ) -> Result<impl Stream<Item = Result<Timed<SourceSubscription>>> + use<>> {
        let filter = filter.unwrap_or_default().parse().map_err(fault)?;
        let (subscriptions, deadline) = (ctx.data::<Services>()?.subscriptions.clone(), deadline(ctx)?);
        let rows = changes::changes(hub(ctx)?, subscriptions, filter, deadline);
        Ok(rows.map_ok(move |row| Timed::new(SourceSubscription(row), deadline)))
    }

    /// Current health of the shards, the event stream and the outbox, returned immediately and then periodically.
    #[graphql(guard = "LIVE")]
    async fn system_status(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Interval between two items in seconds (1 to 60, default 2).", default = 2)]
        every_seconds: i32,
    ) -> Result<impl Stream<Item = Timed<SystemStatus>> + use<>> {
        let (period, deadline) = (status::period(every_seconds)?, deadline(ctx)?);
        let statuses = status::watch(ctx.data::<Services>()?.clone(), ctx.data::<LatestStatus>()?.clone(), period);
        Ok(statuses.map(move |status| Timed::new(status, deadline)))
    }
}

fn hub(ctx: &Context<'_>) -> Result<Hub> {
    ctx.data::<Services>()?.hub.clone().ok_or_else(stream_unavailable)
}

/// Returns the deadline of one item, which is the deadline of a query.
fn deadline(ctx: &Context<'_>) -> Result<Duration> {
    Ok(ctx.data::<Services>()?.replica.limits.deadline)
}

fn broken(error: ReadError) -> Error {
    tracing::warn!(%error, "a live subscription ends because the event stream can't be read");
    stream_unavailable()
}

/// Waits until the reader has its start position. A reader that starts with the latest event catches up at once, and
/// misses nothing after that position.
async fn wait_for_place(feed: &mut (impl Stream<Item = Result<Item, ReadError>> + Unpin)) -> Result<()> {
    while let Some(item) = feed.try_next().await.map_err(broken)? {
        if matches!(item, Item::CaughtUp { .. }) {
            return Ok(());
        }
    }
    Err(stream_unavailable())
}
