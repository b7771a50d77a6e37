//! Payloads of the mutations that start and cancel executions.

use async_graphql::{Context, Enum, Result, SimpleObject};

use super::types::Execution;
use crate::graphql::audit::AuditedPayload;
use crate::graphql::errors::{UserError, result_or_user_error, user_error};
use crate::service::error::ServiceError;
use crate::service::executions::{Executed, Outcome};

/// Outcome of a request to execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Outcome")]
pub(super) enum ExecuteOutcome {
    /// The request started an execution.
    Started,
    /// The dedup key belongs to an execution that an earlier request started.
    Duplicate,
}

/// Result of a request to execute.
#[derive(Debug, SimpleObject)]
pub(super) struct ExecutePayload {
    /// Execution that was started by this request, or by an earlier request with the same dedup key.
    pub(super) execution: Option<Execution>,
    /// Whether this request started the execution; null if the request was refused.
    outcome: Option<ExecuteOutcome>,
    /// Reasons the request was refused. If `outcome` is set: the reason the execution could not be read.
    pub(super) user_errors: Vec<UserError>,
}

impl ExecutePayload {
    pub(super) async fn new(ctx: &Context<'_>, executed: std::result::Result<Executed, ServiceError>) -> Result<Self> {
        let (executed, user_errors) = result_or_user_error(executed)?;
        let outcome = executed.map(|executed| executed.outcome.into());
        let Some(executed) = executed else {
            return Ok(Self { execution: None, outcome, user_errors });
        };
        // The execution exists even if it can't be read back, so the outcome is returned in both cases.
        match Execution::read(ctx, executed.execution_id).await {
            Ok(execution) => Ok(Self { execution, outcome, user_errors }),
            Err(error) => Ok(Self { execution: None, outcome, user_errors: vec![user_error(error)?] }),
        }
    }
}

/// Result of a batch of requests to execute.
#[derive(Debug, SimpleObject)]
pub(super) struct ExecuteBatchPayload {
    /// Results; result i belongs to request i.
    pub(super) results: Vec<ExecutePayload>,
    /// Reasons the whole batch was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of a cancellation.
#[derive(Debug, SimpleObject)]
pub(super) struct CancelExecutionPayload {
    /// Execution after the cancellation; null if the request was refused.
    pub(super) execution: Option<Execution>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

impl AuditedPayload for ExecutePayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.execution.iter().map(|execution| execution.0.execution_id.to_string()).collect()
    }
}

impl AuditedPayload for ExecuteBatchPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().flat_map(AuditedPayload::ids).collect()
    }
}

impl AuditedPayload for CancelExecutionPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }
}
