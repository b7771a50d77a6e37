//! The executions that a source subscription started, as a field of the source subscription.

use async_graphql::{ComplexObject, Context, Result};

use super::inputs::ExecutionFilter;
use super::lists::{ExecutionConnection, children};
use crate::access::READ;
use crate::connection::PageArguments;
use crate::subscription::types::SourceSubscription;

#[ComplexObject]
impl SourceSubscription {
    /// Executions that the subscription started, newest first: ordered by `startedAt`, then by id. Executions without
    /// `startedAt` are last.
    #[graphql(guard = "READ")]
    async fn executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<ExecutionFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<ExecutionConnection>> {
        let page = PageArguments { first, after, last, before };
        children(ctx, self.key(), filter, &page).await.map(Some)
    }
}
