//! Executions of catalog entries, and their counts, from the read model of a shard.

use super::error::StorageError;
use super::executions::ExecutionRow;
use super::pools::Database;
use noetl_domain::list_position::PositionRange;
use noetl_domain::tenant::Scope;

/// Returns the candidates of a page for the executions of each of these catalog entries in the scope, in the range's
/// direction, grouped by entry. A list is ordered by start time, then by id.
#[tracing::instrument(
    level = "debug", name = "sql.catalog_executions.list", skip_all,
    fields(database = %shard.name(), count = entries.len(), first = entries.first())
)]
pub async fn list(
    shard: &Database,
    scope: &Scope,
    entries: &[i64],
    range: PositionRange,
) -> Result<Vec<ExecutionRow>, StorageError> {
    macro_rules! listed {
        ($order:literal) => {
            sqlx::query_as!(
                ExecutionRow,
                "SELECT execution_id, catalog_id, parent_execution_id, status, path, last_event_id, tenant_id, organization_id,
                  CASE WHEN start_time IS NOT NULL THEN greatest(least(start_time, '9999-12-31'), '0001-01-01') END AS start_time,
                  CASE WHEN end_time IS NOT NULL THEN greatest(least(end_time, '9999-12-31'), '0001-01-01') END AS end_time
                 FROM unnest($1::bigint[]) AS entry (id)
                 CROSS JOIN LATERAL (
                     SELECT * FROM noetl.execution
                     WHERE catalog_id = entry.id
                       AND (noetl.list_time(start_time), execution_id) > ($2, $3)
                       AND (noetl.list_time(start_time), execution_id) < ($4, $5)
                       AND ($6::text IS NULL OR tenant_id = $6)
                     ORDER BY "
                    + $order
                    + " LIMIT $7
                 ) AS page
                 ORDER BY catalog_id, "
                    + $order,
                entries,
                range.above.at,
                range.above.id,
                range.below.at,
                range.below.id,
                scope.tenant(),
                range.limit,
            )
            .fetch_all(shard.pool())
        };
    }
    if range.descending {
        shard.run(listed!("noetl.list_time(start_time) DESC, execution_id DESC")).await
    } else {
        shard.run(listed!("noetl.list_time(start_time), execution_id")).await
    }
}

/// Number of executions of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryCount {
    /// The catalog entry.
    pub entry: i64,
    /// Number of its executions.
    pub count: i64,
}

/// Counts the executions of each of these catalog entries in the scope, up to `limit` for each.
#[tracing::instrument(
    level = "debug", name = "sql.catalog_executions.count", skip_all,
    fields(database = %shard.name(), count = entries.len(), first = entries.first())
)]
pub async fn count(
    shard: &Database,
    scope: &Scope,
    entries: &[i64],
    limit: i64,
) -> Result<Vec<EntryCount>, StorageError> {
    let counts = sqlx::query_as!(
        EntryCount,
        r#"SELECT entry.id AS "entry!", executions.count AS "count!"
           FROM unnest($1::bigint[]) AS entry (id)
           CROSS JOIN LATERAL (
               SELECT count(*) AS count FROM (
                   SELECT 1 FROM noetl.execution
                   WHERE catalog_id = entry.id AND ($2::text IS NULL OR tenant_id = $2)
                   LIMIT $3
               ) AS counted
           ) AS executions"#,
        entries,
        scope.tenant(),
        limit,
    );
    shard.run(counts.fetch_all(shard.pool())).await
}
