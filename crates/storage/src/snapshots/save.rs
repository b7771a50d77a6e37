//! Stores projections and updates the read model for lists from them. An older state never replaces a newer one.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{AGGREGATE, Projected};
use crate::connections::Transaction;
use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::id_span::IdSpan;
use noetl_domain::ids::Id;
use noetl_domain::projection::{Watermark, checksum};

/// Stores projections of one shard, each only if it is later than the stored one, and updates the row of
/// `noetl.execution` for each that it stored. Rows are written in the order of their ids, so concurrent calls don't
/// deadlock.
///
/// A state that was read before the feed was bound to this database, as after the restore of a dump, is stored without
/// the database, because its events get other transaction ids. So no later fold starts with it.
///
/// Of two transaction snapshots of a database, the later one has the larger `xmax`, or the same `xmax` and fewer
/// transactions in progress.
///
/// Fails as unavailable if the server of the database has restarted since a state was read.
#[tracing::instrument(
    level = "debug", name = "sql.snapshots.save", skip_all,
    fields(database = %shard.name(), count = projections.len())
)]
pub async fn save(shard: &Database, projections: &[Projected]) -> Result<(), StorageError> {
    let mut rows: Vec<Stored<'_>> = projections.iter().filter_map(|one| Stored::new(one, shard.shape())).collect();
    rows.sort_by_key(|row| row.projected.execution_id);
    let work = async {
        let mut tx = shard.planned_for(rows.len()).begin().await?;
        store(&mut tx, rows, shard.shape()).await?;
        tx.commit().await
    };
    shard.run(work).await
}

/// Writes the mark of the server's life, if a crash or a promotion has removed it.
#[tracing::instrument(level = "debug", name = "sql.snapshots.begin_life", skip_all, fields(database = %shard.name()))]
pub async fn begin_life(shard: &Database) -> Result<(), StorageError> {
    let insert = sqlx::query!("INSERT INTO noetl.server_life DEFAULT VALUES ON CONFLICT DO NOTHING");
    shard.run(insert.execute(shard.pool())).await.map(drop)
}

/// A row to store.
struct Stored<'a> {
    projected: &'a Projected,
    /// Version of the state.
    version: i64,
    /// State as JSON text, which needs much less memory than a parsed value: many executions are stored together.
    snapshot: String,
    checksum: String,
    read_model: ReadModel,
}

/// Columns of `noetl.execution` that follow from a projection, and the labels.
struct ReadModel {
    catalog_id: Option<i64>,
    parent: Option<i64>,
    path: Option<String>,
    status: &'static str,
    last_type: Option<String>,
    last_node: Option<String>,
    started_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    error: Option<String>,
    pool: Option<String>,
    rerun_of: Option<i64>,
    failed_steps: i32,
    labels: Option<Value>,
    first_step_at: Option<DateTime<Utc>>,
}

impl<'a> Stored<'a> {
    /// Creates the row of a projection, with the version of its state; `None` if no event was folded.
    fn new(projected: &'a Projected, schema: i32) -> Option<Self> {
        let Projected { projection, as_of, system, .. } = projected;
        let (version, applied_count) = (projection.version?.get(), projection.applied_count);
        let state = serde_json::to_value(&projection.state).ok()?;
        let checksum = checksum(&state, Watermark { as_of, system, version, applied_count, schema }).ok()?;
        let read_model = ReadModel::new(projected);
        Some(Self { projected, version, snapshot: state.to_string(), checksum, read_model })
    }
}

impl ReadModel {
    fn new(projected: &Projected) -> Self {
        let state = &projected.projection.state;
        let (started, ended, last) = (state.started.get(), state.end(), state.last.get());
        Self {
            catalog_id: started.map(|start| start.catalog_id.get()),
            parent: started.and_then(|start| start.parent_execution_id.map(Id::get)),
            path: started.and_then(|start| start.path.clone()),
            status: state.status().as_str(),
            last_type: last.map(|last| last.event_type.clone()),
            last_node: last.and_then(|last| last.node_name.clone()),
            started_at: started.map(|start| start.at),
            ended_at: ended.as_ref().map(|end| end.at),
            error: ended.and_then(|end| end.error),
            pool: started.and_then(|start| start.execution_pool.clone()),
            rerun_of: started.and_then(|start| start.rerun_of).map(Id::get),
            failed_steps: state.failed_steps(),
            labels: projected.labels().to_stored(),
            first_step_at: state.first_step_at,
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one statement, and its columns")]
async fn store(tx: &mut Transaction, mut rows: Vec<Stored<'_>>, schema: i32) -> sqlx::Result<()> {
    let snapshots: Vec<String> = rows.iter_mut().map(|row| std::mem::take(&mut row.snapshot)).collect();
    macro_rules! column {
        ($row:ident => $value:expr) => {
            &rows.iter().map(|$row| $value).collect::<Vec<_>>()
        };
    }
    let span = IdSpan::of(column!(row => row.projected.execution_id.get()));
    let insert = sqlx::query!(
        "WITH database AS MATERIALIZED (
             SELECT tx_id AS bound_by, xmin::text::bigint = (tx_id::text::bigint & 4294967295) AS is_bound
             FROM noetl.tail_anchor
         ), input AS (
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]::jsonb[], $4::text[], $5::bigint[], $6::text[],
                                  $7::text[], $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::text[],
                                  $13::text[], $14::timestamptz[], $15::timestamptz[], $16::text[], $19::text[],
                                  $20::text[], $21::text[], $25::text[], $26::bigint[], $27::integer[],
                                  $28::jsonb[], $29::timestamptz[])
                 AS t (id, version, snapshot, checksum, applied_count, as_of, system, catalog_id, parent, path, status,
                       last_type, last_node, started_at, ended_at, error, unusable, tenant_id, organization_id, pool,
                       rerun_of, failed_steps, labels, first_step_at)
             WHERE (SELECT noetl.require_server_life($24))
         ), saved AS (
             INSERT INTO noetl.projection_snapshot AS standing
                 (tenant_id, organization_id, aggregate_id, aggregate_type, version, snapshot, checksum, meta)
             SELECT tenant_id, organization_id, id::text, $17, version, snapshot, checksum,
                    jsonb_strip_nulls(jsonb_build_object('applied_count', applied_count, 'as_of', as_of,
                                      'schema', $18::integer, 'unusable', unusable,
                                      'system', CASE WHEN (
                                          SELECT is_bound AND pg_visible_in_snapshot(bound_by, as_of::pg_snapshot)
                                          FROM database) IS NOT FALSE THEN system ELSE '' END))
                    || coalesce(routing.meta, '{}')
             FROM input LEFT JOIN LATERAL (
                 -- As NoETL stores it: the meta of the event that started the execution, with its pool and trace.
                 SELECT jsonb_build_object('routing_meta', meta) AS meta FROM noetl.event
                 WHERE execution_id = input.id AND execution_id >= $22 AND execution_id <= $23
                   AND event_type IN ('playbook_started', 'playbook.initialized')
                   AND meta IS NOT NULL
                 ORDER BY event_id LIMIT 1
             ) AS routing ON true
             ORDER BY id
             ON CONFLICT (tenant_id, organization_id, aggregate_type, aggregate_id) DO UPDATE
             SET version = EXCLUDED.version, snapshot = EXCLUDED.snapshot, checksum = EXCLUDED.checksum,
                 -- Keys that other servers store stay.
                 meta = standing.meta || (EXCLUDED.meta - 'unusable')
                     || CASE jsonb_typeof(standing.meta -> 'routing_meta') WHEN 'object'
                        THEN jsonb_build_object('routing_meta', standing.meta -> 'routing_meta') ELSE '{}' END,
                 updated_at = now()
             WHERE CASE
                 -- What can't be used says nothing of its moment that could be compared with.
                 WHEN standing.checksum = EXCLUDED.meta ->> 'unusable' THEN true
                 WHEN standing.meta ->> 'as_of' IS NULL THEN true
                 -- A state that became unusable was read on this server, so its moment can be compared.
                 WHEN standing.meta ->> 'system' IS DISTINCT FROM EXCLUDED.meta ->> 'system'
                     AND (EXCLUDED.meta ->> 'system' <> '' OR standing.meta ->> 'system' IS DISTINCT FROM (
                              SELECT system_identifier::text FROM pg_control_system())) THEN true
                 ELSE (pg_snapshot_xmax((EXCLUDED.meta ->> 'as_of')::pg_snapshot),
                       -(SELECT count(*) FROM pg_snapshot_xip((EXCLUDED.meta ->> 'as_of')::pg_snapshot)))
                    > (pg_snapshot_xmax((standing.meta ->> 'as_of')::pg_snapshot),
                       -(SELECT count(*) FROM pg_snapshot_xip((standing.meta ->> 'as_of')::pg_snapshot)))
             END
             RETURNING aggregate_id
         )
         INSERT INTO noetl.execution AS listed
             (execution_id, catalog_id, parent_execution_id, path, status, last_event_type, last_node_name,
              last_event_id, start_time, end_time, error, tenant_id, organization_id, execution_pool, rerun_of,
              failed_steps, labels, first_step_time)
         -- In a table that NoETL made, the column references the catalog. So without a started event, the entry is that of
         -- the log's first event, which references the catalog too.
         SELECT id, coalesce(catalog_id, (
                    SELECT event.catalog_id FROM noetl.event
                    WHERE event.execution_id = input.id AND event.execution_id >= $22 AND event.execution_id <= $23
                    ORDER BY event.event_id LIMIT 1), 0),
                parent, path, status, last_type, last_node, version, started_at, ended_at, error, tenant_id,
                organization_id, pool, rerun_of, failed_steps, labels, first_step_at
         FROM input JOIN saved ON saved.aggregate_id = input.id::text ORDER BY id
         ON CONFLICT (execution_id) DO UPDATE
         SET catalog_id = CASE WHEN listed.catalog_id = 0 OR listed.start_time IS NULL
                          THEN EXCLUDED.catalog_id ELSE listed.catalog_id END,
             parent_execution_id = coalesce(listed.parent_execution_id, EXCLUDED.parent_execution_id),
             path = coalesce(listed.path, EXCLUDED.path), status = EXCLUDED.status,
             last_event_type = EXCLUDED.last_event_type, last_node_name = EXCLUDED.last_node_name,
             last_event_id = EXCLUDED.last_event_id,
             start_time = coalesce(listed.start_time, EXCLUDED.start_time), end_time = EXCLUDED.end_time,
             error = EXCLUDED.error, failed_steps = EXCLUDED.failed_steps, first_step_time = EXCLUDED.first_step_time,
             execution_pool = coalesce(listed.execution_pool, EXCLUDED.execution_pool),
             rerun_of = coalesce(listed.rerun_of, EXCLUDED.rerun_of),
             labels = coalesce(listed.labels, EXCLUDED.labels),
             -- Rows of other servers have the defaults.
             (tenant_id, organization_id) = (
                 SELECT o.tenant_id, o.organization_id
                 FROM (VALUES (true, EXCLUDED.tenant_id, EXCLUDED.organization_id),
                              (false, listed.tenant_id, listed.organization_id)) AS o (taken, tenant_id, organization_id)
                 WHERE o.taken = ((listed.tenant_id, listed.organization_id) = ('default', 'default')))
         WHERE listed.last_event_id IS NULL OR listed.last_event_id <= EXCLUDED.last_event_id",
        column!(row => row.projected.execution_id.get()),
        column!(row => row.version),
        &snapshots,
        column!(row => row.checksum.clone()),
        column!(row => row.projected.projection.applied_count),
        column!(row => row.projected.as_of.clone()),
        column!(row => row.projected.system.clone()),
        column!(row => row.read_model.catalog_id) as &[Option<i64>],
        column!(row => row.read_model.parent) as &[Option<i64>],
        column!(row => row.read_model.path.clone()) as &[Option<String>],
        column!(row => row.read_model.status.to_owned()),
        column!(row => row.read_model.last_type.clone()) as &[Option<String>],
        column!(row => row.read_model.last_node.clone()) as &[Option<String>],
        column!(row => row.read_model.started_at) as &[Option<DateTime<Utc>>],
        column!(row => row.read_model.ended_at) as &[Option<DateTime<Utc>>],
        column!(row => row.read_model.error.clone()) as &[Option<String>],
        AGGREGATE,
        schema,
        column!(row => row.projected.unusable.clone()) as &[Option<String>],
        column!(row => row.projected.tenancy.tenant_id.clone()),
        column!(row => row.projected.tenancy.organization_id.clone()),
        span.first,
        span.last,
        column!(row => row.projected.life.clone()) as &[Option<String>],
        column!(row => row.read_model.pool.clone()) as &[Option<String>],
        column!(row => row.read_model.rerun_of) as &[Option<i64>],
        column!(row => row.read_model.failed_steps),
        column!(row => row.read_model.labels.clone()) as &[Option<Value>],
        column!(row => row.read_model.first_step_at) as &[Option<DateTime<Utc>>],
    );
    insert.execute(&mut **tx).await?;
    Ok(())
}
