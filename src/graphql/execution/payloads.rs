//! Payloads of the mutations that start and cancel executions.

use std::collections::BTreeSet;

use async_graphql::{Context, Enum, ID, Result as FieldResult, SimpleObject};

use super::types::Execution;
use crate::graphql::audit::AuditedPayload;
use crate::graphql::errors::{UserError, item_error, user_error};
use crate::graphql::scalars::{show_id, to_graphql_int};
use crate::service::error::ServiceError;
use crate::service::executions::{CancelledOne, CancelledTree, Executed, Outcome};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;

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
    execution_id: Option<ID>,
    /// Execution that was started by this request, or by an earlier request with the same dedup key. Null if the request
    /// was refused, if the execution could not be read, and if NoETL's own server claimed the key but has not started
    /// the execution.
    execution: Option<Execution>,
    /// Whether this request started the execution; null if the request was refused.
    outcome: Option<ExecuteOutcome>,
    /// Whether a duplicate differs from the request that started the execution: in its path or catalog id, its workload
    /// or its pool. Null if the request is not a duplicate, and if NoETL's own server started the execution.
    differs: Option<bool>,
    /// Reasons the request was refused. If `outcome` is set: the reason the execution could not be read.
    user_errors: Vec<UserError>,
}

impl Started {
    /// Creates the result of a single request. A fault becomes an error of the field.
    pub(super) async fn new(ctx: &Context<'_>, executed: Result<Executed, ServiceError>) -> FieldResult<Self> {
        match executed {
            Ok(executed) => Ok(Self::executed(ctx, executed).await),
            Err(error) => Ok(Self { user_errors: vec![user_error(error)?], ..Self::default() }),
        }
    }

    /// The execution exists even if it can't be read back, so the outcome is returned in both cases.
    async fn executed(ctx: &Context<'_>, executed: Executed) -> Self {
        let (execution, user_errors) = match Execution::read(ctx, executed.execution_id).await {
            Ok(execution) => (execution, Vec::new()),
            Err(error) => (None, vec![item_error(error)]),
        };
        let (execution_id, outcome) = (Some(show_id(executed.execution_id)), Some(executed.outcome.into()));
        Self { execution_id, execution, outcome, differs: executed.differs, user_errors }
    }

    fn ids(&self) -> Vec<String> {
        self.execution_id.iter().map(|id| id.0.clone()).collect()
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
            Ok(executed) => Started::executed(ctx, executed).await,
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

/// Result of a cancellation.
#[derive(Debug, SimpleObject)]
pub(super) struct CancelExecutionPayload {
    /// The execution, also if it was cancelled before or the request was refused; null if it does not exist or could not
    /// be read.
    execution: Option<Execution>,
    /// Whether this request cancelled the execution. False if it was cancelled before, or if the request was refused.
    cancelled: bool,
    /// Results of the descendants that had not ended, with `cascade`: children first, then their children.
    results: Vec<CancelExecutionResult>,
    /// Whether all descendants were visited. False if there are more than 1000, or if a shard could not be reached; then
    /// the same request continues.
    complete: bool,
    /// Shards that could not be reached. Their descendants were not visited.
    unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    user_errors: Vec<UserError>,
}

/// Result of a cancellation for one of several executions.
#[derive(Debug, SimpleObject)]
pub(super) struct CancelExecutionResult {
    /// Id of the execution.
    id: ID,
    /// The execution; null if it does not exist or could not be read.
    execution: Option<Execution>,
    /// Whether this request cancelled the execution. In a dry run: whether it would.
    cancelled: bool,
    /// Reasons the execution was not cancelled. If `cancelled` is true: the reason it could not be read.
    user_errors: Vec<UserError>,
}

impl CancelExecutionPayload {
    /// Creates the payload. A fault becomes an error of the field.
    pub(super) async fn new(ctx: &Context<'_>, id: Id, done: Result<CancelledTree, ServiceError>) -> FieldResult<Self> {
        let tree = match done {
            Ok(tree) => tree,
            Err(error) => return Ok(Self { execution: readable(ctx, id).await, ..Self::refused(user_error(error)?) }),
        };
        let outcome = tree.roots.into_iter().next().map_or(Ok(false), |root| root.outcome);
        let refused = outcome.as_ref().is_err();
        let (cancelled, user_errors) = match outcome {
            Ok(cancelled) => (cancelled, Vec::new()),
            Err(error) => (false, vec![user_error(error)?]),
        };
        Ok(Self {
            execution: readable(ctx, id).await,
            cancelled,
            results: results(ctx, tree.descendants).await,
            complete: tree.complete && !refused,
            unavailable_shards: tree.unavailable,
            user_errors,
        })
    }

    /// Creates the payload of a request that was refused.
    pub(super) fn refused(error: UserError) -> Self {
        Self {
            execution: None,
            cancelled: false,
            results: Vec::new(),
            complete: false,
            unavailable_shards: Vec::new(),
            user_errors: vec![error],
        }
    }
}

/// Returns an execution if it can be read. A failure to read it must not hide the result of the mutation.
async fn readable(ctx: &Context<'_>, id: Id) -> Option<Execution> {
    let read = Execution::read(ctx, id).await;
    read.inspect_err(|error| tracing::warn!(%id, %error, "an execution can't be read after its mutation"))
        .ok()
        .flatten()
}

/// Returns the results of executions. A fault becomes a user error, so that it does not hide the results of the others.
pub(super) async fn results(ctx: &Context<'_>, items: Vec<CancelledOne>) -> Vec<CancelExecutionResult> {
    let result = async |CancelledOne { id, outcome }: CancelledOne| {
        let cancelled = outcome.as_ref().is_ok_and(|cancelled| *cancelled);
        let mut user_errors: Vec<UserError> = outcome.err().map(item_error).into_iter().collect();
        let execution = match Execution::read(ctx, id).await {
            Ok(execution) => execution,
            Err(error) => {
                user_errors.push(item_error(error));
                None
            }
        };
        CancelExecutionResult { id: show_id(id), execution, cancelled, user_errors }
    };
    futures::future::join_all(items.into_iter().map(result)).await
}

/// Result of cancelling several executions.
#[derive(Debug, SimpleObject)]
pub(super) struct CancelExecutionsPayload {
    /// Results: one for each selected execution, then, with `cascade`, those of the descendants that had not ended.
    results: Vec<CancelExecutionResult>,
    /// Whether all descendants were visited, with `cascade`. False if there are more than 1000, or if a shard could not be
    /// reached; then the same request continues.
    complete: bool,
    /// Shards that could not be reached. Their executions were not selected.
    unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    user_errors: Vec<UserError>,
}

impl CancelExecutionsPayload {
    /// Creates the payload. `unavailable` are the shards whose executions were not selected.
    pub(super) async fn new(ctx: &Context<'_>, tree: CancelledTree, unavailable: Vec<ShardIndex>) -> Self {
        let shards: BTreeSet<ShardIndex> = unavailable.into_iter().chain(tree.unavailable).collect();
        Self {
            results: results(ctx, tree.roots.into_iter().chain(tree.descendants).collect()).await,
            complete: tree.complete && shards.is_empty(),
            unavailable_shards: shards.into_iter().collect(),
            user_errors: Vec::new(),
        }
    }

    /// Creates the payload of a request that was refused.
    pub(super) fn refused(user_errors: Vec<UserError>) -> Self {
        Self { results: Vec::new(), complete: false, unavailable_shards: Vec::new(), user_errors }
    }
}

impl AuditedPayload for ExecutePayload {
    fn user_errors(&self) -> &[UserError] {
        &self.started.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.started.ids()
    }
}

impl AuditedPayload for RerunExecutionPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.started.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.started.ids()
    }
}

impl AuditedPayload for ExecuteBatchPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().flat_map(|result| result.started.ids()).collect()
    }
}

impl AuditedPayload for CancelExecutionPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().filter(|result| result.cancelled).map(|result| result.id.0.clone()).collect()
    }
}

impl AuditedPayload for CancelExecutionsPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().map(|result| result.id.0.clone()).collect()
    }
}
