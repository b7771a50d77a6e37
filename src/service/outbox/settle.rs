//! Settling claims.
//!
//! A settlement must carry the token of the row's latest claim. A token settles its row once. Marking the row as
//! published again with the same token changes nothing and is not counted; any other repetition is stale. An expired
//! lease still settles its row until another claim takes the row.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;

use super::dead::NewlyDead;
use super::{MAX_ROWS, Outbox};
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use noetl_domain::backoff;
use noetl_domain::outbox::{OutboxId, truncated_error};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::{self, Failed, Failure, Ref};

/// Upper limit in seconds of the caller's maximum delay: one day.
const MAX_DELAY_SECONDS: i64 = 86_400;

/// Reference to a claim, as its holder sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// The claimed row.
    pub id: OutboxId,
    /// Token of the lease.
    pub lease: i64,
}

/// Claimed row whose delivery failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedDelivery {
    /// The claim of the row.
    pub claim: ClaimRef,
    /// Error of the delivery, which the row stores.
    pub error: String,
}

/// Result of marking rows as published.
#[derive(Debug, Default)]
pub struct Published {
    /// Number of rows whose status this call changed.
    pub published: u64,
    /// Rows that the given lease does not settle, or no longer settles.
    pub stale: Vec<OutboxId>,
    /// Shards that failed. Their rows may or may not be settled.
    pub failed: BTreeMap<ShardIndex, ServiceError>,
}

/// Row that was marked as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRow {
    /// Id of the row.
    pub id: OutboxId,
    /// Delay in seconds before the row is claimable again; `None`: the row is DEAD.
    pub retry_in: Option<i32>,
}

impl Outbox {
    /// Marks up to 1000 rows as published. Rows that are not in the scope are stale.
    #[tracing::instrument(level = "debug", name = "outbox.mark_published", skip_all, fields(count = claims.len()))]
    pub async fn mark_published(&self, claims: &[ClaimRef], scope: &Scope) -> Result<Published, ServiceError> {
        let groups = self.checked(claims)?;
        let answers = groups.iter().map(async |(shard, refs)| (*shard, self.publish_on(*shard, refs, scope).await));
        let mut outcome = Published::default();
        for (shard, answer) in join_all(answers).await {
            match answer {
                Ok((changed, stale)) => {
                    outcome.published += changed;
                    outcome.stale.extend(stale.into_iter().map(|number| OutboxId { shard, number }));
                }
                Err(error) => drop(outcome.failed.insert(shard, error.into())),
            }
        }
        metrics::counter!("noetl_outbox_published_total").increment(outcome.published);
        metrics::counter!("noetl_outbox_stale_total").increment(outcome.stale.len() as u64);
        Ok(outcome)
    }

    /// Marks rows of one shard as published. Returns the number of changed rows and the numbers of the stale ones.
    async fn publish_on(
        &self,
        shard: ShardIndex,
        refs: &[Ref],
        scope: &Scope,
    ) -> Result<(u64, Vec<i64>), StorageError> {
        let database = self.database(shard);
        let changed: BTreeSet<i64> = outbox::mark_published(database, scope, refs).await?.into_iter().collect();
        let rest: Vec<Ref> = refs.iter().filter(|one| !changed.contains(&one.outbox_id)).copied().collect();
        let mut stale: BTreeSet<i64> = rest.iter().map(|one| one.outbox_id).collect();
        if !rest.is_empty() {
            for settled in outbox::published_under(database, scope, &rest).await? {
                stale.remove(&settled);
            }
        }
        Ok((changed.len() as u64, stale.into_iter().collect()))
    }

    /// Marks a row as failed. A row that is not in the scope is stale. Returns whether and when it is claimable again.
    #[tracing::instrument(level = "debug", name = "outbox.mark_failed", skip_all, fields(row = %claim.id))]
    pub async fn mark_failed(
        &self,
        claim: ClaimRef,
        error: &str,
        max_delay_seconds: i64,
        scope: &Scope,
    ) -> Result<FailedRow, ServiceError> {
        if !(1..=MAX_DELAY_SECONDS).contains(&max_delay_seconds) {
            let message = format!("maxDelaySeconds must be 1 to {MAX_DELAY_SECONDS}, not {max_delay_seconds}");
            return Err(Rejection::invalid("maxDelaySeconds", message).into());
        }
        self.shard_named("id", claim.id.shard.into())?;
        let max_delay = i32::try_from(max_delay_seconds).unwrap_or(i32::MAX);
        let failed = FailedDelivery { claim, error: error.to_owned() };
        let mut rows = self.fail_on(claim.id.shard, &[failed], max_delay, scope).await?;
        let row = rows.pop().ok_or_else(|| {
            let message = "this lease no longer settles the row: it is settled, or another caller has claimed it";
            Rejection::new(RejectionCode::StaleLease, "lease", message)
        })?;
        Ok(row)
    }

    /// Marks rows of one shard as failed. Returns those in the scope that were in flight under these leases.
    #[tracing::instrument(level = "debug", name = "outbox.fail_on", skip_all, fields(shard, count = failures.len()))]
    pub async fn fail_on(
        &self,
        shard: ShardIndex,
        failures: &[FailedDelivery],
        max_delay_seconds: i32,
        scope: &Scope,
    ) -> Result<Vec<FailedRow>, ServiceError> {
        let failure =
            |failed: &FailedDelivery| Failure { row: bare(&failed.claim), error: truncated_error(&failed.error) };
        let rows: Vec<Failure> = failures.iter().map(failure).collect();
        let delays = backoff::delays(max_delay_seconds);
        let changed = outbox::mark_failed(self.database(shard), scope, &rows, &delays).await?;
        metrics::counter!("noetl_outbox_failed_total").increment(changed.len() as u64);
        metrics::counter!("noetl_outbox_stale_total").increment(rows.len().saturating_sub(changed.len()) as u64);
        let mut newly_dead = NewlyDead::default();
        for dead in changed.iter().filter(|row| row.delay.is_none()) {
            let failure = rows.iter().find(|failure| failure.row.outbox_id == dead.outbox_id);
            newly_dead.add(dead.outbox_id, failure.map_or("", |failure| failure.error.as_str()));
        }
        newly_dead.report(shard);
        let failed = |row: Failed| FailedRow { id: OutboxId { shard, number: row.outbox_id }, retry_in: row.delay };
        Ok(changed.into_iter().map(failed).collect())
    }

    /// Releases claimed rows that were not tried. They are claimable at once.
    #[tracing::instrument(level = "debug", name = "outbox.release", skip_all, fields(count = claims.len()))]
    pub async fn release(&self, claims: &[ClaimRef]) -> Result<(), ServiceError> {
        let groups = self.checked(claims)?;
        let releases = groups.iter().map(async |(shard, refs)| {
            let database = self.database(*shard);
            let released = outbox::release(database, refs).await;
            let mut open_rows = self.open_rows(*shard);
            let first = refs.iter().map(|one| one.outbox_id).min().unwrap_or(i64::MAX);
            open_rows.low_watermarks.pending = open_rows.low_watermarks.pending.min(first);
            released
        });
        let failed = join_all(releases).await.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Checks the number of claims and their shards. Returns the distinct claims by shard.
    fn checked(&self, claims: &[ClaimRef]) -> Result<BTreeMap<ShardIndex, Vec<Ref>>, Rejection> {
        if claims.len() > MAX_ROWS {
            let message = format!("at most {MAX_ROWS} claims can be settled at once, not {}", claims.len());
            return Err(Rejection::invalid("claims", message));
        }
        for (position, claim) in claims.iter().enumerate() {
            self.shard_named(&format!("claims.{position}.id"), claim.id.shard.into())?;
        }
        let distinct: BTreeSet<&ClaimRef> = claims.iter().collect();
        Ok(Self::by_shard(distinct.into_iter().map(|claim| (claim.id, bare(claim)))))
    }
}

fn bare(claim: &ClaimRef) -> Ref {
    Ref { outbox_id: claim.id.number, lease_token: claim.lease }
}
