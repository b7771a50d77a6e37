//! Statistics of the steps of a path: their request and their result.

use crate::bounds::check_text;
use crate::error::Rejection;
use noetl_domain::shard::ShardIndex;
use noetl_domain::step_stats::StepStats;

/// Maximum number of executions of a request.
const MAX_EXECUTIONS: u32 = 500;
/// Number of executions if the request names none.
const DEFAULT_EXECUTIONS: u32 = 100;

/// Request of statistics.
#[derive(Debug, Clone)]
pub struct PathStepsRequest {
    /// Path of the executions.
    pub path: String,
    /// Maximum number of executions, counted from the newest.
    pub last: u32,
}

impl PathStepsRequest {
    /// Checks and creates the request.
    pub fn new(path: String, last: Option<i32>) -> Result<Self, Rejection> {
        check_text("path", &path)?;
        let last = match last.map(u32::try_from) {
            None => DEFAULT_EXECUTIONS,
            Some(Ok(last @ 1..=MAX_EXECUTIONS)) => last,
            Some(_) => return Err(Rejection::invalid("last", format!("last must be 1 to {MAX_EXECUTIONS}"))),
        };
        Ok(Self { path, last })
    }
}

/// Statistics of the steps of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSteps {
    /// The statistics.
    pub stats: StepStats,
    /// Shards whose executions are missing.
    pub unavailable: Vec<ShardIndex>,
}
