//! Numbers of executions.

use async_graphql::SimpleObject;

use super::status::ExecutionStatus;
use crate::scalars::to_graphql_int;
use noetl_domain::shard::ShardIndex;
use noetl_use_cases::executions;

/// Numbers of executions, from the list of executions. On each shard, up to 100,000 executions are counted.
#[derive(Debug, Clone, SimpleObject)]
pub struct ExecutionStats {
    /// Number of all counted executions.
    total: i32,
    /// Numbers by status, without those that are 0.
    by_status: Vec<ExecutionStatusCount>,
    /// The 100 paths with the most executions, largest number first.
    by_path: Vec<ExecutionPathCount>,
    /// Whether a shard has more executions than were counted, so that the numbers are too low.
    capped: bool,
    /// Whether there are paths that `byPath` does not contain. The number of a path is too low if the path is not among
    /// the first 100 of each shard.
    more_paths: bool,
    /// Shards that could not be reached. Their executions are not counted.
    unavailable_shards: Vec<ShardIndex>,
}

/// Number of executions with a status.
#[derive(Debug, Clone, SimpleObject)]
pub struct ExecutionStatusCount {
    /// The status.
    status: ExecutionStatus,
    /// Number of executions.
    count: i32,
}

/// Number of executions of a catalog path.
#[derive(Debug, Clone, SimpleObject)]
pub struct ExecutionPathCount {
    /// The catalog path; null: the list does not have the path of the executions.
    path: Option<String>,
    /// Number of executions.
    count: i32,
}

impl From<executions::ExecutionStats> for ExecutionStats {
    fn from(stats: executions::ExecutionStats) -> Self {
        let by_status = stats.by_status.into_iter();
        let by_path = stats.by_path.into_iter();
        Self {
            total: to_graphql_int(stats.total),
            by_status: by_status
                .map(|(status, count)| ExecutionStatusCount { status: status.into(), count: to_graphql_int(count) })
                .collect(),
            by_path: by_path
                .map(|one| ExecutionPathCount { path: one.path, count: to_graphql_int(one.count) })
                .collect(),
            capped: stats.capped,
            more_paths: stats.more_paths,
            unavailable_shards: stats.unavailable,
        }
    }
}
