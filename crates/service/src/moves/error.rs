//! Reasons that buckets were not moved.

use std::time::Duration;

use crate::ids::LEASE;
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::{DatabaseName, StorageError};

/// Time to wait for the replicas' maps. A replica that does not renew its lease is excluded when it expires.
pub(super) const MAPS_WITHIN: Duration = Duration::from_secs(LEASE.as_secs() + 15);

/// Reason that buckets were not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// A database failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The target is not configured.
    #[error("there is no shard {0}; NOETL_SHARDS names the shards")]
    NoShard(ShardIndex),
    /// A replica can't use a map that changes, or does not know the target.
    #[error(
        "replica {0} does not know shard {1}, or is of an earlier release; restart it with the current NOETL_SHARDS"
    )]
    Replica(String, ShardIndex),
    /// A replica does not read the new map.
    #[error("replica {0} has not read the bucket map within {seconds} s; repeat the command", seconds = MAPS_WITHIN.as_secs())]
    SlowReplica(String),
    /// Another process works on a shard.
    #[error("another move or the retention works on {0} or {1}; repeat the command later")]
    Busy(DatabaseName, DatabaseName),
    /// The target's feed has not begun, so it could begin with copied events.
    #[error(
        "the feed of {0} has not begun, but that of {1} has; start the replicas with the current NOETL_SHARDS first"
    )]
    NoFeed(DatabaseName, DatabaseName),
    /// The target has no partition for events of the source.
    #[error("{0} has no partition for the events of {1}, and can't get it now")]
    NoPartition(DatabaseName, DatabaseName),
    /// A bucket is being moved to another shard.
    #[error("bucket {0} is being moved to shard {1}; complete or abort that move first")]
    OtherTarget(u16, ShardIndex),
    /// Rows of the two shards differ after a repeated copy.
    #[error("the copied rows of {0} differ from those of the source")]
    Different(DatabaseName),
    /// The source is on another server than when the copy began, whose transaction ids differ.
    #[error("{0} is on another server than before, as after a failover; repeat the command")]
    OtherServer(DatabaseName),
    /// The switch did not succeed for a long time.
    #[error("the buckets could not be switched: {0}; the copied rows stay, repeat the command later")]
    NotSwitched(&'static str),
    /// Another command aborted a move.
    #[error("another command aborted the move of bucket {0}")]
    Aborted(u16),
    /// A move can't be aborted after its switch.
    #[error("bucket {0} is on shard {1} already; move it back instead")]
    Switched(u16, ShardIndex),
}
