//! Result of a request to execute.

use crate::service::error::ServiceError;
use noetl_domain::ids::Id;

/// The execution of a request. This request or an earlier one started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// The execution.
    pub execution_id: Id,
    /// Whether this request started it.
    pub outcome: Outcome,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The request started the execution.
    Started,
    /// The dedup key belongs to an execution that an earlier request started.
    Duplicate,
}

/// Result of one request.
pub type Answer = Result<Executed, ServiceError>;
