//! Lists of events over several logs, newest first.
//!
//! The index on types and statuses gives, for each pair of both, the newest events first. A statement first finds the
//! pairs that the shard has, with one descent of the index for each, then reads a page of each wanted pair, and merges the
//! pages. A filter on nodes uses the index on nodes in the same way, and a filter on executions their logs. Other
//! conditions are compared row by row.

use super::error::StorageError;
use super::events::{EventRow, LargeColumns};
use super::pools::Database;
use noetl_domain::event::Event;
use noetl_domain::event_list::{EventRange, INDEXED_CHARS, LogFilter, indexed};
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;
use noetl_domain::tx_snapshot::TxSnapshot;
use plain_json::Text;

const _: () = assert!(INDEXED_CHARS == 255, "the statement and the indexes cut texts at this length");

/// Values of a filter's conditions in the form of the statements.
struct Conditions {
    /// Beginnings of the wanted types.
    stems: Vec<String>,
    /// Whether a wanted type is any type with this beginning.
    open: Vec<bool>,
    /// Patterns of the wanted types.
    type_patterns: Option<Vec<String>>,
    /// Names of nodes, as the index has them.
    nodes: Option<Vec<String>>,
    /// Statuses, as the index has them.
    statuses: Option<Vec<String>>,
    executions: Option<Vec<i64>>,
}

impl Conditions {
    fn of(filter: &LogFilter) -> Self {
        let (event, types) = (&filter.event, filter.type_ranges());
        let cut = |texts: &Vec<String>| texts.iter().map(|text| indexed(text)).collect();
        Self {
            stems: types.iter().map(|range| range.stem.clone()).collect(),
            open: types.iter().map(|range| range.open).collect(),
            type_patterns: event.type_patterns(),
            nodes: event.node_names.as_ref().map(cut),
            statuses: event.statuses.as_ref().map(cut),
            executions: event.execution_ids.as_ref().map(|ids| ids.iter().map(|id| id.get()).collect()),
        }
    }
}

/// Expands to a statement on the events in a range that meet the conditions of a filter and a scope. `$source` has the
/// pairs, nodes or logs in whose events they are, and `$rows` is the condition for the events of one of them. Up to
/// `limit` events of each are read, and of all. The parameters 1 to 19 are the conditions; those of `$columns` and
/// `$visible` follow. The first argument is the macro of sqlx with its result type.
macro_rules! in_all_logs {
    (
        $query:ident!($($row:ty)?), $scope:expr, $filter:expr, $conditions:expr, $range:expr,
        columns: $columns:literal, page: $page:literal, event: $event:literal,
        source: $source:literal, rows: $rows:literal, visible: $visible:literal, order: $order:literal
        $(, $argument:expr)* $(,)?
    ) => {
        sqlx::$query!(
            $($row,)?
            r#"WITH RECURSIVE wanted AS (
                   SELECT stem, open FROM unnest($1::text[], $2::boolean[]) AS t (stem, open)
               ), kind AS (
                   SELECT wanted.stem, wanted.open, first.type, first.status
                   FROM wanted CROSS JOIN LATERAL (
                       SELECT left(coalesce(event_type, ''), 255) COLLATE "C" AS type,
                              left(coalesce(status, ''), 255) COLLATE "C" AS status
                       FROM noetl.event WHERE left(coalesce(event_type, ''), 255) COLLATE "C" >= wanted.stem
                       ORDER BY left(coalesce(event_type, ''), 255) COLLATE "C", left(coalesce(status, ''), 255) COLLATE "C"
                       LIMIT 1
                   ) AS first
                   WHERE CASE WHEN wanted.open THEN starts_with(first.type, wanted.stem) ELSE first.type = wanted.stem END
                   UNION ALL
                   SELECT kind.stem, kind.open, next.type, next.status
                   FROM kind CROSS JOIN LATERAL (
                       SELECT left(coalesce(event_type, ''), 255) COLLATE "C" AS type,
                              left(coalesce(status, ''), 255) COLLATE "C" AS status
                       FROM noetl.event
                       WHERE (left(coalesce(event_type, ''), 255) COLLATE "C", left(coalesce(status, ''), 255) COLLATE "C")
                             > (kind.type, kind.status)
                       ORDER BY left(coalesce(event_type, ''), 255) COLLATE "C", left(coalesce(status, ''), 255) COLLATE "C"
                       LIMIT 1
                   ) AS next
                   WHERE CASE WHEN kind.open THEN starts_with(next.type, kind.stem) ELSE next.type = kind.stem END
               )
               SELECT "# + $columns + r#"
               FROM (
                   SELECT "# + $page + " FROM " + $source + r#" AS source CROSS JOIN LATERAL (
                       SELECT "# + $event + " FROM noetl.event
                       WHERE " + $rows + r#"
                         AND (noetl.list_time(created_at AT TIME ZONE 'UTC'), event_id, execution_id) > ($3, $4, $5)
                         AND (noetl.list_time(created_at AT TIME ZONE 'UTC'), event_id, execution_id) < ($6, $7, $8)
                         AND ($10::text[] IS NULL OR event_type LIKE ANY($10))
                         AND ($11::text[] IS NULL OR node_name = ANY($11))
                         AND ($12::text[] IS NULL OR status = ANY($12))
                         AND ($13::bigint[] IS NULL OR execution_id = ANY($13))
                         AND ($14::bigint IS NULL OR parent_execution_id = $14)
                         AND ($15::text IS NULL OR tenant_id = $15)
                         AND ($16::text IS NULL OR tenant_id = $16) AND ($17::text IS NULL OR organization_id = $17)
                         AND ($18::text[] IS NULL OR true) AND ($19::text[] IS NULL OR true) "# + $visible
                       + $order + " LIMIT $9
                   ) AS page
                   " + $order + " LIMIT $9
               ) AS page",
            &$conditions.stems,
            &$conditions.open,
            $range.above.at,
            $range.above.event_id,
            $range.above.execution_id,
            $range.below.at,
            $range.below.event_id,
            $range.below.execution_id,
            $range.limit,
            $conditions.type_patterns.as_deref(),
            $filter.event.node_names.as_deref(),
            $filter.event.statuses.as_deref(),
            $conditions.executions.as_deref(),
            $filter.event.parent_execution_id.map(Id::get),
            $scope.tenant(),
            $filter.event.tenant_id.as_deref(),
            $filter.event.organization_id.as_deref(),
            $conditions.nodes.as_deref(),
            $conditions.statuses.as_deref(),
            $($argument,)*
        )
    };
}

/// Runs a statement of [`in_all_logs`] on the source that the filter's conditions are looked up in. `$statement` is a
/// macro with the source and the condition for the events of one of its rows.
macro_rules! looked_up {
    ($conditions:expr, $statement:ident) => {
        if $conditions.executions.is_some() {
            $statement!("(SELECT DISTINCT unnest($13::bigint[]) AS id)", "execution_id = source.id")
        } else if $conditions.nodes.is_some() {
            $statement!(
                "(SELECT DISTINCT unnest($18::text[]) AS node)",
                r#"left(node_name, 255) COLLATE "C" = source.node AND node_name IS NOT NULL"#
            )
        } else {
            $statement!(
                "(SELECT DISTINCT type, status FROM kind WHERE $19::text[] IS NULL OR status = ANY($19))",
                r#"left(coalesce(event_type, ''), 255) COLLATE "C" = source.type
                   AND left(coalesce(event.status, ''), 255) COLLATE "C" = source.status"#
            )
        }
    };
}

/// Returns the candidates of a page in the scope, in the range's direction. The range contains the times of the filter,
/// and its text is not searched for. Large columns that are not in `columns` are absent. With `within`, the page has only
/// events that this snapshot sees.
#[tracing::instrument(level = "debug", name = "sql.events.newest", skip_all, fields(database = %shard.name()))]
pub async fn list(
    shard: &Database,
    scope: &Scope,
    filter: &LogFilter,
    columns: &LargeColumns,
    range: EventRange,
    within: Option<&TxSnapshot>,
) -> Result<Vec<Event<Text>>, StorageError> {
    let conditions = Conditions::of(filter);
    macro_rules! listed {
        ($source:literal, $rows:literal, $order:literal) => {
            shard
                .run(
                    in_all_logs!(
                        query_as!(EventRow),
                        scope,
                        filter,
                        conditions,
                        range,
                        columns: r#"execution_id AS "execution_id!", event_id AS "event_id!", catalog_id AS "catalog_id!",
                          parent_event_id, parent_execution_id,
                          greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                          coalesce(event_type, '') AS "event_type!", node_id, node_name, node_type, status, duration,
                          CASE WHEN 'context' = ANY($20) THEN context::text END AS "context: Text",
                          CASE WHEN 'result' = ANY($20) THEN result::text END AS "result: Text",
                          CASE WHEN 'meta' = ANY($20) THEN meta::text END AS "meta: Text",
                          CASE WHEN 'error' = ANY($20) THEN error END AS error,
                          CASE WHEN 'stack_trace' = ANY($20) THEN stack_trace END AS stack_trace,
                          tenant_id AS "tenant_id!", organization_id AS "organization_id!""#,
                        page: "page.*",
                        event: "*",
                        source: $source,
                        rows: $rows,
                        visible: " AND ($21::text IS NULL OR pg_visible_in_snapshot(tx_id, $21::text::pg_snapshot)) ",
                        order: $order,
                        columns.names(),
                        within.map(TxSnapshot::to_string),
                    )
                    .fetch_all(shard.pool()),
                )
                .await?
        };
    }
    macro_rules! directed {
        ($source:literal, $rows:literal) => {
            if range.descending {
                listed!(
                    $source,
                    $rows,
                    "ORDER BY noetl.list_time(created_at AT TIME ZONE 'UTC') DESC, event_id DESC, execution_id DESC"
                )
            } else {
                listed!(
                    $source,
                    $rows,
                    "ORDER BY noetl.list_time(created_at AT TIME ZONE 'UTC'), event_id, execution_id"
                )
            }
        };
    }
    let rows = looked_up!(conditions, directed);
    Ok(rows.into_iter().map(Event::from).collect())
}

/// Counts the events in the scope and the range, up to the range's limit. The range contains the times of the filter.
#[tracing::instrument(level = "debug", name = "sql.events.count_all", skip_all, fields(database = %shard.name()))]
pub async fn count(
    shard: &Database,
    scope: &Scope,
    filter: &LogFilter,
    range: EventRange,
) -> Result<i64, StorageError> {
    let conditions = Conditions::of(filter);
    macro_rules! counted {
        ($source:literal, $rows:literal) => {
            shard
                .run(
                    in_all_logs!(
                        query_scalar!(),
                        scope,
                        filter,
                        conditions,
                        range,
                        columns: r#"count(*) AS "count!""#,
                        page: "1",
                        event: "1",
                        source: $source,
                        rows: $rows,
                        visible: "",
                        order: "",
                    )
                    .fetch_one(shard.pool()),
                )
                .await?
        };
    }
    Ok(looked_up!(conditions, counted))
}
