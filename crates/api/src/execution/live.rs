//! Live updates of executions.

use async_graphql::{Context, ID, Result, Subscription};
use futures::{Stream, TryStreamExt};

use super::inputs::ExecutionFilter;
use super::update::ExecutionUpdate;
use super::updates::{self, ExecutionReads, FollowedExecutions, Watch};
use crate::access::{LIVE, principal, scope};
use crate::audience::Audience;
use crate::context::Services;
use crate::deadline::{WithDeadline, deadline};
use crate::errors::field_error;
use crate::live::hub;
use crate::scalars::parse_id;
use crate::shared_item::SharedTexts;
use crate::updates::list::{self, ListWatch};

/// Live updates of executions.
#[derive(Debug, Default)]
pub struct ExecutionSubscription;

#[Subscription]
impl ExecutionSubscription {
    /// An execution in its current state, and again after each change. Changes that arrive together are combined. The
    /// same state may be returned twice. The live subscription completes after the item with the kind `ENDED`, which is
    /// the first item if the execution has ended before. If there is no execution with this id, it ends with
    /// `NOT_FOUND`.
    #[graphql(guard = "LIVE")]
    async fn execution_updates(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution.")] execution_id: ID,
    ) -> Result<impl Stream<Item = Result<WithDeadline<ExecutionUpdate>>> + use<>> {
        let id = parse_id("executionId", &execution_id).map_err(field_error)?;
        let (services, deadline) = (ctx.data::<Services>()?, deadline(ctx)?);
        let updates = updates::updates(Watch {
            hub: hub(ctx)?,
            services: services.clone(),
            reads: ctx.data::<ExecutionReads>()?.clone(),
            scope: scope(ctx)?,
            id,
            shard: services.databases.index_of(id),
            deadline,
        });
        let (audience, texts) = (Audience::of_operation(ctx, principal(ctx)?), ctx.data::<SharedTexts>()?.clone());
        let item = move |update| ExecutionUpdate::new(update, audience.as_ref(), &texts);
        Ok(updates.map_ok(move |update| WithDeadline::new(item(update), deadline)))
    }

    /// The executions that match a filter, newest first, and then each one again after each change. An execution that
    /// does not match any more has an item with the kind `LEFT_FILTER`. Changes that arrive together are combined. The
    /// same state may be returned twice. Other orders of `executions` are not live.
    ///
    /// One live subscription follows at most 10,000 executions. If more match at its start, or if it would have to
    /// remember more of them for `LEFT_FILTER`, it ends with `LIMIT_EXCEEDED`; use a narrower filter, such as
    /// `startedAfter`. Only if the filter has statuses, end times, `hasFailedSteps` or `errorContains` must it remember
    /// executions. If a shard can't be reached, an item with the kind `GAP` says so, and the executions of the other shards
    /// are still followed.
    #[graphql(guard = "LIVE")]
    async fn execution_list_updates(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only executions that match this filter (default: all).")] filter: Option<ExecutionFilter>,
    ) -> Result<impl Stream<Item = Result<WithDeadline<ExecutionUpdate>>> + use<>> {
        let filter = filter.unwrap_or_default().resolve(ctx, "filter").await.map_err(field_error)?;
        let deadline = deadline(ctx)?;
        let updates = list::updates(ListWatch::<FollowedExecutions>::new(ctx, filter)?);
        let (audience, texts) = (Audience::of_operation(ctx, principal(ctx)?), ctx.data::<SharedTexts>()?.clone());
        let item = move |update| ExecutionUpdate::new(update, audience.as_ref(), &texts);
        Ok(updates.map_ok(move |update| WithDeadline::new(item(update), deadline)))
    }
}
