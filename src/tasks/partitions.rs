//! Makes the event table's partitions for this quarter and the next two, on every shard.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Turns;
use crate::domain::quarter::Quarter;
use crate::service::clock;
use crate::storage::error::StorageError;
use crate::storage::partitions::{self, Ensured};
use crate::storage::pools::{Database, Databases};

const PERIOD: Duration = Duration::from_hours(6);
const AHEAD: usize = 3;

/// What became of the quarters' partitions in one database, by name.
#[derive(Debug, Default)]
pub struct Partitions {
    /// The ones that were missing.
    pub made: Vec<String>,
    /// The ones that rows in the default partition keep from being made.
    pub blocked: Vec<String>,
}

/// Looks ahead until `stop`.
pub async fn run(databases: Databases, stop: CancellationToken) {
    let mut turns = Turns::every(PERIOD, stop);
    while turns.next().await {
        for database in databases.shards() {
            if let Err(error) = ensure(database).await {
                tracing::warn!(database = %database.name(), %error, "event partitions could not be made");
            }
        }
    }
}

/// Makes what is missing in one database, and warns of what can't be made.
pub async fn ensure(database: &Database) -> Result<Partitions, StorageError> {
    let (mut quarter, mut done) = (Quarter::of(clock::now()), Partitions::default());
    for _ in 0..AHEAD {
        let (partition, name) = (quarter.partition_name(), database.name());
        match partitions::ensure(database, quarter).await? {
            Ensured::Present => {}
            Ensured::Made => {
                tracing::info!(database = %name, partition, "made an event partition");
                metrics::counter!("noetl_event_partitions_made_total").increment(1);
                done.made.push(partition);
            }
            Ensured::Blocked => {
                tracing::warn!(database = %name, partition, "rows in noetl.event_default block an event partition");
                metrics::counter!("noetl_event_partitions_blocked_total").increment(1);
                done.blocked.push(partition);
            }
        }
        quarter = quarter.next();
    }
    Ok(done)
}
