//! Settling claims, retrying failed rows, purging published rows.
//!
//! A settlement must carry the token of the row's latest claim. A token settles its row once. Marking the row as
//! published again with the same token changes nothing and is not counted; any other repetition is stale. An expired
//! lease still settles its row until another claim takes the row.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use futures::future::join_all;

use super::failures::Failures;
use super::{MAX_ROWS, Outbox};
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use noetl_domain::backoff;
use noetl_domain::outbox::{OutboxId, truncated_error};
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::{self, Failure, OutboxFilter, Ref};

/// Upper limit in seconds of the caller's maximum delay: one day.
const MAX_DELAY_SECONDS: i64 = 86_400;
/// Number of rows that one statement retries or purges.
const BATCH: i64 = 1000;
/// Maximum number of statements of one retry per shard. The caller must retry again for the rows that remain.
const RETRY_BATCHES: usize = 100;

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

/// Result of a retry.
#[derive(Debug, Default)]
pub struct Retried {
    /// Number of matching FAILED rows that were not due, including dead letters.
    pub matched: u64,
    /// Number of rows that this call made claimable.
    pub retried: u64,
    /// Shards that could not be reached or that failed.
    pub unavailable: Vec<ShardIndex>,
}

impl Outbox {
    /// Marks up to 1000 rows as published.
    #[tracing::instrument(level = "debug", name = "outbox.mark_published", skip_all, fields(count = claims.len()))]
    pub async fn mark_published(&self, claims: &[ClaimRef]) -> Result<Published, ServiceError> {
        let groups = self.checked(claims)?;
        let answers = groups.iter().map(async |(shard, refs)| (*shard, self.publish_on(*shard, refs).await));
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
    async fn publish_on(&self, shard: ShardIndex, refs: &[Ref]) -> Result<(u64, Vec<i64>), StorageError> {
        let database = self.database(shard);
        let changed: BTreeSet<i64> = outbox::mark_published(database, refs).await?.into_iter().collect();
        let rest: Vec<Ref> = refs.iter().filter(|one| !changed.contains(&one.outbox_id)).copied().collect();
        let mut stale: BTreeSet<i64> = rest.iter().map(|one| one.outbox_id).collect();
        if !rest.is_empty() {
            for settled in outbox::published_under(database, &rest).await? {
                stale.remove(&settled);
            }
        }
        Ok((changed.len() as u64, stale.into_iter().collect()))
    }

    /// Marks a row as failed. Returns the delay in seconds after which it is claimable again.
    #[tracing::instrument(level = "debug", name = "outbox.mark_failed", skip_all, fields(row = %claim.id))]
    pub async fn mark_failed(&self, claim: ClaimRef, error: &str, max_delay_seconds: i64) -> Result<i32, ServiceError> {
        if !(1..=MAX_DELAY_SECONDS).contains(&max_delay_seconds) {
            let message = format!("maxDelaySeconds must be 1 to {MAX_DELAY_SECONDS}, not {max_delay_seconds}");
            return Err(Rejection::invalid("maxDelaySeconds", message).into());
        }
        self.shard_named("id", claim.id.shard.into())?;
        let max_delay = i32::try_from(max_delay_seconds).unwrap_or(i32::MAX);
        let failed = FailedDelivery { claim, error: error.to_owned() };
        let mut delays = self.fail_on(claim.id.shard, &[failed], max_delay).await?;
        let (_, delay) = delays.pop().ok_or_else(|| {
            let message = "this lease no longer settles the row: it is settled, or another caller has claimed it";
            Rejection::new(RejectionCode::StaleLease, "lease", message)
        })?;
        Ok(delay)
    }

    /// Marks rows of one shard as failed. Returns those that were in flight under these leases, with their delays in
    /// seconds.
    #[tracing::instrument(level = "debug", name = "outbox.fail_on", skip_all, fields(shard, count = failures.len()))]
    pub async fn fail_on(
        &self,
        shard: ShardIndex,
        failures: &[FailedDelivery],
        max_delay_seconds: i32,
    ) -> Result<Vec<(OutboxId, i32)>, ServiceError> {
        let failure =
            |failed: &FailedDelivery| Failure { row: bare(&failed.claim), error: truncated_error(&failed.error) };
        let rows: Vec<Failure> = failures.iter().map(failure).collect();
        let delays = backoff::delays(max_delay_seconds);
        let changed = outbox::mark_failed(self.database(shard), &rows, &delays).await?;
        metrics::counter!("noetl_outbox_failed_total").increment(changed.len() as u64);
        metrics::counter!("noetl_outbox_stale_total").increment(rows.len().saturating_sub(changed.len()) as u64);
        Ok(changed.into_iter().map(|(number, delay)| (OutboxId { shard, number }, delay)).collect())
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

    /// Makes matching FAILED rows claimable at once, including dead letters. A dry run only counts them.
    #[tracing::instrument(level = "debug", name = "outbox.retry", skip_all)]
    pub async fn retry(&self, filter: &OutboxFilter, dry_run: bool) -> Result<Retried, ServiceError> {
        let answers = self.shards().map(async |shard| (shard, self.retry_on(shard, filter, dry_run).await));
        let (mut outcome, mut failures, mut answered) = (Retried::default(), Failures::default(), false);
        for (shard, answer) in join_all(answers).await {
            match answer {
                Ok((matched, retried)) => {
                    answered = true;
                    outcome.matched += matched;
                    outcome.retried += retried;
                }
                Err(error) => failures.add(shard, error),
            }
        }
        outcome.unavailable = failures.shards(answered)?;
        Ok(outcome)
    }

    async fn retry_on(
        &self,
        shard: ShardIndex,
        filter: &OutboxFilter,
        dry_run: bool,
    ) -> Result<(u64, u64), StorageError> {
        let database = self.database(shard);
        let matched = outbox::retryable(database, filter).await?.unsigned_abs();
        let mut retried = 0;
        if !dry_run {
            for _ in 0..RETRY_BATCHES {
                let batch = outbox::retry(database, filter, BATCH).await?;
                retried += batch;
                if batch < BATCH.unsigned_abs() {
                    break;
                }
            }
            self.wake_ups.wake_outbox(shard);
        }
        Ok((matched.max(retried), retried))
    }

    /// Deletes a shard's published rows that are older than the retention, in small batches. Returns the number of
    /// deleted rows.
    #[tracing::instrument(level = "debug", name = "outbox.purge", skip_all, fields(shard))]
    pub async fn purge(&self, shard: ShardIndex) -> Result<u64, ServiceError> {
        let database = self.database(shard);
        let (mut rows, mut from) = (0, DateTime::<Utc>::UNIX_EPOCH);
        loop {
            let batch = outbox::purge(database, self.retention.as_secs_f64(), from, BATCH).await?;
            rows += batch.rows.unsigned_abs();
            metrics::counter!("noetl_outbox_purged_total").increment(batch.rows.unsigned_abs());
            match batch.up_to {
                Some(up_to) if batch.rows == BATCH => from = up_to,
                _ => break,
            }
        }
        if rows > 0 {
            tracing::info!(shard, rows, "purged delivered outbox rows");
        }
        Ok(rows)
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
