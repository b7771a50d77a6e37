//! Live updates of source subscriptions.

use async_graphql::{Context, ID, Result, Subscription};
use futures::{Stream, TryStreamExt};

use super::inputs::SubscriptionFilter;
use super::update::SubscriptionUpdate;
use super::updates::FollowedSubscriptions;
use crate::access::{LIVE, principal};
use crate::audience::Audience;
use crate::deadline::{WithDeadline, deadline};
use crate::errors::field_error;
use crate::filters::checked_ids;
use crate::shared_item::SharedTexts;
use crate::updates::list::{self, ListWatch};

/// Live updates of source subscriptions.
#[derive(Debug, Default)]
pub struct SourceSubscriptionSubscription;

#[Subscription]
impl SourceSubscriptionSubscription {
    /// The source subscriptions that match a filter, newest first, and then each one again after each change of its
    /// status. A subscription that does not match any more has an item with the kind `LEFT_FILTER`. If a shard can't be
    /// reached, an item with the kind `GAP` says so, and the subscriptions of the other shards are still followed. One
    /// live subscription follows at most 10,000 source subscriptions; if more match, it ends with `LIMIT_EXCEEDED`.
    #[graphql(guard = "LIVE")]
    async fn subscription_updates(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Only the subscriptions with these ids (at most 1000; an empty list follows none; default: all)."
        )]
        subscription_ids: Option<Vec<ID>>,
        #[graphql(desc = "Only subscriptions that match this filter (default: all).")] filter: Option<
            SubscriptionFilter,
        >,
    ) -> Result<impl Stream<Item = Result<WithDeadline<SubscriptionUpdate>>> + use<>> {
        let mut filter = filter.unwrap_or_default().parse("filter").map_err(field_error)?;
        filter.ids =
            subscription_ids.map(|ids| checked_ids("subscriptionIds", &ids)).transpose().map_err(field_error)?;
        let deadline = deadline(ctx)?;
        let updates = list::updates(ListWatch::<FollowedSubscriptions>::new(ctx, filter)?);
        let (audience, texts) = (Audience::of_operation(ctx, principal(ctx)?), ctx.data::<SharedTexts>()?.clone());
        let item = move |update| SubscriptionUpdate::new(update, audience.as_ref(), &texts);
        Ok(updates.map_ok(move |update| WithDeadline::new(item(update), deadline)))
    }
}
