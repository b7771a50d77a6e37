//! Rows of the executions' list, compared with their logs.

use chrono::{DateTime, Utc};

use super::Pages;
use crate::error::StorageError;
use crate::pools::Database;
use crate::snapshots::AGGREGATE;

/// Row of the list, with facts of its log.
#[derive(Debug, Clone)]
pub struct ExecutionFacts {
    /// The execution.
    pub execution_id: i64,
    /// Catalog entry; 0 if it is not known.
    pub catalog_id: i64,
    /// The parent.
    pub parent_execution_id: Option<i64>,
    /// Tenant.
    pub tenant_id: String,
    /// Last event that the row includes.
    pub last_event_id: Option<i64>,
    /// Last event of the log; `None`: the log is empty.
    pub last_of_log: Option<i64>,
    /// Whether the row lacks an event of the log for longer than the given age.
    pub behind: bool,
    /// Start time.
    pub start_time: Option<DateTime<Utc>>,
    /// JSON of the dedup key in the meta of the started event.
    pub dedup: Option<String>,
    /// Whether the index of labels has other labels, or another status, time or tenant.
    pub misindexed: bool,
}

/// Returns the ids of up to `limit` rows after an id, in order.
#[tracing::instrument(level = "debug", name = "sql.check.execution_ids", skip_all, fields(database = %pages.name()))]
pub async fn ids(pages: &mut Pages<'_>, after: i64, limit: i64) -> Result<Vec<i64>, StorageError> {
    let ids = sqlx::query_scalar!(
        "SELECT execution_id FROM noetl.execution WHERE execution_id > $1 ORDER BY execution_id LIMIT $2",
        after,
        limit,
    );
    pages.database.run(ids.fetch_all(&mut pages.connection)).await
}

/// Returns the rows with these ids. A row that lacks an event is behind when the event is older than `old_seconds`.
#[tracing::instrument(
    level = "debug", name = "sql.check.execution_facts", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn facts(shard: &Database, ids: &[i64], old_seconds: f64) -> Result<Vec<ExecutionFacts>, StorageError> {
    let facts = sqlx::query_as!(
        ExecutionFacts,
        r#"SELECT listed.execution_id, listed.catalog_id, listed.parent_execution_id, listed.tenant_id,
                  listed.last_event_id,
                  -- Subqueries, because the planner may read whole tables for a join.
                  (SELECT event_id FROM noetl.event WHERE execution_id = given.id
                   ORDER BY event_id DESC LIMIT 1) AS last_of_log,
                  coalesce((SELECT created_at < now() AT TIME ZONE 'UTC' - make_interval(secs => $2) FROM noetl.event
                            WHERE execution_id = given.id AND event_id > listed.last_event_id
                            ORDER BY event_id LIMIT 1), false) AS "behind!",
                  CASE WHEN listed.start_time IS NOT NULL
                       THEN greatest(least(listed.start_time, '9999-12-31'), '0001-01-01') END AS start_time,
                  (SELECT (meta -> 'dedup')::text FROM noetl.event
                   WHERE execution_id = given.id AND event_type = 'playbook_started'
                   ORDER BY event_id LIMIT 1) AS dedup,
                  (SELECT count(*) FROM noetl.execution_label WHERE execution_id = given.id)
                      <> 2 * (SELECT count(*) FROM jsonb_object_keys(listed.labels))
                  OR EXISTS (
                      SELECT entry.label, listed.tenant_id, upper(listed.status), listed.start_time
                      FROM jsonb_each_text(listed.labels) AS pair (name, value)
                      CROSS JOIN LATERAL (VALUES (pair.name), (pair.name || '=' || pair.value)) AS entry (label)
                      EXCEPT
                      SELECT label, label_tenant, label_status, label_time FROM noetl.execution_label
                      WHERE execution_id = given.id) AS "misindexed!"
           FROM unnest($1::bigint[]) AS given (id)
           CROSS JOIN LATERAL (SELECT * FROM noetl.execution WHERE execution_id = given.id LIMIT 1) AS listed"#,
        ids,
        old_seconds,
    );
    shard.run(facts.fetch_all(shard.pool())).await
}

/// Returns which of these executions have neither a row nor an event on the shard.
#[tracing::instrument(
    level = "debug", name = "sql.check.absent_executions", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn absent(shard: &Database, ids: &[i64]) -> Result<Vec<i64>, StorageError> {
    let absent = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM unnest($1::bigint[]) AS given (id)
           WHERE (SELECT 1 FROM noetl.execution WHERE execution_id = given.id LIMIT 1) IS NULL
             AND (SELECT 1 FROM noetl.event WHERE execution_id = given.id LIMIT 1) IS NULL"#,
        ids,
    );
    shard.run(absent.fetch_all(shard.pool())).await
}

/// Returns which of these catalog entries the cluster database does not have.
#[tracing::instrument(
    level = "debug", name = "sql.check.absent_entries", skip_all,
    fields(database = %cluster.name(), count = ids.len())
)]
pub async fn absent_entries(cluster: &Database, ids: &[i64]) -> Result<Vec<i64>, StorageError> {
    let absent = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM unnest($1::bigint[]) AS given (id)
           WHERE (SELECT 1 FROM noetl.catalog WHERE catalog_id = given.id LIMIT 1) IS NULL"#,
        ids,
    );
    cluster.run(absent.fetch_all(cluster.pool())).await
}

/// Deletes the rows and snapshots of executions whose log is empty. An execution with an undelivered outbox row is kept.
#[tracing::instrument(
    level = "debug", name = "sql.check.delete_unlogged", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn delete_unlogged(shard: &Database, ids: &[i64]) -> Result<u64, StorageError> {
    let delete = sqlx::query!(
        "WITH gone AS (
             SELECT execution_id, tenant_id, organization_id
             FROM noetl.execution AS listed
             WHERE execution_id = ANY($1)
               AND (SELECT 1 FROM noetl.event WHERE execution_id = listed.execution_id LIMIT 1) IS NULL
               AND (SELECT 1 FROM noetl.outbox
                    WHERE execution_id = listed.execution_id AND status <> 'PUBLISHED' LIMIT 1) IS NULL
             FOR UPDATE
         ), snapshots AS (
             DELETE FROM noetl.projection_snapshot AS stored USING gone
             WHERE stored.tenant_id = gone.tenant_id AND stored.organization_id = gone.organization_id
               AND stored.aggregate_type = $2 AND stored.aggregate_id = gone.execution_id::text
         )
         DELETE FROM noetl.execution AS listed USING gone WHERE listed.execution_id = gone.execution_id",
        ids,
        AGGREGATE,
    );
    Ok(shard.run(delete.execute(shard.pool())).await?.rows_affected())
}

/// Indexes the labels of rows again. The triggers act only on a change, so the labels are taken away and set again, in
/// one transaction: they are never lost. A row without labels gets an empty map meanwhile.
#[tracing::instrument(
    level = "debug", name = "sql.check.index_labels", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn index_labels(shard: &Database, ids: &[i64]) -> Result<(), StorageError> {
    if ids.is_empty() {
        return Ok(());
    }
    let index = async {
        let mut tx = shard.pool().begin().await?;
        let rows = sqlx::query!(
            "SELECT execution_id, labels::text AS labels FROM noetl.execution WHERE execution_id = ANY($1)
             ORDER BY execution_id FOR UPDATE",
            ids,
        );
        let rows = rows.fetch_all(&mut *tx).await?;
        let (listed, labels): (Vec<i64>, Vec<Option<String>>) =
            rows.into_iter().map(|row| (row.execution_id, row.labels)).unzip();
        let clear = sqlx::query!(
            "UPDATE noetl.execution SET labels = CASE WHEN labels IS NULL THEN '{}'::jsonb END
             WHERE execution_id = ANY($1)",
            &listed,
        );
        clear.execute(&mut *tx).await?;
        let set = sqlx::query!(
            "UPDATE noetl.execution AS listed SET labels = read.labels::jsonb
             FROM unnest($1::bigint[], $2::text[]) AS read (execution_id, labels)
             WHERE listed.execution_id = read.execution_id",
            &listed,
            &labels as &[Option<String>],
        );
        set.execute(&mut *tx).await?;
        tx.commit().await
    };
    shard.run(index).await
}

/// Marks rows that include events after the end of their log, so that the next advance replaces them.
#[tracing::instrument(
    level = "debug", name = "sql.check.reset_rows", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn reset(shard: &Database, ids: &[i64]) -> Result<u64, StorageError> {
    let update = sqlx::query!(
        "WITH later AS (
             SELECT execution_id FROM noetl.execution AS listed
             WHERE execution_id = ANY($1)
               AND last_event_id > (SELECT event_id FROM noetl.event WHERE execution_id = listed.execution_id
                                    ORDER BY event_id DESC LIMIT 1)
             ORDER BY execution_id FOR UPDATE)
         UPDATE noetl.execution AS listed SET last_event_id = NULL FROM later
         WHERE listed.execution_id = later.execution_id",
        ids,
    );
    Ok(shard.run(update.execute(shard.pool())).await?.rows_affected())
}
