//! What mutations answer.

use async_graphql::{Context, Enum, Result, SimpleObject};

use super::split;
use crate::graphql::errors::{UserError, user_error};
use crate::graphql::types::catalog::CatalogEntry;
use crate::graphql::types::execution::Execution;
use crate::graphql::types::subscription::SourceSubscription;
use crate::service::executions::{Answer, Outcome};
use crate::service::subscriptions::BulkItem;

/// What came of registering a catalog entry.
#[derive(Debug, SimpleObject)]
pub(super) struct RegisterCatalogEntryPayload {
    /// The version that was added.
    pub(super) catalog_entry: Option<CatalogEntry>,
    /// Why nothing was added.
    pub(super) user_errors: Vec<UserError>,
}

/// What came of registering or moving a source subscription.
#[derive(Debug, SimpleObject)]
pub(super) struct SubscriptionPayload {
    /// As it stands after.
    pub(super) subscription: Option<SourceSubscription>,
    /// Why nothing was done.
    pub(super) user_errors: Vec<UserError>,
}

/// What came of a bulk transition.
#[derive(Debug, SimpleObject)]
pub(super) struct BulkTransitionPayload {
    /// One for each matching subscription, newest first.
    pub(super) results: Vec<BulkTransitionResult>,
    /// Shards that could not be reached: their subscriptions were not matched.
    pub(super) unavailable_shards: Vec<u16>,
    /// Why nothing was done.
    pub(super) user_errors: Vec<UserError>,
}

/// What a bulk transition did to one source subscription.
#[derive(Debug, SimpleObject)]
pub(super) struct BulkTransitionResult {
    /// As it stands after; in a dry run, and where it was left alone, as it was matched.
    subscription: SourceSubscription,
    /// Whether the transition was carried out, or, in a dry run, would be.
    applied: bool,
    /// Why it was left alone.
    user_errors: Vec<UserError>,
}

impl BulkTransitionResult {
    pub(super) fn new(item: BulkItem) -> Result<Self> {
        let (moved, user_errors) = split(item.outcome)?;
        let applied = moved.is_some();
        Ok(Self { subscription: SourceSubscription(moved.unwrap_or(item.matched)), applied, user_errors })
    }
}

/// Whether a request started its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Outcome")]
pub(super) enum ExecuteOutcome {
    /// It did.
    Started,
    /// Its dedup key belongs to an execution that an earlier request started.
    Duplicate,
}

/// What came of a request to execute.
#[derive(Debug, SimpleObject)]
pub(super) struct ExecutePayload {
    /// The execution, started by this request or by an earlier one under the same dedup key.
    execution: Option<Execution>,
    /// Whether this request started it.
    outcome: Option<ExecuteOutcome>,
    /// Why nothing was started.
    user_errors: Vec<UserError>,
}

impl ExecutePayload {
    pub(super) async fn new(ctx: &Context<'_>, answer: Answer) -> Result<Self> {
        let (executed, user_errors) = split(answer)?;
        let outcome = executed.map(|executed| executed.outcome.into());
        let Some(executed) = executed else {
            return Ok(Self { execution: None, outcome, user_errors });
        };
        // What was started was started, also where it can't be read back now.
        match Execution::read(ctx, executed.execution_id).await {
            Ok(execution) => Ok(Self { execution, outcome, user_errors }),
            Err(error) => Ok(Self { execution: None, outcome, user_errors: vec![user_error(error)?] }),
        }
    }
}

/// What came of a batch.
#[derive(Debug, SimpleObject)]
pub(super) struct ExecuteBatchPayload {
    /// Result i belongs to request i.
    pub(super) results: Vec<ExecutePayload>,
    /// Why the whole batch was refused.
    pub(super) user_errors: Vec<UserError>,
}

/// What came of a cancellation.
#[derive(Debug, SimpleObject)]
pub(super) struct CancelExecutionPayload {
    /// As it stands after.
    pub(super) execution: Option<Execution>,
    /// Why nothing was done.
    pub(super) user_errors: Vec<UserError>,
}
