//! Live status of the system.

use async_graphql::{Context, Result, Subscription};
use futures::{Stream, StreamExt};

use super::status::{self, StatusCache, SystemStatus};
use crate::access::{LIVE, scope};
use crate::context::Services;
use crate::deadline::{WithDeadline, deadline};

/// Live status of the system.
#[derive(Debug, Default)]
pub struct ServerSubscription;

#[Subscription]
impl ServerSubscription {
    /// Current health of the shards, the event stream and the outbox, returned immediately and then periodically.
    #[graphql(guard = "LIVE")]
    async fn system_status(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Interval between two items in seconds (1 to 60, default 2).")] every_seconds: Option<i32>,
    ) -> Result<impl Stream<Item = WithDeadline<SystemStatus>> + use<>> {
        let (period, deadline) = (status::period(every_seconds.unwrap_or(status::DEFAULT_SECONDS))?, deadline(ctx)?);
        let (services, cache) = (ctx.data::<Services>()?.clone(), ctx.data::<StatusCache>()?.clone());
        let statuses = status::watch(services, cache, scope(ctx)?, period);
        Ok(statuses.map(move |status| WithDeadline::new(status, deadline)))
    }
}
