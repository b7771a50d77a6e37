//! Deletes delivered outbox rows after their retention time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Turns;
use crate::service::outbox::Outbox;

const PERIOD: Duration = Duration::from_mins(1);

/// Purges until `stop`, which also cancels a running purge.
pub async fn run(outbox: Outbox, stop: CancellationToken) {
    let mut turns = Turns::every(PERIOD, stop.clone());
    while turns.next().await {
        for shard in outbox.shards() {
            match stop.run_until_cancelled(outbox.purge(shard)).await {
                Some(Err(error)) => tracing::warn!(shard, %error, "the outbox can't be purged now"),
                Some(Ok(rows @ 1..)) => tracing::info!(shard, rows, "purged delivered outbox rows"),
                Some(Ok(0)) | None => {}
            }
        }
    }
}
