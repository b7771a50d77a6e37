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

/// Returns the candidates of a page in the scope, in the range's direction. The range contains the times of the filter,
/// and its text is not searched for. Large columns that are not in `columns` are absent. With `within`, the page has only
/// events that this snapshot sees.
#[tracing::instrument(level = "debug", name = "sql.events.newest", skip_all, fields(database = %shard.name()))]
#[expect(clippy::too_many_lines, reason = "most of them are one statement")]
pub async fn list(
    shard: &Database,
    scope: &Scope,
    filter: &LogFilter,
    columns: &LargeColumns,
    range: EventRange,
    within: Option<&TxSnapshot>,
) -> Result<Vec<Event<Text>>, StorageError> {
    let event = &filter.event;
    let types = filter.type_ranges();
    let stems: Vec<String> = types.iter().map(|range| range.stem.clone()).collect();
    let open: Vec<bool> = types.iter().map(|range| range.open).collect();
    let cut = |texts: &Vec<String>| texts.iter().map(|text| indexed(text)).collect::<Vec<String>>();
    let (nodes, statuses) = (event.node_names.as_ref().map(cut), event.statuses.as_ref().map(cut));
    let executions: Option<Vec<i64>> = event.execution_ids.as_ref().map(|ids| ids.iter().map(|id| id.get()).collect());
    let type_patterns = event.type_patterns();
    macro_rules! listed {
        ($source:literal, $rows:literal, $order:literal) => {
            sqlx::query_as!(
                EventRow,
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
                   SELECT execution_id AS "execution_id!", event_id AS "event_id!", catalog_id AS "catalog_id!",
                          parent_event_id, parent_execution_id,
                          greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                          coalesce(event_type, '') AS "event_type!", node_id, node_name, node_type, status, duration,
                          CASE WHEN 'context' = ANY($3) THEN context::text END AS "context: Text",
                          CASE WHEN 'result' = ANY($3) THEN result::text END AS "result: Text",
                          CASE WHEN 'meta' = ANY($3) THEN meta::text END AS "meta: Text",
                          CASE WHEN 'error' = ANY($3) THEN error END AS error,
                          CASE WHEN 'stack_trace' = ANY($3) THEN stack_trace END AS stack_trace,
                          tenant_id AS "tenant_id!", organization_id AS "organization_id!"
                   FROM (
                       SELECT page.* FROM "# + $source + r#" AS source CROSS JOIN LATERAL (
                           SELECT * FROM noetl.event
                           WHERE "# + $rows + r#"
                             AND (noetl.list_time(created_at AT TIME ZONE 'UTC'), event_id, execution_id) > ($4, $5, $6)
                             AND (noetl.list_time(created_at AT TIME ZONE 'UTC'), event_id, execution_id) < ($7, $8, $9)
                             AND ($11::text[] IS NULL OR event_type LIKE ANY($11))
                             AND ($12::text[] IS NULL OR node_name = ANY($12))
                             AND ($13::text[] IS NULL OR status = ANY($13))
                             AND ($14::bigint[] IS NULL OR execution_id = ANY($14))
                             AND ($15::bigint IS NULL OR parent_execution_id = $15)
                             AND ($16::text IS NULL OR tenant_id = $16)
                             AND ($17::text IS NULL OR tenant_id = $17) AND ($18::text IS NULL OR organization_id = $18)
                             AND ($19::text[] IS NULL OR true) AND ($20::text[] IS NULL OR true)
                             AND ($21::text IS NULL OR pg_visible_in_snapshot(tx_id, $21::text::pg_snapshot))
                           ORDER BY "# + $order + r#" LIMIT $10
                       ) AS page
                       ORDER BY "# + $order + r#" LIMIT $10
                   ) AS page"#,
                &stems,
                &open,
                columns.names(),
                range.above.at,
                range.above.event_id,
                range.above.execution_id,
                range.below.at,
                range.below.event_id,
                range.below.execution_id,
                range.limit,
                type_patterns.as_deref(),
                event.node_names.as_deref(),
                event.statuses.as_deref(),
                executions.as_deref(),
                event.parent_execution_id.map(Id::get),
                scope.tenant(),
                event.tenant_id.as_deref(),
                event.organization_id.as_deref(),
                nodes.as_deref(),
                statuses.as_deref(),
                within.map(TxSnapshot::to_string),
            )
            .fetch_all(shard.pool())
        };
    }
    macro_rules! directed {
        ($source:literal, $rows:literal) => {
            if range.descending {
                shard
                    .run(listed!(
                        $source,
                        $rows,
                        "noetl.list_time(created_at AT TIME ZONE 'UTC') DESC, event_id DESC, execution_id DESC"
                    ))
                    .await?
            } else {
                shard
                    .run(listed!(
                        $source,
                        $rows,
                        "noetl.list_time(created_at AT TIME ZONE 'UTC'), event_id, execution_id"
                    ))
                    .await?
            }
        };
    }
    let rows = if executions.is_some() {
        directed!("(SELECT DISTINCT unnest($14::bigint[]) AS id)", "execution_id = source.id")
    } else if nodes.is_some() {
        directed!(
            "(SELECT DISTINCT unnest($19::text[]) AS node)",
            r#"left(node_name, 255) COLLATE "C" = source.node AND node_name IS NOT NULL"#
        )
    } else {
        directed!(
            "(SELECT DISTINCT type, status FROM kind WHERE $20::text[] IS NULL OR status = ANY($20))",
            r#"left(coalesce(event_type, ''), 255) COLLATE "C" = source.type
               AND left(coalesce(event.status, ''), 255) COLLATE "C" = source.status"#
        )
    };
    Ok(rows.into_iter().map(Event::from).collect())
}
