//! Payloads of the mutations that cancel executions.

use std::collections::BTreeSet;

use async_graphql::{Context, ID, Lookahead, Result as FieldResult, SimpleObject};

use super::inputs::SelectedExecutions;
use super::types::Execution;
use crate::audit::AuditedPayload;
use crate::errors::{UserError, item_error, user_error};
use crate::scalars::{show_id, to_graphql_int};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::{CancelledOne, CancelledTree};

/// Result of a cancellation.
#[derive(Debug, Default, SimpleObject)]
pub(super) struct CancelExecutionPayload {
    /// The execution, also if it was cancelled before or the request was refused; null if it does not exist or could not
    /// be read.
    execution: Option<Execution>,
    /// Whether this request cancelled the execution. False if it was cancelled before, if it has ended, or if the request
    /// was refused.
    cancelled: bool,
    /// Results of the descendants that had not ended, with `cascade`: children first, then their children.
    results: Vec<CancelExecutionResult>,
    /// Whether the execution and, with `cascade`, all its descendants have ended. False if the request was refused, if
    /// more than 1000 descendants had not ended, or if a shard could not be reached; then the same request continues.
    complete: bool,
    /// Shards that could not be reached or that failed. Their descendants were not visited.
    unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out. With the field `cascade`: more than 100,000
    /// descendants were visited, and those below them must be cancelled by their own ids.
    user_errors: Vec<UserError>,
}

/// Result of a cancellation for one descendant.
#[derive(Debug, SimpleObject)]
pub(super) struct CancelExecutionResult {
    #[graphql(flatten)]
    item: CancelledItem,
}

/// Result of cancelling several executions.
#[derive(Debug, Default, SimpleObject)]
pub(super) struct CancelExecutionsPayload {
    /// Results: one for each selected execution, then, with `cascade`, those of the descendants that had not ended.
    /// Result i belongs to id i if the executions were selected by id.
    results: Vec<CancelExecutionsResult>,
    /// Whether the selected executions and, with `cascade`, all their descendants have ended, apart from those that were
    /// refused. False if more than 1000 descendants had not ended, or if a shard could not be reached.
    complete: bool,
    /// Selected executions that were not cancelled or whose descendants were not all visited. Send them as `select.ids`
    /// to continue. Empty if `complete` is true.
    continue_with: Vec<ID>,
    /// Shards that could not be reached or that failed. Their executions were not all selected or cancelled.
    unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out. With the field `cascade`: more than 100,000
    /// descendants were visited, and those below them must be cancelled by their own ids.
    user_errors: Vec<UserError>,
}

/// Result of a cancellation for one of several executions.
#[derive(Debug, SimpleObject)]
pub(super) struct CancelExecutionsResult {
    /// Index of the id in `select.ids`, counted from 0; null for a descendant, and if the execution was not selected by
    /// id.
    index: Option<i32>,
    #[graphql(flatten)]
    item: CancelledItem,
}

/// Result for one execution, as both payloads contain it.
#[derive(Debug, SimpleObject)]
struct CancelledItem {
    /// Id of the execution.
    execution_id: ID,
    /// The execution; null if it does not exist or could not be read.
    execution: Option<Execution>,
    /// Whether this request cancelled the execution. In a dry run: whether it would.
    cancelled: bool,
    /// Reasons the execution was not cancelled. If it was, or if it had been cancelled before: the reason it could not be
    /// read.
    user_errors: Vec<UserError>,
}

impl CancelledItem {
    /// Creates a result. A fault becomes a user error, so that it does not hide the results of the others. `index` is
    /// that of the id in the selector.
    async fn new(ctx: &Context<'_>, CancelledOne { id, outcome }: CancelledOne, index: Option<usize>) -> Self {
        let selection = ctx.look_ahead().field("results").field("execution");
        let cancelled = matches!(outcome, Ok(true));
        let (execution, error) = match outcome {
            Ok(_) => match Execution::read(ctx, id, selection).await {
                Ok(execution) => (execution, None),
                Err(error) => (None, Some(item_error(error))),
            },
            Err(error) if error.is_rejection() => (readable(ctx, id, selection).await, Some(item_error(error))),
            // A shard that could not be reached is not asked again.
            Err(error) => (None, Some(item_error(error))),
        };
        let field = index.map(|index| vec!["select".to_owned(), "ids".to_owned(), index.to_string()]);
        let user_errors = error.into_iter().map(|error| UserError { field: field.clone(), ..error }).collect();
        Self { execution_id: show_id(id), execution, cancelled, user_errors }
    }
}

impl CancelExecutionPayload {
    /// Creates the payload. A fault of the execution becomes an error of the field.
    pub(super) async fn new(ctx: &Context<'_>, id: Id, done: Result<CancelledTree, ServiceError>) -> FieldResult<Self> {
        let own = ctx.look_ahead().field("execution");
        let tree = match done {
            Ok(tree) => tree,
            Err(error) => {
                return Ok(Self { execution: readable(ctx, id, own).await, ..Self::refused(user_error(error)?) });
            }
        };
        let (mut cancelled, mut user_errors) = (false, Vec::new());
        for root in tree.roots {
            match root.outcome {
                Ok(done) => cancelled = done,
                Err(error) => user_errors.push(user_error(error)?),
            }
        }
        let complete = tree.complete && user_errors.is_empty();
        user_errors.extend(tree.refusal.map(UserError::from));
        let results = tree.descendants.into_iter().map(async |one| {
            let item = CancelledItem::new(ctx, one, None).await;
            CancelExecutionResult { item }
        });
        let results = futures::future::join_all(results).await;
        let execution = readable(ctx, id, own).await;
        Ok(Self { execution, cancelled, results, complete, unavailable_shards: tree.unavailable, user_errors })
    }

    /// Creates the payload of a request that was refused.
    pub(super) fn refused(error: UserError) -> Self {
        Self { user_errors: vec![error], ..Self::default() }
    }
}

/// Returns an execution if it can be read. A failure to read it must not hide the result of the mutation.
pub(super) async fn readable(ctx: &Context<'_>, id: Id, selection: Lookahead<'_>) -> Option<Execution> {
    let read = Execution::read(ctx, id, selection).await;
    read.inspect_err(|error| tracing::warn!(%id, %error, "an execution can't be read after its mutation"))
        .ok()
        .flatten()
}

impl CancelExecutionsPayload {
    /// Creates the payload of the cancellation of selected executions.
    pub(super) async fn new(ctx: &Context<'_>, selected: &SelectedExecutions, tree: CancelledTree) -> Self {
        let shards: BTreeSet<ShardIndex> = selected.unavailable.iter().copied().chain(tree.unavailable).collect();
        // An execution that a filter matched and that ended meanwhile is not selected any more.
        let is_result = |(_, root): &(usize, CancelledOne)| selected.by_id || !root.has_ended();
        let roots = tree.roots.into_iter().enumerate().filter(is_result);
        let roots = roots.map(|(index, root)| (selected.by_id.then_some(index), root));
        let results = roots.chain(tree.descendants.into_iter().map(|one| (None, one)));
        let results = results.map(async |(index, one): (Option<usize>, CancelledOne)| {
            let item = CancelledItem::new(ctx, one, index).await;
            CancelExecutionsResult { index: index.map(to_graphql_int), item }
        });
        Self {
            results: futures::future::join_all(results).await,
            complete: tree.complete && shards.is_empty(),
            continue_with: tree.unfinished.into_iter().map(show_id).collect(),
            unavailable_shards: shards.into_iter().collect(),
            user_errors: tree.refusal.map(UserError::from).into_iter().collect(),
        }
    }

    /// Creates the payload of a request that was refused.
    pub(super) fn refused(user_errors: Vec<UserError>) -> Self {
        Self { user_errors, ..Self::default() }
    }
}

impl AuditedPayload for CancelExecutionPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn item_errors(&self) -> impl Iterator<Item = &UserError> {
        self.results.iter().flat_map(|result| &result.item.user_errors)
    }

    fn ids(&self) -> Vec<String> {
        self.results
            .iter()
            .filter(|result| result.item.cancelled)
            .map(|result| result.item.execution_id.0.clone())
            .collect()
    }
}

impl AuditedPayload for CancelExecutionsPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn item_errors(&self) -> impl Iterator<Item = &UserError> {
        self.results.iter().flat_map(|result| &result.item.user_errors)
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().map(|result| result.item.execution_id.0.clone()).collect()
    }
}
