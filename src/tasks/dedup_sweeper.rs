//! Finishes the work of callers that crashed: creates the executions of reserved dedup claims, and fulfils the intents
//! in the subscription registry.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Turns;
use crate::service::executions::Executions;
use crate::service::subscriptions::Subscriptions;

const PERIOD: Duration = Duration::from_secs(2);

/// Sweeps until `stop`.
pub async fn run(executions: Executions, subscriptions: Subscriptions, stop: CancellationToken) {
    let mut turns = Turns::every(PERIOD, stop);
    while turns.next().await {
        match executions.sweep().await {
            Ok(found) => metrics::counter!("noetl_dedup_swept_total").increment(found as u64),
            Err(error) => tracing::warn!(%error, "dedup claims can't be swept now"),
        }
        match subscriptions.sweep().await {
            Ok(found) => metrics::counter!("noetl_registry_swept_total").increment(found as u64),
            Err(error) => tracing::warn!(%error, "registrations can't be swept now"),
        }
    }
}
