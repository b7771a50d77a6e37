//! Reads of the history of executions with labels.
//!
//! The rows of the history have no labels, so the executions are counted: those with the rarest label or, if each label
//! has too many, those that started or ended in the time. If these are too many also, the read is refused. Deleted
//! executions are not counted. Otherwise, the numbers are exact at any moment.

use super::budget::{Exceeded, Resource};
use super::error::StorageError;
use super::execution_counts::{in_time, rarest};
use super::execution_history::{HistoryFilter, SpanCounts};
use super::execution_sources::{Rival, entries_of, is_indexed};
use super::executions::stored_names;
use super::label_path::label_path;
use super::view::View;
use noetl_domain::execution::Status;
use noetl_domain::history::{Interval, Spans};
use noetl_domain::tenant::Scope;

/// Maximum number of executions with a label, or of starts and ends in the time, that are read on a shard.
const MAX_READ: i64 = 20_000;

/// Returns the numbers of the executions in the scope for each of the spans that has any, oldest first.
#[tracing::instrument(
    level = "debug", name = "sql.execution_history.read_labelled", skip_all, fields(database = %shard.name())
)]
pub async fn read(
    shard: View<'_>,
    scope: &Scope,
    filter: &HistoryFilter,
    interval: Interval,
    spans: &Spans,
) -> Result<Vec<SpanCounts>, StorageError> {
    let (own, wanted) = (scope.tenant(), filter.tenant_id.as_deref());
    if own.is_some() && wanted.is_some() && own != wanted {
        return Ok(Vec::new());
    }
    let tenant = own.or(wanted);
    let rivals: Vec<Rival> = filter.labels.iter().map(|label| Rival::Label(entries_of(label))).collect();
    let found = rarest(&shard, tenant.filter(|tenant| is_indexed(tenant)), &rivals, MAX_READ + 1).await?;
    let entries = found.and_then(|rival| match rival {
        Rival::Label(entries) => Some(entries.as_slice()),
        Rival::Ended(..) => None,
    });
    if entries.is_none() {
        let count = in_time(&shard, spans.from, spans.to, MAX_READ + 1).await?;
        if count > MAX_READ {
            let (allowed, actual) = (MAX_READ.cast_unsigned(), count.cast_unsigned());
            let limit = Resource::LabelledExecutions;
            return Err(StorageError::LimitExceeded(Exceeded { limit, allowed, actual }));
        }
    }
    shard.run(select(&shard, tenant, filter, entries, interval, spans)).await
}

/// Returns the numbers of the executions of a tenant; `None`: of all. They are read along these entries of the index of
/// labels; `None`: along the time.
async fn select(
    shard: &View<'_>,
    tenant: Option<&str>,
    filter: &HistoryFilter,
    entries: Option<&[String]>,
    interval: Interval,
    spans: &Spans,
) -> sqlx::Result<Vec<SpanCounts>> {
    let (counted, labels) = (shard.counted(), label_path(&filter.labels));
    let rows = sqlx::query_as!(
        SpanCounts,
        r#"WITH candidate AS MATERIALIZED (
               -- The limits are none. But to the planner they are unknown, so it reads along the index that has the order.
               SELECT found.execution_id FROM unnest($13::text[]) AS wanted (label) CROSS JOIN LATERAL (
                   SELECT execution_id FROM noetl.execution_label
                   WHERE $14::text IS NULL AND execution_label.label = wanted.label
                   ORDER BY label_status LIMIT (SELECT NULL::bigint)
               ) AS found
               UNION
               SELECT found.execution_id FROM unnest($13::text[]) AS wanted (label) CROSS JOIN LATERAL (
                   SELECT execution_id FROM noetl.execution_label
                   WHERE label_tenant <> 'default' AND label_tenant = $14
                     AND CASE WHEN label_tenant <> 'default' THEN execution_label.label END = wanted.label
                   ORDER BY label_status LIMIT (SELECT NULL::bigint)
               ) AS found
               UNION
               SELECT execution_id FROM noetl.execution
               WHERE $13::text[] IS NULL AND noetl.list_time(start_time) >= $2::timestamptz
                 AND noetl.list_time(start_time) < $3::timestamptz
               UNION
               SELECT execution_id FROM noetl.execution
               WHERE $13::text[] IS NULL AND end_time IS NOT NULL AND end_time >= $2 AND end_time < $3
           ), labelled AS MATERIALIZED (
               SELECT execution.* FROM candidate CROSS JOIN LATERAL (
                   SELECT start_time, end_time, first_step_time, upper(status) AS status FROM noetl.execution
                   WHERE execution.execution_id = candidate.execution_id
                     AND CASE WHEN labels @@ $12::text::jsonpath
                              AND ($4::text[] IS NULL OR path = ANY($4))
                              AND ($5::text[] IS NULL OR execution_pool = ANY($5))
                              AND ($6::text IS NULL OR tenant_id = $6) AND ($7::text IS NULL OR organization_id = $7)
                              AND ($11::bytea IS NULL OR get_bit($11, noetl.bucket_of(execution.execution_id)) = 1)
                         THEN true ELSE false END
                   -- So that each execution is read along the primary key.
                   OFFSET 0
               ) AS execution
           ), live AS MATERIALIZED (
               SELECT noetl.span_start(start_time, $1::integer) AS at, true AS begun, status,
                      NULL::smallint AS class, NULL::smallint AS wait_class
               FROM labelled
               WHERE isfinite(start_time) AND noetl.list_time(start_time) >= $2 AND noetl.list_time(start_time) < $3
               UNION ALL
               SELECT noetl.span_start(end_time, $1), false, status, noetl.history_class(start_time, end_time),
                      noetl.history_class(start_time, first_step_time)
               FROM labelled
               WHERE end_time >= $2 AND end_time < $3 AND status = ANY($8::text[] || $9::text[] || $10::text[])
           ), summed AS (
               SELECT at, count(*) FILTER (WHERE begun) AS started,
                      count(*) FILTER (WHERE NOT begun AND status = ANY($8)) AS completed,
                      count(*) FILTER (WHERE NOT begun AND status = ANY($9)) AS failed,
                      count(*) FILTER (WHERE NOT begun AND status = ANY($10)) AS cancelled
               FROM live GROUP BY at
           ), classed AS (
               SELECT at, false AS waits, class, count(*) AS number FROM live WHERE class IS NOT NULL GROUP BY at, class
               UNION ALL
               SELECT at, true, wait_class, count(*) FROM live WHERE wait_class IS NOT NULL GROUP BY at, wait_class
           ), listed AS (
               SELECT at, array_agg(class) FILTER (WHERE NOT waits) AS classes,
                      array_agg(number) FILTER (WHERE NOT waits) AS counts,
                      array_agg(class) FILTER (WHERE waits) AS wait_classes,
                      array_agg(number) FILTER (WHERE waits) AS wait_counts
               FROM classed GROUP BY at
           )
           SELECT summed.at AS "at!", started AS "started!", completed AS "completed!", failed AS "failed!",
                  cancelled AS "cancelled!", coalesce(classes, '{}') AS "classes!", coalesce(counts, '{}') AS "counts!",
                  coalesce(wait_classes, '{}') AS "wait_classes!", coalesce(wait_counts, '{}') AS "wait_counts!"
           FROM summed LEFT JOIN listed ON listed.at = summed.at ORDER BY summed.at"#,
        interval.seconds(),
        spans.from,
        spans.to,
        filter.paths.as_deref(),
        filter.execution_pools.as_deref(),
        tenant,
        filter.organization_id.as_deref(),
        &stored_names(&[Status::Completed]),
        &stored_names(&[Status::Failed]),
        &stored_names(&[Status::Cancelled]),
        counted.as_deref(),
        labels,
        entries,
        tenant.filter(|tenant| is_indexed(tenant)),
    );
    rows.fetch_all(shard.pool()).await
}
