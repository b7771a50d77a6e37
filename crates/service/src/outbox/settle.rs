//! Settling claims by their tokens ([`noetl_use_cases::outbox::SettleClaims`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::future::join_all;

use super::Outbox;
use super::claim::{MAX_LEASE_SECONDS, within};
use super::dead::NewlyDead;
use noetl_domain::backoff;
use noetl_domain::outbox::{OutboxId, truncated_error};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_runtime::coalesce::Flight;
use noetl_storage::lock_wait::LockWait;
use noetl_storage::outbox::{self, Failed, Failure, Ref};
use noetl_storage::pools::Database;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::outbox::{ClaimRef, FailedDelivery, FailedRow, Published, SettleClaims, Settled};

/// Upper limit in seconds of the caller's maximum delay: one day.
const MAX_DELAY_SECONDS: usize = 86_400;

/// Marks rows of one shard as published. Concurrent calls share the statements.
pub(super) struct PublishFlight {
    pub(super) database: Arc<Database>,
}

impl Flight for PublishFlight {
    /// Each tenant has its turn.
    type Caller = Scope;
    type Kind = Scope;
    type Item = Ref;
    /// Whether this item changed its row. Of several items for one row, the first does.
    type Output = bool;
    type Error = ServiceError;

    async fn carry_out(&self, scope: &Scope, refs: Vec<Ref>, shared: bool) -> Result<Vec<bool>, ServiceError> {
        let distinct: BTreeSet<Ref> = refs.iter().copied().collect();
        let distinct: Vec<Ref> = distinct.into_iter().collect();
        let changed = outbox::mark_published(&self.database, scope, &distinct, LockWait::of(shared)).await?;
        let mut changed: BTreeSet<Ref> = changed.into_iter().collect();
        Ok(refs.iter().map(|row| changed.remove(row)).collect())
    }

    fn may_be_caused_by_one_call(error: &ServiceError) -> bool {
        error.unavailable().is_none()
    }
}

#[async_trait]
impl SettleClaims for Outbox {
    #[tracing::instrument(level = "debug", name = "outbox.mark_published", skip_all, fields(count = claims.len()))]
    async fn mark_published(&self, claims: &[ClaimRef], scope: &Scope) -> Result<Published, ServiceError> {
        let groups = self.checked(claims)?;
        let answers = groups.iter().map(async |(shard, refs)| (*shard, self.publish_on(*shard, refs, scope).await));
        let mut outcome = Published::default();
        for (shard, answer) in join_all(answers).await {
            match answer {
                Ok((changed, stale)) => {
                    outcome.published += changed;
                    outcome.stale.extend(stale.into_iter().map(|row| claim_of(shard, row)));
                }
                Err(error) => drop(outcome.failed.insert(shard, error)),
            }
        }
        metrics::counter!("noetl_outbox_published_total").increment(outcome.published);
        metrics::counter!("noetl_outbox_stale_total").increment(outcome.stale.len() as u64);
        Ok(outcome)
    }

    #[tracing::instrument(level = "debug", name = "outbox.mark_failed", skip_all, fields(count = failures.len()))]
    async fn mark_failed(
        &self,
        failures: &[FailedDelivery],
        max_delay_seconds: i64,
        scope: &Scope,
    ) -> Result<Settled<FailedRow>, ServiceError> {
        let max_delay = within("maxDelaySeconds", max_delay_seconds, 1, MAX_DELAY_SECONDS)?;
        let max_delay = i32::try_from(max_delay).unwrap_or(i32::MAX);
        let mut seen = BTreeSet::new();
        let distinct = failures.iter().filter(|failed| seen.insert(failed.claim));
        let groups = Self::by_shard(distinct.map(|failed| (failed.claim.id, failed.clone())));
        let answers =
            groups.iter().map(async |(shard, rows)| (*shard, self.fail_on(*shard, rows, max_delay, scope).await));
        let mut settled = Settled::default();
        for (shard, answer) in join_all(answers).await {
            match answer {
                Ok(rows) => settled.outcomes.extend(rows.into_iter().map(|row| (row.claim, row))),
                Err(error) => drop(settled.failed.insert(shard, error)),
            }
        }
        Ok(settled)
    }

    #[tracing::instrument(level = "debug", name = "outbox.renew_leases", skip_all, fields(count = claims.len()))]
    async fn renew_leases(
        &self,
        claims: &[ClaimRef],
        lease_seconds: i64,
        scope: &Scope,
    ) -> Result<Settled<DateTime<Utc>>, ServiceError> {
        let lease = within("leaseSeconds", lease_seconds, 1, MAX_LEASE_SECONDS.unsigned_abs() as usize)?;
        let lease_seconds = i32::try_from(lease).unwrap_or(MAX_LEASE_SECONDS);
        let groups = self.checked(claims)?;
        let answers = groups.iter().map(async |(shard, refs)| {
            (*shard, outbox::renew(self.database(*shard), scope, refs, lease_seconds).await)
        });
        let mut settled = Settled::default();
        for (shard, answer) in join_all(answers).await {
            match answer {
                Ok(rows) => settled
                    .outcomes
                    .extend(rows.into_iter().map(|row| (claim_of(shard, row.reference()), row.lease_until))),
                Err(error) => drop(settled.failed.insert(shard, error.into())),
            }
        }
        metrics::counter!("noetl_outbox_renewed_total").increment(settled.outcomes.len() as u64);
        Ok(settled)
    }

    fn check_id(&self, field: &str, id: OutboxId) -> Result<(), Rejection> {
        self.shard_named(field, id.shard.into()).map(drop)
    }
}

impl Outbox {
    /// Marks rows of one shard as published. Returns the number of changed rows and the stale claims.
    async fn publish_on(
        &self,
        shard: ShardIndex,
        refs: &[Ref],
        scope: &Scope,
    ) -> Result<(u64, BTreeSet<Ref>), ServiceError> {
        let publishing = self.publishing[usize::from(shard)].run(scope.clone(), scope.clone(), refs.to_vec(), 0);
        let changed = publishing.await?;
        let (database, count) = (self.database(shard), changed.iter().filter(|changed| **changed).count());
        let unchanged = refs.iter().zip(changed).filter(|(_, changed)| !changed);
        let mut stale: BTreeSet<Ref> = unchanged.map(|(row, _)| *row).collect();
        if !stale.is_empty() {
            let rest: Vec<Ref> = stale.iter().copied().collect();
            for settled in outbox::published_under(database, scope, &rest).await? {
                stale.remove(&settled);
            }
        }
        Ok((count as u64, stale))
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
            let failure = rows.iter().find(|failure| failure.row == dead.reference());
            newly_dead.add(dead.outbox_id, failure.map_or("", |failure| failure.error.as_str()));
        }
        newly_dead.report(shard);
        let failed = |row: Failed| FailedRow { claim: claim_of(shard, row.reference()), retry_in: row.delay };
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

    /// Checks the shards of claims. Returns the distinct claims by shard.
    fn checked(&self, claims: &[ClaimRef]) -> Result<BTreeMap<ShardIndex, Vec<Ref>>, Rejection> {
        for (position, claim) in claims.iter().enumerate() {
            self.shard_named(&format!("claims.{position}.id"), claim.id.shard.into())?;
        }
        let distinct: BTreeSet<&ClaimRef> = claims.iter().collect();
        Ok(Self::by_shard(distinct.into_iter().map(|claim| (claim.id, bare(claim)))))
    }
}

fn claim_of(shard: ShardIndex, row: Ref) -> ClaimRef {
    ClaimRef { id: OutboxId { shard, number: row.outbox_id }, lease: row.lease_token }
}

fn bare(claim: &ClaimRef) -> Ref {
    Ref { outbox_id: claim.id.number, lease_token: claim.lease }
}
