//! Deleting published rows.

use chrono::{DateTime, Utc};

use crate::error::StorageError;
use crate::pools::Database;

/// Returns whether NoETL's own server made the table before this one used it.
pub async fn is_adopted(shard: &Database) -> Result<bool, StorageError> {
    let adopted = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM noetl.adopted_table WHERE table_name = 'outbox') AS "adopted!""#
    );
    shard.run(adopted.fetch_one(shard.pool())).await
}

/// Result of a purge.
#[derive(Debug, Clone, Copy)]
pub struct Purged {
    /// Number of deleted rows.
    pub rows: i64,
    /// Time at which the last of them was published, where the next batch starts; `None` if no row was deleted.
    pub up_to: Option<DateTime<Utc>>,
}

/// Deletes up to `limit` rows that were published at or after `from` and more than `age_seconds` ago. Rows that `kept`
/// delivered stay while their execution has no event of a worker: they may have to be delivered again. Only executions that
/// are PENDING in the list are looked up.
#[tracing::instrument(level = "debug", name = "sql.outbox.purge", skip_all, fields(database = %shard.name()))]
pub async fn purge(
    shard: &Database,
    age_seconds: f64,
    from: DateTime<Utc>,
    limit: i64,
    kept: &str,
) -> Result<Purged, StorageError> {
    let deleted = sqlx::query_as!(
        Purged,
        r#"WITH deleted AS (
               DELETE FROM noetl.outbox
               WHERE outbox_id = ANY (ARRAY(
                   SELECT outbox_id FROM noetl.outbox AS row
                   WHERE status = 'PUBLISHED' AND published_at >= $2 AND published_at < now() - make_interval(secs => $1)
                     AND NOT (claimant IS NOT DISTINCT FROM $4
                              AND EXISTS (SELECT FROM noetl.execution AS listed
                                          WHERE listed.execution_id = row.execution_id AND upper(listed.status) = 'PENDING')
                              AND NOT EXISTS (SELECT FROM noetl.event
                                              WHERE event.execution_id = row.execution_id AND event.event_id <> row.event_id))
                   ORDER BY published_at LIMIT $3 FOR UPDATE SKIP LOCKED))
               RETURNING published_at)
           SELECT count(*) AS "rows!", max(published_at) AS up_to FROM deleted"#,
        age_seconds,
        from,
        limit,
        kept,
    );
    shard.run(deleted.fetch_one(shard.pool())).await
}
