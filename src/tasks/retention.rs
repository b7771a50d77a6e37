//! Drops event partitions that are past the retention, on every shard.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Turns;
use crate::service::retention::Retention;
use noetl_storage::pools::Databases;

const PERIOD: Duration = Duration::from_hours(1);

/// Drops expired partitions until `stop`.
pub async fn run(databases: Databases, retention: Retention, stop: CancellationToken) {
    let mut turns = Turns::every(PERIOD, stop.clone());
    while turns.next().await {
        for shard in databases.shards() {
            if let Some(Err(error)) = stop.run_until_cancelled(retention.enforce(shard)).await {
                tracing::warn!(database = %shard.name(), ?error, "the retention could not be enforced");
            }
        }
    }
}
