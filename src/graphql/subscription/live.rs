//! Live changes of source subscriptions.

use async_graphql::{Context, Result, Subscription};
use futures::{Stream, TryStreamExt};

use super::changes::{self, Change, PageReads, SubscriptionReads, Watch};
use super::inputs::SubscriptionFilter;
use super::types::SourceSubscription;
use crate::graphql::access::{LIVE, principal, scope};
use crate::graphql::audience::Audience;
use crate::graphql::context::Services;
use crate::graphql::deadline::{WithDeadline, deadline};
use crate::graphql::errors::field_error;
use crate::graphql::live::hub;
use crate::graphql::shared_item::{ItemKey, SharedItem, SharedTexts};

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
    ) -> Result<impl Stream<Item = Result<WithDeadline<SharedItem<SourceSubscription>>>> + use<>> {
        let filter = filter.unwrap_or_default().parse("filter").map_err(field_error)?;
        let deadline = deadline(ctx)?;
        let audience = Audience::of_operation(ctx, principal(ctx)?);
        let texts = ctx.data::<SharedTexts>()?.clone();
        let changes = changes::changes(Watch {
            hub: hub(ctx)?,
            subscriptions: ctx.data::<Services>()?.subscriptions.clone(),
            reads: ctx.data::<SubscriptionReads>()?.clone(),
            pages: ctx.data::<PageReads>()?.clone(),
            scope: scope(ctx)?,
            filter,
            deadline,
        });
        let item = move |Change { row, read }: Change| {
            let shared = audience.clone().zip(read);
            let key = shared.map(|(audience, read)| ItemKey { audience, read, id: row.last_event_id });
            SharedItem::new(SourceSubscription::from(row), key.map(|key| (key, texts.clone())))
        };
        Ok(changes.map_ok(move |change| WithDeadline::new(item(change), deadline)))
    }
}
