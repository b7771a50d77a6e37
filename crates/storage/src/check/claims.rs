//! Dedup claims (cluster database) whose execution may be missing, and executions whose claim may be missing.

use chrono::{DateTime, Utc};

use super::Pages;
use crate::error::StorageError;
use crate::pools::Database;

/// Key of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimKey {
    /// Scope: the parent execution, or a number of the tenant.
    pub scope: i64,
    /// The dedup key.
    pub key: String,
}

/// A claim.
#[derive(Debug, Clone)]
pub struct ClaimFacts {
    /// Scope: the parent execution, or a number of the tenant.
    pub scope: i64,
    /// The dedup key.
    pub key: String,
    /// Execution that owns the key.
    pub execution_id: i64,
    /// Whether the claim is reserved.
    pub reserved: bool,
    /// Whether the claim is older than the given age.
    pub old: bool,
    /// Whether its window has passed.
    pub expired: bool,
}

/// Returns the keys of up to `limit` claims after a key, in order.
#[tracing::instrument(level = "debug", name = "sql.check.claim_keys", skip_all, fields(database = %pages.name()))]
pub async fn keys(pages: &mut Pages<'_>, after: &ClaimKey, limit: i64) -> Result<Vec<ClaimKey>, StorageError> {
    let keys = sqlx::query_as!(
        ClaimKey,
        "SELECT subscription_id AS scope, dedup_key AS key FROM noetl.subscription_dedup
         WHERE (subscription_id, dedup_key) > ($1, $2) ORDER BY subscription_id, dedup_key LIMIT $3",
        after.scope,
        after.key,
        limit,
    );
    pages.database.run(keys.fetch_all(&mut pages.connection)).await
}

/// Returns the claims with these keys. A claim of NoETL's own server has no window; it expires after
/// `longest_window_seconds`.
#[tracing::instrument(
    level = "debug", name = "sql.check.claim_facts", skip_all,
    fields(database = %cluster.name(), count = keys.len())
)]
pub async fn facts(
    cluster: &Database,
    keys: &[ClaimKey],
    old_seconds: f64,
    longest_window_seconds: i64,
) -> Result<Vec<ClaimFacts>, StorageError> {
    let scopes: Vec<i64> = keys.iter().map(|key| key.scope).collect();
    let texts: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
    let facts = sqlx::query_as!(
        ClaimFacts,
        r#"SELECT claim.subscription_id AS scope, claim.dedup_key AS key, claim.execution_id,
                  claim.state = 0 AS "reserved!", claim.seen_at < now() - make_interval(secs => $3) AS "old!",
                  coalesce(claim.expires_at, claim.seen_at + make_interval(secs => $4::bigint)) <= now() AS "expired!"
           FROM unnest($1::bigint[], $2::text[]) AS given (scope, key)
           CROSS JOIN LATERAL (
               SELECT * FROM noetl.subscription_dedup
               WHERE subscription_id = given.scope AND dedup_key = given.key LIMIT 1
           ) AS claim"#,
        &scopes,
        &texts as &[&str],
        old_seconds,
        longest_window_seconds,
    );
    cluster.run(facts.fetch_all(cluster.pool())).await
}

/// Releases created claims whose execution does not exist, so that their keys can be claimed again. A claim that
/// belongs to another execution meanwhile stays. Returns the number of released claims.
#[tracing::instrument(
    level = "debug", name = "sql.check.release_claims", skip_all,
    fields(database = %cluster.name(), count = claims.len())
)]
pub async fn release(cluster: &Database, claims: &[(ClaimKey, i64)]) -> Result<u64, StorageError> {
    let scopes: Vec<i64> = claims.iter().map(|(key, _)| key.scope).collect();
    let keys: Vec<&str> = claims.iter().map(|(key, _)| key.key.as_str()).collect();
    let executions: Vec<i64> = claims.iter().map(|(_, execution)| *execution).collect();
    // A trigger refuses the deletion of a claim whose window has not passed. The purge deletes these.
    let update = sqlx::query!(
        "WITH released AS (
             SELECT claim.subscription_id, claim.dedup_key
             FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS given (scope, key, execution_id)
             JOIN noetl.subscription_dedup AS claim
               ON claim.subscription_id = given.scope AND claim.dedup_key = given.key
             WHERE claim.execution_id = given.execution_id AND claim.state = 1
             ORDER BY claim.subscription_id, claim.dedup_key FOR UPDATE OF claim)
         UPDATE noetl.subscription_dedup AS claim SET expires_at = now()
         FROM released
         WHERE claim.subscription_id = released.subscription_id AND claim.dedup_key = released.dedup_key",
        &scopes,
        &keys as &[&str],
        &executions,
    );
    Ok(cluster.run(update.execute(cluster.planned_for(claims.len()))).await?.rows_affected())
}

/// Claim that an execution's started event describes.
#[derive(Debug, Clone)]
pub struct DescribedClaim {
    /// Scope and key.
    pub key: ClaimKey,
    /// The execution.
    pub execution_id: i64,
    /// Hash of its request; `None` if it is not known.
    pub request_hash: Option<Vec<u8>>,
    /// Time at which the execution was started.
    pub seen_at: DateTime<Utc>,
    /// End of its window.
    pub expires_at: DateTime<Utc>,
}

/// Returns the executions of this list whose claim is missing: no claim has the key, or one of an earlier execution
/// whose window has passed. Executions whose own window has passed or ends within `margin_seconds` are left out.
#[tracing::instrument(
    level = "debug", name = "sql.check.missing_claims", skip_all,
    fields(database = %cluster.name(), count = claims.len())
)]
pub async fn missing(
    cluster: &Database,
    claims: &[DescribedClaim],
    margin_seconds: f64,
) -> Result<Vec<i64>, StorageError> {
    let Columns { scopes, keys, executions, expires, .. } = Columns::of(claims);
    let missing = sqlx::query_scalar!(
        r#"SELECT given.execution_id AS "execution_id!"
           FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::timestamptz[])
                AS given (scope, key, execution_id, expires_at)
           LEFT JOIN LATERAL (
               SELECT execution_id, state, expires_at FROM noetl.subscription_dedup
               WHERE subscription_id = given.scope AND dedup_key = given.key LIMIT 1
           ) AS claim ON true
           WHERE given.expires_at > now() + make_interval(secs => $5)
             AND (claim.execution_id IS NULL
                  OR (claim.execution_id < given.execution_id AND claim.state = 1 AND claim.expires_at <= now()))"#,
        &scopes,
        &keys as &[&str],
        &executions,
        &expires,
        margin_seconds,
    );
    cluster.run(missing.fetch_all(cluster.pool())).await
}

/// Makes claims again from the started events of their executions. Of several executions with one key, the last one gets
/// it. A key that another execution holds is left unchanged, unless the window of that claim has passed. Returns the
/// number of claims.
#[tracing::instrument(
    level = "debug", name = "sql.check.restore_claims", skip_all,
    fields(database = %cluster.name(), count = claims.len())
)]
pub async fn restore(cluster: &Database, claims: &[DescribedClaim]) -> Result<u64, StorageError> {
    let Columns { scopes, keys, executions, hashes, seen, expires } = Columns::of(claims);
    let insert = sqlx::query!(
        "INSERT INTO noetl.subscription_dedup AS standing
             (subscription_id, dedup_key, execution_id, request_hash, state, seen_at, expires_at)
         SELECT DISTINCT ON (scope, key) scope, key, execution_id, request_hash, 1, seen_at, expires_at
         FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[], $5::timestamptz[], $6::timestamptz[])
              AS given (scope, key, execution_id, request_hash, seen_at, expires_at)
         WHERE expires_at > now()
         ORDER BY scope, key, execution_id DESC
         ON CONFLICT (subscription_id, dedup_key) DO UPDATE
         SET execution_id = EXCLUDED.execution_id, request_hash = EXCLUDED.request_hash, state = 1, request = NULL,
             seen_at = EXCLUDED.seen_at, expires_at = EXCLUDED.expires_at, duplicates = 0
         WHERE standing.state = 1 AND standing.expires_at <= now() AND standing.execution_id < EXCLUDED.execution_id",
        &scopes,
        &keys as &[&str],
        &executions,
        &hashes as &[Option<Vec<u8>>],
        &seen,
        &expires,
    );
    Ok(cluster.run(insert.execute(cluster.planned_for(claims.len()))).await?.rows_affected())
}

struct Columns<'a> {
    scopes: Vec<i64>,
    keys: Vec<&'a str>,
    executions: Vec<i64>,
    hashes: Vec<Option<Vec<u8>>>,
    seen: Vec<DateTime<Utc>>,
    expires: Vec<DateTime<Utc>>,
}

impl<'a> Columns<'a> {
    fn of(claims: &'a [DescribedClaim]) -> Self {
        Self {
            scopes: claims.iter().map(|claim| claim.key.scope).collect(),
            keys: claims.iter().map(|claim| claim.key.key.as_str()).collect(),
            executions: claims.iter().map(|claim| claim.execution_id).collect(),
            hashes: claims.iter().map(|claim| claim.request_hash.clone()).collect(),
            seen: claims.iter().map(|claim| claim.seen_at).collect(),
            expires: claims.iter().map(|claim| claim.expires_at).collect(),
        }
    }
}
