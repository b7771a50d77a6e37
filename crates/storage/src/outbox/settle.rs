//! Settlement of claimed rows.
//!
//! A row is settled with the token of its last claim, while it is in flight. An expired lease can still be settled as
//! long as no other claim has taken the row. Rows are locked in the order of their ids, so concurrent settlements of
//! the same rows don't deadlock.
//!
//! The lease of a row and its claimant are removed when the row becomes claimable again. NoETL's own server sets no lease when it claims
//! a row, so a lease of an earlier claim would be taken for the lease of that server.

use std::collections::BTreeSet;

use crate::durability;
use crate::error::StorageError;
use crate::lock_wait::LockWait;
use crate::pools::Database;
use noetl_domain::tenant::Scope;

/// Reference to a claimed row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref {
    /// Id of the row in its shard.
    pub outbox_id: i64,
    /// Token of the claim.
    pub lease_token: i64,
}

/// A row that could not be delivered.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The row.
    pub row: Ref,
    /// Error message, at most 2000 characters.
    pub error: String,
}

fn columns(refs: impl Iterator<Item = Ref>) -> (Vec<i64>, Vec<i64>) {
    refs.map(|one| (one.outbox_id, one.lease_token)).unzip()
}

/// Marks the rows in the scope that are in flight under these tokens as delivered, and returns their references. Waits up
/// to `lock_wait` for another transaction that holds one of the rows.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.mark_published", skip_all,
    fields(database = %shard.name(), count = refs.len())
)]
pub async fn mark_published(
    shard: &Database,
    scope: &Scope,
    refs: &[Ref],
    lock_wait: LockWait,
) -> Result<Vec<Ref>, StorageError> {
    let (ids, tokens) = columns(refs.iter().copied());
    let changed = sqlx::query_as!(
        Ref,
        r#"WITH patience AS MATERIALIZED (
               SELECT set_config('lock_timeout', $4, true)
           ), held AS MATERIALIZED (
               SELECT row.outbox_id
               FROM (SELECT ref.* FROM patience CROSS JOIN unnest($1::bigint[], $2::bigint[]) AS ref (outbox_id, token)
                     ORDER BY outbox_id) AS ref
               CROSS JOIN LATERAL (
                   SELECT outbox_id FROM noetl.outbox
                   WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'IN_FLIGHT'
                     AND ($3::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $3)
                   FOR UPDATE
               ) AS row)
           UPDATE noetl.outbox
           SET status = 'PUBLISHED', published_at = now(), updated_at = now(), last_error = NULL
           WHERE outbox_id = ANY (ARRAY(SELECT outbox_id FROM held))
           RETURNING outbox_id, lease_token AS "lease_token!""#,
        &ids,
        &tokens,
        scope.tenant(),
        lock_wait.setting(),
    );
    shard.run(changed.fetch_all(shard.planned_for(refs.len()))).await
}

/// Returns the references to those rows in the scope that were delivered under these tokens.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.published_under", skip_all,
    fields(database = %shard.name(), count = refs.len())
)]
pub async fn published_under(shard: &Database, scope: &Scope, refs: &[Ref]) -> Result<Vec<Ref>, StorageError> {
    let (ids, tokens) = columns(refs.iter().copied());
    let settled = sqlx::query_as!(
        Ref,
        r#"SELECT row.outbox_id AS "outbox_id!", ref.token AS "lease_token!"
           FROM unnest($1::bigint[], $2::bigint[]) AS ref (outbox_id, token)
           CROSS JOIN LATERAL (
               SELECT outbox_id FROM noetl.outbox
               WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'PUBLISHED'
                 AND ($3::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $3) OFFSET 0
           ) AS row"#,
        &ids,
        &tokens,
        scope.tenant(),
    );
    let settled = shard.run(settled.fetch_all(shard.pool())).await?;
    if !settled.is_empty() {
        durability::confirm(shard).await?;
    }
    Ok(settled)
}

/// A row that was marked as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// Id of the row in its shard.
    pub outbox_id: i64,
    /// Token of the claim.
    pub lease_token: i64,
    /// Delay in seconds before the row is claimable again; `None`: the row is DEAD.
    pub delay: Option<i32>,
}

impl Failed {
    /// Returns the reference to the row.
    #[must_use]
    pub const fn reference(&self) -> Ref {
        Ref { outbox_id: self.outbox_id, lease_token: self.lease_token }
    }
}

/// Marks the rows in the scope that are in flight under these tokens as failed, and returns them. The delay of a row is
/// the entry of `delays` at its number of attempts, or the last entry. After the last attempt that its claim allowed, a
/// row is DEAD. Without delays, each row is.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.mark_failed", skip_all,
    fields(database = %shard.name(), count = failures.len(), count = delays.len())
)]
pub async fn mark_failed(
    shard: &Database,
    scope: &Scope,
    failures: &[Failure],
    delays: &[i32],
) -> Result<Vec<Failed>, StorageError> {
    let (ids, tokens) = columns(failures.iter().map(|failure| failure.row));
    let errors: Vec<String> = failures.iter().map(|failure| failure.error.clone()).collect();
    let changed = sqlx::query_as!(
        Failed,
        r#"WITH held AS MATERIALIZED (
               SELECT row.outbox_id, ref.token, ref.error,
                      CASE WHEN row.attempts >= row.max_attempts THEN NULL
                           ELSE ($4::int[])[least(greatest(row.attempts, 1), cardinality($4::int[]))] END AS delay
               FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS ref (outbox_id, token, error)
                     ORDER BY outbox_id) AS ref
               CROSS JOIN LATERAL (
                   SELECT outbox_id, attempts, max_attempts FROM noetl.outbox
                   WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'IN_FLIGHT'
                     AND ($5::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $5)
                   FOR UPDATE
               ) AS row)
           UPDATE noetl.outbox AS row
           SET status = 'FAILED', last_error = held.error,
               available_at = coalesce(now() + make_interval(secs => held.delay), 'infinity'), updated_at = now(),
               lease_until = NULL, lease_token = NULL, claimant = NULL
           FROM held
           WHERE row.outbox_id = held.outbox_id AND row.outbox_id = ANY (ARRAY(SELECT outbox_id FROM held))
           RETURNING row.outbox_id, held.token AS "lease_token!", held.delay"#,
        &ids,
        &tokens,
        &errors,
        delays,
        scope.tenant(),
    );
    shard.run(changed.fetch_all(shard.pool())).await
}

/// Marks the rows that are in flight under these tokens as DEAD, and returns their ids.
pub async fn mark_dead(shard: &Database, failures: &[Failure]) -> Result<Vec<i64>, StorageError> {
    let dead = mark_failed(shard, &Scope::Unrestricted, failures, &[]).await?;
    Ok(dead.into_iter().map(|row| row.outbox_id).collect())
}

/// Releases rows whose delivery says nothing of them: undoes the claim and makes them claimable after `delay_seconds`.
/// Stores the reason, if there is one. Returns those that were in flight under these tokens.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.release", skip_all,
    fields(database = %shard.name(), count = refs.len())
)]
pub async fn release(
    shard: &Database,
    refs: &[Ref],
    delay_seconds: f64,
    reason: Option<&str>,
) -> Result<Vec<Ref>, StorageError> {
    let (ids, tokens) = columns(refs.iter().copied());
    let update = sqlx::query_scalar!(
        r#"WITH held AS MATERIALIZED (
             SELECT row.outbox_id
             FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS ref (outbox_id, token) ORDER BY outbox_id) AS ref
             CROSS JOIN LATERAL (
                 SELECT outbox_id FROM noetl.outbox
                 WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'IN_FLIGHT'
                 FOR UPDATE
             ) AS row)
         UPDATE noetl.outbox
         SET status = CASE WHEN attempts > 1 THEN 'FAILED' ELSE 'PENDING' END, attempts = greatest(attempts - 1, 0),
             available_at = now() + make_interval(secs => $3), updated_at = now(), last_error = coalesce($4, last_error),
             lease_until = NULL, lease_token = NULL, claimant = NULL
         WHERE outbox_id = ANY (ARRAY(SELECT outbox_id FROM held))
         RETURNING outbox_id AS "outbox_id!""#,
        &ids,
        &tokens,
        delay_seconds,
        reason,
    );
    let released = shard.run(update.fetch_all(shard.pool())).await?;
    let released: BTreeSet<i64> = released.into_iter().collect();
    Ok(refs.iter().filter(|row| released.contains(&row.outbox_id)).copied().collect())
}
