//! Reads of the event log. Appends are in [`super::log`], [`super::executions`] and [`super::ingest`].

use chrono::{DateTime, Utc};

use super::error::StorageError;
use super::pools::Database;
use noetl_domain::event::{Event, EventKey};
use noetl_domain::event_list::LogFilter;
use noetl_domain::id_span::IdSpan;
use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::page::IdRange;
use noetl_domain::tenant::{Scope, Tenancy};
use noetl_domain::tx_snapshot::TxSnapshot;
use plain_json::Text;

/// Row of an event as it is read, before it becomes an [`Event`].
pub(super) struct EventRow {
    pub(super) execution_id: i64,
    pub(super) event_id: i64,
    pub(super) catalog_id: i64,
    pub(super) parent_event_id: Option<i64>,
    pub(super) parent_execution_id: Option<i64>,
    pub(super) created_at: DateTime<Utc>,
    pub(super) event_type: String,
    pub(super) node_id: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) node_type: Option<String>,
    pub(super) status: Option<String>,
    pub(super) duration: Option<f64>,
    pub(super) context: Option<Text>,
    pub(super) result: Option<Text>,
    pub(super) meta: Option<Text>,
    pub(super) error: Option<String>,
    pub(super) stack_trace: Option<String>,
    pub(super) tenant_id: String,
    pub(super) organization_id: String,
}

impl From<EventRow> for Event<Text> {
    fn from(row: EventRow) -> Self {
        Self {
            execution_id: Id::new(row.execution_id),
            event_id: Id::new(row.event_id),
            catalog_id: Id::new(row.catalog_id),
            parent_event_id: row.parent_event_id.map(Id::new),
            parent_execution_id: row.parent_execution_id.map(Id::new),
            created_at: row.created_at,
            event_type: row.event_type,
            node_id: row.node_id,
            node_name: row.node_name,
            node_type: row.node_type,
            status: row.status,
            duration: row.duration,
            context: row.context,
            result: row.result,
            meta: row.meta,
            error: row.error,
            stack_trace: row.stack_trace,
            tenant_id: row.tenant_id,
            organization_id: row.organization_id,
        }
    }
}

/// Returns one event. `Ok(None)`: it does not exist in the scope.
pub async fn get(
    shard: &Database,
    scope: &Scope,
    execution: Id,
    event: Id,
) -> Result<Option<Event<Text>>, StorageError> {
    let key = EventKey { event_id: event.get(), execution_id: execution.get() };
    Ok(by_keys(shard, scope, &[key], &LargeColumns::wanted(|_| true)).await?.pop())
}

/// Set of an event's large columns that a list reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LargeColumns(Vec<String>);

impl LargeColumns {
    /// Names of all large columns.
    pub const NAMES: [&'static str; 5] = ["context", "result", "meta", "error", "stack_trace"];

    /// Creates the set of the columns for which `is_wanted` returns true.
    #[must_use]
    pub fn wanted(is_wanted: impl Fn(&str) -> bool) -> Self {
        Self(Self::NAMES.into_iter().filter(|name| is_wanted(name)).map(str::to_owned).collect())
    }

    /// Returns the name of a large column's field in the API.
    #[must_use]
    pub fn field_name(column: &str) -> &str {
        if column == "stack_trace" { "stackTrace" } else { column }
    }

    /// Returns the names of the columns in the set.
    pub(super) fn names(&self) -> &[String] {
        &self.0
    }
}

/// Returns the logs among `executions` that a filter includes.
pub(super) fn wanted_logs(executions: &[i64], filter: &LogFilter) -> Vec<i64> {
    let wanted = |id: &&i64| filter.event.execution_ids.as_ref().is_none_or(|ids| ids.contains(&Id::new(**id)));
    executions.iter().filter(wanted).copied().collect()
}

/// Returns the events with these ids in the scope, in no order. Events that do not exist are left out. Large columns that
/// are not in `columns` are absent.
#[tracing::instrument(
    level = "debug", name = "sql.events.by_keys", skip_all,
    fields(database = %shard.name(), count = keys.len())
)]
pub async fn by_keys(
    shard: &Database,
    scope: &Scope,
    keys: &[EventKey],
    columns: &LargeColumns,
) -> Result<Vec<Event<Text>>, StorageError> {
    let executions: Vec<i64> = keys.iter().map(|key| key.execution_id).collect();
    let span = IdSpan::of(&executions);
    let rows = sqlx::query_as!(
        EventRow,
        r#"SELECT execution_id, event_id, catalog_id, parent_event_id, parent_execution_id,
                  greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                  coalesce(event_type, '') AS "event_type!", node_id, node_name, node_type, status, duration,
                  CASE WHEN 'context' = ANY($4) THEN context::text END AS "context: Text",
                  CASE WHEN 'result' = ANY($4) THEN result::text END AS "result: Text",
                  CASE WHEN 'meta' = ANY($4) THEN meta::text END AS "meta: Text",
                  CASE WHEN 'error' = ANY($4) THEN error END AS error,
                  CASE WHEN 'stack_trace' = ANY($4) THEN stack_trace END AS stack_trace,
                  tenant_id, organization_id
           FROM (
               SELECT event.* FROM unnest($1::bigint[], $2::bigint[]) AS key (execution_id, event_id)
               CROSS JOIN LATERAL (
                   SELECT * FROM noetl.event
                   WHERE execution_id = key.execution_id AND event_id = key.event_id
                     AND execution_id >= $5 AND execution_id <= $6 AND ($3::text IS NULL OR tenant_id = $3)
                   OFFSET 0
               ) AS event
           ) AS found"#,
        &executions,
        &keys.iter().map(|key| key.event_id).collect::<Vec<_>>(),
        scope.tenant(),
        columns.names(),
        span.first,
        span.last,
    );
    let rows = shard.run(rows.fetch_all(shard.planned_for(keys.len()))).await?;
    Ok(rows.into_iter().map(Event::from).collect())
}

/// Returns those of the logs in which more than `limit` events in the scope are within the filter's times.
#[tracing::instrument(
    level = "debug", name = "sql.events.longer_than", skip_all,
    fields(database = %shard.name(), count = executions.len(), first = executions.first())
)]
pub async fn longer_than(
    shard: &Database,
    scope: &Scope,
    executions: &[i64],
    filter: &LogFilter,
    limit: i64,
) -> Result<Vec<i64>, StorageError> {
    let longer = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM unnest($1::bigint[]) AS log (id)
           WHERE EXISTS (
               SELECT FROM noetl.event
               WHERE execution_id = log.id AND ($2::timestamptz IS NULL OR created_at >= $2 AT TIME ZONE 'UTC')
                 AND ($3::timestamptz IS NULL OR created_at < $3 AT TIME ZONE 'UTC')
                 AND ($5::text IS NULL OR tenant_id = $5)
               OFFSET $4)"#,
        &wanted_logs(executions, filter),
        filter.created_after,
        filter.created_before,
        limit,
        scope.tenant(),
    );
    shard.run(longer.fetch_all(shard.pool())).await
}

/// Expands to a statement with the conditions of a filter and a scope on the events of logs, before each part of
/// `after`. They have the parameters 1 to 10; those of the rest of the statement follow. The first argument is the macro
/// of sqlx with its result type.
macro_rules! in_logs {
    ($query:ident!($($row:ty)?), $scope:expr, $filter:expr, $patterns:expr, $before:literal, [$($after:literal),+] $(, $argument:expr)* $(,)?) => {
        sqlx::$query!(
            $($row,)?
            $before
                $(+ " ($1::text[] IS NULL OR event_type LIKE ANY($1))
                    AND ($2::text[] IS NULL OR node_name = ANY($2))
                    AND ($3::text[] IS NULL OR status = ANY($3))
                    AND ($4::bigint IS NULL OR parent_execution_id = $4)
                    AND ($5::text IS NULL OR tenant_id = $5)
                    AND ($6::text IS NULL OR tenant_id = $6) AND ($7::text IS NULL OR organization_id = $7)
                    AND ($8::timestamptz IS NULL OR created_at >= $8 AT TIME ZONE 'UTC')
                    AND ($9::timestamptz IS NULL OR created_at < $9 AT TIME ZONE 'UTC')
                    AND ($10::text IS NULL OR strpos(lower(concat_ws(E'\n', event_type, node_id, node_name, node_type,
                            status, error, stack_trace, context::text, result::text, meta::text)), lower($10)) > 0) "
                + $after)+,
            $patterns.as_deref(),
            $filter.event.node_names.as_deref(),
            $filter.event.statuses.as_deref(),
            $filter.event.parent_execution_id.map(Id::get),
            $scope.tenant(),
            $filter.event.tenant_id.as_deref(),
            $filter.event.organization_id.as_deref(),
            $filter.created_after,
            $filter.created_before,
            $filter.text.as_deref(),
            $($argument,)*
        )
    };
}

/// Returns the candidates of a page in the scope for each of these logs, in the range's direction, grouped by log.
/// Large columns that are not in `columns` are absent. With `within`, the pages have only events that this snapshot sees.
#[tracing::instrument(
    level = "debug", name = "sql.events.list", skip_all,
    fields(database = %shard.name(), count = executions.len(), first = executions.first())
)]
pub async fn list(
    shard: &Database,
    scope: &Scope,
    executions: &[i64],
    filter: &LogFilter,
    columns: &LargeColumns,
    range: IdRange,
    within: Option<&TxSnapshot>,
) -> Result<Vec<Event<Text>>, StorageError> {
    let (executions, type_patterns) = (wanted_logs(executions, filter), filter.event.type_patterns());
    let span = IdSpan::of(&executions);
    // Only times decide whether a log is read along the index on its ids.
    let has_times = filter.created_after.is_some() || filter.created_before.is_some();
    let pool = if has_times { shard.pool() } else { shard.planned_for(executions.len()) };
    // The inner query sorts, where large values are references; their texts are made row by row as rows are sent.
    macro_rules! listed {
        ($after:literal) => {
            in_logs!(
                query_as!(EventRow),
                scope,
                filter,
                type_patterns,
                r#"SELECT execution_id, event_id, catalog_id, parent_event_id, parent_execution_id,
                          greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                          coalesce(event_type, '') AS "event_type!", node_id, node_name, node_type, status, duration,
                          CASE WHEN 'context' = ANY($15) THEN context::text END AS "context: Text",
                          CASE WHEN 'result' = ANY($15) THEN result::text END AS "result: Text",
                          CASE WHEN 'meta' = ANY($15) THEN meta::text END AS "meta: Text",
                          CASE WHEN 'error' = ANY($15) THEN error END AS error,
                          CASE WHEN 'stack_trace' = ANY($15) THEN stack_trace END AS stack_trace,
                          tenant_id, organization_id
                   FROM (
                       SELECT page.* FROM unnest($11::bigint[]) AS log (id)
                       CROSS JOIN LATERAL (
                           SELECT * FROM noetl.event
                           WHERE execution_id = log.id AND execution_id >= $17 AND execution_id <= $18
                             AND event_id > $12 AND ($13::bigint IS NULL OR event_id < $13)
                             AND ($16::text IS NULL OR pg_visible_in_snapshot(tx_id, $16::text::pg_snapshot)) AND "#,
                [$after],
                &executions,
                range.above,
                range.below,
                range.limit,
                columns.names(),
                within.map(TxSnapshot::to_string),
                span.first,
                span.last,
            )
            .fetch_all(pool)
        };
    }
    let rows = if range.descending {
        shard
            .run(listed!(
                "          ORDER BY event_id DESC LIMIT $14
                       ) AS page
                       ORDER BY execution_id, event_id DESC OFFSET 0
                   ) AS page"
            ))
            .await?
    } else {
        shard
            .run(listed!(
                "          ORDER BY event_id LIMIT $14
                       ) AS page
                       ORDER BY execution_id, event_id OFFSET 0
                   ) AS page"
            ))
            .await?
    };
    Ok(rows.into_iter().map(Event::from).collect())
}

/// Number of events of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCount {
    /// Execution or subscription of the log.
    pub execution_id: i64,
    /// Their number.
    pub count: i64,
}

/// Counts the events in the scope of each of these logs, up to `limit` for each. A log that the filter excludes is left
/// out.
#[tracing::instrument(
    level = "debug", name = "sql.events.count", skip_all,
    fields(database = %shard.name(), count = executions.len(), first = executions.first())
)]
pub async fn count(
    shard: &Database,
    scope: &Scope,
    executions: &[i64],
    filter: &LogFilter,
    limit: i64,
) -> Result<Vec<EventCount>, StorageError> {
    let (executions, type_patterns) = (wanted_logs(executions, filter), filter.event.type_patterns());
    let counts = in_logs!(
        query_as!(EventCount),
        scope,
        filter,
        type_patterns,
        "SELECT log.id AS \"execution_id!\", counted.count AS \"count!\"
         FROM unnest($11::bigint[]) AS log (id)
         CROSS JOIN LATERAL (
             SELECT count(*) AS count FROM (
                 SELECT 1 FROM noetl.event WHERE execution_id = log.id AND ",
        ["       LIMIT $12
             ) AS event
         ) AS counted"],
        &executions,
        limit,
    );
    shard.run(counts.fetch_all(shard.pool())).await
}

/// First event of a log that registers a subscription or starts an execution.
#[derive(Debug, Clone)]
pub struct FirstEvent {
    /// Execution or subscription of the log.
    pub execution_id: i64,
    /// Event type: `subscription.registered`, `playbook_started` or `playbook.initialized`.
    pub event_type: String,
    /// Catalog entry of the execution or subscription.
    pub catalog_id: i64,
    /// The subscription or execution that started it.
    pub parent_execution_id: Option<i64>,
    /// W3C trace context in the event's meta.
    pub trace: Option<Text>,
    /// Pool of the workers in the event's meta.
    pub execution_pool: Option<String>,
    /// Execution of which it is a rerun, in the event's meta.
    pub rerun_of: Option<i64>,
    /// Labels in the event's meta.
    pub labels: Option<Text>,
    /// Caller in the event's meta.
    pub actor: Option<String>,
    /// Tenant of the event.
    pub tenant_id: String,
    /// Organization of the event.
    pub organization_id: String,
}

impl FirstEvent {
    /// Returns the tenant and the organization of the log.
    #[must_use]
    pub fn tenancy(&self) -> Tenancy {
        Tenancy::new(&*self.tenant_id, &*self.organization_id)
    }

    /// Returns the labels.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.labels.as_ref().map(|labels| Labels::read(&labels.read())).unwrap_or_default()
    }
}

/// Returns the heads of these logs, in no order. A log without a registered or started event is left out, and so is a
/// log whose head is not in the scope.
#[tracing::instrument(
    level = "debug", name = "sql.events.heads", skip_all,
    fields(database = %shard.name(), count = executions.len(), first = executions.first())
)]
pub async fn heads(shard: &Database, scope: &Scope, executions: &[i64]) -> Result<Vec<FirstEvent>, StorageError> {
    let span = IdSpan::of(executions);
    let rows = sqlx::query_as!(
        FirstEvent,
        r#"SELECT * FROM (
               SELECT DISTINCT ON (execution_id) execution_id, event_type AS "event_type!", catalog_id,
                      parent_execution_id, (meta -> 'trace')::text AS "trace: Text",
                      meta ->> 'execution_pool' AS execution_pool,
                      CASE WHEN meta ->> 'rerun_of' ~ '^\d{1,19}$' AND (meta ->> 'rerun_of')::numeric < 9223372036854775808
                           THEN (meta ->> 'rerun_of')::bigint END AS rerun_of,
                      (meta -> 'labels')::text AS "labels: Text", meta ->> 'actor' AS actor,
                      tenant_id, organization_id
               FROM noetl.event
               WHERE execution_id = ANY($1) AND execution_id >= $3 AND execution_id <= $4 AND event_type IN (
                   'subscription.registered', 'playbook_started', 'playbook.initialized')
               ORDER BY execution_id, event_id
           ) AS head WHERE $2::text IS NULL OR tenant_id = $2"#,
        executions,
        scope.tenant(),
        span.first,
        span.last,
    );
    shard.run(rows.fetch_all(shard.planned_for(executions.len()))).await
}

/// Returns the workloads in the first registered or started event of these logs in the scope, in no order. A log
/// without a workload is left out.
#[tracing::instrument(
    level = "debug", name = "sql.events.workloads", skip_all,
    fields(database = %shard.name(), count = executions.len(), first = executions.first())
)]
pub async fn workloads(shard: &Database, scope: &Scope, executions: &[i64]) -> Result<Vec<(i64, Text)>, StorageError> {
    let span = IdSpan::of(executions);
    let rows = sqlx::query!(
        r#"SELECT DISTINCT ON (execution_id) execution_id, coalesce(context -> 'workload', context -> 'result' -> 'workload', meta -> 'inline_workload')::text
                      AS "workload: Text"
           FROM noetl.event
           WHERE execution_id = ANY($1) AND execution_id >= $3 AND execution_id <= $4
             AND ($2::text IS NULL OR tenant_id = $2) AND event_type IN (
               'subscription.registered', 'playbook_started', 'playbook.initialized')
           ORDER BY execution_id, event_id"#,
        executions,
        scope.tenant(),
        span.first,
        span.last,
    );
    let rows = shard.run(rows.fetch_all(shard.planned_for(executions.len()))).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.execution_id, row.workload?))).collect())
}

/// Returns the latest ending event in the scope of each of these logs, in no order. A log without one is left out. The
/// events include the error and the JSON fields that contain the reason.
#[tracing::instrument(
    level = "debug", name = "sql.events.ends", skip_all,
    fields(database = %shard.name(), count = executions.len(), first = executions.first())
)]
pub async fn ends(shard: &Database, scope: &Scope, executions: &[i64]) -> Result<Vec<Event>, StorageError> {
    let span = IdSpan::of(executions);
    let rows = sqlx::query!(
        r#"SELECT DISTINCT ON (execution_id) execution_id, event_id, catalog_id,
                  greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                  event_type AS "event_type!", error,
                  jsonb_build_object('reason', context -> 'reason', 'error', context -> 'error')::text AS "context: Text",
                  jsonb_build_object('error', result -> 'error', 'context', jsonb_build_object(
                      'reason', result #> '{context,reason}', 'error', result #> '{context,error}',
                      'result', jsonb_build_object('error', result #> '{context,result,error}',
                          'context', jsonb_build_object('error', result #> '{context,result,context,error}'))))::text
                      AS "result: Text",
                  jsonb_build_object('error', meta -> 'error')::text AS "meta: Text"
           FROM noetl.event
           WHERE execution_id = ANY($1) AND execution_id >= $3 AND execution_id <= $4
             AND ($2::text IS NULL OR tenant_id = $2) AND event_type IN (
               'playbook_completed', 'playbook.completed', 'workflow.completed', 'playbook_failed', 'playbook.failed',
               'workflow.failed', 'playbook.cancelled', 'playbook_cancelled', 'execution.cancelled')
           ORDER BY execution_id, event_id DESC"#,
        executions,
        scope.tenant(),
        span.first,
        span.last,
    );
    let rows = shard.run(rows.fetch_all(shard.planned_for(executions.len()))).await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let ids = (Id::new(row.execution_id), Id::new(row.event_id), Id::new(row.catalog_id));
            Event {
                context: row.context.as_ref().map(Text::read),
                result: row.result.as_ref().map(Text::read),
                meta: row.meta.as_ref().map(Text::read),
                error: row.error,
                ..Event::bare(ids.0, ids.1, ids.2, &row.event_type, row.created_at)
            }
        })
        .collect())
}

pub(super) use in_logs;
