//! States of executions at moments of their logs.

use async_graphql::{Context, ID, Object, Result};

use super::state::{ExecutionProgress, StepConnection};
use super::status::ExecutionStatus;
use super::types::Execution;
use crate::access::READ;
use crate::scalars::{BigInt, Json, JsonText, Time, show_id};
use noetl_domain::execution::Status;

/// An execution, shown in the state of a moment.
#[derive(Debug)]
pub struct ExecutionState(pub Execution);

/// State of an execution at a moment in its log.
#[Object]
impl ExecutionState {
    /// Id of the execution.
    async fn execution_id(&self) -> ID {
        show_id(self.0.key())
    }

    /// The execution as it is now.
    #[graphql(guard = "READ")]
    async fn execution(&self, ctx: &Context<'_>) -> Result<Option<Execution>> {
        Execution::load(ctx, self.0.key()).await
    }

    /// Status.
    async fn status(&self) -> ExecutionStatus {
        Status::from_stored(&self.0.row().status).into()
    }

    /// Name of the status.
    async fn status_text(&self) -> &str {
        &self.0.row().status
    }

    /// End time; null if the execution had not ended.
    async fn ended_at(&self) -> Option<Time> {
        self.0.row().end_time.map(Time)
    }

    /// Number of steps that are FAILED.
    #[graphql(guard = "READ")]
    async fn failed_steps(&self) -> Option<i32> {
        self.0.row().failed_steps
    }

    /// Error or reason that the event that ended the execution names.
    #[graphql(guard = "READ")]
    async fn error(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        self.0.own.error(ctx).await
    }

    /// Result of the execution; null if the execution had not ended, and if the event that ended it has none.
    #[graphql(guard = "READ")]
    async fn result(&self, ctx: &Context<'_>) -> Result<Option<JsonText>> {
        self.0.own.result(ctx).await
    }

    /// Number of events in the log up to the moment.
    #[graphql(guard = "READ")]
    async fn event_count(&self, ctx: &Context<'_>) -> Result<Option<BigInt>> {
        self.0.own.event_count(ctx).await
    }

    /// Progress of the execution: numbers of its steps.
    #[graphql(guard = "READ")]
    async fn progress(&self, ctx: &Context<'_>) -> Result<Option<ExecutionProgress>> {
        self.0.own.progress(ctx).await
    }

    /// Durable variables by name; null if none was set.
    #[graphql(guard = "READ")]
    async fn context(&self, ctx: &Context<'_>) -> Result<Option<Json>> {
        self.0.own.context(ctx).await
    }

    /// State of the steps, ordered by the first event of each step.
    #[graphql(guard = "READ")]
    async fn steps(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<StepConnection>> {
        self.0.own.steps(ctx, first, after, last, before).await
    }
}
