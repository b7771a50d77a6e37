//! Finds the rows of the list that lack events.

use super::AGGREGATE;
use crate::error::StorageError;
use crate::executions::ExecutionRow;
use crate::pools::Database;
use noetl_domain::id_span::IdSpan;
use noetl_domain::tx_snapshot::TxSnapshot;

/// Returns the ids of those executions whose logs have events that their rows in the list, as they were read, do not see:
/// the row has changed since, or the stored state does not see the events. An execution without a valid stored state is one
/// of them. Neither states nor events are read.
#[tracing::instrument(
    level = "debug", name = "sql.snapshots.outdated", skip_all,
    fields(database = %shard.name(), count = rows.len())
)]
pub async fn outdated(shard: &Database, rows: &[&ExecutionRow]) -> Result<Vec<i64>, StorageError> {
    let ids: Vec<i64> = rows.iter().map(|row| row.execution_id).collect();
    let tenants: Vec<&str> = rows.iter().map(|row| row.tenant_id.as_str()).collect();
    let organizations: Vec<&str> = rows.iter().map(|row| row.organization_id.as_str()).collect();
    let span = IdSpan::of(&ids);
    // The events are searched as `rows::starts` does it.
    let outdated = sqlx::query_scalar!(
        r#"WITH system AS MATERIALIZED (
             SELECT system_identifier::text AS id FROM pg_control_system()
         ), base AS (
             SELECT log.*,
                    CASE WHEN stored.meta ->> 'schema' = $5 AND stored.meta ->> 'system' = (SELECT id FROM system)
                         THEN stored.meta ->> 'as_of' ELSE $6 END AS as_of
             FROM unnest($1::bigint[], $2::text[], $3::text[], $9::text[], $10::bigint[], $11::integer[])
                 AS log (id, tenant_id, organization_id, status, last_event_id, failed_steps)
             LEFT JOIN LATERAL (
                 SELECT meta FROM noetl.projection_snapshot
                 WHERE tenant_id = log.tenant_id AND organization_id = log.organization_id
                   AND aggregate_type = $4 AND aggregate_id = log.id::text OFFSET 0
             ) AS stored ON true
         )
         SELECT base.id AS "id!" FROM base
         -- State and row are stored together, so a row that has not changed belongs to the state that this statement sees.
         WHERE (SELECT (status, last_event_id, failed_steps)
                       IS DISTINCT FROM (base.status, base.last_event_id, base.failed_steps)
                FROM noetl.execution WHERE execution_id = base.id) IS NOT FALSE
         OR EXISTS (
             SELECT FROM noetl.event
             WHERE execution_id >= base.id AND execution_id <= base.id AND execution_id >= $7 AND execution_id <= $8
               AND tx_id >= pg_snapshot_xmax(base.as_of::pg_snapshot) OFFSET 0
         ) OR EXISTS (
             SELECT FROM pg_snapshot_xip(base.as_of::pg_snapshot) AS late
             CROSS JOIN LATERAL (
                 SELECT FROM noetl.event
                 WHERE execution_id = base.id AND execution_id >= $7 AND execution_id <= $8
                   AND tx_id >= late AND tx_id <= late LIMIT 1
             ) AS event
         )"#,
        &ids,
        &tenants as &[&str],
        &organizations as &[&str],
        AGGREGATE,
        shard.shape().to_string(),
        TxSnapshot::beginning().to_string(),
        span.first,
        span.last,
        &rows.iter().map(|row| row.status.as_str()).collect::<Vec<_>>() as &[&str],
        &rows.iter().map(|row| row.last_event_id).collect::<Vec<_>>() as &[Option<i64>],
        &rows.iter().map(|row| row.failed_steps).collect::<Vec<_>>() as &[Option<i32>],
    );
    shard.run(outdated.fetch_all(shard.planned_for(rows.len()))).await
}
