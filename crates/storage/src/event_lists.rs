//! Lists of events over several logs, newest first.
//!
//! Each index begins with conditions, then type and status, and ends with the order of the list. A statement first finds
//! the kinds of events that meet the conditions, with one descent of the index for each, then reads a page of each kind,
//! and merges the pages. A condition on executions reads their logs. Other conditions are compared row by row.

use super::error::StorageError;
use super::events::{EventRow, LargeColumns};
use super::view::View;
use noetl_domain::event::Event;
use noetl_domain::event_list::{EventRange, INDEXED_CHARS, LogFilter, indexed};
use noetl_domain::ids::Id;
use noetl_domain::tenant::{DEFAULT, Scope};
use noetl_domain::tx_snapshot::TxSnapshot;
use plain_json::Text;

const _: () = assert!(INDEXED_CHARS == 255, "the statement and the indexes cut texts at this length");

/// Index along which events are read. All end with type, status, and the order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Logs of executions.
    Executions,
    /// Type and status alone.
    Kind,
    /// Node.
    Node,
    /// Tenant.
    Tenant,
    /// Tenant and node.
    TenantNode,
    /// Organization.
    Organization,
    /// Parent of the executions.
    Parent,
}

/// Values of a filter's conditions in the form of the statements.
struct Conditions<'a> {
    source: Source,
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
    /// Tenant of the scope.
    own: Option<&'a str>,
    /// Bits of the buckets whose events are visible; `None`: all are.
    held: Option<&'a [u8]>,
}

impl<'a> Conditions<'a> {
    /// Returns the values of the conditions. `None`: no event can meet them.
    fn of(shard: &'a View<'_>, scope: &'a Scope, filter: &LogFilter) -> Option<Self> {
        let (event, types) = (&filter.event, filter.type_ranges());
        let (own, wanted) = (scope.tenant(), event.tenant_id.as_deref());
        if shard.is_empty() || (own.is_some() && wanted.is_some() && own != wanted) {
            return None;
        }
        // The indexes on tenants and on organizations leave out the rows that name none.
        let is_indexed = |name: &str| name != DEFAULT;
        let by_tenant = own.or(wanted).is_some_and(is_indexed);
        let source = if event.execution_ids.is_some() {
            Source::Executions
        } else if event.parent_execution_id.is_some() {
            Source::Parent
        } else if event.organization_id.as_deref().is_some_and(is_indexed) {
            Source::Organization
        } else {
            match (event.node_names.is_some(), by_tenant) {
                (true, true) => Source::TenantNode,
                (true, false) => Source::Node,
                (false, true) => Source::Tenant,
                (false, false) => Source::Kind,
            }
        };
        let cut = |texts: &Vec<String>| texts.iter().map(|text| indexed(text)).collect();
        Some(Self {
            source,
            stems: types.iter().map(|range| range.stem.clone()).collect(),
            open: types.iter().map(|range| range.open).collect(),
            type_patterns: event.type_patterns(),
            nodes: event.node_names.as_ref().map(cut),
            statuses: event.statuses.as_ref().map(cut),
            executions: event.execution_ids.as_ref().map(|ids| ids.iter().map(|id| id.get()).collect()),
            own,
            held: shard.held(),
        })
    }
}

/// Expands to a statement on the events in a range that meet the conditions of a filter and a scope. Up to `limit` events
/// of each kind are read, and of all. The parameters 1 to 20 are the conditions; those of `columns` and `visible` follow.
/// The first argument is the macro of sqlx with its result type.
///
/// An entry of an index has a limit of about 2700 bytes, so texts are cut at `chars` characters.
///
/// A kind consists of the first columns of an index, which are `keys`, type and status. `prefixes` has the wanted values
/// of `keys`, and `index` is the condition of the partial index. The conditions that are compared row by row are in a
/// `CASE`, and the time in each index is another expression, for the reasons that [`super::execution_select`] names.
macro_rules! in_all_logs {
    (
        $query:ident!($($row:ty)?), $filter:expr, $conditions:expr, $range:expr,
        columns: $columns:literal, page: $page:literal, event: $event:literal, visible: $visible:literal,
        direction: $direction:literal, merged: [$($merged:literal)*], arguments: [$($argument:expr),*],
        chars: $chars:literal, prefixes: $prefixes:literal, key_columns: $key_columns:literal, index: $index:literal, keys: $keys:literal,
        kind: $kind:literal, same: $same:literal, source: $source:literal, rows: $rows:literal,
        time: $time:literal $(,)?
    ) => {
        sqlx::$query!(
            $($row,)?
            r#"WITH RECURSIVE wanted AS (
                   SELECT left(t.stem, "# + $chars + ") AS stem, open, prefix.* FROM unnest($1::text[], $2::boolean[]) AS t (stem, open)
                   CROSS JOIN " + $prefixes + r#" AS prefix
               ), kind AS (
                   SELECT kind.stem, kind.open, found.*
                   FROM wanted AS kind CROSS JOIN LATERAL (
                       SELECT "# + $key_columns + r#" left(coalesce(event_type, ''), "# + $chars + r#") COLLATE "C" AS type,
                              left(coalesce(status, ''), "# + $chars + r#") COLLATE "C" AS status
                       FROM noetl.event
                       WHERE "# + $index + " AND (" + $keys + r#" left(coalesce(event_type, ''), "# + $chars + r#") COLLATE "C",
                              left(coalesce(status, ''), "# + $chars + r#") COLLATE "C") >= ("# + $kind + " kind.stem, '')
                       ORDER BY " + $keys + r#" left(coalesce(event_type, ''), "# + $chars + r#") COLLATE "C",
                                left(coalesce(status, ''), "# + $chars + r#") COLLATE "C"
                       LIMIT 1
                   ) AS found
                   WHERE "# + $same + r#"
                     AND CASE WHEN kind.open THEN starts_with(found.type, kind.stem) ELSE found.type = kind.stem END
                   UNION ALL
                   SELECT kind.stem, kind.open, found.*
                   FROM kind CROSS JOIN LATERAL (
                       SELECT "# + $key_columns + r#" left(coalesce(event_type, ''), "# + $chars + r#") COLLATE "C" AS type,
                              left(coalesce(status, ''), "# + $chars + r#") COLLATE "C" AS status
                       FROM noetl.event
                       WHERE "# + $index + " AND (" + $keys + r#" left(coalesce(event_type, ''), "# + $chars + r#") COLLATE "C",
                              left(coalesce(status, ''), "# + $chars + r#") COLLATE "C") > ("# + $kind + " kind.type, kind.status)
                       ORDER BY " + $keys + r#" left(coalesce(event_type, ''), "# + $chars + r#") COLLATE "C",
                                left(coalesce(status, ''), "# + $chars + r#") COLLATE "C"
                       LIMIT 1
                   ) AS found
                   WHERE "# + $same + r#"
                     AND CASE WHEN kind.open THEN starts_with(found.type, kind.stem) ELSE found.type = kind.stem END
               )
               SELECT "# + $columns + r#"
               FROM (
                   SELECT "# + $page + " FROM " + $source + r#" AS source CROSS JOIN LATERAL (
                       SELECT "# + $event + " FROM noetl.event
                       WHERE " + $index + " AND " + $rows
                         + " AND (" + $time + ", event_id, execution_id) > ($3, $4, $5)
                         AND (" + $time + ", event_id, execution_id) < ($6, $7, $8)
                         -- The index has only beginnings of the texts, so the whole texts are compared too.
                         AND CASE WHEN ($10::text[] IS NULL OR event_type LIKE ANY($10))
                             AND ($11::text[] IS NULL OR node_name = ANY($11))
                             AND ($12::text[] IS NULL OR status = ANY($12))
                             AND ($13::bigint[] IS NULL OR execution_id = ANY($13))
                             AND ($14::bigint IS NULL OR parent_execution_id = $14)
                             AND ($15::text IS NULL OR tenant_id = $15)
                             AND ($16::text IS NULL OR tenant_id = $16) AND ($17::text IS NULL OR organization_id = $17)
                             -- Sources without these parameters must give them a type.
                             AND ($18::text[] IS NULL OR true) AND ($19::text[] IS NULL OR true)
                             AND ($20::bytea IS NULL OR get_bit($20, noetl.bucket_of(execution_id)) = 1) " + $visible + "
                             THEN true ELSE false END
                       ORDER BY " + $time + $direction + ", event_id" + $direction + ", execution_id" + $direction + " LIMIT $9
                   ) AS page
                   " $(+ $merged)* + " LIMIT $9
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
            $conditions.own,
            $filter.event.tenant_id.as_deref(),
            $filter.event.organization_id.as_deref(),
            $conditions.nodes.as_deref(),
            $conditions.statuses.as_deref(),
            $conditions.held,
            $($argument,)*
        )
    };
}

/// Passes a direction and the arguments of [`in_all_logs`] for a source to the macro `$statement`.
macro_rules! along {
    ($statement:ident, $direction:literal, $source:expr) => {
        match $source {
            Source::Executions => $statement!(
                $direction,
                chars: "255", prefixes: "(SELECT)", key_columns: "", index: "true", keys: "", kind: "", same: "true",
                source: "(SELECT DISTINCT unnest($13::bigint[]) AS id)",
                rows: "execution_id = source.id",
                time: "noetl.list_time(created_at AT TIME ZONE 'UTC')",
            ),
            Source::Kind => $statement!(
                $direction,
                chars: "255", prefixes: "(SELECT)", key_columns: "", index: "true", keys: "", kind: "", same: "true",
                source: "(SELECT DISTINCT type, status FROM kind WHERE $19::text[] IS NULL OR status = ANY($19))",
                rows: r#"(left(coalesce(event_type, ''), 255) COLLATE "C", left(coalesce(event.status, ''), 255) COLLATE "C")
                         = (source.type, source.status)"#,
                time: "noetl.list_time(created_at AT TIME ZONE 'UTC')",
            ),
            Source::Node => $statement!(
                $direction,
                chars: "160",
                prefixes: "(SELECT DISTINCT left(unnest($18::text[]), 160) AS node)",
                key_columns: r#"left(node_name, 160) COLLATE "C" AS node,"#,
                index: "node_name IS NOT NULL",
                keys: r#"left(node_name, 160) COLLATE "C","#,
                kind: "kind.node,",
                same: "found.node = kind.node",
                source: "(SELECT DISTINCT node, type, status FROM kind WHERE $19::text[] IS NULL OR status IN (SELECT left(unnest($19), 160)))",
                rows: r#"(left(node_name, 160) COLLATE "C", left(coalesce(event_type, ''), 160) COLLATE "C",
                          left(coalesce(event.status, ''), 160) COLLATE "C") = (source.node, source.type, source.status)"#,
                time: "noetl.list_time(created_at AT TIME ZONE 'UTC', 2)",
            ),
            Source::Tenant => $statement!(
                $direction,
                chars: "160",
                prefixes: "(SELECT left(coalesce($15, $16), 160) AS tenant)",
                key_columns: r#"left(tenant_id, 160) COLLATE "C" AS tenant,"#,
                index: "tenant_id <> 'default'",
                keys: r#"left(tenant_id, 160) COLLATE "C","#,
                kind: "kind.tenant,",
                same: "found.tenant = kind.tenant",
                source: "(SELECT DISTINCT tenant, type, status FROM kind WHERE $19::text[] IS NULL OR status IN (SELECT left(unnest($19), 160)))",
                rows: r#"(left(tenant_id, 160) COLLATE "C", left(coalesce(event_type, ''), 160) COLLATE "C",
                          left(coalesce(event.status, ''), 160) COLLATE "C") = (source.tenant, source.type, source.status)"#,
                time: "noetl.list_time(created_at AT TIME ZONE 'UTC', 3)",
            ),
            Source::TenantNode => $statement!(
                $direction,
                chars: "160",
                prefixes: "(SELECT DISTINCT left(coalesce($15, $16), 160) AS tenant, left(unnest($18::text[]), 160) AS node)",
                key_columns: r#"left(tenant_id, 160) COLLATE "C" AS tenant, left(node_name, 160) COLLATE "C" AS node,"#,
                index: "tenant_id <> 'default' AND node_name IS NOT NULL",
                keys: r#"left(tenant_id, 160) COLLATE "C", left(node_name, 160) COLLATE "C","#,
                kind: "kind.tenant, kind.node,",
                same: "found.tenant = kind.tenant AND found.node = kind.node",
                source: "(SELECT DISTINCT tenant, node, type, status FROM kind WHERE $19::text[] IS NULL OR status IN (SELECT left(unnest($19), 160)))",
                rows: r#"(left(tenant_id, 160) COLLATE "C", left(node_name, 160) COLLATE "C",
                          left(coalesce(event_type, ''), 160) COLLATE "C", left(coalesce(event.status, ''), 160) COLLATE "C")
                         = (source.tenant, source.node, source.type, source.status)"#,
                time: "noetl.list_time(created_at AT TIME ZONE 'UTC', 4)",
            ),
            Source::Organization => $statement!(
                $direction,
                chars: "160",
                prefixes: "(SELECT left($17, 160) AS organization)",
                key_columns: r#"left(organization_id, 160) COLLATE "C" AS organization,"#,
                index: "organization_id <> 'default'",
                keys: r#"left(organization_id, 160) COLLATE "C","#,
                kind: "kind.organization,",
                same: "found.organization = kind.organization",
                source: "(SELECT DISTINCT organization, type, status FROM kind WHERE $19::text[] IS NULL OR status IN (SELECT left(unnest($19), 160)))",
                rows: r#"(left(organization_id, 160) COLLATE "C", left(coalesce(event_type, ''), 160) COLLATE "C",
                          left(coalesce(event.status, ''), 160) COLLATE "C") = (source.organization, source.type, source.status)"#,
                time: "noetl.list_time(created_at AT TIME ZONE 'UTC', 5)",
            ),
            Source::Parent => $statement!(
                $direction,
                chars: "160",
                prefixes: "(SELECT $14::bigint AS parent)",
                key_columns: "parent_execution_id AS parent,",
                index: "parent_execution_id IS NOT NULL",
                keys: "parent_execution_id,",
                kind: "kind.parent,",
                same: "found.parent = kind.parent",
                source: "(SELECT DISTINCT parent, type, status FROM kind WHERE $19::text[] IS NULL OR status IN (SELECT left(unnest($19), 160)))",
                rows: r#"(parent_execution_id, left(coalesce(event_type, ''), 160) COLLATE "C",
                          left(coalesce(event.status, ''), 160) COLLATE "C") = (source.parent, source.type, source.status)"#,
                time: "noetl.list_time(created_at AT TIME ZONE 'UTC', 6)",
            ),
        }
    };
}

/// Returns the candidates of a page in the scope, in the range's direction. The range contains the times of the filter,
/// and its text is not searched for. Large columns that are not in `columns` are absent. With `within`, the page has only
/// events that this snapshot sees.
#[tracing::instrument(level = "debug", name = "sql.events.newest", skip_all, fields(database = %shard.name()))]
pub async fn list(
    shard: View<'_>,
    scope: &Scope,
    filter: &LogFilter,
    columns: &LargeColumns,
    range: EventRange,
    within: Option<&TxSnapshot>,
) -> Result<Vec<Event<Text>>, StorageError> {
    let Some(conditions) = Conditions::of(&shard, scope, filter) else { return Ok(Vec::new()) };
    // A function for each statement, as in `execution_lists::pages`.
    macro_rules! listed {
        ($direction:literal, $($source:tt)*) => {{
            async fn rows(
                shard: &View<'_>,
                filter: &LogFilter,
                conditions: &Conditions<'_>,
                columns: &LargeColumns,
                range: EventRange,
                within: Option<&TxSnapshot>,
            ) -> Result<Vec<EventRow>, StorageError> {
                shard.run(
                    in_all_logs!(
                        query_as!(EventRow),
                        filter,
                        conditions,
                        range,
                        columns: r#"execution_id AS "execution_id!", event_id AS "event_id!", catalog_id AS "catalog_id!",
                          parent_event_id, parent_execution_id,
                          greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                          coalesce(event_type, '') AS "event_type!", node_id, node_name, node_type, status, duration,
                          CASE WHEN 'context' = ANY($21) THEN context::text END AS "context: Text",
                          CASE WHEN 'result' = ANY($21) THEN result::text END AS "result: Text",
                          CASE WHEN 'meta' = ANY($21) THEN meta::text END AS "meta: Text",
                          CASE WHEN 'error' = ANY($21) THEN error END AS error,
                          CASE WHEN 'stack_trace' = ANY($21) THEN stack_trace END AS stack_trace,
                          tenant_id AS "tenant_id!", organization_id AS "organization_id!""#,
                        page: "page.*",
                        event: "*",
                        visible: " AND ($22::text IS NULL OR pg_visible_in_snapshot(tx_id, $22::text::pg_snapshot)) ",
                        direction: $direction,
                        merged: [
                            "ORDER BY noetl.list_time(created_at AT TIME ZONE 'UTC')" $direction ", event_id" $direction
                            ", execution_id" $direction
                        ],
                        arguments: [columns.names(), within.map(TxSnapshot::to_string)],
                        $($source)*
                    )
                    .fetch_all(shard.planned_once()),
                )
                .await
            }
            rows(&shard, filter, &conditions, columns, range, within).await?
        }};
    }
    let rows = if range.descending {
        along!(listed, " DESC", conditions.source)
    } else {
        along!(listed, "", conditions.source)
    };
    Ok(rows.into_iter().map(Event::from).collect())
}

/// Counts the events in the scope and the range, up to the range's limit. The range contains the times of the filter.
#[tracing::instrument(level = "debug", name = "sql.events.count_all", skip_all, fields(database = %shard.name()))]
pub async fn count(shard: View<'_>, scope: &Scope, filter: &LogFilter, range: EventRange) -> Result<i64, StorageError> {
    let Some(conditions) = Conditions::of(&shard, scope, filter) else { return Ok(0) };
    macro_rules! counted {
        ($direction:literal, $($source:tt)*) => {{
            async fn number(
                shard: &View<'_>,
                filter: &LogFilter,
                conditions: &Conditions<'_>,
                range: EventRange,
            ) -> Result<i64, StorageError> {
                shard.run(
                    in_all_logs!(
                        query_scalar!(),
                        filter,
                        conditions,
                        range,
                        columns: r#"count(*) AS "count!""#,
                        page: "1",
                        event: "1",
                        visible: "",
                        direction: $direction,
                        merged: [],
                        arguments: [],
                        $($source)*
                    )
                    .fetch_one(shard.planned_once()),
                )
                .await
            }
            number(&shard, filter, &conditions, range).await?
        }};
    }
    Ok(along!(counted, "", conditions.source))
}
