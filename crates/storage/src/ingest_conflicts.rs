//! Comparison of repeated worker events with the stored ones.
//!
//! The content of an event is what its sender gave. A value that the server fills if the sender gives none (time, catalog
//! entry, parent execution, tenant, organization, columns that this product does not know) is compared only if the event
//! has it, and so is the key. The caller in the meta is not compared. All other fields are compared, also if they are
//! absent. An event with a key is compared with the stored event that has the key; their ids may differ.

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, Row};

use super::durability;
use super::error::StorageError;
use super::ingest::{NewEvent, OtherColumns, column};
use super::pools::Database;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;

/// An event whose id or key is stored with other content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Position of the event in the list, counted from 1.
    pub position: i64,
    /// Fields that differ, with the names of the API, or of the table's columns if the API does not know them. Empty: the
    /// event is not stored, as another unique constraint of the table refused it.
    pub fields: Vec<String>,
}

/// Returns the events that differ from the stored events with their ids or keys. The events must be in the scope, and the
/// transactions that wrote their ids or keys must have ended. The others are durable then.
#[tracing::instrument(
    level = "debug", name = "sql.ingest.conflicts", skip_all,
    fields(database = %shard.name(), count = events.len())
)]
pub async fn find(
    shard: &Database,
    scope: &Scope,
    events: &[&NewEvent],
    columns: Option<&OtherColumns>,
) -> Result<Vec<Conflict>, StorageError> {
    let ids = stored_ids(shard, events).await?;
    let mut conflicts = of_known_columns(shard, scope, events, &ids).await?;
    if let Some(columns) = columns.filter(|_| events.iter().any(|event| event.others.is_some())) {
        conflicts.extend(of_other_columns(shard, events, &ids, columns).await?);
    }
    durability::confirm(shard).await?;
    Ok(conflicts)
}

/// Returns the ids of the stored events: of an event whose key is stored, the id with which it is stored.
async fn stored_ids(shard: &Database, events: &[&NewEvent]) -> Result<Vec<i64>, StorageError> {
    let mut ids = column(events, |one| one.event_id.get());
    if events.iter().all(|event| event.key.is_none()) {
        return Ok(ids);
    }
    let stored = sqlx::query!(
        r#"SELECT t.position AS "position!", stored.event_id AS "event_id!"
           FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS t (execution_id, key, position)
           CROSS JOIN LATERAL (
               SELECT event_id FROM noetl.event WHERE execution_id = t.execution_id AND event_key = t.key OFFSET 0
           ) AS stored"#,
        &column(events, |one| one.execution_id.get()),
        &column(events, |one| one.key.as_deref()) as &[Option<&str>],
    );
    for row in shard.run(stored.fetch_all(shard.planned_for(events.len()))).await? {
        let index = usize::try_from(row.position - 1).unwrap_or(usize::MAX);
        if let Some(id) = ids.get_mut(index) {
            *id = row.event_id;
        }
    }
    Ok(ids)
}

async fn of_known_columns(
    shard: &Database,
    scope: &Scope,
    events: &[&NewEvent],
    event_ids: &[i64],
) -> Result<Vec<Conflict>, StorageError> {
    let ids = |of: fn(&NewEvent) -> Option<Id>| -> Vec<Option<i64>> { column(events, |one| of(one).map(Id::get)) };
    let differing = sqlx::query_as!(
        Conflict,
        r#"SELECT position AS "position!", CASE WHEN stored_id IS NULL THEN '{}' ELSE fields END AS "fields!" FROM (
               SELECT t.position, stored.event_id AS stored_id, array_remove(ARRAY[
                   CASE WHEN t.catalog_id <> stored.catalog_id THEN 'catalogId' END,
                   CASE WHEN t.parent_event_id IS DISTINCT FROM stored.parent_event_id THEN 'parentEventId' END,
                   CASE WHEN t.parent_execution_id IS NOT NULL
                             AND t.parent_execution_id IS DISTINCT FROM stored.parent_execution_id
                        THEN 'parentExecutionId' END,
                   CASE WHEN t.created_at AT TIME ZONE 'UTC' <> stored.created_at THEN 'createdAt' END,
                   CASE WHEN t.event_type IS DISTINCT FROM stored.event_type THEN 'type' END,
                   CASE WHEN t.node_id IS DISTINCT FROM stored.node_id THEN 'nodeId' END,
                   CASE WHEN t.node_name IS DISTINCT FROM stored.node_name THEN 'nodeName' END,
                   CASE WHEN t.node_type IS DISTINCT FROM stored.node_type THEN 'nodeType' END,
                   CASE WHEN t.status IS DISTINCT FROM stored.status THEN 'status' END,
                   CASE WHEN t.duration IS DISTINCT FROM stored.duration THEN 'durationSeconds' END,
                   CASE WHEN nullif(t.context::jsonb, 'null') IS DISTINCT FROM nullif(stored.context, 'null')
                        THEN 'context' END,
                   CASE WHEN nullif(t.result::jsonb, 'null') IS DISTINCT FROM nullif(stored.result, 'null')
                        THEN 'result' END,
                   CASE WHEN noetl.sent_meta(t.meta::jsonb) IS DISTINCT FROM noetl.sent_meta(stored.meta) THEN 'meta' END,
                   CASE WHEN t.error IS DISTINCT FROM stored.error THEN 'error' END,
                   CASE WHEN t.stack_trace IS DISTINCT FROM stored.stack_trace THEN 'stackTrace' END,
                   CASE WHEN coalesce(t.tenant_id, $20::text) <> stored.tenant_id THEN 'tenantId' END,
                   CASE WHEN t.organization_id <> stored.organization_id THEN 'organizationId' END,
                   CASE WHEN t.key IS NOT NULL AND t.key IS DISTINCT FROM stored.event_key THEN 'idempotencyKey' END
               ], NULL) AS fields
               FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[],
                           $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::float8[], $13::text[],
                           $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $21::text[])
                   WITH ORDINALITY
                   AS t (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id, created_at,
                         event_type, node_id, node_name, node_type, status, duration, context, result, meta, error,
                         stack_trace, tenant_id, organization_id, key, position)
               LEFT JOIN LATERAL (
                   SELECT * FROM noetl.event WHERE execution_id = t.execution_id AND event_id = t.event_id OFFSET 0
               ) AS stored ON true
           ) AS compared WHERE stored_id IS NULL OR fields <> '{}'"#,
        &column(events, |one| one.execution_id.get()),
        event_ids,
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
        scope.tenant(),
        &column(events, |one| one.key.as_deref()) as &[Option<&str>],
    );
    shard.run(differing.fetch_all(shard.planned_for(events.len()))).await
}

async fn of_other_columns(
    shard: &Database,
    events: &[&NewEvent],
    event_ids: &[i64],
    columns: &OtherColumns,
) -> Result<Vec<Conflict>, StorageError> {
    let compare = sqlx::query(AssertSqlSafe(columns.compare.clone()))
        .bind(column(events, |event| event.execution_id.get()))
        .bind(event_ids)
        .bind(column(events, |event| event.others.as_deref()));
    let work = async {
        let rows = compare.fetch_all(shard.pool()).await?;
        let conflict = |row| Ok(Conflict { position: Row::try_get(&row, 0)?, fields: Row::try_get(&row, 1)? });
        rows.into_iter().map(conflict).collect::<sqlx::Result<Vec<Conflict>>>()
    };
    let mut conflicts = shard.run(work).await?;
    conflicts.retain(|conflict| !conflict.fields.is_empty());
    Ok(conflicts)
}
