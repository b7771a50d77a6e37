//! Dedup claims (cluster database): the execution that owns a key within its window.
//!
//! A claim is reserved until its execution is created. A reserved claim never expires and carries the request, so any
//! server can finish it. The key of a created claim is free again when its window has passed. Correctness does not
//! depend on the purge of expired rows.
//!
//! NoETL's own server writes rows without a window, and checks all rows against the window of its request. So a row of
//! NoETL's is compared with the window of the request here too. NoETL also deletes rows by that window; a trigger keeps
//! the claims of this server until their own window has passed.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::error::StorageError;
use super::lock_wait::LockWait;
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
    /// Number of further requests with the same key in the batch.
    pub repeated: i64,
    /// Request; its execution id is the claim's.
    pub creation: &'a Creation,
    /// Whether the key is claimed only if the request's catalog entry is the newest of its path that is not retired.
    pub must_be_newest: bool,
}

/// Claim that holds a key after an attempt: the caller's own if `execution_id` is the caller's.
#[derive(Debug, Clone)]
pub struct CurrentClaim {
    /// Scope of the key: the parent execution, or 0.
    pub scope: i64,
    /// The key.
    pub key: String,
    /// Execution that owns the key.
    pub execution_id: Id,
    /// Hash of its request; `None` on rows that NoETL's own server wrote.
    pub request_hash: Option<Vec<u8>>,
    /// Whether the claim is reserved: its execution may not exist yet.
    pub reserved: bool,
}

/// Claims distinct keys in one statement, and returns for each key the claim that holds it, in no order. Counts the
/// requests that do not get a key as its duplicates. A free key whose request must have the newest catalog entry, and has
/// not, is left out; nothing is done for it.
///
/// Waits up to `lock_wait` for another transaction that holds one of the keys.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.claim", skip_all,
    fields(database = %cluster.name(), count = claims.len())
)]
pub async fn claim(
    cluster: &Database,
    claims: &[NewClaim<'_>],
    lock_wait: LockWait,
) -> Result<Vec<CurrentClaim>, StorageError> {
    let scopes: Vec<i64> = claims.iter().map(|claim| claim.scope).collect();
    let keys: Vec<String> = claims.iter().map(|claim| claim.key.to_owned()).collect();
    let executions: Vec<i64> = claims.iter().map(|claim| claim.creation.execution_id.get()).collect();
    let hashes: Vec<Vec<u8>> = claims.iter().map(|claim| claim.request_hash.to_vec()).collect();
    let windows: Vec<i32> = claims.iter().map(|claim| claim.window_seconds).collect();
    let requests: Vec<Value> = claims.iter().map(|claim| serde_json::json!(claim.creation)).collect();
    let repeated: Vec<i64> = claims.iter().map(|claim| claim.repeated).collect();
    let newest = |claim: &NewClaim<'_>| claim.must_be_newest.then(|| claim.creation.catalog_id.get());
    let entries: Vec<Option<i64>> = claims.iter().map(newest).collect();
    let paths: Vec<Option<&str>> =
        claims.iter().map(|claim| claim.must_be_newest.then_some(claim.creation.path.as_str())).collect();
    let statement = sqlx::query!(
        r#"WITH patience AS MATERIALIZED (
             SELECT set_config('lock_timeout', $10, true)
         ), newest AS MATERIALIZED (
             SELECT path, entry.catalog_id
             FROM (SELECT DISTINCT path FROM unnest($9::text[]) AS t (path) WHERE path IS NOT NULL) AS paths
             CROSS JOIN LATERAL (SELECT catalog_id FROM noetl.catalog
                                 WHERE catalog.path = paths.path AND archived_at IS NULL
                                 ORDER BY version DESC LIMIT 1) AS entry
         )
         INSERT INTO noetl.subscription_dedup AS standing
             (subscription_id, dedup_key, execution_id, request_hash, state, request, seen_at, expires_at, duplicates)
         SELECT scope, key, execution_id, request_hash, 0, request, now(), now() + make_interval(secs => window_seconds),
                repeated
         FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[], $5::integer[], $6::jsonb[], $7::bigint[],
                     $8::bigint[], $9::text[])
             AS t (scope, key, execution_id, request_hash, window_seconds, request, repeated, entry, path)
         CROSS JOIN patience
         LEFT JOIN newest USING (path)
         WHERE entry IS NULL OR entry = newest.catalog_id OR EXISTS (
             SELECT FROM noetl.subscription_dedup AS held
             WHERE held.subscription_id = scope AND held.dedup_key = key
               AND (held.state = 0 OR held.expires_at > now()
                    OR (held.expires_at IS NULL AND now() - held.seen_at < make_interval(secs => window_seconds))))
         ORDER BY scope, key
         ON CONFLICT (subscription_id, dedup_key) DO UPDATE
         SET (execution_id, request_hash, state, request, seen_at, expires_at, duplicates) = (
             SELECT c.execution_id, c.request_hash, c.state, c.request, c.seen_at, c.expires_at, c.duplicates
             FROM (VALUES
                 (true, EXCLUDED.execution_id, EXCLUDED.request_hash, EXCLUDED.state, EXCLUDED.request,
                  EXCLUDED.seen_at, EXCLUDED.expires_at, EXCLUDED.duplicates),
                 (false, standing.execution_id, standing.request_hash, standing.state, standing.request,
                  standing.seen_at, standing.expires_at, standing.duplicates + EXCLUDED.duplicates + 1)
             ) AS c (fresh, execution_id, request_hash, state, request, seen_at, expires_at, duplicates)
             WHERE c.fresh = (standing.state = 1 AND CASE
                 WHEN standing.expires_at IS NULL
                 THEN now() - standing.seen_at >= EXCLUDED.expires_at - EXCLUDED.seen_at
                 ELSE standing.expires_at <= now()
             END))
         RETURNING subscription_id, dedup_key, execution_id, request_hash, state = 0 AS "reserved!""#,
        &scopes,
        &keys,
        &executions,
        &hashes,
        &windows,
        &requests,
        &repeated,
        &entries as &[Option<i64>],
        &paths as &[Option<&str>],
        lock_wait.setting(),
    );
    let rows = cluster.run(statement.fetch_all(cluster.planned_for(claims.len()))).await?;
    let standing = rows.into_iter().map(|row| CurrentClaim {
        scope: row.subscription_id,
        key: row.dedup_key,
        execution_id: Id::new(row.execution_id),
        request_hash: row.request_hash,
        reserved: row.reserved,
    });
    Ok(standing.collect())
}

/// Claim of a key, as an operator sees it.
#[derive(Debug, Clone)]
pub struct ClaimRow {
    /// Execution that owns the key.
    pub execution_id: i64,
    /// Time of the first request.
    pub first_seen_at: DateTime<Utc>,
    /// End of the window; `None` on rows that NoETL's own server wrote.
    pub expires_at: Option<DateTime<Utc>>,
    /// Number of later requests with the key.
    pub duplicates: i64,
}

/// Returns the claim of a key, expired or not. `Ok(None)`: there is none.
#[tracing::instrument(level = "debug", name = "sql.dedup.find", skip_all, fields(database = %cluster.name(), scope))]
pub async fn find(cluster: &Database, scope: i64, key: &str) -> Result<Option<ClaimRow>, StorageError> {
    let row = sqlx::query_as!(
        ClaimRow,
        r#"SELECT execution_id, greatest(least(seen_at, '9999-12-31'), '0001-01-01') AS "first_seen_at!",
                  CASE WHEN expires_at IS NOT NULL
                       THEN greatest(least(expires_at, '9999-12-31'), '0001-01-01') END AS expires_at,
                  duplicates
           FROM noetl.subscription_dedup WHERE subscription_id = $1 AND dedup_key = $2"#,
        scope,
        key,
    );
    cluster.run(row.fetch_optional(cluster.pool())).await
}

/// A dedup key and the execution that owns it.
#[derive(Debug, Clone)]
pub struct OwnedKey {
    /// Scope of the key: the parent execution, or 0 or a negative number.
    pub scope: i64,
    /// The key.
    pub key: String,
    /// Execution that owns the key.
    pub execution_id: i64,
}

/// Returns those of these keys (scope and key) that an execution owns, so that a request with the key starts nothing.
/// Rows that NoETL's own server wrote count for `window_seconds`.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.owned", skip_all,
    fields(database = %cluster.name(), count = keys.len())
)]
pub async fn owned(
    cluster: &Database,
    keys: &[(i64, String)],
    window_seconds: i64,
) -> Result<Vec<OwnedKey>, StorageError> {
    let (scopes, keys): (Vec<i64>, Vec<String>) = keys.iter().cloned().unzip();
    let rows = sqlx::query_as!(
        OwnedKey,
        r#"SELECT held.subscription_id AS "scope!", held.dedup_key AS "key!", held.execution_id AS "execution_id!"
           FROM unnest($1::bigint[], $2::text[]) AS wanted (scope, key)
           JOIN noetl.subscription_dedup AS held ON held.subscription_id = wanted.scope AND held.dedup_key = wanted.key
           WHERE held.state = 0 OR held.expires_at > now()
              OR (held.expires_at IS NULL AND now() - held.seen_at < make_interval(secs => $3::bigint))"#,
        &scopes,
        &keys,
        window_seconds,
    );
    cluster.run(rows.fetch_all(cluster.planned_for(scopes.len()))).await
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
    cluster.run(update.execute(cluster.planned_for(executions.len()))).await?;
    Ok(())
}

/// Frees the keys of the reserved claims of these executions, which can't be created.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.free", skip_all,
    fields(database = %cluster.name(), count = executions.len(), first = executions.first())
)]
pub async fn free(cluster: &Database, executions: &[i64]) -> Result<(), StorageError> {
    let update = sqlx::query!(
        "UPDATE noetl.subscription_dedup SET state = 1, request = NULL, expires_at = now()
         WHERE state = 0 AND execution_id = ANY($1)",
        executions,
    );
    cluster.run(update.execute(cluster.pool())).await?;
    Ok(())
}

/// A reserved claim with its request.
#[derive(Debug)]
pub struct ReservedClaim {
    /// Execution of the claim.
    pub execution_id: Id,
    /// The request, or the reason that it can't be read.
    pub creation: Result<Creation, StorageError>,
}

/// Reserved claims of the first executions of a list.
#[derive(Debug)]
pub struct ReservedPage {
    /// The claims. Executions without a reserved claim are left out.
    pub claims: Vec<ReservedClaim>,
    /// Number of executions whose claims were looked up, at least 1.
    pub looked_up: usize,
}

/// Looks up the reserved claims of these executions one by one, until their requests have `max_bytes`. So a page has at
/// most one request more than `max_bytes` allows. `executions` must not be empty.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.reserved", skip_all,
    fields(database = %cluster.name(), count = executions.len(), first = executions.first())
)]
pub async fn reserved(cluster: &Database, executions: &[i64], max_bytes: i64) -> Result<ReservedPage, StorageError> {
    let rows = sqlx::query!(
        "WITH RECURSIVE page AS (
             SELECT 0 AS position, NULL::bigint AS execution_id, NULL::text AS request, 0::bigint AS bytes
             UNION ALL
             SELECT page.position + 1, claim.execution_id, claim.request,
                    page.bytes + coalesce(octet_length(claim.request), 0)
             FROM page LEFT JOIN LATERAL (
                 SELECT execution_id, request::text AS request FROM noetl.subscription_dedup
                 WHERE state = 0 AND execution_id = ($1::bigint[])[page.position + 1] LIMIT 1
             ) AS claim ON true
             WHERE page.position < cardinality($1) AND page.bytes < $2
         )
         SELECT execution_id, request FROM page WHERE position > 0",
        executions,
        max_bytes,
    );
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    let looked_up = rows.len();
    let claims = rows.into_iter().filter_map(|row| {
        let execution = row.execution_id?;
        let creation = parse(cluster, execution, &row.request.unwrap_or_default());
        Some(ReservedClaim { execution_id: Id::new(execution), creation })
    });
    Ok(ReservedPage { claims: claims.collect(), looked_up })
}

/// Returns the executions of up to `limit` reserved claims that are older than `age_seconds`, which crashed servers
/// left, for executions after `after`, in the order of the execution ids.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.stale", skip_all,
    fields(database = %cluster.name(), after = %after)
)]
pub async fn stale(cluster: &Database, age_seconds: f64, after: Id, limit: i64) -> Result<Vec<Id>, StorageError> {
    let rows = sqlx::query_scalar!(
        "SELECT execution_id FROM noetl.subscription_dedup
         WHERE state = 0 AND seen_at < now() - make_interval(secs => $1) AND execution_id > $2
         ORDER BY execution_id LIMIT $3",
        age_seconds,
        after.get(),
        limit,
    );
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    Ok(rows.into_iter().map(Id::new).collect())
}

/// Deletes up to `limit` created claims whose window has passed, and returns their number. Rows of NoETL's own server
/// have no window; they are deleted after `longest_window_seconds`. Reserved claims are never deleted, and rows that
/// another transaction has locked are skipped.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.purge_expired", skip_all,
    fields(database = %cluster.name())
)]
pub async fn purge_expired(cluster: &Database, longest_window_seconds: i64, limit: i64) -> Result<u64, StorageError> {
    let delete = sqlx::query!(
        "DELETE FROM noetl.subscription_dedup AS expired
         USING (
             SELECT subscription_id, dedup_key FROM noetl.subscription_dedup
             WHERE state = 1
               AND (expires_at <= now()
                    OR (expires_at IS NULL AND seen_at <= now() - make_interval(secs => $1::bigint)))
             LIMIT $2 FOR UPDATE SKIP LOCKED
         ) AS batch
         WHERE expired.subscription_id = batch.subscription_id AND expired.dedup_key = batch.dedup_key",
        longest_window_seconds,
        limit,
    );
    Ok(cluster.run(delete.execute(cluster.pool())).await?.rows_affected())
}

fn parse(cluster: &Database, execution: i64, request: &str) -> Result<Creation, StorageError> {
    json::parse(request.as_bytes())
        .map_err(|error| cluster.corrupt(format!("an unreadable dedup claim of execution {execution}: {error}")))
}
