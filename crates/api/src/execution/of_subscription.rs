//! The executions that a source subscription started, as fields of the source subscription.

use async_graphql::{ComplexObject, Context, Result};

use super::inputs::ExecutionFilter;
use super::lists::{ExecutionConnection, ExecutionList, ExecutionsOf, children};
use crate::access::{READ, scope};
use crate::connection::{PageArguments, TotalCount, total_count};
use crate::loaders::BatchLoader;
use crate::subscription::types::SourceSubscription;
use noetl_domain::execution::Status;
use noetl_storage::execution_lists;

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

    /// Backlog: number of executions that the subscription started and that have not ended.
    #[graphql(guard = "READ")]
    async fn backlog(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Number up to which executions are counted (1 to 100000, default 10000).")] up_to: Option<i32>,
    ) -> Result<Option<TotalCount>> {
        ctx.data::<BatchLoader>()?;
        let open = Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect();
        let filter = execution_lists::ExecutionFilter { statuses: Some(open), ..Default::default() };
        let list = ExecutionList::newest(ExecutionsOf::Parent(self.key()), filter, scope(ctx)?);
        total_count(ctx, &list, up_to).await.map(Some)
    }
}
