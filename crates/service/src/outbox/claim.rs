//! Claiming rows from all shards. Each shard gets a share of the limit. If a shard has fewer rows than its share, the
//! other shards get the rest.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use futures::future::join_all;

use super::Outbox;
use super::dead::NewlyDead;
use super::failures::Failures;
use crate::moves::Repetition;
use noetl_domain::outbox::{MAX_ATTEMPTS, OutboxId, truncated_error};
use noetl_domain::outbox_shares::{byte_share, retried, shares};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_runtime::causes::WithCauses;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::{self, Claimed, Failure, MAX_PAYLOAD_BYTES, Ref};
use noetl_use_cases::bounds::check_text;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::outbox::{Claim, ClaimRows, ClaimedRow, Claims, MAX_ROWS};

/// Longest lease in seconds.
pub(super) const MAX_LEASE_SECONDS: i32 = 3600;
/// Maximum size of the name of a claimant in bytes.
const MAX_CLAIMANT_BYTES: usize = 256;
/// Bytes of the payloads of one claim, as text. They fit into one response.
const PAYLOAD_BYTES: usize = MAX_PAYLOAD_BYTES / 2 * 3;
const _: () = assert!(byte_share(PAYLOAD_BYTES, 0, 2) >= MAX_PAYLOAD_BYTES, "a share holds the largest payload");

#[async_trait]
impl ClaimRows for Outbox {
    #[tracing::instrument(level = "debug", name = "outbox.claim", skip_all, fields(limit = claim.limit))]
    async fn claim(&self, claim: Claim, scope: &Scope) -> Result<Claims, ServiceError> {
        let limit = within("limit", claim.limit, 1, MAX_ROWS)?;
        let lease = within("leaseSeconds", claim.lease_seconds, 1, MAX_LEASE_SECONDS.unsigned_abs() as usize)?;
        let lease_seconds = i32::try_from(lease).unwrap_or(MAX_LEASE_SECONDS);
        let max_attempts = self.max_attempts(claim.max_attempts)?;
        check_claimant(claim.claimant.as_deref())?;
        let (subjects, claimant) = (claim.subjects.as_deref(), claim.claimant.as_deref());
        let mut open: Vec<ShardIndex> = match claim.shard {
            Some(index) => vec![self.shard_named("shard", index)?],
            None => self.shards().collect(),
        };
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (first, round) = (turn % open.len(), turn / open.len());
        open.rotate_left(first);
        let (mut claims, mut failures, mut answered) = (Claims::default(), Failures::default(), false);
        let mut bytes = PAYLOAD_BYTES;
        // Each round fills the claim, or removes a shard that has no more rows.
        while claims.rows.len() < limit && !open.is_empty() {
            let shares: Vec<_> = shares(limit - claims.rows.len(), &open).collect();
            let rounds = shares.iter().enumerate().map(|(place, (shard, share))| {
                let (limit, retried) = (count(*share), count(retried(*share, round)));
                let payload_bytes = byte_share(bytes, place, shares.len());
                let claim =
                    outbox::Claim { limit, retried, lease_seconds, max_attempts, payload_bytes, subjects, claimant };
                self.claim_from(*shard, scope, claim)
            });
            for ((shard, share), answer) in shares.iter().zip(join_all(rounds).await) {
                match answer {
                    Ok(rows) => {
                        answered = true;
                        if rows.len() < *share {
                            open.retain(|index| index != shard);
                        }
                        let leased =
                            |row: Claimed| ClaimedRow { id: OutboxId { shard: *shard, number: row.outbox_id }, row };
                        let used: usize = rows.iter().map(Claimed::size).sum();
                        bytes = bytes.saturating_sub(used);
                        claims.rows.extend(rows.into_iter().map(leased));
                    }
                    Err(error) => {
                        open.retain(|index| index != shard);
                        failures.add(*shard, error);
                    }
                }
            }
        }
        claims.rows.sort_by_key(|leased| leased.id);
        claims.unavailable = failures.shards(answered)?;
        Ok(claims)
    }
}

impl Outbox {
    /// Returns the number of attempts that a claim sets.
    fn max_attempts(&self, given: Option<i64>) -> Result<i32, Rejection> {
        let Some(given) = given else {
            return Ok(self.policy.max_attempts);
        };
        let most = within("maxAttempts", given, 1, MAX_ATTEMPTS.unsigned_abs() as usize)?;
        Ok(i32::try_from(most).unwrap_or(MAX_ATTEMPTS))
    }

    async fn claim_from(
        &self,
        shard: ShardIndex,
        scope: &Scope,
        claim: outbox::Claim<'_>,
    ) -> Result<Vec<Claimed>, StorageError> {
        let mut repetition = Repetition::new(&self.databases);
        let view = &self.databases.view(shard);
        let query = |from| async move { outbox::probe(view.clone(), &from).await };
        let probe =
            self.read_open_rows(shard, view.map_version(), |open_rows| &mut open_rows.full_probes, query).await?;
        self.open_rows(shard).low_watermarks = probe.low_watermarks;
        if !probe.open {
            return Ok(Vec::new());
        }
        let mut rows: Vec<Claimed> = Vec::new();
        loop {
            let limit = claim.limit - count(rows.len());
            let used: usize = rows.iter().map(Claimed::size).sum();
            let payload_bytes = claim.payload_bytes.saturating_sub(used);
            let claim = outbox::Claim { limit, payload_bytes, ..claim };
            let claimed = match outbox::claim(self.databases.view(shard), scope, &claim, &probe.low_watermarks).await {
                // Rows of a bucket that is being moved were among the candidates.
                Err(error) if error.bucket_moves().is_some() && repetition.again().await => continue,
                claimed => claimed?,
            };
            let (deliverable, dead): (Vec<_>, Vec<_>) =
                claimed.into_iter().partition(|row| row.undeliverable().is_none());
            rows.extend(deliverable);
            // Claims further rows in place of those that can't be delivered.
            if dead.is_empty() || !self.mark_dead(shard, &dead).await || count(rows.len()) >= claim.limit {
                break;
            }
        }
        let labels = [("shard", shard.to_string())];
        metrics::counter!("noetl_outbox_claimed_total", &labels).increment(rows.len() as u64);
        let retaken = rows.iter().filter(|row| row.retaken).count();
        metrics::counter!("noetl_outbox_retaken_total", &labels).increment(retaken as u64);
        Ok(rows)
    }

    /// Marks claimed rows that can't be delivered as DEAD. Returns `false` if that failed: the rows are claimable again
    /// after their leases expire.
    async fn mark_dead(&self, shard: ShardIndex, rows: &[Claimed]) -> bool {
        let failure = |row: &Claimed| {
            let error = row.undeliverable()?;
            let reference = Ref { outbox_id: row.outbox_id, lease_token: row.lease_token };
            Some(Failure { row: reference, error: truncated_error(&error) })
        };
        let failures: Vec<Failure> = rows.iter().filter_map(failure).collect();
        let marked = match outbox::mark_dead(self.database(shard), &failures).await {
            Ok(marked) => marked,
            Err(error) => {
                tracing::warn!(shard, error = %WithCauses(&error), "could not mark outbox rows as DEAD");
                return false;
            }
        };
        let mut newly_dead = NewlyDead::default();
        for Failure { row, error } in failures.iter().filter(|failure| marked.contains(&failure.row.outbox_id)) {
            newly_dead.add(row.outbox_id, error);
        }
        newly_dead.report(shard);
        true
    }

    pub(super) fn shard_named(&self, field: &str, index: i64) -> Result<ShardIndex, Rejection> {
        let known = ShardIndex::try_from(index).ok().filter(|index| self.shards().contains(index));
        known.ok_or_else(|| Rejection::invalid(field, format!("there is no shard {index}")))
    }
}

fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

fn check_claimant(claimant: Option<&str>) -> Result<(), Rejection> {
    let Some(claimant) = claimant else { return Ok(()) };
    if (1..=MAX_CLAIMANT_BYTES).contains(&claimant.len()) {
        return check_text("claimant", claimant);
    }
    let message = format!("the name of a claimant has 1 to {MAX_CLAIMANT_BYTES} bytes, not {}", claimant.len());
    Err(Rejection::invalid("claimant", message))
}

pub(super) fn within(field: &str, number: i64, least: usize, most: usize) -> Result<usize, Rejection> {
    let valid = usize::try_from(number).ok().filter(|number| (least..=most).contains(number));
    valid.ok_or_else(|| Rejection::invalid(field, format!("{field} must be {least} to {most}, not {number}")))
}
