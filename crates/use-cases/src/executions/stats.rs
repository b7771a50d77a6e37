//! Numbers of executions by status and by path.

use noetl_domain::execution::Status;
use noetl_domain::shard::ShardIndex;

/// Number of executions of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathCount {
    /// The path; `None`: the executions have none.
    pub path: Option<String>,
    /// Number of executions.
    pub count: i64,
}

/// Numbers of executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionStats {
    /// Number of all executions.
    pub total: i64,
    /// Numbers by status, without those that are 0.
    pub by_status: Vec<(Status, i64)>,
    /// Paths with the most executions, largest number first.
    pub by_path: Vec<PathCount>,
    /// Whether a shard has more executions than were counted.
    pub capped: bool,
    /// Whether there are more paths.
    pub more_paths: bool,
    /// Shards whose executions were not counted.
    pub unavailable: Vec<ShardIndex>,
}
