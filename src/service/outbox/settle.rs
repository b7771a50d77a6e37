//! Settling claims, retrying what failed, purging what was delivered.
//!
//! A settlement must carry the token of the row's last claim. Under it, a row is settled once: marking it as published
//! again is harmless and counts nothing, anything else is stale. A lease that passed still settles if nobody has
//! claimed the row since.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use futures::future::join_all;

use super::failures::Failures;
use super::{MAX_ROWS, Outbox};
use crate::domain::backoff;
use crate::domain::outbox::{OutboxId, kept_error};
use crate::domain::shard::ShardIndex;
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use crate::storage::error::StorageError;
use crate::storage::outbox::{self, Failure, OutboxFilter, Ref};

const MAX_DELAY_SECONDS: i64 = 86_400;
/// Rows that one statement retries or purges.
const BATCH: i64 = 1000;
/// Statements of one retry per shard; what is left is for the next one.
const RETRY_BATCHES: usize = 100;

/// A claim as its holder knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// The row.
    pub id: OutboxId,
    /// The lease's token.
    pub lease: i64,
}

/// What came of marking rows as published.
#[derive(Debug, Default)]
pub struct Published {
    /// How many were moved by this call.
    pub published: u64,
    /// Those whose lease does not settle them, or does no longer.
    pub stale: Vec<OutboxId>,
    /// Shards where nothing is known to have been done.
    pub failed: BTreeMap<ShardIndex, ServiceError>,
}

/// What a retry found and did.
#[derive(Debug, Default)]
pub struct Retried {
    /// Matching rows that were backing off.
    pub matched: u64,
    /// Those of them that are due now.
    pub retried: u64,
    /// Shards that could not be reached or failed.
    pub unavailable: Vec<ShardIndex>,
}

impl Outbox {
    /// Marks up to 1000 rows as delivered.
    #[tracing::instrument(level = "debug", name = "outbox.mark_published", skip_all, fields(count = claims.len()))]
    pub async fn mark_published(&self, claims: &[ClaimRef]) -> Result<Published, ServiceError> {
        let groups = self.checked(claims)?;
        let answers = groups.iter().map(async |(shard, refs)| (*shard, self.publish_on(*shard, refs).await));
        let mut outcome = Published::default();
        for (shard, answer) in join_all(answers).await {
            match answer {
                Ok((moved, stale)) => {
                    outcome.published += moved;
                    outcome.stale.extend(stale.into_iter().map(|number| OutboxId { shard, number }));
                }
                Err(error) => drop(outcome.failed.insert(shard, error.into())),
            }
        }
        metrics::counter!("noetl_outbox_published_total").increment(outcome.published);
        metrics::counter!("noetl_outbox_stale_total").increment(outcome.stale.len() as u64);
        Ok(outcome)
    }

    /// How many rows were moved, and which ones are stale.
    async fn publish_on(&self, shard: ShardIndex, refs: &[Ref]) -> Result<(u64, Vec<i64>), StorageError> {
        let database = &self.databases.shards()[usize::from(shard)];
        let moved: BTreeSet<i64> = outbox::mark_published(database, refs).await?.into_iter().collect();
        let rest: Vec<Ref> = refs.iter().filter(|one| !moved.contains(&one.outbox_id)).copied().collect();
        let mut stale: BTreeSet<i64> = rest.iter().map(|one| one.outbox_id).collect();
        if !rest.is_empty() {
            for settled in outbox::settled_under(database, &rest).await? {
                stale.remove(&settled);
            }
        }
        Ok((moved.len() as u64, stale.into_iter().collect()))
    }

    /// Marks a row as not delivered; answers in how many seconds it is due again.
    #[tracing::instrument(level = "debug", name = "outbox.mark_failed", skip_all, fields(row = %claim.id))]
    pub async fn mark_failed(&self, claim: ClaimRef, error: &str, max_delay_seconds: i64) -> Result<i32, ServiceError> {
        if !(1..=MAX_DELAY_SECONDS).contains(&max_delay_seconds) {
            let message = format!("maxDelaySeconds must be 1 to {MAX_DELAY_SECONDS}, not {max_delay_seconds}");
            return Err(Rejection::invalid("maxDelaySeconds", message).into());
        }
        self.shard_named("id", claim.id.shard.into())?;
        let max_delay = i32::try_from(max_delay_seconds).unwrap_or(i32::MAX);
        let (_, delay) =
            self.fail_on(claim.id.shard, &[(claim, error.to_owned())], max_delay).await?.pop().ok_or_else(|| {
                let message = "this lease no longer settles the row: it was settled, or somebody else has claimed it";
                Rejection::new(RejectionCode::StaleLease, "lease", message)
            })?;
        Ok(delay)
    }

    /// Marks rows of one shard as not delivered; answers those that were in flight under these leases, and their delays.
    #[tracing::instrument(level = "debug", name = "outbox.fail_on", skip_all, fields(shard, count = failures.len()))]
    pub async fn fail_on(
        &self,
        shard: ShardIndex,
        failures: &[(ClaimRef, String)],
        max_delay_seconds: i32,
    ) -> Result<Vec<(OutboxId, i32)>, ServiceError> {
        let failure = |(claim, error): &(ClaimRef, String)| Failure { row: bare(claim), error: kept_error(error) };
        let rows: Vec<Failure> = failures.iter().map(failure).collect();
        let delays = backoff::delays(max_delay_seconds);
        let moved = outbox::mark_failed(&self.databases.shards()[usize::from(shard)], &rows, &delays).await?;
        metrics::counter!("noetl_outbox_failed_total").increment(moved.len() as u64);
        metrics::counter!("noetl_outbox_stale_total").increment(rows.len().saturating_sub(moved.len()) as u64);
        Ok(moved.into_iter().map(|(number, delay)| (OutboxId { shard, number }, delay)).collect())
    }

    /// Gives rows back that were not tried.
    #[tracing::instrument(level = "debug", name = "outbox.release", skip_all, fields(count = claims.len()))]
    pub async fn release(&self, claims: &[ClaimRef]) -> Result<(), ServiceError> {
        let groups = self.checked(claims)?;
        let releases = groups.iter().map(async |(shard, refs)| {
            let database = &self.databases.shards()[usize::from(*shard)];
            let released = outbox::release(database, refs).await;
            let mut seen = self.seen(*shard);
            let first = refs.iter().map(|one| one.outbox_id).min().unwrap_or(i64::MAX);
            seen.marks.pending = seen.marks.pending.min(first);
            released
        });
        let failed = join_all(releases).await.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Makes matching rows due at once that are backing off; in a dry run only counts them.
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
        let database = &self.databases.shards()[usize::from(shard)];
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
            self.wakes.ring_outbox(shard);
        }
        Ok((matched.max(retried), retried))
    }

    /// Deletes a shard's rows that were published longer ago than they are kept, in small batches; answers how many.
    #[tracing::instrument(level = "debug", name = "outbox.purge", skip_all, fields(shard))]
    pub async fn purge(&self, shard: ShardIndex) -> Result<u64, ServiceError> {
        let database = &self.databases.shards()[usize::from(shard)];
        let (mut rows, mut from) = (0, DateTime::<Utc>::UNIX_EPOCH);
        loop {
            let batch = outbox::purge(database, self.retention.as_secs_f64(), from, BATCH).await?;
            rows += batch.rows.unsigned_abs();
            metrics::counter!("noetl_outbox_purged_total").increment(batch.rows.unsigned_abs());
            match batch.up_to {
                Some(up_to) if batch.rows == BATCH => from = up_to,
                _ => return Ok(rows),
            }
        }
    }

    /// The refs by shard, each once.
    fn checked(&self, claims: &[ClaimRef]) -> Result<BTreeMap<ShardIndex, Vec<Ref>>, Rejection> {
        if claims.len() > MAX_ROWS {
            let message = format!("at most {MAX_ROWS} claims are settled at once, not {}", claims.len());
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
