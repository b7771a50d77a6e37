//! Rows of buckets on a shard that the map does not name: copies of a move that was aborted, and rows of buckets that have
//! left. They are found by a pass over the ids of the shard, and deleted in pages.

use super::rows::{self, of};
use super::session::Session;
use crate::error::StorageError;
use crate::snapshots::AGGREGATE;

/// Number of executions whose ids one statement reads.
const PAGE: i64 = 5000;

/// Returns a page of the executions of a shard from an id on, by id: those with events, a row in the list of executions,
/// or open outbox rows.
pub(super) async fn executions_from(session: &mut Session<'_>, from: i64) -> Result<Vec<i64>, StorageError> {
    let ids = sqlx::query_scalar!(
        r#"SELECT execution_id AS "id!" FROM (
               (SELECT DISTINCT execution_id FROM noetl.event
                WHERE execution_id >= $1 ORDER BY execution_id LIMIT $2)
               UNION
               (SELECT execution_id FROM noetl.execution WHERE execution_id >= $1 ORDER BY execution_id LIMIT $2)
               UNION
               (SELECT DISTINCT execution_id FROM noetl.outbox
                WHERE execution_id >= $1 AND status <> 'PUBLISHED' ORDER BY execution_id LIMIT $2)
           ) AS ids ORDER BY execution_id LIMIT $2"#,
        from,
        PAGE,
    );
    ids.fetch_all(&mut session.connection).await.map_err(|error| session.failed(error))
}

/// Deletes the snapshots of these executions.
pub(super) async fn delete_snapshots(session: &mut Session<'_>, executions: &[i64]) -> Result<(), StorageError> {
    let delete = sqlx::query!(
        "DELETE FROM noetl.projection_snapshot AS stored
         USING (SELECT id, owner.tenant_id, owner.organization_id
                FROM unnest($1::bigint[]) AS id CROSS JOIN LATERAL noetl.log_owner(id) AS owner
                UNION SELECT execution_id, tenant_id, organization_id FROM noetl.execution WHERE execution_id = ANY($1)
                UNION SELECT id, 'default', 'default' FROM unnest($1::bigint[]) AS id) AS owned
         WHERE stored.tenant_id = owned.tenant_id AND stored.organization_id = owned.organization_id
           AND stored.aggregate_type = $2 AND stored.aggregate_id = owned.id::text",
        executions,
        AGGREGATE,
    );
    delete.execute(&mut session.connection).await.map_err(|error| session.failed(error))?;
    Ok(())
}

/// Deletes the rows of the selected executions in one pass over the ids of the shard.
pub async fn delete_selected(session: &mut Session<'_>, is_selected: impl Fn(i64) -> bool) -> Result<(), StorageError> {
    let mut from = i64::MIN;
    loop {
        let ids = executions_from(session, from).await?;
        let Some(next) = ids.last().and_then(|last| last.checked_add(1)) else { return Ok(()) };
        from = next;
        let selected: Vec<i64> = ids.into_iter().filter(|id| is_selected(*id)).collect();
        if !selected.is_empty() {
            delete(session, &selected).await?;
        }
    }
}

/// Deletes the rows of these executions. Delivered outbox rows are kept.
async fn delete(session: &mut Session<'_>, executions: &[i64]) -> Result<(), StorageError> {
    delete_snapshots(session, executions).await?;
    let ours = of(executions);
    let rest = format!(
        "DELETE FROM noetl.outbox WHERE {ours} AND status <> 'PUBLISHED';
         DELETE FROM noetl.execution WHERE {ours}; DELETE FROM noetl.event WHERE {ours}"
    );
    rows::run(session, &rest).await
}
