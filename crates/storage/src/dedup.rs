//! Dedup claims (cluster database): the execution that owns a key within its window.
//!
//! A claim is reserved until its execution is created. A reserved claim never expires and carries the request, so any
//! server can finish it. The key of a created claim is free again when its window has passed. Correctness does not
//! depend on the purge of expired rows.

use serde_json::Value;

use super::error::StorageError;
use super::pools::Database;
use noetl_domain::execution::Creation;
use noetl_domain::ids::Id;
use plain_json as json;

/// A claim of a key under a preallocated execution id.
#[derive(Debug)]
pub struct NewClaim<'a> {
    /// Scope of the key: the parent execution, or 0.
    pub scope: i64,
    /// Key, at most 1024 bytes.
    pub key: &'a str,
    /// Hash of the request, by which different requests with the same key are detected.
    pub request_hash: [u8; 32],
    /// Dedup window in seconds, from the database's time of the claim.
    pub window_seconds: i32,
    /// Request; its execution id is the claim's.
    pub creation: &'a Creation,
}

/// Claim that holds a key after an attempt: the caller's own if `execution_id` is the caller's.
#[derive(Debug)]
pub struct CurrentClaim {
    /// Scope of the key: the parent execution, or 0.
    pub scope: i64,
    /// The key.
    pub key: String,
    /// Execution that owns the key.
    pub execution_id: Id,
    /// Hash of its request; `None` on rows that NoETL's own server wrote.
    pub request_hash: Option<Vec<u8>>,
    /// Request of a reserved claim; `None` if the execution is created.
    pub reserved: Option<Creation>,
}

/// Claims distinct keys in one statement, and returns for each key the claim that holds it, in no order.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.claim", skip_all,
    fields(database = %cluster.name(), count = claims.len())
)]
pub async fn claim(cluster: &Database, claims: &[NewClaim<'_>]) -> Result<Vec<CurrentClaim>, StorageError> {
    let scopes: Vec<i64> = claims.iter().map(|claim| claim.scope).collect();
    let keys: Vec<String> = claims.iter().map(|claim| claim.key.to_owned()).collect();
    let executions: Vec<i64> = claims.iter().map(|claim| claim.creation.execution_id.get()).collect();
    let hashes: Vec<Vec<u8>> = claims.iter().map(|claim| claim.request_hash.to_vec()).collect();
    let windows: Vec<i32> = claims.iter().map(|claim| claim.window_seconds).collect();
    let requests: Vec<Value> = claims.iter().map(|claim| serde_json::json!(claim.creation)).collect();
    let statement = sqlx::query!(
        r#"INSERT INTO noetl.subscription_dedup AS standing
             (subscription_id, dedup_key, execution_id, request_hash, state, request, seen_at, expires_at)
         SELECT scope, key, execution_id, request_hash, 0, request, now(), now() + make_interval(secs => window_seconds)
         FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[], $5::integer[], $6::jsonb[])
             AS t (scope, key, execution_id, request_hash, window_seconds, request)
         ORDER BY scope, key
         ON CONFLICT (subscription_id, dedup_key) DO UPDATE
         SET (execution_id, request_hash, state, request, seen_at, expires_at) = (
             SELECT c.execution_id, c.request_hash, c.state, c.request, c.seen_at, c.expires_at
             FROM (VALUES
                 (true, EXCLUDED.execution_id, EXCLUDED.request_hash, EXCLUDED.state, EXCLUDED.request,
                  EXCLUDED.seen_at, EXCLUDED.expires_at),
                 (false, standing.execution_id, standing.request_hash, standing.state, standing.request,
                  standing.seen_at, standing.expires_at)
             ) AS c (fresh, execution_id, request_hash, state, request, seen_at, expires_at)
             WHERE c.fresh = (standing.state = 1
                 AND coalesce(standing.expires_at, standing.seen_at + interval '300 seconds') <= now()))
         RETURNING subscription_id, dedup_key, execution_id, request_hash, request::text AS request"#,
        &scopes,
        &keys,
        &executions,
        &hashes,
        &windows,
        &requests,
    );
    let rows = cluster.run(statement.fetch_all(cluster.pool())).await?;
    let standing = rows.into_iter().map(|row| {
        Ok(CurrentClaim {
            scope: row.subscription_id,
            key: row.dedup_key,
            execution_id: Id::new(row.execution_id),
            request_hash: row.request_hash,
            reserved: row.request.map(|request| parse(cluster, row.execution_id, &request)).transpose()?,
        })
    });
    standing.collect()
}

/// Marks the reserved claims of these executions as created. Rows are locked in the same order as by [`claim`], to
/// avoid deadlocks.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.settle", skip_all,
    fields(database = %cluster.name(), count = executions.len(), first = executions.first())
)]
pub async fn settle(cluster: &Database, executions: &[i64]) -> Result<(), StorageError> {
    let update = sqlx::query!(
        "WITH claims AS (
             SELECT subscription_id, dedup_key FROM noetl.subscription_dedup
             WHERE state = 0 AND execution_id = ANY($1)
             ORDER BY subscription_id, dedup_key FOR UPDATE)
         UPDATE noetl.subscription_dedup AS settled SET state = 1, request = NULL
         FROM claims
         WHERE settled.subscription_id = claims.subscription_id AND settled.dedup_key = claims.dedup_key
           AND settled.state = 0 AND settled.execution_id = ANY($1)",
        executions,
    );
    cluster.run(update.execute(cluster.pool())).await?;
    Ok(())
}

/// A reserved claim that a crashed server left.
#[derive(Debug)]
pub struct StaleClaim {
    /// Execution of the claim.
    pub execution_id: Id,
    /// The request, or the reason that it can't be read.
    pub creation: Result<Creation, StorageError>,
}

/// Returns up to `limit` reserved claims that are older than `age_seconds`, which crashed servers left, for executions
/// after `after`, in the order of the execution ids. A request that can't be read is returned as an error.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.stale", skip_all,
    fields(database = %cluster.name(), after = %after)
)]
pub async fn stale(
    cluster: &Database,
    age_seconds: f64,
    after: Id,
    limit: i64,
) -> Result<Vec<StaleClaim>, StorageError> {
    let rows = sqlx::query!(
        "SELECT execution_id, request::text AS request FROM noetl.subscription_dedup
         WHERE state = 0 AND seen_at < now() - make_interval(secs => $1) AND execution_id > $2
         ORDER BY execution_id LIMIT $3",
        age_seconds,
        after.get(),
        limit,
    );
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    let claims = rows.into_iter().map(|row| StaleClaim {
        execution_id: Id::new(row.execution_id),
        creation: parse(cluster, row.execution_id, &row.request.unwrap_or_default()),
    });
    Ok(claims.collect())
}

/// Deletes up to `limit` created claims whose window has passed, and returns their number. Reserved claims are never
/// deleted, and rows that another transaction has locked are skipped.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.purge_expired", skip_all,
    fields(database = %cluster.name())
)]
pub async fn purge_expired(cluster: &Database, limit: i64) -> Result<u64, StorageError> {
    let delete = sqlx::query!(
        "DELETE FROM noetl.subscription_dedup AS expired
         USING (
             SELECT subscription_id, dedup_key FROM noetl.subscription_dedup
             WHERE state = 1
               AND (expires_at <= now() OR (expires_at IS NULL AND seen_at <= now() - interval '300 seconds'))
             LIMIT $1 FOR UPDATE SKIP LOCKED
         ) AS batch
         WHERE expired.subscription_id = batch.subscription_id AND expired.dedup_key = batch.dedup_key",
        limit,
    );
    Ok(cluster.run(delete.execute(cluster.pool())).await?.rows_affected())
}

fn parse(cluster: &Database, execution: i64, request: &str) -> Result<Creation, StorageError> {
    json::parse(request.as_bytes())
        .map_err(|error| cluster.corrupt(format!("an unreadable dedup claim of execution {execution}: {error}")))
}
