//! Mutations of executions.

use async_graphql::{Context, Object, Result};

use super::advance::AdvanceProjectionsPayload;
use super::inputs::{
    AdvanceProjectionsInput, CancelExecutionInput, ExecuteBatchInput, ExecuteInput, RerunExecutionInput,
};
use super::payloads::{
    CancelExecutionPayload, ExecuteBatchPayload, ExecuteBatchResult, ExecutePayload, RerunExecutionPayload, Started,
};
use super::types::Execution;
use crate::graphql::access::{ADVANCE, CANCEL, EXECUTE, caller, scope};
use crate::graphql::audit::audited;
use crate::graphql::context::Services;
use crate::graphql::errors::result_or_user_error;
use crate::graphql::scalars::parse_id;
use crate::service::projections::Advances;
use noetl_domain::ids::Id;

/// Mutations of executions.
#[derive(Debug, Default)]
pub struct ExecutionMutation;

#[Object]
impl ExecutionMutation {
    /// Starts an execution, or returns the execution that an earlier request with the same dedup key started.
    #[graphql(guard = "EXECUTE")]
    async fn execute(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Execution to start.")] input: ExecuteInput,
    ) -> Result<Option<ExecutePayload>> {
        let target = input.target_name().to_owned();
        let executed = audited(ctx, [target], async {
            let executed = match input.parse() {
                Ok(request) => ctx.data::<Services>()?.executions.execute(request, &caller(ctx)?).await,
                Err(rejection) => Err(rejection.into()),
            };
            Ok(ExecutePayload { started: Started::new(ctx, executed).await? })
        });
        executed.await.map(Some)
    }

    /// Starts executions. Each request succeeds or fails independently; result i belongs to request i.
    #[graphql(guard = "EXECUTE")]
    async fn execute_batch(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Executions to start.")] input: ExecuteBatchInput,
    ) -> Result<Option<ExecuteBatchPayload>> {
        let executed = audited(ctx, None::<String>, async {
            let requests = input.requests.into_iter().map(ExecuteInput::parse).collect();
            let answers = ctx.data::<Services>()?.executions.execute_batch(requests, &caller(ctx)?).await;
            let (answers, user_errors) = result_or_user_error(answers)?;
            let answers = answers.unwrap_or_default().into_iter().enumerate();
            let results = answers.map(|(index, answer)| ExecuteBatchResult::new(ctx, index, answer));
            let results = futures::future::join_all(results).await;
            Ok(ExecuteBatchPayload { results, user_errors })
        });
        executed.await.map(Some)
    }

    /// Runs an execution again: starts a new one with its catalog entry and workload, which the request can change. The
    /// new execution has the field `rerunOf`. If the execution runs a message of a source subscription, the new one
    /// belongs to this subscription too. Otherwise it has no parent. It has the tenant and the organization of the
    /// execution.
    #[graphql(guard = "EXECUTE")]
    async fn rerun_execution(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Execution to run again.")] input: RerunExecutionInput,
    ) -> Result<Option<RerunExecutionPayload>> {
        let executed = audited(ctx, [input.id.0.clone()], async {
            let executed = match input.parse() {
                Ok(request) => ctx.data::<Services>()?.executions.rerun(request, &caller(ctx)?).await,
                Err(rejection) => Err(rejection.into()),
            };
            Ok(RerunExecutionPayload { started: Started::new(ctx, executed).await? })
        });
        executed.await.map(Some)
    }

    /// Cancels an execution that has not ended.
    #[graphql(guard = "CANCEL")]
    async fn cancel_execution(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Execution to cancel.")] input: CancelExecutionInput,
    ) -> Result<CancelExecutionPayload> {
        audited(ctx, [input.id.0.clone()], cancel(ctx, input)).await
    }

    /// Stores the current states of executions, so that a read of them folds fewer events. Each execution succeeds or
    /// fails independently.
    #[graphql(guard = "ADVANCE")]
    async fn advance_projections(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Executions whose projections are advanced.")] input: AdvanceProjectionsInput,
    ) -> Result<Option<AdvanceProjectionsPayload>> {
        let ids: Vec<String> = input.execution_ids.iter().map(|id| id.0.clone()).collect();
        let advanced = audited(ctx, ids, async {
            let given = input.parse();
            let ids: Vec<Id> = given.iter().filter_map(|(_, id)| id.as_ref().ok().copied()).collect();
            let advances = if ids.is_empty() && !given.is_empty() {
                Ok(Advances::new())
            } else {
                ctx.data::<Services>()?.projections.advance(ids, &scope(ctx)?).await
            };
            let (advances, user_errors) = result_or_user_error(advances)?;
            Ok(AdvanceProjectionsPayload::new(given, advances, user_errors))
        });
        advanced.await.map(Some)
    }
}

async fn cancel(ctx: &Context<'_>, input: CancelExecutionInput) -> Result<CancelExecutionPayload> {
    let cancelled = match parse_id("id", &input.id) {
        Ok(id) => ctx.data::<Services>()?.executions.cancel(id, input.reason, &caller(ctx)?).await.map(|()| id),
        Err(rejection) => Err(rejection.into()),
    };
    let (id, user_errors) = result_or_user_error(cancelled)?;
    let execution = match id {
        Some(id) => Execution::load(ctx, id).await?,
        None => None,
    };
    Ok(CancelExecutionPayload { execution, user_errors })
}
