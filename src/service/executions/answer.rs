//! What a request to execute comes to.

use crate::domain::ids::Id;
use crate::service::error::ServiceError;

/// An execution that runs because of a request, now or earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// Which one.
    pub execution_id: Id,
    /// Whether this request started it.
    pub outcome: Outcome,
}

/// What a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It started the execution.
    Started,
    /// Its dedup key belongs to an execution that an earlier request started.
    Duplicate,
}

/// The answer to one request.
pub type Answer = Result<Executed, ServiceError>;
