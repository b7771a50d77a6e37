//! Queries of source subscriptions.

use async_graphql::{Context, Object, Result};

use super::inputs::{SubscriptionFilter, SubscriptionKey};
use super::types::{SourceSubscription, SourceSubscriptionConnection, SubscriptionList};
use crate::access::{READ, scope};
use crate::connection::{PageArguments, time_cursor};
use crate::context::Services;
use crate::errors::field_error;
use crate::scalars::parse_id;
use noetl_domain::cursor::CursorKind;
use noetl_use_cases::bounds::check_text;

/// Queries of source subscriptions.
#[derive(Debug, Default)]
pub struct SourceSubscriptionQuery;

#[Object]
impl SourceSubscriptionQuery {
    /// Source subscription with this key; null if there is none.
    #[graphql(guard = "READ")]
    async fn subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id or path of the subscription.")] by: SubscriptionKey,
    ) -> Result<Option<SourceSubscription>> {
        let (subscriptions, scope) = (&ctx.data::<Services>()?.subscriptions, scope(ctx)?);
        let found = match by {
            SubscriptionKey::Id(id) => subscriptions.get(parse_id("by.id", &id).map_err(field_error)?, &scope).await,
            SubscriptionKey::Path(path) => {
                check_text("by.path", &path).map_err(field_error)?;
                subscriptions.by_path(&path, &scope).await
            }
        };
        Ok(found.map_err(field_error)?.map(SourceSubscription::from))
    }

    /// Source subscriptions, newest first: ordered by `registeredAt`, then by id.
    #[graphql(guard = "READ")]
    async fn subscriptions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<SubscriptionFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<SourceSubscriptionConnection>> {
        let page = PageArguments { first, after, last, before };
        let request = page.by_time(CursorKind::Subscription).map_err(field_error)?;
        let filter = filter.unwrap_or_default().parse("filter").map_err(field_error)?;
        let scope = scope(ctx)?;
        let found = ctx.data::<Services>()?.subscriptions.list(&filter, &request, &scope).await;
        let listing = found.map_err(field_error)?;
        let cursor = |item: &SourceSubscription| time_cursor(CursorKind::Subscription, item.position());
        let (page, unavailable) = (listing.page, listing.unavailable);
        let all = SubscriptionList { filter, scope };
        Ok(Some(SourceSubscriptionConnection::new(all, page, unavailable, SourceSubscription::from, cursor)))
    }
}
