//! Removes dedup claims that are created and expired. No claim waits for it: an expired one is free whether or not its row
//! is still there.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Turns;
use crate::storage::dedup;
use crate::storage::error::StorageError;
use crate::storage::pools::{Database, Databases};

const PERIOD: Duration = Duration::from_mins(1);
/// Rows of one statement.
const BATCH: i64 = 1000;

/// Purges until `stop`.
pub async fn run(databases: Databases, stop: CancellationToken) {
    let mut turns = Turns::every(PERIOD, stop.clone());
    while turns.next().await {
        if let Some(Err(error)) = stop.run_until_cancelled(purge(databases.cluster())).await {
            tracing::warn!(%error, "expired dedup claims can't be purged now");
        }
    }
}

/// Removes all that have expired by now, batch after batch. Answers how many.
pub async fn purge(cluster: &Database) -> Result<u64, StorageError> {
    let mut purged = 0;
    loop {
        let batch = dedup::purge_expired(cluster, BATCH).await?;
        metrics::counter!("noetl_dedup_purged_total").increment(batch);
        purged += batch;
        if batch < BATCH.cast_unsigned() {
            return Ok(purged);
        }
    }
}
