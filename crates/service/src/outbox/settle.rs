//! Settling claims by their tokens ([`noetl_use_cases::outbox::SettleClaims`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::future::join_all;

use super::Outbox;
use super::claim::{MAX_LEASE_SECONDS, within};
use super::dead::NewlyDead;
use super::forward::{current_ids, followed_ids};
use crate::moves::Repetition;
use noetl_domain::backoff;
use noetl_domain::outbox::{OutboxId, truncated_error};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_runtime::coalesce::SharedWork;
use noetl_storage::lock_wait::LockWait;
use noetl_storage::outbox::{self, Failed, Failure, Ref, Renewed};
use noetl_storage::pools::Database;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::outbox::{ClaimRef, FailedDelivery, FailedRow, Published, SettleClaims, Settled};

/// Upper limit in seconds of the caller's maximum delay: one day.
const MAX_DELAY_SECONDS: usize = 86_400;

/// Marks rows of one shard as published. Concurrent calls share the statements.
pub(super) struct PublishBatches {
    pub(super) database: Arc<Database>,
}

impl SharedWork for PublishBatches {
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
        error.unavailable().is_none() || error.bucket_moves().is_some()
    }
}

#[async_trait]
impl SettleClaims for Outbox {
    #[tracing::instrument(level = "debug", name = "outbox.mark_published", skip_all, fields(count = claims.len()))]
    async fn mark_published(&self, claims: &[ClaimRef], scope: &Scope) -> Result<Published, ServiceError> {
        self.check_shards(claims)?;
        let mut outcome = Published::default();
        let publish = |shard, rows: HeldRows| async move {
            let refs: Vec<Ref> = rows.keys().copied().collect();
            let (changed, stale) = self.publish_on(shard, &refs, scope).await?;
            Ok(((changed, stale.clone()), stale))
        };
        let add = |rows: &HeldRows, (changed, stale): (u64, BTreeSet<Ref>)| {
            outcome.published += changed;
            outcome.stale.extend(stale.iter().filter_map(|row| rows.get(row)).flatten());
        };
        outcome.failed = self.on_held_rows(claims, publish, add).await;
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
        let claims: Vec<ClaimRef> = failures.iter().map(|failed| failed.claim).collect();
        let mut errors = HashMap::new();
        for failed in failures {
            errors.entry(failed.claim).or_insert(failed.error.as_str());
        }
        let errors = &errors;
        let fail = |shard, rows: HeldRows| async move {
            let error = |claims: &[ClaimRef]| claims.iter().find_map(|claim| errors.get(claim)).copied();
            let failure = |(row, claims): (&Ref, &Vec<ClaimRef>)| Failure {
                row: *row,
                error: truncated_error(error(claims).unwrap_or_default()),
            };
            let failures: Vec<Failure> = rows.iter().map(failure).collect();
            let changed = self.fail_on(shard, &failures, max_delay, scope).await?;
            let missed = missed(&rows, changed.iter().map(Failed::reference));
            Ok((changed, missed))
        };
        let mut settled = Settled::default();
        let add = |rows: &HeldRows, changed: Vec<Failed>| {
            for row in changed {
                let failed = |claim: &ClaimRef| (*claim, FailedRow { retry_in: row.delay });
                settled.outcomes.extend(rows.get(&row.reference()).into_iter().flatten().map(failed));
            }
        };
        settled.failed = self.on_held_rows(&claims, fail, add).await;
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
        self.check_shards(claims)?;
        let renew = |shard, rows: HeldRows| async move {
            let refs: Vec<Ref> = rows.keys().copied().collect();
            let renewed = outbox::renew(self.database(shard), scope, &refs, lease_seconds).await?;
            let missed = missed(&rows, renewed.iter().map(Renewed::reference));
            Ok((renewed, missed))
        };
        let mut settled = Settled::default();
        let add = |rows: &HeldRows, renewed: Vec<Renewed>| {
            for row in renewed {
                let claims = rows.get(&row.reference()).into_iter().flatten();
                settled.outcomes.extend(claims.map(|claim| (*claim, row.lease_until)));
            }
        };
        settled.failed = self.on_held_rows(claims, renew, add).await;
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
    #[tracing::instrument(level = "debug", name = "outbox.fail_on", skip_all, fields(shard, count = rows.len()))]
    async fn fail_on(
        &self,
        shard: ShardIndex,
        rows: &[Failure],
        max_delay_seconds: i32,
        scope: &Scope,
    ) -> Result<Vec<Failed>, ServiceError> {
        let delays = backoff::delays(max_delay_seconds);
        let changed = outbox::mark_failed(self.database(shard), scope, rows, &delays).await?;
        metrics::counter!("noetl_outbox_failed_total").increment(changed.len() as u64);
        metrics::counter!("noetl_outbox_stale_total").increment(rows.len().saturating_sub(changed.len()) as u64);
        let mut newly_dead = NewlyDead::default();
        for dead in changed.iter().filter(|row| row.delay.is_none()) {
            let failure = rows.iter().find(|failure| failure.row == dead.reference());
            newly_dead.add(dead.outbox_id, failure.map_or("", |failure| failure.error.as_str()));
        }
        newly_dead.report(shard);
        Ok(changed)
    }

    /// Releases claimed rows whose delivery says nothing of them, without counting an attempt. They are claimable after the
    /// delay. Stores the reason, if there is one.
    #[tracing::instrument(level = "debug", name = "outbox.release", skip_all, fields(count = claims.len()))]
    pub async fn release(
        &self,
        claims: &[ClaimRef],
        delay: Duration,
        reason: Option<&str>,
    ) -> Result<(), ServiceError> {
        self.check_shards(claims)?;
        let release = |shard, rows: HeldRows| async move {
            let refs: Vec<Ref> = rows.keys().copied().collect();
            let released = outbox::release(self.database(shard), &refs, delay.as_secs_f64(), reason).await;
            let mut open_rows = self.open_rows(shard);
            let first = refs.iter().map(|one| one.outbox_id).min().unwrap_or(i64::MAX);
            open_rows.low_watermarks.pending = open_rows.low_watermarks.pending.min(first);
            Ok(((), missed(&rows, released?.into_iter())))
        };
        let failed = self.on_held_rows(claims, release, |_, ()| {}).await;
        failed.into_values().next().map_or(Ok(()), Err)
    }

    /// Runs a statement on each shard for the rows that these claims hold, and adds the results. The statement also
    /// returns the rows that it did not find. Rows of a bucket that is being moved are tried again, on the shard that has
    /// them then, and so are rows that left the shard before the statement reached it. Returns the errors, by the shards
    /// that the claims name.
    async fn on_held_rows<T, Statement: Future<Output = Result<(T, BTreeSet<Ref>), ServiceError>>>(
        &self,
        claims: &[ClaimRef],
        statement: impl Fn(ShardIndex, HeldRows) -> Statement,
        mut add: impl FnMut(&HeldRows, T),
    ) -> BTreeMap<ShardIndex, ServiceError> {
        let (mut rest, mut failed): (BTreeSet<ClaimRef>, _) = (claims.iter().copied().collect(), BTreeMap::new());
        let (mut repetition, mut have_moved) = (Repetition::new(&self.databases), false);
        loop {
            let given = rest.iter().map(|claim| claim.id);
            let ids = if have_moved {
                followed_ids(&self.databases, given).await
            } else {
                current_ids(&self.databases, given).await
            };
            let mut groups: BTreeMap<ShardIndex, HeldRows> = BTreeMap::new();
            for claim in rest.iter().filter(|claim| !ids.failed.contains_key(&claim.id.shard)) {
                let id = ids.of(claim.id);
                let row = Ref { outbox_id: id.number, lease_token: claim.lease };
                groups.entry(id.shard).or_default().entry(row).or_default().push(*claim);
            }
            failed.extend(ids.failed);
            rest.clear();
            let mut refusal = None;
            let results = groups.iter().map(|(shard, rows)| {
                let result = statement(*shard, rows.clone());
                async move { (*shard, rows, result.await) }
            });
            for (shard, rows, result) in join_all(results).await {
                match result {
                    Ok((result, missed)) => {
                        let left = self.left(shard, &missed).await;
                        let (gone, here): (HeldRows, HeldRows) =
                            rows.clone().into_iter().partition(|(row, _)| left.contains(row));
                        have_moved |= !gone.is_empty();
                        rest.extend(gone.into_values().flatten());
                        add(&here, result);
                    }
                    Err(error) if error.bucket_moves().is_some() => {
                        rest.extend(rows.values().flatten());
                        refusal = Some(error);
                    }
                    Err(error) => failed.extend(rows.values().flatten().map(|claim| (claim.id.shard, error.clone()))),
                }
            }
            let Some(refusal) = refusal else {
                if rest.is_empty() {
                    return failed;
                }
                continue;
            };
            if !repetition.again().await {
                failed.extend(rest.iter().map(|claim| (claim.id.shard, refusal.clone())));
                return failed;
            }
        }
    }

    /// Returns those of these rows of a shard that have moved to another one. The map may be of before their move.
    async fn left(&self, shard: ShardIndex, rows: &BTreeSet<Ref>) -> BTreeSet<Ref> {
        let id = |row: &Ref| OutboxId { shard, number: row.outbox_id };
        let current = followed_ids(&self.databases, rows.iter().map(id)).await;
        rows.iter().filter(|row| current.of(id(row)) != id(row)).copied().collect()
    }

    /// Checks the shards of claims.
    fn check_shards(&self, claims: &[ClaimRef]) -> Result<(), Rejection> {
        for (position, claim) in claims.iter().enumerate() {
            self.shard_named(&format!("claims.{position}.id"), claim.id.shard.into())?;
        }
        Ok(())
    }
}

/// Rows of one shard that claims hold, each with its claims as the caller named them. The ids in claims of before a move
/// differ from those of the rows.
type HeldRows = BTreeMap<Ref, Vec<ClaimRef>>;

/// Returns the rows that are not among those that a statement changed.
fn missed(rows: &HeldRows, changed: impl Iterator<Item = Ref>) -> BTreeSet<Ref> {
    let changed: BTreeSet<Ref> = changed.collect();
    rows.keys().filter(|row| !changed.contains(row)).copied().collect()
}
