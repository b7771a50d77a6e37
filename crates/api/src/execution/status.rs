//! Status of an execution.

use async_graphql::Enum;

use noetl_domain::execution::Status;

/// Status of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Status")]
pub enum ExecutionStatus {
    /// No step has begun, for example because no worker of the pool is active.
    Pending,
    /// A step has begun, and the execution has not ended.
    Running,
    /// Ended successfully.
    Completed,
    /// Ended with an error.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Stored under a name that this server does not know; `statusText` contains the name.
    Unknown,
}
