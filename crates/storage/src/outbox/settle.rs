//! Settlement of claimed rows; retry of failed rows and purge of published ones.
//!
//! A row is settled with the token of its last claim, while it is in flight. An expired lease can still be settled as
//! long as no other claim has taken the row. Rows are locked in the order of their ids, so concurrent settlements of
//! the same rows don't deadlock.
//!
//! The lease of a row is removed when the row becomes claimable again. NoETL's own server sets no lease when it claims
//! a row, so a lease of an earlier claim would be taken for the lease of that server.

use chrono::{DateTime, Utc};

use super::OutboxFilter;
use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::ids::Id;
use noetl_domain::outbox::OutboxStatus;

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

/// Marks the rows that are in flight under these tokens as delivered, and returns their ids.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.mark_published", skip_all,
    fields(database = %shard.name(), count = refs.len())
)]
pub async fn mark_published(shard: &Database, refs: &[Ref]) -> Result<Vec<i64>, StorageError> {
    let (ids, tokens) = columns(refs.iter().copied());
    let changed = sqlx::query_scalar!(
        r#"WITH held AS MATERIALIZED (
               SELECT row.outbox_id
               FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS ref (outbox_id, token) ORDER BY outbox_id) AS ref
               CROSS JOIN LATERAL (
                   SELECT outbox_id FROM noetl.outbox
                   WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'IN_FLIGHT'
                   FOR UPDATE
               ) AS row)
           UPDATE noetl.outbox
           SET status = 'PUBLISHED', published_at = now(), updated_at = now(), last_error = NULL
           WHERE outbox_id = ANY (ARRAY(SELECT outbox_id FROM held))
           RETURNING outbox_id"#,
        &ids,
        &tokens,
    );
    shard.run(changed.fetch_all(shard.pool())).await
}

/// Returns the ids of those rows that were delivered under these tokens.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.published_under", skip_all,
    fields(database = %shard.name(), count = refs.len())
)]
pub async fn published_under(shard: &Database, refs: &[Ref]) -> Result<Vec<i64>, StorageError> {
    let (ids, tokens) = columns(refs.iter().copied());
    let settled = sqlx::query_scalar!(
        r#"SELECT row.outbox_id AS "outbox_id!"
           FROM unnest($1::bigint[], $2::bigint[]) AS ref (outbox_id, token)
           CROSS JOIN LATERAL (
               SELECT outbox_id FROM noetl.outbox
               WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'PUBLISHED' OFFSET 0
           ) AS row"#,
        &ids,
        &tokens,
    );
    shard.run(settled.fetch_all(shard.pool())).await
}

/// Marks the rows that are in flight under these tokens as failed, and returns their ids and delays in seconds. The
/// delay of a row is the entry of `delays` at its number of attempts, or the last entry.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.mark_failed", skip_all,
    fields(database = %shard.name(), count = failures.len(), count = delays.len())
)]
pub async fn mark_failed(
    shard: &Database,
    failures: &[Failure],
    delays: &[i32],
) -> Result<Vec<(i64, i32)>, StorageError> {
    let (ids, tokens) = columns(failures.iter().map(|failure| failure.row));
    let errors: Vec<String> = failures.iter().map(|failure| failure.error.clone()).collect();
    let changed = sqlx::query!(
        r#"WITH held AS MATERIALIZED (
               SELECT row.outbox_id, ref.error,
                      ($4::int[])[least(greatest(row.attempts, 1), cardinality($4::int[]))] AS delay
               FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS ref (outbox_id, token, error)
                     ORDER BY outbox_id) AS ref
               CROSS JOIN LATERAL (
                   SELECT outbox_id, attempts FROM noetl.outbox
                   WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'IN_FLIGHT'
                   FOR UPDATE
               ) AS row)
           UPDATE noetl.outbox AS row
           SET status = 'FAILED', last_error = held.error, available_at = now() + make_interval(secs => held.delay),
               updated_at = now(), lease_until = NULL, lease_token = NULL
           FROM held
           WHERE row.outbox_id = held.outbox_id AND row.outbox_id = ANY (ARRAY(SELECT outbox_id FROM held))
           RETURNING row.outbox_id, held.delay AS "delay!""#,
        &ids,
        &tokens,
        &errors,
        delays,
    );
    let changed = shard.run(changed.fetch_all(shard.pool())).await?;
    Ok(changed.into_iter().map(|row| (row.outbox_id, row.delay)).collect())
}

/// Turns the rows that are in flight under these tokens into dead letters, and returns their ids.
pub async fn mark_dead(shard: &Database, failures: &[Failure]) -> Result<Vec<i64>, StorageError> {
    let (ids, tokens) = columns(failures.iter().map(|failure| failure.row));
    let errors: Vec<String> = failures.iter().map(|failure| failure.error.clone()).collect();
    let changed = sqlx::query_scalar!(
        r#"WITH held AS MATERIALIZED (
               SELECT row.outbox_id, ref.error
               FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS ref (outbox_id, token, error)
                     ORDER BY outbox_id) AS ref
               CROSS JOIN LATERAL (
                   SELECT outbox_id FROM noetl.outbox
                   WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'IN_FLIGHT'
                   FOR UPDATE
               ) AS row)
           UPDATE noetl.outbox AS row
           SET status = 'FAILED', last_error = held.error, available_at = 'infinity', updated_at = now(),
               lease_until = NULL, lease_token = NULL
           FROM held
           WHERE row.outbox_id = held.outbox_id AND row.outbox_id = ANY (ARRAY(SELECT outbox_id FROM held))
           RETURNING row.outbox_id"#,
        &ids,
        &tokens,
        &errors,
    );
    shard.run(changed.fetch_all(shard.pool())).await
}

/// Releases rows whose delivery was not tried: undoes the claim and makes them claimable at once.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.release", skip_all,
    fields(database = %shard.name(), count = refs.len())
)]
pub async fn release(shard: &Database, refs: &[Ref]) -> Result<(), StorageError> {
    let (ids, tokens) = columns(refs.iter().copied());
    let update = sqlx::query!(
        "WITH held AS MATERIALIZED (
             SELECT row.outbox_id
             FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS ref (outbox_id, token) ORDER BY outbox_id) AS ref
             CROSS JOIN LATERAL (
                 SELECT outbox_id FROM noetl.outbox
                 WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'IN_FLIGHT'
                 FOR UPDATE
             ) AS row)
         UPDATE noetl.outbox
         SET status = CASE WHEN attempts > 1 THEN 'FAILED' ELSE 'PENDING' END, attempts = greatest(attempts - 1, 0),
             available_at = now(), updated_at = now(), lease_until = NULL, lease_token = NULL
         WHERE outbox_id = ANY (ARRAY(SELECT outbox_id FROM held))",
        &ids,
        &tokens,
    );
    shard.run(update.execute(shard.pool())).await?;
    Ok(())
}

/// Conditions of a filter on failed rows, as SQL parameters.
struct FailedRows {
    execution_id: Option<i64>,
    min_attempts: Option<i32>,
}

impl FailedRows {
    /// Returns the conditions of a filter; `None`: it matches no failed row. A new condition of the filter does not
    /// compile until it is added here.
    fn matching(filter: &OutboxFilter) -> Option<Self> {
        let OutboxFilter { statuses, execution_id, min_attempts } = filter;
        let wanted = statuses.as_ref().is_none_or(|wanted| wanted.contains(&OutboxStatus::Failed));
        wanted.then(|| Self { execution_id: execution_id.map(Id::get), min_attempts: *min_attempts })
    }
}

/// Returns the number of matching rows that wait for their next attempt, dead letters included.
#[tracing::instrument(level = "debug", name = "sql.outbox.retryable", skip_all, fields(database = %shard.name()))]
pub async fn retryable(shard: &Database, filter: &OutboxFilter) -> Result<i64, StorageError> {
    let Some(FailedRows { execution_id, min_attempts }) = FailedRows::matching(filter) else {
        return Ok(0);
    };
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM noetl.outbox
           WHERE status = 'FAILED' AND attempts >= 0 AND available_at > now()
             AND ($1::bigint IS NULL OR execution_id = $1) AND ($2::integer IS NULL OR attempts >= $2)"#,
        execution_id,
        min_attempts,
    );
    shard.run(count.fetch_one(shard.pool())).await
}

/// Makes up to `limit` matching rows that wait for their next attempt claimable at once, dead letters included. Returns
/// their number.
#[tracing::instrument(level = "debug", name = "sql.outbox.retry", skip_all, fields(database = %shard.name()))]
pub async fn retry(shard: &Database, filter: &OutboxFilter, limit: i64) -> Result<u64, StorageError> {
    let Some(FailedRows { execution_id, min_attempts }) = FailedRows::matching(filter) else {
        return Ok(0);
    };
    let update = sqlx::query!(
        "UPDATE noetl.outbox SET available_at = now(), updated_at = now()
         WHERE outbox_id = ANY (ARRAY(
             SELECT outbox_id FROM noetl.outbox
             WHERE status = 'FAILED' AND attempts >= 0 AND available_at > now()
               AND ($1::bigint IS NULL OR execution_id = $1) AND ($2::integer IS NULL OR attempts >= $2)
             ORDER BY available_at LIMIT $3 FOR UPDATE SKIP LOCKED))",
        execution_id,
        min_attempts,
        limit,
    );
    Ok(shard.run(update.execute(shard.pool())).await?.rows_affected())
}

/// Result of a purge.
#[derive(Debug, Clone, Copy)]
pub struct Purged {
    /// Number of deleted rows.
    pub rows: i64,
    /// Time at which the last of them was published, where the next batch starts; `None` if no row was deleted.
    pub up_to: Option<DateTime<Utc>>,
}

/// Deletes up to `limit` rows that were published at or after `from` and more than `age_seconds` ago.
#[tracing::instrument(level = "debug", name = "sql.outbox.purge", skip_all, fields(database = %shard.name()))]
pub async fn purge(
    shard: &Database,
    age_seconds: f64,
    from: DateTime<Utc>,
    limit: i64,
) -> Result<Purged, StorageError> {
    let deleted = sqlx::query_as!(
        Purged,
        r#"WITH deleted AS (
               DELETE FROM noetl.outbox
               WHERE outbox_id = ANY (ARRAY(
                   SELECT outbox_id FROM noetl.outbox
                   WHERE status = 'PUBLISHED' AND published_at >= $2 AND published_at < now() - make_interval(secs => $1)
                   ORDER BY published_at LIMIT $3 FOR UPDATE SKIP LOCKED))
               RETURNING published_at)
           SELECT count(*) AS "rows!", max(published_at) AS up_to FROM deleted"#,
        age_seconds,
        from,
        limit,
    );
    shard.run(deleted.fetch_one(shard.pool())).await
}
