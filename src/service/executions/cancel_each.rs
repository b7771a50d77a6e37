//! Cancelling each of several executions. A failure to cancel one does not hide the results of the others.

use futures::{StreamExt, stream};

use super::Executions;
use crate::service::error::{RejectionCode, ServiceError};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Caller;
use noetl_storage::error::DatabaseName;

/// Maximum number of executions that one request selects, and maximum number of their descendants that it cancels.
pub(super) const MAX_CANCELLED: usize = 1000;
/// Number of executions that are cancelled at the same time.
const CONCURRENCY: usize = 8;

/// Manner of a cancellation.
#[derive(Debug)]
pub struct Cancelling<'a> {
    /// Reason for the logs.
    pub reason: Option<&'a str>,
    /// Whether the descendants are cancelled too.
    pub cascade: bool,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// Caller of the request.
    pub caller: &'a Caller,
}

/// Result for one execution.
#[derive(Debug, Clone)]
pub struct CancelledOne {
    /// The execution.
    pub id: Id,
    /// Whether this request cancelled it, or would; false: it was cancelled before, or it has ended and the request
    /// cascades. Or the reason it was not cancelled.
    pub outcome: Result<bool, ServiceError>,
}

impl CancelledOne {
    /// Returns whether the execution was not cancelled because it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(&self.outcome, Err(ServiceError::Rejected(rejection)) if rejection.code == RejectionCode::InvalidTransition)
    }

    /// Returns whether a repeated request may cancel the execution.
    pub(super) fn is_unfinished(&self) -> bool {
        self.outcome.as_ref().is_err_and(|error| !error.is_rejection())
    }

    /// Returns the shard that could not be reached in time, if that is the reason it was not cancelled.
    pub(super) fn failed_shard(&self) -> Option<ShardIndex> {
        let error = self.outcome.as_ref().err()?;
        match error.unavailable().or_else(|| error.timed_out())? {
            DatabaseName::Shard(shard) => Some(shard),
            DatabaseName::Cluster => None,
        }
    }
}

impl Executions {
    /// Cancels executions concurrently. The results have the order of the ids.
    pub(super) async fn cancel_each(&self, ids: Vec<Id>, cancelling: &Cancelling<'_>) -> Vec<CancelledOne> {
        let results = stream::iter(ids).map(async |id| {
            let outcome = if cancelling.dry_run {
                self.may_cancel(id, &cancelling.caller.scope).await
            } else {
                self.cancel(id, cancelling.reason.map(str::to_owned), cancelling.caller).await
            };
            CancelledOne { id, outcome }
        });
        results.buffered(CONCURRENCY).collect().await
    }
}
