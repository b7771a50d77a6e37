//! Makes the event table's partitions for this quarter and the next two, on every shard.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Turns;
use crate::domain::quarter::Quarter;
use crate::service::clock;
use crate::storage::error::StorageError;
use crate::storage::partitions;
use crate::storage::pools::{Database, Databases};

const PERIOD: Duration = Duration::from_hours(6);
const AHEAD: usize = 3;

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

/// Makes what is missing in one database. Answers what it made.
pub async fn ensure(database: &Database) -> Result<Vec<String>, StorageError> {
    let (mut quarter, mut made) = (Quarter::of(clock::now()), Vec::new());
    for _ in 0..AHEAD {
        if partitions::ensure(database, quarter).await? {
            let partition = quarter.partition_name();
            tracing::info!(database = %database.name(), partition, "made an event partition");
            metrics::counter!("noetl_event_partitions_made_total").increment(1);
            made.push(partition);
        }
        quarter = quarter.next();
    }
    Ok(made)
}
