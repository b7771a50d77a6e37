//! Requests to cancel executions, and their results.

use crate::error::{Rejection, RejectionCode, ServiceError};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Caller;

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
}

/// Result of a cancellation.
#[derive(Debug, Default)]
pub struct CancelledTree {
    /// Results of the given executions, in their order. A repeated one has the same result each time.
    pub roots: Vec<CancelledOne>,
    /// Results of the descendants that had not ended, level by level.
    pub descendants: Vec<CancelledOne>,
    /// Whether nothing is left that a repeated request could cancel.
    pub complete: bool,
    /// Given executions with which a further request continues; empty if it is complete.
    pub unfinished: Vec<Id>,
    /// Shards whose executions were not visited or not cancelled.
    pub unavailable: Vec<ShardIndex>,
    /// Reason that the descendants can't all be visited.
    pub refusal: Option<Rejection>,
}
