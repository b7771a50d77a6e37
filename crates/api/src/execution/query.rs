//! Queries of executions.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};
use chrono::{DateTime, Utc};

use super::dedup::DedupClaim;
use super::history::{ExecutionHistory, ExecutionHistoryFilter, HistoryInterval};
use super::inputs::{ExecutionFilter, ExecutionMoment};
use super::lists::{ExecutionConnection, ExecutionList, ExecutionsOf, executions};
use super::order::ExecutionOrder;
use super::past::ExecutionState;
use super::stats::ExecutionStats;
use super::step_stats::StepStats;
use super::types::Execution;
use crate::access::{READ, scope};
use crate::connection::PageArguments;
use crate::context::Services;
use crate::errors::field_error;
use crate::scalars::parse_id;
use noetl_domain::execution_order;
use noetl_runtime::clock;
use noetl_use_cases::executions::PathStepsRequest;

/// Queries of executions.
#[derive(Debug, Default)]
pub struct ExecutionQuery;

#[Object]
impl ExecutionQuery {
    /// Execution with this id; null if there is none.
    #[graphql(guard = "READ")]
    async fn execution(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution.")] id: ID,
    ) -> Result<Option<Execution>> {
        Execution::load(ctx, parse_id("id", &id).map_err(field_error)?).await
    }

    /// State of an execution at a moment in its log; null if there is no execution with this id, or if it had not started.
    #[graphql(guard = "READ")]
    async fn execution_state(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution.")] execution_id: ID,
        #[graphql(desc = "Moment in the log of the execution.")] at: ExecutionMoment,
    ) -> Result<Option<ExecutionState>> {
        let id = parse_id("executionId", &execution_id).map_err(field_error)?;
        let moment = at.parse(id).map_err(field_error)?;
        let past = ctx.data::<Services>()?.projections.at(id, moment, &scope(ctx)?).await.map_err(field_error)?;
        let Some(past) = past else { return Ok(None) };
        let execution = Execution::load_row(ctx, id).await?;
        Ok(execution.map(|execution| ExecutionState(execution.in_state(Arc::new(past)))))
    }

    /// Claim of a dedup key, which tells what became of the message with this key. Null if no request had the key. A
    /// claim is deleted at most one minute after its window has expired, if a server runs.
    #[graphql(guard = "READ")]
    async fn dedup_claim(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Id of the source subscription or execution that the requests name as their parent (default: the key \
                    belongs to requests without a parent, of the caller's tenant or the tenant `default`)."
        )]
        parent_execution_id: Option<ID>,
        #[graphql(desc = "Dedup key (1 to 1024 bytes).")] key: String,
    ) -> Result<Option<DedupClaim>> {
        let parent =
            parent_execution_id.map(|id| parse_id("parentExecutionId", &id)).transpose().map_err(field_error)?;
        let executions = &ctx.data::<Services>()?.executions;
        let claim = executions.dedup_claim("key", parent, &key, &scope(ctx)?).await.map_err(field_error)?;
        Ok(claim.map(DedupClaim))
    }

    /// Executions, newest first unless another order is chosen. `totalCount` does not depend on the order: it also counts
    /// executions that have not ended.
    ///
    /// The list follows the logs: the projector adds new events to it, usually within a second. Until then, the filter, the
    /// counts and the executions that have ended use the events before. An execution that has not ended according to the
    /// list shows its whole log. If it then does not match the filter any more, it is left out: a page can have fewer items
    /// than requested, or none, although there are more.
    #[graphql(guard = "READ")]
    async fn executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<ExecutionFilter>,
        #[graphql(desc = "Order of the list (default `NEWEST`). A cursor is valid only in its order.")] order: Option<
            ExecutionOrder,
        >,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<ExecutionConnection>> {
        let page = PageArguments { first, after, last, before };
        let order = order.map(execution_order::ExecutionOrder::from).unwrap_or_default();
        let request = page.by_time(order.cursor_kind()).map_err(field_error)?;
        let filter = filter.unwrap_or_default().resolve(ctx, "filter").await.map_err(field_error)?;
        let scope = scope(ctx)?;
        let found = ctx.data::<Services>()?.executions.list(&filter, order, &request, &scope).await;
        let listing = found.map_err(field_error)?;
        let all = ExecutionList { of: ExecutionsOf::All, filter, order, scope };
        Ok(Some(executions(ctx, all, listing.page, listing.unavailable).await))
    }

    /// Numbers of executions by status and by path.
    #[graphql(guard = "READ")]
    async fn execution_stats(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only executions that match this filter (default: all).")] filter: Option<ExecutionFilter>,
    ) -> Result<Option<ExecutionStats>> {
        let filter = filter.unwrap_or_default().resolve(ctx, "filter").await.map_err(field_error)?;
        let stats = ctx.data::<Services>()?.executions.stats(&filter, &scope(ctx)?).await.map_err(field_error)?;
        Ok(Some(stats.into()))
    }

    /// Numbers of executions that started and ended in each minute, hour or day of a time, and percentiles of their
    /// durations.
    #[graphql(guard = "READ")]
    async fn execution_history(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Length of an item.")] interval: HistoryInterval,
        #[graphql(desc = "Time in the first item.")] from: DateTime<Utc>,
        #[graphql(
            desc = "End of the time; the last item contains the moment before it. A history has at most 1500 items."
        )]
        to: DateTime<Utc>,
        #[graphql(desc = "Only executions that match this filter (default: all).")] filter: Option<
            ExecutionHistoryFilter,
        >,
    ) -> Result<Option<ExecutionHistory>> {
        let request = filter.unwrap_or_default().request(interval, (from, to), clock::now()).map_err(field_error)?;
        let executions = &ctx.data::<Services>()?.executions;
        Ok(Some(executions.history(&request, &scope(ctx)?).await.map_err(field_error)?.into()))
    }

    /// Times and failures of the steps of a path, over its newest executions that have ended: those that started last. Their
    /// states are read, and count for the limits of the operation; if they are too large, ask for fewer executions.
    #[graphql(guard = "READ")]
    async fn step_stats(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Catalog path of the executions.")] path: String,
        #[graphql(desc = "Maximum number of executions, counted from the newest (1 to 500, default 100).")]
        last: Option<i32>,
    ) -> Result<Option<StepStats>> {
        let request = PathStepsRequest::new(path, last).map_err(field_error)?;
        let executions = &ctx.data::<Services>()?.executions;
        Ok(Some(executions.step_stats(&request, &scope(ctx)?).await.map_err(field_error)?.into()))
    }
}
