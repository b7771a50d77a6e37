//! Payload of `advanceProjections`.

use async_graphql::{ID, SimpleObject};

use crate::graphql::audit::AuditedPayload;
use crate::graphql::errors::{UserError, item_error};
use crate::graphql::scalars::{BigInt, show_id};
use crate::service::error::RejectionCode;
use crate::service::projections::Advances;

/// Result of advancing projections.
#[derive(Debug, SimpleObject)]
pub(super) struct AdvanceProjectionsPayload {
    /// Executions whose current state is stored, ordered by id.
    advanced: Vec<AdvancedProjection>,
    /// Executions whose current state could not be stored, ordered by id.
    failed: Vec<FailedProjection>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// An execution whose state is stored.
#[derive(Debug, SimpleObject)]
pub(super) struct AdvancedProjection {
    /// Id of the execution.
    execution_id: ID,
    /// Highest event id in the state.
    version: ID,
    /// Number of events in the state.
    applied_count: BigInt,
    /// Number of these events that were not in the stored state before.
    folded: BigInt,
}

/// An execution whose state could not be stored.
#[derive(Debug, SimpleObject)]
pub(super) struct FailedProjection {
    /// Id of the execution.
    execution_id: ID,
    /// Code of the error.
    code: RejectionCode,
    /// Explanation of the error for a person.
    message: String,
    /// Whether the same request may succeed later.
    retryable: bool,
}

impl AdvanceProjectionsPayload {
    pub(super) fn new(outcomes: Advances, user_errors: Vec<UserError>) -> Self {
        let (mut advanced, mut failed) = (Vec::new(), Vec::new());
        for (id, outcome) in outcomes {
            let execution_id = show_id(id);
            match outcome {
                Ok(done) => advanced.push(AdvancedProjection {
                    execution_id,
                    version: show_id(done.version),
                    applied_count: BigInt(done.applied_count),
                    folded: BigInt(done.folded),
                }),
                Err(error) => {
                    let UserError { code, message, retryable, .. } = item_error(error);
                    failed.push(FailedProjection { execution_id, code, message, retryable });
                }
            }
        }
        Self { advanced, failed, user_errors }
    }
}

impl AuditedPayload for AdvanceProjectionsPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }
}
