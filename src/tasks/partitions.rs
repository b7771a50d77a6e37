//! Creates the event table's partitions for this quarter and the next two.

use noetl_domain::quarter::Quarter;
use noetl_runtime::clock;
use noetl_storage::error::StorageError;
use noetl_storage::partitions::{self, EnsuredPartition, Outcome};
use noetl_storage::pools::Database;

/// Number of quarters whose partitions must exist.
const QUARTERS: usize = 3;

/// Names of the partitions that were missing in one database.
#[derive(Debug, Default)]
pub struct Partitions {
    /// Partitions that were created.
    pub made: Vec<String>,
    /// Partitions of later quarters that can't be created, because the default partition holds rows of their range. Each
    /// has its bounds.
    pub blocked: Vec<String>,
    /// Partitions of this quarter whose events are in the default partition, as in a database of NoETL's own server that
    /// had no partition for the quarter.
    pub in_default: Vec<String>,
    /// Partitions that can't be created now, because a long transaction uses the event table.
    pub busy: Vec<String>,
    /// Partitions of this quarter and the next that can't be created, because the role does not own the event table.
    pub denied: Vec<String>,
    /// The same for the last quarter. Its partition is missing from the start of a quarter until the owner's next
    /// `maintain`, so this is no failure.
    pub left_to_owner: Vec<String>,
}

/// Creates the missing partitions in one database, and warns of those that can't be created.
pub async fn ensure(database: &Database) -> Result<Partitions, StorageError> {
    let (mut quarter, mut done) = (Quarter::of(clock::now()), Partitions::default());
    for ahead in 0..QUARTERS {
        for ensured in partitions::ensure(database, quarter).await? {
            done.note(database, ensured, ahead);
        }
        quarter = quarter.next();
    }
    Ok(done)
}

impl Partitions {
    /// Notes the result for a partition. `ahead`: number of quarters after this one. The range of this quarter is in use.
    fn note(&mut self, database: &Database, ensured: EnsuredPartition, ahead: usize) {
        let (EnsuredPartition { partition, range, outcome }, database) = (ensured, database.name());
        match outcome {
            Outcome::Made => {
                tracing::info!(%database, partition, "created an event partition");
                metrics::counter!("noetl_event_partitions_made_total").increment(1);
                self.made.push(partition);
            }
            Outcome::Blocked if ahead == 0 => {
                tracing::info!(%database, partition, "the events of this quarter are in the default event partition");
                self.in_default.push(partition);
            }
            Outcome::Blocked => {
                tracing::warn!(%database, partition, "rows in the default event partition block another partition");
                metrics::counter!("noetl_event_partitions_blocked_total").increment(1);
                self.blocked.push(format!("{partition} FOR VALUES FROM ({}) TO ({})", range.start, range.end));
            }
            Outcome::Busy => {
                tracing::warn!(%database, partition, "a long transaction blocks an event partition");
                self.busy.push(partition);
            }
            Outcome::Denied if ahead + 1 == QUARTERS => {
                tracing::info!(%database, partition, "an event partition is left to the owner of the event table");
                self.left_to_owner.push(partition);
            }
            // The caller reports all of them at once.
            Outcome::Denied => {
                metrics::counter!("noetl_event_partitions_blocked_total").increment(1);
                self.denied.push(partition);
            }
        }
    }
}
