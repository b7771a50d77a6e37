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
use crate::service::clock;
use crate::stream::hub::Hub;
use crate::stream::reader::{self, Item, ReadError, Start};
use rendered::{Audience, LiveItem, Rendered, Selection};
use status::LatestStatus;
use timed::Timed;

/// The root of all live subscriptions.
#[derive(Debug)]
pub struct Subscription;

/// The root of all live subscriptions.
#[Subscription]
impl Subscription {
    /// Committed events as they are published, each once, each log in order; replayable from a cursor on any replica.
    #[graphql(guard = "LIVE")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which events; all by default.")] filter: Option<EventFilter>,
        #[graphql(desc = "Where to start; with what is published from now on by default.")] start: Option<EventStart>,
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

    /// An execution as it stands now, then again after each change. Changes that come together are told together; one that
    /// was told already while it was on its way may be told again.
    #[graphql(guard = "LIVE")]
    async fn execution_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which one.")] id: ID,
    ) -> Result<impl Stream<Item = Result<Timed<Execution>>> + use<>> {
        let id = parse_id("id", &id).map_err(fault)?;
        let (executions, deadline) = (ctx.data::<Services>()?.executions.clone(), deadline(ctx)?);
        let rows = executions::changes(hub(ctx)?, executions, id, deadline);
        Ok(rows.map_ok(move |row| Timed::new(Execution(row), deadline)))
    }

    /// Source subscriptions as they stand now, then each again after each change of its state. It ends with
    /// `SHARD_UNAVAILABLE` when a shard can't be reached, since nothing else would say that its subscriptions are missing.
    #[graphql(guard = "LIVE")]
    async fn subscription_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which ones; all by default.")] filter: Option<SubscriptionFilter>,
    ) -> Result<impl Stream<Item = Result<Timed<SourceSubscription>>> + use<>> {
        let filter = filter.unwrap_or_default().parse().map_err(fault)?;
        let (subscriptions, deadline) = (ctx.data::<Services>()?.subscriptions.clone(), deadline(ctx)?);
        let rows = changes::changes(hub(ctx)?, subscriptions, filter, deadline);
        Ok(rows.map_ok(move |row| Timed::new(SourceSubscription(row), deadline)))
    }

    /// The health of the shards and of the event stream, now and then periodically.
    #[graphql(guard = "LIVE")]
    async fn system_status(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Seconds from one to the next, 1 to 60.", default = 2)] every_seconds: i32,
    ) -> Result<impl Stream<Item = Timed<SystemStatus>> + use<>> {
        let (period, deadline) = (status::period(every_seconds)?, deadline(ctx)?);
        let statuses = status::watch(ctx.data::<Services>()?.clone(), ctx.data::<LatestStatus>()?.clone(), period);
        Ok(statuses.map(move |status| Timed::new(status, deadline)))
    }
}

fn hub(ctx: &Context<'_>) -> Result<Hub> {
    ctx.data::<Services>()?.hub.clone().ok_or_else(stream_unavailable)
}

/// How long one item may take, as long as a query.
fn deadline(ctx: &Context<'_>) -> Result<Duration> {
    Ok(ctx.data::<Services>()?.replica.limits.deadline)
}

fn broken(error: ReadError) -> Error {
    tracing::warn!(%error, "a live subscription ends");
    stream_unavailable()
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
