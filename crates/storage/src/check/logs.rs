//! Logs, compared with the executions' list.

use super::Pages;
use crate::error::StorageError;
use crate::pools::Database;

/// Returns the execution ids of up to `limit` logs after an id, in order. Each log costs one search in an index.
#[tracing::instrument(level = "debug", name = "sql.check.log_ids", skip_all, fields(database = %pages.name()))]
pub async fn ids(pages: &mut Pages<'_>, after: i64, limit: i64) -> Result<Vec<i64>, StorageError> {
    let ids = sqlx::query_scalar!(
        r#"WITH RECURSIVE log AS (
               (SELECT execution_id FROM noetl.event WHERE execution_id > $1 ORDER BY execution_id LIMIT 1)
               UNION ALL
               SELECT next.execution_id FROM log CROSS JOIN LATERAL (
                   SELECT execution_id FROM noetl.event
                   WHERE execution_id > log.execution_id ORDER BY execution_id LIMIT 1
               ) AS next
           )
           SELECT execution_id AS "execution_id!" FROM log LIMIT $2"#,
        after,
        limit,
    );
    pages.database.run(ids.fetch_all(&mut pages.connection)).await
}

/// Returns which of these logs are an execution's and have no row in the executions' list.
#[tracing::instrument(
    level = "debug", name = "sql.check.unlisted_logs", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn unlisted(shard: &Database, ids: &[i64]) -> Result<Vec<i64>, StorageError> {
    let unlisted = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM unnest($1::bigint[]) AS given (id)
           WHERE (SELECT 1 FROM noetl.execution WHERE execution_id = given.id LIMIT 1) IS NULL
             AND (SELECT 1 FROM noetl.event
                  WHERE execution_id = given.id AND event_type IN ('playbook_started', 'playbook.initialized')
                  LIMIT 1) IS NOT NULL"#,
        ids,
    );
    shard.run(unlisted.fetch_all(shard.pool())).await
}

/// Returns which of these logs exist.
#[tracing::instrument(
    level = "debug", name = "sql.check.existing_logs", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn existing(shard: &Database, ids: &[i64]) -> Result<Vec<i64>, StorageError> {
    let existing = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM unnest($1::bigint[]) AS given (id)
           WHERE (SELECT 1 FROM noetl.event WHERE execution_id = given.id LIMIT 1) IS NOT NULL"#,
        ids,
    );
    shard.run(existing.fetch_all(shard.pool())).await
}
