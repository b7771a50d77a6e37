//! Creates the event table's partitions for this quarter and the next two.

use crate::runtime::clock;
use noetl_domain::quarter::Quarter;
use noetl_storage::error::StorageError;
use noetl_storage::partitions::{self, EnsuredPartition};
use noetl_storage::pools::Database;

/// Number of quarters whose partitions must exist.
const QUARTERS: usize = 3;

/// Names of the partitions that were created in one database, and of those that could not be.
#[derive(Debug, Default)]
pub struct Partitions {
    /// Partitions that were missing and were created.
    pub made: Vec<String>,
    /// Partitions that can't be created, because the default partition holds rows of their range.
    pub blocked: Vec<String>,
}

/// Creates the missing partitions in one database, and warns of those that can't be created.
pub async fn ensure(database: &Database) -> Result<Partitions, StorageError> {
    let (mut quarter, mut done) = (Quarter::of(clock::now()), Partitions::default());
    for _ in 0..QUARTERS {
        let (partition, name) = (quarter.partition_name(), database.name());
        match partitions::ensure(database, quarter).await? {
            EnsuredPartition::Present => {}
            EnsuredPartition::Made => {
                tracing::info!(database = %name, partition, "created an event partition");
                metrics::counter!("noetl_event_partitions_made_total").increment(1);
                done.made.push(partition);
            }
            EnsuredPartition::Blocked => {
                tracing::warn!(database = %name, partition, "rows in noetl.event_default block an event partition");
                metrics::counter!("noetl_event_partitions_blocked_total").increment(1);
                done.blocked.push(partition);
            }
        }
        quarter = quarter.next();
    }
    Ok(done)
}
