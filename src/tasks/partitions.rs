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

/// Makes what is missing in one database.
pub async fn ensure(database: &Database) -> Result<(), StorageError> {
    let mut quarter = Quarter::of(clock::now());
    for _ in 0..AHEAD {
        if partitions::ensure(database, quarter).await? {
            tracing::info!(database = %database.name(), partition = quarter.partition_name(), "made an event partition");
        }
        quarter = quarter.next();
    }
    Ok(())
}
