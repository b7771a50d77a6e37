//! What mutations answer.

use async_graphql::{Context, Enum, ID, Result, SimpleObject};

use super::split;
use crate::graphql::errors::{UserError, user_error};
use crate::graphql::types::catalog::CatalogEntry;
use crate::graphql::types::execution::Execution;
use crate::graphql::types::outbox::OutboxClaim;
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
    pub(super) subscription: SourceSubscription,
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
    pub(super) execution: Option<Execution>,
    /// Whether this request started it.
    outcome: Option<ExecuteOutcome>,
    /// Why nothing was started.
    pub(super) user_errors: Vec<UserError>,
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

/// What was claimed.
#[derive(Debug, SimpleObject)]
pub(super) struct ClaimOutboxPayload {
    /// The caller's until their leases pass; each execution's rows in their order.
    pub(super) claims: Vec<OutboxClaim>,
    /// Shards that could not be reached; rows that were claimed there all the same come back when their leases pass.
    pub(super) unavailable_shards: Vec<u16>,
    /// Why nothing was claimed.
    pub(super) user_errors: Vec<UserError>,
}

/// What came of marking rows as published.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxPublishedPayload {
    /// How many rows this call moved; one that was published under the same lease before is not counted again.
    pub(super) published: i32,
    /// Rows that these leases do not settle: they failed, somebody else has claimed them since, or they are not there.
    pub(super) stale: Vec<ID>,
    /// Why nothing was done, or not for the rows of a shard.
    pub(super) user_errors: Vec<UserError>,
}

/// What came of marking a row as failed.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxFailedPayload {
    /// In how many seconds the row is due again.
    pub(super) retry_in_seconds: Option<i32>,
    /// Why nothing was done.
    pub(super) user_errors: Vec<UserError>,
}

/// What came of retrying failed rows.
#[derive(Debug, SimpleObject)]
pub(super) struct RetryOutboxPayload {
    /// Matching rows that were backing off.
    pub(super) matched: i32,
    /// Those of them that are due now; fewer than matched when there are more than 100,000 on a shard.
    pub(super) retried: i32,
    /// Shards that could not be reached: their rows were not matched.
    pub(super) unavailable_shards: Vec<u16>,
    /// Why nothing was done.
    pub(super) user_errors: Vec<UserError>,
}
