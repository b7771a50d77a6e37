//! Statements of the comparison of cluster database, shards and streams, and of its repairs.
//!
//! A table is read in pages of keys. The facts about the keys of a page are read by another statement, which is repeated
//! for a second look at the keys of differences. So each statement is short and no snapshot is held between them.
//!
//! A repair checks the difference again in its own statement, so it changes nothing that was corrected meanwhile.

pub mod claims;
pub mod executions;
pub mod feed;
pub mod ids;
pub mod logs;
pub mod outbox;
pub mod snapshots;
pub mod subscriptions;

use super::error::StorageError;
use super::partitions::{self, Partition};
use super::pools::Database;

/// Returns the partitions of a shard's event table that have bounds, in the order of their bounds.
#[tracing::instrument(level = "debug", name = "sql.check.partitions", skip_all, fields(database = %shard.name()))]
pub async fn partitions(shard: &Database) -> Result<Vec<Partition>, StorageError> {
    shard.run(partitions::bounded(shard.pool())).await
}
