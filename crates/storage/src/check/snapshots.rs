//! Stored snapshots of this server, compared with their logs.

use super::Pages;
use crate::error::StorageError;
use crate::pools::Database;
use crate::snapshots::AGGREGATE;

/// Key of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotKey {
    /// Tenant.
    pub tenant_id: String,
    /// Organization.
    pub organization_id: String,
    /// Execution id as text.
    pub aggregate_id: String,
}

/// Returns the keys of up to `limit` snapshots after a key, in order.
#[tracing::instrument(level = "debug", name = "sql.check.snapshot_keys", skip_all, fields(database = %pages.name()))]
pub async fn keys(pages: &mut Pages<'_>, after: &SnapshotKey, limit: i64) -> Result<Vec<SnapshotKey>, StorageError> {
    let keys = sqlx::query_as!(
        SnapshotKey,
        "SELECT tenant_id, organization_id, aggregate_id FROM noetl.projection_snapshot
         WHERE (tenant_id, organization_id, aggregate_type, aggregate_id) > ($1, $2, $4, $3) AND aggregate_type = $4
         ORDER BY tenant_id, organization_id, aggregate_type, aggregate_id LIMIT $5",
        after.tenant_id,
        after.organization_id,
        after.aggregate_id,
        AGGREGATE,
        limit,
    );
    pages.database.run(keys.fetch_all(&mut pages.connection)).await
}

/// Returns which of these snapshots have events after the end of their log.
#[tracing::instrument(
    level = "debug", name = "sql.check.later_snapshots", skip_all,
    fields(database = %shard.name(), count = keys.len())
)]
pub async fn later(shard: &Database, keys: &[SnapshotKey]) -> Result<Vec<SnapshotKey>, StorageError> {
    let (tenants, organizations, ids) = columns(keys);
    let later = sqlx::query_as!(
        SnapshotKey,
        r#"SELECT stored.tenant_id, stored.organization_id, stored.aggregate_id
           FROM unnest($1::text[], $2::text[], $3::text[]) AS given (tenant_id, organization_id, aggregate_id)
           CROSS JOIN LATERAL (
               SELECT * FROM noetl.projection_snapshot
               WHERE tenant_id = given.tenant_id AND organization_id = given.organization_id AND aggregate_type = $4
                 AND aggregate_id = given.aggregate_id LIMIT 1
           ) AS stored
           WHERE stored.version > coalesce(
               (SELECT event_id FROM noetl.event WHERE execution_id = stored.aggregate_id::bigint
                ORDER BY event_id DESC LIMIT 1), -1)"#,
        &tenants as &[&str],
        &organizations as &[&str],
        &ids as &[&str],
        AGGREGATE,
    );
    shard.run(later.fetch_all(shard.pool())).await
}

/// Deletes those of these snapshots that have events after the end of their log. The next advance stores them again.
#[tracing::instrument(
    level = "debug", name = "sql.check.delete_later_snapshots", skip_all,
    fields(database = %shard.name(), count = keys.len())
)]
pub async fn delete_later(shard: &Database, keys: &[SnapshotKey]) -> Result<u64, StorageError> {
    let (tenants, organizations, ids) = columns(keys);
    let delete = sqlx::query!(
        "DELETE FROM noetl.projection_snapshot AS stored
         USING unnest($1::text[], $2::text[], $3::text[]) AS given (tenant_id, organization_id, aggregate_id)
         WHERE stored.tenant_id = given.tenant_id AND stored.organization_id = given.organization_id
           AND stored.aggregate_type = $4 AND stored.aggregate_id = given.aggregate_id
           AND stored.version > coalesce(
               (SELECT event_id FROM noetl.event WHERE execution_id = given.aggregate_id::bigint
                ORDER BY event_id DESC LIMIT 1), -1)",
        &tenants as &[&str],
        &organizations as &[&str],
        &ids as &[&str],
        AGGREGATE,
    );
    Ok(shard.run(delete.execute(shard.pool())).await?.rows_affected())
}

/// Deletes the snapshots of these executions, so that the next advance folds their logs from the start.
#[tracing::instrument(
    level = "debug", name = "sql.check.delete_snapshots", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn delete(shard: &Database, ids: &[i64]) -> Result<u64, StorageError> {
    let delete = sqlx::query!(
        "DELETE FROM noetl.projection_snapshot AS stored
         USING (
             SELECT id, owner.tenant_id, owner.organization_id
             FROM unnest($1::bigint[]) AS given (id) CROSS JOIN LATERAL noetl.log_owner(id) AS owner
             -- Snapshots that were stored before an event of the log named its tenant.
             UNION SELECT id, 'default', 'default' FROM unnest($1::bigint[]) AS given (id)
         ) AS owner
         WHERE stored.tenant_id = owner.tenant_id AND stored.organization_id = owner.organization_id
           AND stored.aggregate_type = $2 AND stored.aggregate_id = owner.id::text",
        ids,
        AGGREGATE,
    );
    Ok(shard.run(delete.execute(shard.pool())).await?.rows_affected())
}

fn columns(keys: &[SnapshotKey]) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    let column = |of: fn(&SnapshotKey) -> &str| keys.iter().map(of).collect();
    (column(|key| &key.tenant_id), column(|key| &key.organization_id), column(|key| &key.aggregate_id))
}
