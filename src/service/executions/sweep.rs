//! Housekeeping of dedup claims: finishing the claims of crashed callers, and deleting expired claims.

use super::Executions;
use crate::service::error::ServiceError;
use noetl_domain::ids::Id;
use noetl_storage::dedup::{self, StaleClaim};

/// Age in seconds from which the sweeper finishes a reserved claim. This is safe while the claimant is alive: both
/// create the execution idempotently under the same id.
const STALE_CLAIM_SECONDS: f64 = 6.0;
/// Number of claims that one query of the sweeper reads.
const SWEEP_PAGE: i64 = 200;
/// Maximum number of expired claims that one statement deletes.
const PURGE_BATCH: u64 = 1000;

impl Executions {
    /// Finishes abandoned claims: creates their executions and settles them. Claims of an unreachable shard do not
    /// delay the others. Returns the number of claims found.
    #[tracing::instrument(level = "debug", name = "executions.sweep", skip_all)]
    pub async fn sweep(&self) -> Result<usize, ServiceError> {
        let (mut found, mut last) = (0, Id::new(-1));
        loop {
            let stale = dedup::stale(self.databases.cluster(), STALE_CLAIM_SECONDS, last, SWEEP_PAGE).await?;
            let Some(claim) = stale.last() else {
                metrics::counter!("noetl_dedup_swept_total").increment(found as u64);
                return Ok(found);
            };
            (found, last) = (found + stale.len(), claim.execution_id);
            self.finish(stale).await;
        }
    }

    async fn finish(&self, stale: Vec<StaleClaim>) {
        let mut creations = Vec::new();
        for StaleClaim { execution_id, creation } in stale {
            match creation {
                Ok(creation) => creations.push(creation),
                Err(error) => {
                    tracing::error!(execution = %execution_id, %error, "an abandoned dedup claim can't be read");
                }
            }
        }
        let failed = self.create(creations.iter()).await;
        let ids = creations.iter().map(|creation| creation.execution_id);
        let created: Vec<i64> =
            ids.filter(|id| !failed.contains_key(&self.databases.index_of(*id))).map(Id::get).collect();
        self.settle_ids(&created).await;
        tracing::info!(claims = creations.len(), created = created.len(), "finished abandoned dedup claims");
    }

    /// Deletes the expired claims whose execution exists, batch after batch. Returns their number. No claim waits for
    /// this: an expired claim can be replaced while its row still exists.
    #[tracing::instrument(level = "debug", name = "executions.purge_claims", skip_all)]
    pub async fn purge_claims(&self) -> Result<u64, ServiceError> {
        let mut purged = 0;
        loop {
            let batch = dedup::purge_expired(self.databases.cluster(), PURGE_BATCH.cast_signed()).await?;
            metrics::counter!("noetl_dedup_purged_total").increment(batch);
            purged += batch;
            if batch < PURGE_BATCH {
                return Ok(purged);
            }
        }
    }
}
