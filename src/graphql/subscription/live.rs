//! Live changes of source subscriptions.

use async_graphql::{Context, Result, Subscription};
use futures::{Stream, TryStreamExt};

use super::changes;
use super::inputs::SubscriptionFilter;
use super::types::SourceSubscription;
use crate::graphql::access::{LIVE, scope};
use crate::graphql::context::Services;
use crate::graphql::deadline::{WithDeadline, deadline};
use crate::graphql::errors::field_error;
use crate::graphql::live::hub;

/// Live changes of source subscriptions.
#[derive(Debug, Default)]
pub struct SourceSubscriptionSubscription;

#[Subscription]
impl SourceSubscriptionSubscription {
    /// Source subscriptions in their current state, and each one again after each change of its state. If a shard can't
    /// be reached, the live subscription ends with `SHARD_UNAVAILABLE`, because its items can't report that source
    /// subscriptions are missing.
    #[graphql(guard = "LIVE")]
    async fn subscription_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<SubscriptionFilter>,
    ) -> Result<impl Stream<Item = Result<WithDeadline<SourceSubscription>>> + use<>> {
        let filter = filter.unwrap_or_default().parse().map_err(field_error)?;
        let (subscriptions, deadline) = (ctx.data::<Services>()?.subscriptions.clone(), deadline(ctx)?);
        let rows = changes::changes(hub(ctx)?, subscriptions, scope(ctx)?, filter, deadline);
        Ok(rows.map_ok(move |row| WithDeadline::new(SourceSubscription::from(row), deadline)))
    }
}
