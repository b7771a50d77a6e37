//! Housekeeping of dedup claims: finishing the claims of crashed callers, and deleting expired claims.

use super::Executions;
use super::create::Failures;
use crate::sweep::Swept;
use noetl_domain::ids::Id;
use noetl_storage::dedup;
use noetl_storage::pools::OPERATION_DEADLINE;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::MAX_WINDOW_SECONDS;

/// Age in seconds from which the sweeper finishes a reserved claim. This is safe while the claimant is alive: both
/// create the execution idempotently under the same id.
pub(crate) const STALE_CLAIM_SECONDS: f64 = 6.0;
const _: () = assert!(
    STALE_CLAIM_SECONDS > OPERATION_DEADLINE.as_secs_f64(),
    "the sweeper seldom repeats the work of a living caller"
);
/// Number of claims that one query of the sweeper finds. Their requests are read in smaller pages.
const SWEEP_PAGE: i64 = 200;
/// Maximum number of expired claims that one statement deletes.
const PURGE_BATCH: u64 = 1000;

impl Executions {
    /// Finishes abandoned claims: creates their executions and settles them. Claims of an unreachable shard, and
    /// executions that a database refuses, do not delay the others.
    #[tracing::instrument(level = "debug", name = "executions.sweep", skip_all)]
    pub async fn sweep(&self) -> Result<Swept, ServiceError> {
        let (mut swept, mut last) = (Swept::default(), Id::new(-1));
        loop {
            let stale = dedup::stale(self.databases.cluster(), STALE_CLAIM_SECONDS, last, SWEEP_PAGE).await?;
            let Some(end) = stale.last() else {
                metrics::counter!("noetl_dedup_swept_total").increment(swept.found as u64);
                return Ok(swept);
            };
            last = *end;
            let failed = self.finish(&stale).await;
            swept.found += stale.len();
            swept.finished += stale.len().saturating_sub(failed.len());
            log_sweep(stale.len(), &failed);
        }
    }

    /// Deletes the expired claims whose execution exists, batch after batch. Returns their number. No claim waits for
    /// this: an expired claim can be replaced while its row still exists. A claim of NoETL's own server has no window of
    /// its own, so it is kept for the longest window of a request.
    #[tracing::instrument(level = "debug", name = "executions.purge_claims", skip_all)]
    pub async fn purge_claims(&self) -> Result<u64, ServiceError> {
        let mut purged = 0;
        loop {
            let cluster = self.databases.cluster();
            let batch = dedup::purge_expired(cluster, MAX_WINDOW_SECONDS, PURGE_BATCH.cast_signed()).await?;
            metrics::counter!("noetl_dedup_purged_total").increment(batch);
            purged += batch;
            if batch < PURGE_BATCH {
                return Ok(purged);
            }
        }
    }
}

/// Writes the result of a page to the log, with the first failure.
fn log_sweep(found: usize, failed: &Failures) {
    tracing::info!(claims = found, finished = found.saturating_sub(failed.len()), "finished abandoned dedup claims");
    if let Some((execution, error)) = failed.iter().min_by_key(|(id, _)| **id) {
        let error: &dyn std::error::Error = error;
        tracing::warn!(
            claims = failed.len(), %execution, error,
            "abandoned dedup claims can't be finished yet; this is the first one and its error"
        );
    }
}
