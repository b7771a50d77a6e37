//! Mutations of executions.

use async_graphql::{Context, Object, Result};

use super::advance::AdvanceProjectionsPayload;
use super::cancel_payloads::{CancelExecutionPayload, CancelExecutionsPayload};
use super::inputs::{
    AdvanceProjectionsInput, CancelExecutionInput, CancelExecutionsInput, ExecuteBatchInput, ExecuteInput,
    checked_dedup, parse_labels,
};
use super::payloads::{ExecuteBatchPayload, ExecuteBatchResult, ExecutePayload, RerunExecutionPayload, Started};
use super::rerun_inputs::{RerunExecutionInput, RerunExecutionsInput};
use super::rerun_payloads::RerunExecutionsPayload;
use crate::access::{ADVANCE, CANCEL, EXECUTE, caller, scope};
use crate::audit::audited;
use crate::context::Services;
use crate::errors::result_or_user_error;
use crate::guards::WrittenInput;
use crate::scalars::parse_id;
use noetl_use_cases::executions::{Cancelling, RerunDedup, Rerunning};

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
            let executed = match input.parse(&WrittenInput::new(ctx)) {
                Ok(request) => ctx.data::<Services>()?.executions.execute(request, &caller(ctx)?).await,
                Err(rejection) => Err(rejection.into()),
            };
            Started::new(ctx, executed).await
        });
        Ok(Some(ExecutePayload { started: executed.await? }))
    }

    /// Starts executions. Each request succeeds or fails independently; result i belongs to request i.
    #[graphql(guard = "EXECUTE")]
    async fn execute_batch(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Executions to start.")] input: ExecuteBatchInput,
    ) -> Result<Option<ExecuteBatchPayload>> {
        let executed = audited(ctx, None::<String>, async {
            let written = WrittenInput::new(ctx);
            let parse = |(index, input): (usize, ExecuteInput)| input.parse(&written.item("requests", index));
            let requests = input.requests.into_iter().enumerate().map(parse).collect();
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
        let executed = audited(ctx, [input.execution_id.0.clone()], async {
            let executed = match input.parse(&WrittenInput::new(ctx)) {
                Ok((id, rerunning)) => ctx.data::<Services>()?.executions.rerun(id, rerunning, &caller(ctx)?).await,
                Err(rejection) => Err(rejection.into()),
            };
            Started::new(ctx, executed).await
        });
        Ok(Some(RerunExecutionPayload { started: executed.await? }))
    }

    /// Runs several executions again, each as `rerunExecution` does. Each rerun succeeds or fails independently. A repeated
    /// request starts the reruns again, unless it has the same dedup key.
    #[graphql(guard = "EXECUTE")]
    async fn rerun_executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Executions to run again.")] input: RerunExecutionsInput,
    ) -> Result<Option<RerunExecutionsPayload>> {
        audited(ctx, None::<String>, rerun_all(ctx, input)).await.map(Some)
    }

    /// Cancels an execution that has not ended. For an execution that is cancelled, nothing is written, and the request
    /// succeeds. With `cascade`, it also cancels the executions that the execution started and that have not ended, and
    /// those that these started: up to 1000 descendants in one request. The same request continues where this one
    /// stopped. With `cascade`, an execution that has ended is not refused: `cancelled` is false, and its descendants are
    /// cancelled. An execution that has only a log, because NoETL's own server wrote it, is found as a descendant after
    /// it was added to the list.
    #[graphql(guard = "CANCEL")]
    async fn cancel_execution(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Execution to cancel.")] input: CancelExecutionInput,
    ) -> Result<Option<CancelExecutionPayload>> {
        audited(ctx, [input.execution_id.0.clone()], cancel(ctx, input)).await.map(Some)
    }

    /// Cancels several executions. Each cancellation succeeds or fails independently. For executions that are cancelled,
    /// nothing is written, and they succeed.
    #[graphql(guard = "CANCEL")]
    async fn cancel_executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Executions to cancel.")] input: CancelExecutionsInput,
    ) -> Result<Option<CancelExecutionsPayload>> {
        audited(ctx, None::<String>, cancel_all(ctx, input)).await.map(Some)
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
            let (projections, scope) = (&ctx.data::<Services>()?.projections, scope(ctx)?);
            let advanced = async {
                let given = input.parse()?;
                let ids = given.iter().filter_map(|given| given.item.as_ref().ok().copied()).collect();
                let advances = projections.advance(ids, &scope).await;
                Ok((given, advances))
            };
            let (advanced, user_errors) = result_or_user_error(advanced.await)?;
            Ok(AdvanceProjectionsPayload::new(advanced, user_errors))
        });
        advanced.await.map(Some)
    }
}

async fn cancel(ctx: &Context<'_>, input: CancelExecutionInput) -> Result<CancelExecutionPayload> {
    let id = match parse_id("executionId", &input.execution_id) {
        Ok(id) => id,
        Err(rejection) => return Ok(CancelExecutionPayload::refused(rejection.into())),
    };
    let caller = caller(ctx)?;
    let cancelling =
        Cancelling { reason: input.reason.as_deref(), cascade: input.cascade, dry_run: false, caller: &caller };
    let cancelled = ctx.data::<Services>()?.executions.cancel_all(vec![id], &cancelling).await;
    CancelExecutionPayload::new(ctx, id, cancelled).await
}

async fn cancel_all(ctx: &Context<'_>, input: CancelExecutionsInput) -> Result<CancelExecutionsPayload> {
    let (executions, caller) = (&ctx.data::<Services>()?.executions, caller(ctx)?);
    let CancelExecutionsInput { select, reason, cascade, dry_run } = input;
    let cancelling = Cancelling { reason: reason.as_deref(), cascade, dry_run, caller: &caller };
    let outcome = async {
        let selected = select.select(ctx, true, &caller.scope).await?;
        let tree = executions.cancel_all(selected.ids.clone(), &cancelling).await?;
        Ok((tree, selected))
    };
    match result_or_user_error(outcome.await)? {
        (Some((tree, selected)), _) => Ok(CancelExecutionsPayload::new(ctx, &selected, tree).await),
        (None, user_errors) => Ok(CancelExecutionsPayload::refused(user_errors)),
    }
}

async fn rerun_all(ctx: &Context<'_>, input: RerunExecutionsInput) -> Result<RerunExecutionsPayload> {
    let (executions, caller) = (&ctx.data::<Services>()?.executions, caller(ctx)?);
    let RerunExecutionsInput { select, workload, newest_version, execution_pool, labels, dedup, dry_run } = input;
    let outcome = async {
        let selected = select.select(ctx, false, &caller.scope).await?;
        let rerunning = Rerunning {
            workload: workload.map(|workload| workload.0),
            newest_version,
            execution_pool,
            trace: None,
            labels: parse_labels(labels),
            dedup: checked_dedup(dedup, &WrittenInput::new(ctx))?.map(RerunDedup::Each),
        };
        let reruns = executions.rerun_all(selected.ids.clone(), rerunning, dry_run, &caller).await?;
        Ok((selected, reruns))
    };
    match result_or_user_error(outcome.await)? {
        (Some((selected, reruns)), _) => Ok(RerunExecutionsPayload::new(ctx, &selected, reruns).await),
        (None, user_errors) => Ok(RerunExecutionsPayload::refused(user_errors)),
    }
}
