//! Payload of `advanceProjections`.

use async_graphql::{ID, SimpleObject};

use crate::audit::audited_payload;
use crate::errors::{UserError, item_error};
use crate::scalars::{BigInt, GivenItem, show_id, to_graphql_int};
use noetl_domain::ids::Id;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::projections::{Advanced, Advances};

/// Result of advancing projections.
#[derive(Debug, SimpleObject)]
pub(super) struct AdvanceProjectionsPayload {
    /// Results; result i belongs to id i.
    results: Vec<AdvanceProjectionsResult>,
    /// Reasons the whole request was refused; empty if it was carried out.
    user_errors: Vec<UserError>,
}

/// Result of advancing the projection of one execution.
#[derive(Debug, SimpleObject)]
pub(super) struct AdvanceProjectionsResult {
    /// Index of the id in `executionIds`, counted from 0.
    index: i32,
    /// Id of the execution, as the caller gave it.
    execution_id: ID,
    /// Stored state of the execution; null if it could not be stored.
    advanced: Option<AdvancedProjection>,
    /// Reasons the state could not be stored; empty if it is stored.
    user_errors: Vec<UserError>,
}

/// State of an execution that is stored.
#[derive(Debug, SimpleObject)]
pub(super) struct AdvancedProjection {
    /// Highest event id in the state.
    version: ID,
    /// Number of events in the state.
    applied_count: BigInt,
    /// Number of these events that were not in the stored state before.
    folded: BigInt,
}

impl From<Advanced> for AdvancedProjection {
    fn from(done: Advanced) -> Self {
        Self { version: show_id(done.version), applied_count: BigInt(done.applied_count), folded: BigInt(done.folded) }
    }
}

impl AdvanceProjectionsPayload {
    /// Creates the payload from the given ids and the results of the valid ones; `None`: the request was refused.
    pub(super) fn new(advanced: Option<(Vec<GivenItem<Id>>, Advances)>, user_errors: Vec<UserError>) -> Self {
        let Some((given, by_id)) = advanced else {
            return Self { results: Vec::new(), user_errors };
        };
        let result = |(index, GivenItem { id: execution_id, item }): (usize, GivenItem<Id>)| {
            let outcome = match item {
                Ok(id) => by_id.get(&id).cloned().unwrap_or_else(|| Err(unknown(index, id))),
                Err(rejection) => Err(rejection.into()),
            };
            let index = to_graphql_int(index);
            let (advanced, user_errors) = match outcome {
                Ok(done) => (Some(done.into()), Vec::new()),
                Err(error) => (None, vec![error_at(index, error)]),
            };
            AdvanceProjectionsResult { index, execution_id, advanced, user_errors }
        };
        Self { results: given.into_iter().enumerate().map(result).collect(), user_errors }
    }
}

/// Returns the error of an execution, with the path of its id.
fn error_at(index: i32, error: ServiceError) -> UserError {
    let error = item_error(error);
    let field = error.field.is_some().then(|| vec!["executionIds".to_owned(), index.to_string()]);
    UserError { field, ..error }
}

fn unknown(index: usize, id: Id) -> ServiceError {
    Rejection::not_found(&format!("executionIds.{index}"), format!("there is no execution {id}")).into()
}

audited_payload!(AdvanceProjectionsPayload, results);
