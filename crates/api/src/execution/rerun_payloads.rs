//! Payload of the mutation that runs several executions again.

use std::collections::BTreeSet;

use async_graphql::{Context, ID, SimpleObject};

use super::cancel_payloads::readable;
use super::inputs::SelectedExecutions;
use super::payloads::{ExecuteOutcome, Started};
use super::types::Execution;
use crate::audit::AuditedPayload;
use crate::errors::{UserError, item_error};
use crate::scalars::{show_id, to_graphql_int};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::RerunOne;

/// Fields of the input that all reruns share. An error of another field is one of the execution.
const SHARED_FIELDS: [&str; 3] = ["workload", "executionPool", "dedup"];

/// Result of running several executions again.
#[derive(Debug, Default, SimpleObject)]
pub(super) struct RerunExecutionsPayload {
    /// Results: one for each selected execution. Result i belongs to id i if the executions were selected by id. A repeated
    /// id is run again once.
    results: Vec<RerunExecutionsResult>,
    /// Whether each selected execution was run again or refused. False if a shard could not be reached, or if the server
    /// failed.
    complete: bool,
    /// Selected executions that may not have been run again. Send them as `select.ids`, with the same dedup key, to
    /// continue. Empty if `complete` is true.
    continue_with: Vec<ID>,
    /// Shards that could not be reached or that failed. Their executions were not all selected or run again.
    unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    user_errors: Vec<UserError>,
}

/// Result of running one of several executions again.
#[derive(Debug, SimpleObject)]
pub(super) struct RerunExecutionsResult {
    /// Index of the id in `select.ids`, counted from 0; null if the execution was not selected by id.
    index: Option<i32>,
    /// Id of the execution that was to be run again.
    origin_id: ID,
    /// Execution that was to be run again; null if it does not exist or could not be read.
    origin: Option<Execution>,
    /// Id of the rerun; null if it was refused, and in a dry run if it would be started. For an execution that a request
    /// with the same dedup key started: its own id.
    execution_id: Option<ID>,
    /// The rerun; null if `executionId` is null, if it could not be read, and if NoETL's own server claimed the key but
    /// has not started it.
    execution: Option<Execution>,
    /// Whether this request started the rerun; null if it was refused. In a dry run: whether it would.
    outcome: Option<ExecuteOutcome>,
    /// Whether a duplicate differs from the request that started the rerun: in the path or catalog id, the workload,
    /// the pool or the labels of the request. Null in a dry run, if the result is not a duplicate, if the execution is
    /// itself a rerun that a request with the same dedup key started, and if NoETL's own server started the rerun.
    differs: Option<bool>,
    /// Reasons the execution was not run again. If `outcome` is set: the reason the rerun could not be read.
    user_errors: Vec<UserError>,
}

impl RerunExecutionsResult {
    /// Creates a result. A fault becomes a user error, so that it does not hide the results of the others. `index` is
    /// that of the id in the selector.
    async fn new(ctx: &Context<'_>, RerunOne { origin: id, outcome }: RerunOne, index: Option<usize>) -> Self {
        let selection = ctx.look_ahead().field("results");
        let of_origin = selection.field("origin");
        // A shard that could not be reached is not asked again.
        let origin =
            if fault(&outcome).is_some() || !of_origin.exists() { None } else { readable(ctx, id, of_origin).await };
        let started = match outcome {
            Ok(Some(executed)) => Started::executed(ctx, executed, selection).await,
            Ok(None) => Started { outcome: Some(ExecuteOutcome::Started), ..Started::default() },
            Err(error) => Started { user_errors: vec![of_item(item_error(error), index)], ..Started::default() },
        };
        let Started { execution_id, execution, outcome, differs, user_errors } = started;
        let (index, origin_id) = (index.map(to_graphql_int), show_id(id));
        Self { index, origin_id, origin, execution_id, execution, outcome, differs, user_errors }
    }
}

/// Returns the fault because of which it is unknown whether a rerun was started.
fn fault<T>(outcome: &Result<T, ServiceError>) -> Option<&ServiceError> {
    outcome.as_ref().err().filter(|error| !error.is_rejection())
}

/// Returns the error of an item with the path of the field that caused it.
fn of_item(error: UserError, index: Option<usize>) -> UserError {
    let first = error.field.as_ref().and_then(|field| field.first());
    if first.is_some_and(|first| SHARED_FIELDS.contains(&first.as_str())) {
        return error;
    }
    let field = index.map(|index| vec!["select".to_owned(), "ids".to_owned(), index.to_string()]);
    UserError { field, ..error }
}

impl RerunExecutionsPayload {
    /// Creates the payload of the reruns of selected executions.
    pub(super) async fn new(ctx: &Context<'_>, selected: &SelectedExecutions, reruns: Vec<RerunOne>) -> Self {
        let unfinished: BTreeSet<Id> =
            reruns.iter().filter(|one| fault(&one.outcome).is_some()).map(|one| one.origin).collect();
        let failed_shards = reruns.iter().filter_map(|one| fault(&one.outcome)?.failed_shard());
        let shards: BTreeSet<ShardIndex> = selected.unavailable.iter().copied().chain(failed_shards).collect();
        let results = reruns.into_iter().enumerate();
        let results = results.map(|(index, one)| RerunExecutionsResult::new(ctx, one, selected.by_id.then_some(index)));
        Self {
            results: futures::future::join_all(results).await,
            complete: unfinished.is_empty() && shards.is_empty(),
            continue_with: unfinished.into_iter().map(show_id).collect(),
            unavailable_shards: shards.into_iter().collect(),
            user_errors: Vec::new(),
        }
    }

    /// Creates the payload of a request that was refused.
    pub(super) fn refused(user_errors: Vec<UserError>) -> Self {
        Self { user_errors, ..Self::default() }
    }
}

impl AuditedPayload for RerunExecutionsPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn item_errors(&self) -> impl Iterator<Item = &UserError> {
        self.results.iter().flat_map(|result| &result.user_errors)
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().filter_map(|result| result.execution_id.as_ref()).map(|id| id.0.clone()).collect()
    }
}
