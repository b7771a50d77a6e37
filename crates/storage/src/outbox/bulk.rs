//! Retrying and discarding rows by a filter. Each statement changes a limited number of rows.

use super::OutboxFilter;
use crate::error::StorageError;
use crate::view::View;
use noetl_domain::ids::Id;
use noetl_domain::outbox::OutboxStatus;
use noetl_domain::tenant::Scope;

/// Conditions of a scope and of a filter on FAILED and DEAD rows, as SQL parameters.
struct Conditions<'a> {
    failed: bool,
    dead: bool,
    execution_id: Option<i64>,
    min_attempts: Option<i32>,
    numbers: Option<Vec<i64>>,
    /// Tenant of the scope.
    own: Option<&'a str>,
    tenant_id: Option<&'a str>,
    organization_id: Option<&'a str>,
}

impl<'a> Conditions<'a> {
    /// Returns the conditions of a filter on a shard. A new condition of the filter does not compile until it is added
    /// here.
    fn of(scope: &'a Scope, filter: &'a OutboxFilter, shard: &View<'_>) -> Self {
        let OutboxFilter { statuses, execution_id, min_attempts, ids: _, tenant_id, organization_id } = filter;
        let wanted = |status| statuses.as_ref().is_none_or(|wanted| wanted.contains(&status));
        Self {
            failed: wanted(OutboxStatus::Failed),
            dead: wanted(OutboxStatus::Dead),
            execution_id: execution_id.map(Id::get),
            min_attempts: *min_attempts,
            numbers: filter.numbers(shard),
            own: scope.tenant(),
            tenant_id: tenant_id.as_deref(),
            organization_id: organization_id.as_deref(),
        }
    }
}

/// Returns the number of matching rows in the scope that a retry changes: FAILED rows that are not due, and DEAD rows.
#[tracing::instrument(level = "debug", name = "sql.outbox.retryable", skip_all, fields(database = %shard.name()))]
pub async fn retryable(shard: View<'_>, scope: &Scope, filter: &OutboxFilter) -> Result<i64, StorageError> {
    let Conditions { failed, dead, execution_id, min_attempts, numbers, own, tenant_id, organization_id } =
        Conditions::of(scope, filter, &shard);
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM noetl.outbox
           WHERE status = 'FAILED' AND attempts >= 0 AND available_at > now()
             AND CASE WHEN available_at = 'infinity' THEN $2::boolean ELSE $1::boolean END
             AND ($3::bigint IS NULL OR execution_id = $3) AND ($4::integer IS NULL OR attempts >= $4)
             AND ($5::bigint[] IS NULL OR outbox_id = ANY($5))
             AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
             AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7)
             AND ($8::text IS NULL OR noetl.outbox_owner(organization_id, payload, 'organization_id') = $8)
             AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END"#,
        failed,
        dead,
        execution_id,
        min_attempts,
        numbers.as_deref(),
        own,
        tenant_id,
        organization_id,
        shard.held(),
    );
    shard.run(count.fetch_one(shard.pool())).await
}

/// Makes up to `limit` matching FAILED and DEAD rows in the scope claimable at once, and returns their number. A DEAD
/// row starts again at no attempts.
#[tracing::instrument(level = "debug", name = "sql.outbox.retry", skip_all, fields(database = %shard.name()))]
pub async fn retry(shard: View<'_>, scope: &Scope, filter: &OutboxFilter, limit: i64) -> Result<u64, StorageError> {
    let Conditions { failed, dead, execution_id, min_attempts, numbers, own, tenant_id, organization_id } =
        Conditions::of(scope, filter, &shard);
    let update = sqlx::query!(
        "UPDATE noetl.outbox
         SET attempts = CASE WHEN available_at = 'infinity' THEN 0 ELSE attempts END, available_at = now(),
             updated_at = now()
         WHERE outbox_id = ANY (ARRAY(
             SELECT outbox_id FROM noetl.outbox
             WHERE status = 'FAILED' AND attempts >= 0 AND available_at > now()
               AND CASE WHEN available_at = 'infinity' THEN $2::boolean ELSE $1::boolean END
               AND ($3::bigint IS NULL OR execution_id = $3) AND ($4::integer IS NULL OR attempts >= $4)
               AND ($5::bigint[] IS NULL OR outbox_id = ANY($5))
               AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7)
               AND ($8::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $8)
               AND ($9::text IS NULL OR noetl.outbox_owner(organization_id, payload, 'organization_id') = $9)
               AND CASE WHEN $10::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($10, noetl.bucket_of(execution_id)) = 1 END
             ORDER BY available_at LIMIT $6 FOR UPDATE SKIP LOCKED))",
        failed,
        dead,
        execution_id,
        min_attempts,
        numbers.as_deref(),
        limit,
        own,
        tenant_id,
        organization_id,
        shard.held(),
    );
    Ok(shard.run(update.execute(shard.pool())).await?.rows_affected())
}

/// Returns the number of matching DEAD rows in the scope.
#[tracing::instrument(level = "debug", name = "sql.outbox.discardable", skip_all, fields(database = %shard.name()))]
pub async fn discardable(shard: View<'_>, scope: &Scope, filter: &OutboxFilter) -> Result<i64, StorageError> {
    let Conditions { failed: _, dead, execution_id, min_attempts, numbers, own, tenant_id, organization_id } =
        Conditions::of(scope, filter, &shard);
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM noetl.outbox
           WHERE status = 'FAILED' AND attempts >= 0 AND available_at = 'infinity' AND $1::boolean
             AND ($2::bigint IS NULL OR execution_id = $2) AND ($3::integer IS NULL OR attempts >= $3)
             AND ($4::bigint[] IS NULL OR outbox_id = ANY($4))
             AND ($5::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $5)
             AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
             AND ($7::text IS NULL OR noetl.outbox_owner(organization_id, payload, 'organization_id') = $7)
             AND CASE WHEN $8::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($8, noetl.bucket_of(execution_id)) = 1 END"#,
        dead,
        execution_id,
        min_attempts,
        numbers.as_deref(),
        own,
        tenant_id,
        organization_id,
        shard.held(),
    );
    shard.run(count.fetch_one(shard.pool())).await
}

/// Deletes up to `limit` matching DEAD rows in the scope, and returns their number.
#[tracing::instrument(level = "debug", name = "sql.outbox.discard", skip_all, fields(database = %shard.name()))]
pub async fn discard(shard: View<'_>, scope: &Scope, filter: &OutboxFilter, limit: i64) -> Result<u64, StorageError> {
    let Conditions { failed: _, dead, execution_id, min_attempts, numbers, own, tenant_id, organization_id } =
        Conditions::of(scope, filter, &shard);
    let delete = sqlx::query!(
        "DELETE FROM noetl.outbox
         WHERE outbox_id = ANY (ARRAY(
             SELECT outbox_id FROM noetl.outbox
             WHERE status = 'FAILED' AND attempts >= 0 AND available_at = 'infinity' AND $1::boolean
               AND ($2::bigint IS NULL OR execution_id = $2) AND ($3::integer IS NULL OR attempts >= $3)
               AND ($4::bigint[] IS NULL OR outbox_id = ANY($4))
               AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
               AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7)
               AND ($8::text IS NULL OR noetl.outbox_owner(organization_id, payload, 'organization_id') = $8)
               AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END
             LIMIT $5 FOR UPDATE SKIP LOCKED))",
        dead,
        execution_id,
        min_attempts,
        numbers.as_deref(),
        limit,
        own,
        tenant_id,
        organization_id,
        shard.held(),
    );
    Ok(shard.run(delete.execute(shard.pool())).await?.rows_affected())
}
