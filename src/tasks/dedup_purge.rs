//! Deletes expired dedup claims whose execution exists. No claim waits for this task: an expired claim can be replaced
//! while its row still exists.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Turns;
use noetl_storage::dedup;
use noetl_storage::error::StorageError;
use noetl_storage::pools::{Database, Databases};

const PERIOD: Duration = Duration::from_mins(1);
/// Maximum rows of one statement.
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

/// Deletes all claims that have expired by now, batch after batch. Returns their number.
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
