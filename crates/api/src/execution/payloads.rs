//! Payloads of the mutations that start executions.

use async_graphql::{Context, Enum, ID, Lookahead, Result as FieldResult, SimpleObject};

use super::types::Execution;
use crate::audit::AuditedPayload;
use crate::errors::{UserError, item_error, user_error};
use crate::scalars::{show_id, to_graphql_int};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::{Executed, Outcome};

/// Outcome of a request to execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Outcome")]
pub(super) enum ExecuteOutcome {
    /// The request started an execution.
    Started,
    /// The dedup key belongs to an execution that an earlier request started.
    Duplicate,
}

/// Result of a request to start an execution, as several payloads contain it.
#[derive(Debug, Default, SimpleObject)]
pub(super) struct Started {
    /// Id of the execution; null if the request was refused. It is set even if the execution could not be read.
    pub(super) execution_id: Option<ID>,
    /// Execution that was started by this request, or by an earlier request with the same dedup key. Null if the request
    /// was refused, if the execution could not be read, and if NoETL's own server claimed the key but has not started
    /// the execution.
    pub(super) execution: Option<Execution>,
    /// Whether this request started the execution; null if the request was refused.
    pub(super) outcome: Option<ExecuteOutcome>,
    /// Whether a duplicate differs from the request that started the execution: in its path or catalog id, its
    /// workload, its pool or its labels. Null if the request is not a duplicate, and if NoETL's own server started the
    /// execution.
    pub(super) differs: Option<bool>,
    /// Reasons the request was refused. If `outcome` is set: the reason the execution could not be read.
    pub(super) user_errors: Vec<UserError>,
}

impl Started {
    /// Creates the result of a single request. A fault becomes an error of the field.
    pub(super) async fn new(ctx: &Context<'_>, executed: Result<Executed, ServiceError>) -> FieldResult<Self> {
        match executed {
            Ok(executed) => Ok(Self::executed(ctx, executed, ctx.look_ahead()).await),
            Err(error) => Ok(Self { user_errors: vec![user_error(error)?], ..Self::default() }),
        }
    }

    /// An execution that this request created is not read back. An earlier one is read if `selection`, which contains
    /// this result, has it. It exists even if it can't be read, so the outcome is returned in both cases.
    pub(super) async fn executed(ctx: &Context<'_>, executed: Executed, selection: Lookahead<'_>) -> Self {
        let execution = match executed.created {
            Some(row) => Ok(Some(Execution::of_row(row))),
            None if selection.field("execution").exists() => {
                Execution::read(ctx, executed.execution_id, selection.field("execution")).await
            }
            None => Ok(None),
        };
        let (execution, user_errors) = match execution {
            Ok(execution) => (execution, Vec::new()),
            Err(error) => (None, vec![item_error(error)]),
        };
        let (execution_id, outcome) = (Some(show_id(executed.execution_id)), Some(executed.outcome.into()));
        Self { execution_id, execution, outcome, differs: executed.differs, user_errors }
    }
}

/// Result of a request to execute.
#[derive(Debug, SimpleObject)]
pub(super) struct ExecutePayload {
    #[graphql(flatten)]
    pub(super) started: Started,
}

/// Result of a request to run an execution again.
#[derive(Debug, SimpleObject)]
pub(super) struct RerunExecutionPayload {
    #[graphql(flatten)]
    pub(super) started: Started,
}

/// Result of a batch of requests to execute.
#[derive(Debug, SimpleObject)]
pub(super) struct ExecuteBatchPayload {
    /// Results; result i belongs to request i.
    pub(super) results: Vec<ExecuteBatchResult>,
    /// Reasons the whole batch was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of one request of a batch.
#[derive(Debug, SimpleObject)]
pub(super) struct ExecuteBatchResult {
    /// Index of the request in the batch, counted from 0.
    index: i32,
    #[graphql(flatten)]
    started: Started,
}

impl ExecuteBatchResult {
    /// Creates the result. A fault becomes a user error, so that it does not hide the results of the others.
    pub(super) async fn new(
        ctx: &Context<'_>,
        index: usize,
        executed: std::result::Result<Executed, ServiceError>,
    ) -> Self {
        let started = match executed {
            Ok(executed) => Started::executed(ctx, executed, ctx.look_ahead().field("results")).await,
            Err(error) => {
                let mut user_error = item_error(error);
                if let Some(field) = &mut user_error.field {
                    field.splice(0..0, ["requests".to_owned(), index.to_string()]);
                }
                Started { user_errors: vec![user_error], ..Started::default() }
            }
        };
        Self { index: to_graphql_int(index), started }
    }
}

impl AuditedPayload for Started {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.execution_id.iter().map(|id| id.0.clone()).collect()
    }
}

impl AuditedPayload for ExecuteBatchPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn item_errors(&self) -> impl Iterator<Item = &UserError> {
        self.results.iter().flat_map(|result| &result.started.user_errors)
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().flat_map(|result| result.started.ids()).collect()
    }
}
