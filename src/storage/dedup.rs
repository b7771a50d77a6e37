//! Dedup claims (cluster database): which execution owns a key within its window.
//!
//! A claim is reserved until its execution is created. A reserved claim never expires and carries the request, so
//! whoever meets it can finish it; a created one is free for a fresh request once its window has passed. Nothing here
//! depends on old rows being pruned.

use serde_json::Value;

use super::error::StorageError;
use super::pools::Database;
use crate::domain::execution::Creation;
use crate::domain::ids::Id;
use noetl_json as json;

/// A claim of a key under a preallocated execution id.
#[derive(Debug)]
pub struct NewClaim<'a> {
    /// The parent execution, or 0.
    pub scope: i64,
    /// At most 1024 bytes.
    pub key: &'a str,
    /// What tells two requests apart.
    pub request_hash: [u8; 32],
    /// Seconds from now until the key is free again.
    pub window_seconds: i32,
    /// The request, whose execution id is the claim's.
    pub creation: &'a Creation,
}

/// The claim that stands after an attempt: the caller's own if `creation` has the caller's id.
#[derive(Debug)]
pub struct StandingClaim {
    /// The parent execution, or 0.
    pub scope: i64,
    /// The key.
    pub key: String,
    /// Who owns the key.
    pub execution_id: Id,
    /// `None` on rows of older servers.
    pub request_hash: Option<Vec<u8>>,
    /// The request while it is reserved, `None` once its execution is created.
    pub reserved: Option<Creation>,
}

/// Claims keys, all in one statement; keys are distinct. Answers with the standing claim of each, in no order.
#[tracing::instrument(
    level = "debug", name = "sql.dedup.claim", skip_all,
    fields(database = %cluster.name(), count = claims.len())
)]
pub async fn claim(cluster: &Database, claims: &[NewClaim<'_>]) -> Result<Vec<StandingClaim>, StorageError> {
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
        Ok(StandingClaim {
            scope: row.subscription_id,
            key: row.dedup_key,
            execution_id: Id::new(row.execution_id),
            request_hash: row.request_hash,
            reserved: row.request.map(|request| parse(cluster, row.execution_id, &request)).transpose()?,
        })
    });
    standing.collect()
}

/// Marks claims as created, locking them in the order in which claiming does; ones that are created already, or gone to another execution, are left alone.
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

/// An execution, and what creates it, or why that can't be read.
pub type StaleClaim = (Id, Result<Creation, StorageError>);

/// Reserved claims older than `age_seconds` of executions behind `after`, by execution: what crashed claimants left
/// behind. One that can't be read comes as the error that says so.
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
    let claim = |(id, request): (i64, Option<String>)| (Id::new(id), parse(cluster, id, &request.unwrap_or_default()));
    Ok(rows.into_iter().map(|row| claim((row.execution_id, row.request))).collect())
}

/// Removes up to `limit` claims that are created and whose window has passed; reserved ones stay for ever. What somebody
/// claims anew at this moment is passed over. Answers how many went.
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
