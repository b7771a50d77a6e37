//! Keeps this replica's bucket map current: reads its version at intervals, and at once when a shard refuses a row of a
//! moved bucket. While buckets are being moved, the intervals are short.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use noetl_runtime::causes::WithCauses;
use noetl_runtime::clock;
use noetl_service::ids::Ids;
use noetl_storage::pools::Databases;
use noetl_use_cases::error::ServiceError;

/// Time between two reads while no bucket is being moved.
const PERIOD: Duration = Duration::from_secs(1);
/// Time between two reads while buckets are being moved. It is much shorter than the time for which a statement that a
/// fence refused is repeated (`REPEATED_FOR` in `crates/service/src/moves/repetition.rs`).
const MOVING: Duration = Duration::from_millis(100);

/// Reads the map until `stop`.
pub async fn run(databases: Databases, ids: Arc<Ids>, stop: CancellationToken) {
    let (mut period, mut acknowledged) = (Duration::ZERO, databases.map().version());
    loop {
        let due = async {
            tokio::select! {
                () = sleep(period) => {}
                () = databases.new_map_requested() => {}
            }
        };
        if stop.run_until_cancelled(due).await.is_none() {
            return;
        }
        period = match read(&databases, &ids, &mut acknowledged).await {
            Ok(moving) => {
                if moving {
                    MOVING
                } else {
                    PERIOD
                }
            }
            Err(error) => {
                tracing::warn!(error = %WithCauses(&error), "the bucket map could not be read");
                MOVING.max(period)
            }
        };
    }
}

/// Reads the map if its version has changed, and stores in the lease that this replica uses it, also if a request has read
/// it before. Returns whether buckets are being moved.
async fn read(databases: &Databases, ids: &Ids, acknowledged: &mut u64) -> Result<bool, ServiceError> {
    let moving = databases.watch_map(clock::now()).await?;
    let used = databases.map().version();
    if used > *acknowledged {
        tracing::info!(version = used, "using a new bucket map");
        ids.acknowledge_map().await?;
        *acknowledged = used;
    }
    Ok(moving)
}
