//! Statements that read snapshots, and the events that they do not see.

use chrono::{DateTime, Utc};
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use serde_json::Value;
use sqlx::{Executor, Postgres};

use super::AGGREGATE;
use noetl_domain::event::Event;
use noetl_domain::id_span::IdSpan;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_domain::workflow::known_types;
use plain_json as json;

/// A stored snapshot before its checks.
pub(super) struct Stored {
    pub(super) version: i64,
    pub(super) snapshot: Option<String>,
    pub(super) checksum: String,
    pub(super) schema: Option<i32>,
    pub(super) as_of: Option<String>,
    pub(super) system: Option<String>,
    pub(super) applied_count: Option<i64>,
    pub(super) updated_at: DateTime<Utc>,
}

/// Tenant of a log, and its stored snapshot, if there is one.
pub(super) struct StartRow {
    pub(super) id: i64,
    pub(super) tenant_id: String,
    pub(super) organization_id: String,
    pub(super) stored: Option<Stored>,
    /// Transaction snapshot of the read.
    pub(super) read_as_of: String,
    /// Database cluster of the read.
    pub(super) read_system: String,
    /// Life of the server of the read, if it is known.
    pub(super) read_life: Option<String>,
}

/// Columns of an event that the fold reads. JSON is text, as other writers may store JSON that a [`Value`] can't hold.
pub(super) struct EventRow {
    pub(super) execution_id: i64,
    event_id: i64,
    catalog_id: i64,
    parent_execution_id: Option<i64>,
    created_at: DateTime<Utc>,
    event_type: String,
    node_id: Option<String>,
    node_name: Option<String>,
    status: Option<String>,
    context: Option<String>,
    result: Option<String>,
    meta: Option<String>,
    error: Option<String>,
}

/// Row of a statement that reads snapshots and events.
pub(super) enum StateRow {
    /// The start of a log.
    Start(StartRow),
    /// An event of a log.
    Event(EventRow),
}

/// Expands to a statement that returns the events that the transaction snapshot `as_of` of each log in the relation `base`
/// does not see. Its parameters 3 to 8 are the types whose JSON is read, the last event id, the latest time, the maximum
/// number of events of a log, and the span of the logs.
///
/// The statement uses ranges in place of equalities, because the planner expects few rows from a range. Where one log, or
/// one transaction, makes up most of the table, the planner would not use the index on a log's transactions for an
/// equality, and would read the whole log for a few events. `OFFSET 0` keeps the condition on event ids outside; with it,
/// the index on a log's event ids would be expected to be as good. It does not sort, because the fold does not depend on
/// the order.
macro_rules! unseen {
    ($row:ty, $before:literal, [$($first:expr),*], $last:expr, $latest:expr, $most:expr, $span:expr $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $row,
            $before
                + r#" event_id AS "event_id!", catalog_id AS "catalog_id!", parent_execution_id,
                     greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                     coalesce(event_type, '') AS "event_type!", node_id, node_name, status,
                     CASE WHEN event_type = ANY($3) THEN context::text END AS context,
                     CASE WHEN event_type = ANY($3) THEN result::text END AS result,
                     CASE WHEN event_type = ANY($3) THEN meta::text END AS meta,
                     CASE WHEN event_type = ANY($3) THEN error END AS error
              FROM base
              CROSS JOIN LATERAL (
                  SELECT * FROM (
                      (SELECT * FROM noetl.event
                       WHERE execution_id >= base.id AND execution_id <= base.id
                         AND execution_id >= $7 AND execution_id <= $8
                         AND tx_id >= pg_snapshot_xmax(base.as_of::pg_snapshot) OFFSET 0)
                      UNION ALL
                      SELECT event.* FROM pg_snapshot_xip(base.as_of::pg_snapshot) AS late
                      CROSS JOIN LATERAL (
                          SELECT * FROM noetl.event
                          WHERE execution_id = base.id AND execution_id >= $7 AND execution_id <= $8
                            AND tx_id >= late AND tx_id <= late OFFSET 0
                      ) AS event
                  ) AS event
                  WHERE event_id <= $4 AND ($5::timestamptz IS NULL OR created_at <= $5 AT TIME ZONE 'UTC')
                  LIMIT $6
              ) AS unseen"#,
            $($first,)*
            &known_types().map(str::to_owned).collect::<Vec<_>>(),
            $last,
            $latest as Option<DateTime<Utc>>,
            $most as Option<i64>,
            $span.first,
            $span.last,
            $($argument,)*
        )
    };
}

/// Returns the events up to an id and a time that the transaction snapshots of these logs do not see.
pub(super) fn unseen<'e>(
    executor: impl Executor<'e, Database = Postgres> + 'e,
    ids: &'e [i64],
    snapshots: &'e [String],
    (last, latest): (Id, Option<DateTime<Utc>>),
) -> BoxStream<'e, sqlx::Result<EventRow>> {
    let statement = unseen!(
        EventRow,
        r#"WITH base AS (SELECT * FROM unnest($1::bigint[], $2::text[]) AS base (id, as_of))
           SELECT unseen.execution_id AS "execution_id!","#,
        [ids, snapshots],
        last.get(),
        latest,
        None,
        IdSpan::of(ids),
    );
    statement.fetch(executor)
}

/// Row of [`starts`], before it is known whether it is the start of a log or an event.
struct AnyRow {
    id: i64,
    tenant_id: Option<String>,
    organization_id: Option<String>,
    version: Option<i64>,
    snapshot: Option<String>,
    checksum: Option<String>,
    schema: Option<i32>,
    stored_as_of: Option<String>,
    system: Option<String>,
    applied_count: Option<i64>,
    updated_at: Option<DateTime<Utc>>,
    read_as_of: Option<String>,
    read_system: Option<String>,
    read_life: Option<String>,
    event_id: Option<i64>,
    catalog_id: Option<i64>,
    parent_execution_id: Option<i64>,
    created_at: Option<DateTime<Utc>>,
    event_type: Option<String>,
    node_id: Option<String>,
    node_name: Option<String>,
    status: Option<String>,
    context: Option<String>,
    result: Option<String>,
    meta: Option<String>,
    error: Option<String>,
}

/// Returns the tenant and the snapshot of each log in the scope, and up to `most` events of each log that its snapshot
/// does not see, or the first events if it has no snapshot of this database and `shape`. All rows belong to one
/// transaction snapshot.
///
/// The tenant is that of the row in the list. A row with the default tenant may have been written before rows had one,
/// or by another server, so then it is that of the log.
///
/// The columns are expressions, because the description of the statement in .sqlx would depend on the plan if they were
/// columns of an outer join.
pub(super) fn starts<'e>(
    executor: impl Executor<'e, Database = Postgres> + 'e,
    scope: &'e Scope,
    ids: &'e [i64],
    most: i64,
    shape: i32,
) -> BoxStream<'e, sqlx::Result<StateRow>> {
    let beginning = TxSnapshot::beginning().to_string();
    let statement = unseen!(
        AnyRow,
        r#"WITH system AS MATERIALIZED (
             SELECT system_identifier::text AS id, noetl.server_life() AS life FROM pg_control_system()
         ), start AS MATERIALIZED (
             SELECT log.id, owner.tenant_id, owner.organization_id, stored.version, stored.snapshot, stored.checksum,
                    CASE WHEN meta ->> 'schema' ~ '^\d{1,9}$' THEN (meta ->> 'schema')::integer END AS schema,
                    meta ->> 'as_of' AS as_of, meta ->> 'system' AS system,
                    CASE WHEN meta ->> 'applied_count' ~ '^\d{1,18}$' THEN (meta ->> 'applied_count')::bigint END
                        AS applied_count,
                    stored.updated_at
             FROM unnest($1::bigint[]) AS log (id)
             LEFT JOIN noetl.execution AS listed
               ON listed.execution_id = log.id AND (listed.tenant_id, listed.organization_id) <> ('default', 'default')
             -- As noetl.log_owner, within the span.
             LEFT JOIN LATERAL (
                 SELECT owner.tenant_id, owner.organization_id FROM (
                     (SELECT tenant_id, organization_id FROM noetl.event
                      WHERE execution_id = log.id AND listed.execution_id IS NULL
                        AND execution_id >= $7 AND execution_id <= $8
                        AND event_type IN ('subscription.registered', 'playbook_started', 'playbook.initialized')
                      ORDER BY event_id LIMIT 1)
                     UNION ALL
                     (SELECT tenant_id, organization_id FROM noetl.event
                      WHERE execution_id = log.id AND listed.execution_id IS NULL
                        AND execution_id >= $7 AND execution_id <= $8
                      ORDER BY event_id LIMIT 1)
                 ) AS owner LIMIT 1
             ) AS first ON true
             CROSS JOIN LATERAL (
                 SELECT coalesce(listed.tenant_id, first.tenant_id, 'default') AS tenant_id,
                        coalesce(listed.organization_id, first.organization_id, 'default') AS organization_id
             ) AS owner
             LEFT JOIN LATERAL (
                 SELECT * FROM noetl.projection_snapshot
                 WHERE tenant_id = owner.tenant_id AND organization_id = owner.organization_id
                   AND aggregate_type = $2 AND aggregate_id = log.id::text OFFSET 0
             ) AS stored ON true
             WHERE $9::text IS NULL OR owner.tenant_id = $9
         ), base AS (
             -- The transaction ids of another database, or of a state that is not used, say nothing of these events.
             SELECT start.id,
                    CASE WHEN start.schema = $10 AND start.system = system.id THEN start.as_of ELSE $11 END AS as_of
             FROM start CROSS JOIN system
         )
         SELECT start.id AS "id!", tenant_id, organization_id, version, snapshot::text AS snapshot, checksum, schema,
                as_of AS stored_as_of, system, applied_count, updated_at, pg_current_snapshot()::text AS read_as_of,
                (SELECT id FROM system) AS read_system, (SELECT life FROM system) AS read_life, NULL::bigint AS event_id, NULL::bigint AS catalog_id,
                NULL::bigint AS parent_execution_id, NULL::timestamptz AS created_at, NULL::text AS event_type,
                NULL::text AS node_id, NULL::text AS node_name, NULL::text AS status, NULL::text AS context,
                NULL::text AS result, NULL::text AS meta, NULL::text AS error
         FROM start
         UNION ALL
         SELECT base.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"#,
        [ids, AGGREGATE],
        i64::MAX,
        None,
        Some(most),
        IdSpan::of(ids),
        scope.tenant(),
        shape,
        beginning,
    );
    statement.fetch(executor).map_ok(StateRow::from).boxed()
}

impl From<AnyRow> for StateRow {
    fn from(row: AnyRow) -> Self {
        match (row.event_id, row.catalog_id, row.created_at, row.event_type) {
            (Some(event_id), Some(catalog_id), Some(created_at), Some(event_type)) => Self::Event(EventRow {
                execution_id: row.id,
                event_id,
                catalog_id,
                parent_execution_id: row.parent_execution_id,
                created_at,
                event_type,
                node_id: row.node_id,
                node_name: row.node_name,
                status: row.status,
                context: row.context,
                result: row.result,
                meta: row.meta,
                error: row.error,
            }),
            _ => Self::Start(StartRow {
                id: row.id,
                tenant_id: row.tenant_id.unwrap_or_default(),
                organization_id: row.organization_id.unwrap_or_default(),
                stored: row.version.zip(row.checksum).zip(row.updated_at).map(|((version, checksum), updated_at)| {
                    Stored {
                        version,
                        snapshot: row.snapshot,
                        checksum,
                        schema: row.schema,
                        as_of: row.stored_as_of,
                        system: row.system,
                        applied_count: row.applied_count,
                        updated_at,
                    }
                }),
                read_as_of: row.read_as_of.unwrap_or_default(),
                read_system: row.read_system.unwrap_or_default(),
                read_life: row.read_life,
            }),
        }
    }
}

impl From<EventRow> for Event {
    fn from(row: EventRow) -> Self {
        let ids = (Id::new(row.execution_id), Id::new(row.event_id), Id::new(row.catalog_id));
        Self {
            parent_execution_id: row.parent_execution_id.map(Id::new),
            node_id: row.node_id,
            node_name: row.node_name,
            status: row.status,
            context: row.context.map(readable),
            result: row.result.map(readable),
            meta: row.meta.map(readable),
            error: row.error,
            ..Self::bare(ids.0, ids.1, ids.2, &row.event_type, row.created_at)
        }
    }
}

/// Returns the JSON value, or its text as a string if a [`Value`] can't hold it: too many levels, or a number out of
/// range.
pub(super) fn readable(text: String) -> Value {
    json::read(&text).unwrap_or(Value::String(text))
}
