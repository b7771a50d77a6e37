//! Inserts of worker events: set-based and idempotent. Events of this server are appended by [`super::log`] and
//! [`super::executions`].

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, Executor, Postgres};

use super::error::StorageError;
use super::pools::Database;
use noetl_domain::ids::Id;

/// A validated event of a worker. Its JSON is text.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Execution to whose log the event belongs.
    pub execution_id: Id,
    /// Event id, made by the worker.
    pub event_id: Id,
    /// Catalog entry; default: the execution's if it is known, else 0.
    pub catalog_id: Option<Id>,
    /// The event that caused this one.
    pub parent_event_id: Option<Id>,
    /// Execution that started this one; default: the stored parent if the execution is known.
    pub parent_execution_id: Option<Id>,
    /// Time of the event; default: the database's time.
    pub created_at: Option<DateTime<Utc>>,
    /// Type of the event, such as `command.completed`.
    pub event_type: String,
    /// Id of the node at which it occurred.
    pub node_id: Option<String>,
    /// Name of the node.
    pub node_name: Option<String>,
    /// Type of the node.
    pub node_type: Option<String>,
    /// Status after the event.
    pub status: Option<String>,
    /// Duration in seconds.
    pub duration: Option<f64>,
    /// Input, as JSON.
    pub context: Option<String>,
    /// Output, as JSON.
    pub result: Option<String>,
    /// Metadata of the event, as JSON.
    pub meta: Option<String>,
    /// Error message.
    pub error: Option<String>,
    /// Stack trace of the error.
    pub stack_trace: Option<String>,
    /// Tenant; default: `default`.
    pub tenant_id: Option<String>,
    /// Organization; default: `default`.
    pub organization_id: Option<String>,
    /// JSON object with the values of [`OtherColumns`].
    pub others: Option<String>,
}

/// Columns of the table that this product does not know, such as `worker_id` on a table that NoETL made.
#[derive(Debug, Clone, Default)]
pub struct OtherColumns {
    /// Names of the columns.
    pub names: BTreeSet<String>,
    /// Statement that sets the columns of rows that the same transaction inserted. A column without a value keeps its
    /// default.
    update: String,
}

/// Returns the other columns of a shard's table.
#[tracing::instrument(level = "debug", name = "sql.ingest.other_columns", skip_all, fields(database = %shard.name()))]
pub async fn other_columns(shard: &Database) -> Result<OtherColumns, StorageError> {
    let columns = sqlx::query!(
        r#"SELECT coalesce(array_agg(attname::text), '{}') AS "names!",
                  format('UPDATE noetl.event SET %s
                          FROM (SELECT execution_id, event_id, jsonb_populate_record(NULL::noetl.event, value::jsonb) AS value
                                FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS t (execution_id, event_id, value)) AS given
                          WHERE event.execution_id = given.execution_id AND event.event_id = given.event_id
                            AND event.tx_id = pg_current_xact_id()',
                         string_agg(format('%1$I = coalesce((given.value).%1$I, event.%1$I)', attname), ', ')) AS "update!"
           FROM pg_attribute
           WHERE attrelid = 'noetl.event'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> ALL(
               ARRAY['execution_id', 'event_id', 'catalog_id', 'parent_event_id', 'parent_execution_id', 'created_at',
                     'event_type', 'node_id', 'node_name', 'node_type', 'status', 'duration', 'context', 'result', 'meta',
                     'error', 'stack_trace', 'tenant_id', 'organization_id', 'tx_id'])"#,
    );
    let columns = shard.run(columns.fetch_one(shard.pool())).await?;
    Ok(OtherColumns { names: columns.names.into_iter().collect(), update: columns.update })
}

/// Inserts events of one shard in one statement and returns the number inserted. Events whose ids are stored are
/// skipped.
///
/// Rows are inserted in the order of (execution id, event id), so concurrent statements with common ids don't deadlock.
#[tracing::instrument(
    level = "debug", name = "sql.ingest.insert", skip_all,
    fields(database = %shard.name(), count = events.len())
)]
pub async fn insert(
    shard: &Database,
    events: &[NewEvent],
    columns: Option<&OtherColumns>,
) -> Result<u64, StorageError> {
    let with_others: Vec<&NewEvent> = events.iter().filter(|event| event.others.is_some()).collect();
    let Some(columns) = columns.filter(|_| !with_others.is_empty()) else {
        return shard.run(insert_rows(shard.pool(), events)).await;
    };
    let work = async {
        let mut tx = shard.pool().begin().await?;
        let inserted = insert_rows(&mut *tx, events).await?;
        let update = sqlx::query(AssertSqlSafe(columns.update.clone()))
            .bind(with_others.iter().map(|event| event.execution_id.get()).collect::<Vec<_>>())
            .bind(with_others.iter().map(|event| event.event_id.get()).collect::<Vec<_>>())
            .bind(with_others.iter().map(|event| event.others.as_deref()).collect::<Vec<_>>());
        update.execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(inserted)
    };
    shard.run(work).await
}

async fn insert_rows(executor: impl Executor<'_, Database = Postgres>, events: &[NewEvent]) -> sqlx::Result<u64> {
    let ids = |of: fn(&NewEvent) -> Option<Id>| -> Vec<Option<i64>> { column(events, |one| of(one).map(Id::get)) };
    let statement = sqlx::query!(
        "INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id, created_at,
                                  event_type, node_id, node_name, node_type, status, duration, context, result, meta,
                                  error, stack_trace, tenant_id, organization_id)
         SELECT t.execution_id, t.event_id, coalesce(t.catalog_id, execution.catalog_id, 0), t.parent_event_id,
                coalesce(t.parent_execution_id, execution.parent_execution_id),
                coalesce(t.created_at, now()) AT TIME ZONE 'UTC', t.event_type, t.node_id, t.node_name, t.node_type,
                t.status, t.duration, t.context::jsonb, t.result::jsonb, t.meta::jsonb, t.error, t.stack_trace,
                coalesce(t.tenant_id, 'default'), coalesce(t.organization_id, 'default')
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[],
                     $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::float8[], $13::text[],
                     $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[])
             AS t (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id, created_at, event_type,
                   node_id, node_name, node_type, status, duration, context, result, meta, error, stack_trace, tenant_id,
                   organization_id)
         LEFT JOIN noetl.execution USING (execution_id)
         ORDER BY t.execution_id, t.event_id
         ON CONFLICT (execution_id, event_id) DO NOTHING",
        &column(events, |one| one.execution_id.get()),
        &column(events, |one| one.event_id.get()),
        &ids(|one| one.catalog_id) as &[Option<i64>],
        &ids(|one| one.parent_event_id) as &[Option<i64>],
        &ids(|one| one.parent_execution_id) as &[Option<i64>],
        &column(events, |one| one.created_at) as &[Option<DateTime<Utc>>],
        &column(events, |one| one.event_type.as_str()) as &[&str],
        &column(events, |one| one.node_id.as_deref()) as &[Option<&str>],
        &column(events, |one| one.node_name.as_deref()) as &[Option<&str>],
        &column(events, |one| one.node_type.as_deref()) as &[Option<&str>],
        &column(events, |one| one.status.as_deref()) as &[Option<&str>],
        &column(events, |one| one.duration) as &[Option<f64>],
        &column(events, |one| one.context.as_deref()) as &[Option<&str>],
        &column(events, |one| one.result.as_deref()) as &[Option<&str>],
        &column(events, |one| one.meta.as_deref()) as &[Option<&str>],
        &column(events, |one| one.error.as_deref()) as &[Option<&str>],
        &column(events, |one| one.stack_trace.as_deref()) as &[Option<&str>],
        &column(events, |one| one.tenant_id.as_deref()) as &[Option<&str>],
        &column(events, |one| one.organization_id.as_deref()) as &[Option<&str>],
    );
    Ok(statement.execute(executor).await?.rows_affected())
}

fn column<'a, T>(events: &'a [NewEvent], of: impl Fn(&'a NewEvent) -> T) -> Vec<T> {
    events.iter().map(of).collect()
}
