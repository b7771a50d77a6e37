//! Payloads of mutations.

use async_graphql::{Context, Enum, ID, Result, SimpleObject};

use super::split;
use crate::graphql::errors::{UserError, user_error};
use crate::graphql::types::catalog::CatalogEntry;
use crate::graphql::types::execution::Execution;
use crate::graphql::types::outbox::OutboxClaim;
use crate::graphql::types::subscription::SourceSubscription;
use crate::service::error::ServiceError;
use crate::service::executions::{Executed, Outcome};
use crate::service::subscriptions::BulkItem;

/// Result of registering a catalog entry.
#[derive(Debug, SimpleObject)]
pub(super) struct RegisterCatalogEntryPayload {
    /// Version that was added; null if the request was refused.
    pub(super) catalog_entry: Option<CatalogEntry>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of registering a source subscription or changing its state.
#[derive(Debug, SimpleObject)]
pub(super) struct SubscriptionPayload {
    /// Subscription after the mutation; null if the request was refused.
    pub(super) subscription: Option<SourceSubscription>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of a bulk transition.
#[derive(Debug, SimpleObject)]
pub(super) struct BulkTransitionPayload {
    /// Results, one for each matching subscription, newest subscription first.
    pub(super) results: Vec<BulkTransitionResult>,
    /// Shards that could not be reached. Their subscriptions were not matched.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of a bulk transition for one source subscription.
#[derive(Debug, SimpleObject)]
pub(super) struct BulkTransitionResult {
    /// Subscription after the transition. In a dry run, or if the transition was refused: the subscription as matched.
    pub(super) subscription: SourceSubscription,
    /// Whether the transition was carried out. In a dry run: whether it would be carried out.
    applied: bool,
    /// Reasons the transition was refused; empty if it was not refused.
    user_errors: Vec<UserError>,
}

impl BulkTransitionResult {
    pub(super) fn new(item: BulkItem) -> Result<Self> {
        let (moved, user_errors) = split(item.outcome)?;
        let applied = moved.is_some();
        Ok(Self { subscription: SourceSubscription(moved.unwrap_or(item.matched)), applied, user_errors })
    }
}

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
    pub(super) async fn new(ctx: &Context<'_>, executed: Result<Executed, ServiceError>) -> Result<Self> {
        let (executed, user_errors) = split(executed)?;
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

/// Result of claiming outbox rows.
#[derive(Debug, SimpleObject)]
pub(super) struct ClaimOutboxPayload {
    /// Rows that the caller holds until their leases expire. The rows of each execution are in outbox order.
    pub(super) claims: Vec<OutboxClaim>,
    /// Shards that could not be reached. Rows that were claimed there without a response become claimable when their
    /// leases expire.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of marking rows as delivered.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxPublishedPayload {
    /// Number of rows that this request marked as delivered. A row that was already marked under the same lease is not
    /// counted again.
    pub(super) published: i32,
    /// Ids of rows that these leases can't settle: the row was marked as failed, another caller has claimed it since,
    /// or it does not exist.
    pub(super) stale: Vec<ID>,
    /// Reasons the request was refused, or the rows of a shard could not be marked.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of marking a row as not delivered.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxFailedPayload {
    /// Delay in seconds before the row is claimable again; null if the request was refused.
    pub(super) retry_in_seconds: Option<i32>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of retrying failed rows.
#[derive(Debug, SimpleObject)]
pub(super) struct RetryOutboxPayload {
    /// Number of matching failed rows that were not due yet.
    pub(super) matched: i32,
    /// Number of these rows that are claimable now: at most 100,000 on each shard, and 0 in a dry run.
    pub(super) retried: i32,
    /// Shards that could not be reached. Their rows were not matched.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}
