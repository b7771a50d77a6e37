//! Progress of a move, as the command shows it.

use noetl_domain::shard::ShardIndex;

/// Step of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Another command or the retention works on one of the shards.
    Waiting,
    /// The replicas read the map that names the move.
    Announced,
    /// This many executions of the buckets were copied, and this many events.
    Copied {
        /// Number of executions.
        executions: u64,
        /// Number of events that were added to the target.
        events: u64,
    },
    /// A group of buckets could not be switched, and will be tried again.
    Postponed(&'static str),
    /// This many of the buckets are on the target.
    Switched {
        /// Number of buckets that have moved.
        done: usize,
        /// Number of buckets of this source and target.
        of: usize,
        /// Milliseconds for which the last buckets could not be written.
        pause_ms: u64,
    },
}

/// Receiver of the progress of the moves from a source to a target.
pub type Report<'r> = &'r (dyn Fn(ShardIndex, ShardIndex, Progress) + Sync);
