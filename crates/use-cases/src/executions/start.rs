//! Results of requests to start executions.

use noetl_domain::ids::Id;
use noetl_storage::executions::ExecutionRow;

/// The execution of a request. This request or an earlier one started it.
#[derive(Debug, Clone)]
pub struct Executed {
    /// The execution.
    pub execution_id: Id,
    /// Whether this request started it.
    pub outcome: Outcome,
    /// Whether a duplicate differs from the request that started the execution. `None`: the request is not a duplicate,
    /// or the first one is unknown because NoETL's own server started the execution.
    pub differs: Option<bool>,
    /// Row of the execution, if this request created it.
    pub created: Option<ExecutionRow>,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The request started the execution.
    Started,
    /// The dedup key belongs to an execution that an earlier request started.
    Duplicate,
}
