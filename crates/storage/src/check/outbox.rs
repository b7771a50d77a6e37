//! Outbox rows, compared with their events.

use super::Pages;
use crate::error::StorageError;
use crate::pools::Database;

/// Outbox row without its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Id of the row.
    pub outbox_id: i64,
    /// Execution of the missing event.
    pub execution_id: i64,
}

/// Returns the ids of up to `limit` rows after an id, in order.
#[tracing::instrument(level = "debug", name = "sql.check.outbox_ids", skip_all, fields(database = %pages.name()))]
pub async fn ids(pages: &mut Pages<'_>, after: i64, limit: i64) -> Result<Vec<i64>, StorageError> {
    let ids = sqlx::query_scalar!(
        "SELECT outbox_id FROM noetl.outbox WHERE outbox_id > $1 ORDER BY outbox_id LIMIT $2",
        after,
        limit,
    );
    pages.database.run(ids.fetch_all(&mut pages.connection)).await
}

/// Returns which of these rows have no event.
#[tracing::instrument(
    level = "debug", name = "sql.check.outbox_orphans", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn orphans(shard: &Database, ids: &[i64]) -> Result<Vec<Orphan>, StorageError> {
    let orphans = sqlx::query_as!(
        Orphan,
        r#"SELECT stored.outbox_id AS "outbox_id!", stored.execution_id AS "execution_id!"
         FROM unnest($1::bigint[]) AS given (id)
         CROSS JOIN LATERAL (SELECT * FROM noetl.outbox WHERE outbox_id = given.id LIMIT 1) AS stored
         WHERE (SELECT 1 FROM noetl.event
                WHERE execution_id = stored.execution_id AND event_id = stored.event_id LIMIT 1) IS NULL"#,
        ids,
    );
    shard.run(orphans.fetch_all(shard.pool())).await
}

/// Deletes those of these rows that have no event. A row in flight is kept until its lease has expired.
#[tracing::instrument(
    level = "debug", name = "sql.check.delete_outbox_orphans", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn delete_orphans(shard: &Database, ids: &[i64]) -> Result<u64, StorageError> {
    let delete = sqlx::query!(
        "DELETE FROM noetl.outbox AS stored
         WHERE outbox_id = ANY($1)
           AND NOT (status = 'IN_FLIGHT' AND coalesce(lease_until, '-infinity') > now())
           AND (SELECT 1 FROM noetl.event
                WHERE execution_id = stored.execution_id AND event_id = stored.event_id LIMIT 1) IS NULL",
        ids,
    );
    Ok(shard.run(delete.execute(shard.pool())).await?.rows_affected())
}
