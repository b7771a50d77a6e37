//! Statements of the comparison of cluster database, shards and streams, and of its repairs.
//!
//! A table is read in pages of keys. The facts about the keys of a page are read by another statement, which is repeated
//! for a second look at the keys of differences. So each statement is short and no snapshot is held between them.
//!
//! A repair checks the difference again in its own statement, so it changes nothing that was corrected meanwhile.

pub mod claims;
pub mod executions;
pub mod feed;
pub mod history;
pub mod ids;
pub mod logs;
pub mod outbox;
pub mod snapshots;
pub mod subscriptions;

use sqlx::PgConnection;

use super::error::{DatabaseName, StorageError};
use super::partitions;
use super::pools::Database;
use noetl_domain::partition::Partition;

/// Settings of a connection that reads pages. A bitmap or a sort would read the whole table for each page. The planner
/// prefers them while it has no statistics, as after the restore of a dump.
const ALONG_INDEXES: [(&str, &str); 4] =
    [("jit", "off"), ("enable_seqscan", "off"), ("enable_bitmapscan", "off"), ("enable_sort", "off")];

/// Connection that reads pages of keys of a database, each along an index.
#[derive(Debug)]
pub struct Pages<'a> {
    database: &'a Database,
    connection: PgConnection,
}

impl<'a> Pages<'a> {
    /// Opens the connection.
    pub async fn of(database: &'a Database) -> Result<Self, StorageError> {
        // Boxed, because the future of a connection attempt is large.
        let connection = Box::pin(database.run(database.connect_with(ALONG_INDEXES))).await?;
        Ok(Self { database, connection })
    }

    fn name(&self) -> DatabaseName {
        self.database.name()
    }
}

/// Returns the partitions of a shard's event table that have bounds, in the order of their bounds.
#[tracing::instrument(level = "debug", name = "sql.check.partitions", skip_all, fields(database = %shard.name()))]
pub async fn partitions(shard: &Database) -> Result<Vec<Partition>, StorageError> {
    shard.run(partitions::bounded(shard.pool())).await
}
