//! Errors of reading the event stream.

use noetl_domain::shard::ShardIndex;

/// Failure to read a stream.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the event stream of shard {shard} can't be read: {reason}")]
pub struct ReadError {
    /// Shard of the stream.
    pub shard: ShardIndex,
    /// Cause, for the log.
    pub reason: String,
    /// True if the broker responded that the stream does not exist.
    pub missing: bool,
}

impl ReadError {
    pub(super) fn of(shard: ShardIndex, reason: impl std::fmt::Display) -> Self {
        Self { shard, reason: reason.to_string(), missing: false }
    }
}
