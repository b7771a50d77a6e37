//! Queries of executions.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};

use super::dedup::DedupClaim;
use super::inputs::{ExecutionFilter, ExecutionMoment};
use super::lists::{ExecutionConnection, ExecutionList, ExecutionsOf, executions};
use super::past::ExecutionState;
use super::stats::ExecutionStats;
use super::types::Execution;
use crate::access::{READ, scope};
use crate::connection::PageArguments;
use crate::context::Services;
use crate::errors::field_error;
use crate::scalars::parse_id;
use noetl_domain::cursor::CursorKind;

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

    /// Executions, newest first: ordered by `startedAt`, then by id. Executions without `startedAt` are last.
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
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<ExecutionConnection>> {
        let page = PageArguments { first, after, last, before };
        let request = page.by_time(CursorKind::Execution).map_err(field_error)?;
        let filter = filter.unwrap_or_default().resolve(ctx, "filter").await.map_err(field_error)?;
        let scope = scope(ctx)?;
        let found = ctx.data::<Services>()?.executions.list(&filter, &request, &scope).await;
        let listing = found.map_err(field_error)?;
        let all = ExecutionList { of: ExecutionsOf::All, filter, scope };
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
}
