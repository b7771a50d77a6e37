//! What advancing projections answers.

use async_graphql::{ID, SimpleObject};

use crate::graphql::errors::{UserError, UserErrorCode, item_error};
use crate::graphql::scalars::{BigInt, show_id};
use crate::service::projections::Advances;

/// What came of advancing projections.
#[derive(Debug, SimpleObject)]
pub(super) struct AdvanceProjectionsPayload {
    /// Those that are stored as of now, by id.
    advanced: Vec<AdvancedProjection>,
    /// Those that are not, by id.
    failed: Vec<FailedProjection>,
    /// Why nothing was done.
    pub(super) user_errors: Vec<UserError>,
}

/// An execution whose state is stored.
#[derive(Debug, SimpleObject)]
pub(super) struct AdvancedProjection {
    /// Whose state.
    execution_id: ID,
    /// The highest event id in it.
    version: ID,
    /// How many events are in it.
    applied_count: BigInt,
    /// How many of them were not in the stored state before.
    folded: BigInt,
}

/// An execution whose state could not be stored.
#[derive(Debug, SimpleObject)]
pub(super) struct FailedProjection {
    /// Whose state.
    execution_id: ID,
    /// What kind of failure.
    code: UserErrorCode,
    /// A sentence that says what to do.
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
