//! Reads of the history of executions.
//!
//! Minutes, hours and days that are closed are read from their rows ([`super::execution_history_close`]), and the time since
//! then from `noetl.execution`, in one statement, so that no execution is counted twice. The executions of an hour with a late
//! change are counted too, until the hour is computed again; and if the rows were computed with other buckets than the shard
//! has now, all from where the rows are final. So the numbers are exact at any moment.
//!
//! The rows have no labels. So for a condition on labels the executions are counted: those with the rarest label or, if
//! each label has too many, those that started or ended in the time. If these are too many also, the read is refused.
//! Deleted executions are not counted. Otherwise, the numbers are exact too.

use chrono::{DateTime, Utc};

use super::budget::{Exceeded, Resource};
use super::error::StorageError;
use super::execution_counts::{in_time, rarest};
use super::execution_sources::{Rival, entries_of, is_indexed};
use super::executions::stored_names;
use super::label_path::label_path;
use super::view::View;
use noetl_domain::execution::Status;
use noetl_domain::history::{Interval, Spans};
use noetl_domain::labels::LabelCondition;
use noetl_domain::tenant::Scope;

/// Maximum number of executions with a label, or of starts and ends in the time, that are read on a shard.
const MAX_READ: i64 = 20_000;

/// Conditions of the history; an execution must meet all that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Paths to include; default: all.
    pub paths: Option<Vec<String>>,
    /// Pools to include; default: all, and executions that name none.
    pub execution_pools: Option<Vec<String>>,
    /// Tenant.
    pub tenant_id: Option<String>,
    /// Organization.
    pub organization_id: Option<String>,
    /// Conditions on labels, all of which must be met.
    pub labels: Vec<LabelCondition>,
}

/// Numbers of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanCounts {
    /// Start of the span.
    pub at: DateTime<Utc>,
    /// Executions that started in it.
    pub started: i64,
    /// Executions that were completed in it.
    pub completed: i64,
    /// Executions that failed in it.
    pub failed: i64,
    /// Executions that were cancelled in it.
    pub cancelled: i64,
    /// Classes of the durations of those that ended.
    pub classes: Vec<i16>,
    /// Number of executions for each class.
    pub counts: Vec<i64>,
    /// Classes of the waits until the first step of those that ended, if they had one.
    pub wait_classes: Vec<i16>,
    /// Number of executions for each class of waits.
    pub wait_counts: Vec<i64>,
}

/// Returns the numbers of the executions in the scope for each of the spans that has any, oldest first.
#[tracing::instrument(level = "debug", name = "sql.execution_history.read", skip_all, fields(database = %shard.name()))]
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
    if filter.labels.is_empty() {
        return shard.run(select(&shard, tenant, filter, interval, spans)).await;
    }
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
    shard.run(select_labelled(&shard, tenant, filter, entries, interval, spans)).await
}

/// Returns the numbers of the executions of a tenant, with any labels; `None`: of all.
#[expect(clippy::too_many_lines, reason = "one statement")]
async fn select(
    shard: &View<'_>,
    tenant: Option<&str>,
    filter: &HistoryFilter,
    interval: Interval,
    spans: &Spans,
) -> sqlx::Result<Vec<SpanCounts>> {
    let (buckets, counted) = (shard.buckets(), shard.counted());
    let rows = sqlx::query_as!(
        SpanCounts,
        r#"WITH progress AS MATERIALIZED (
               SELECT coalesce(CASE WHEN held = $12::bytea THEN closed_to END, final_to) AS closed_to, final_to
               FROM noetl.execution_history_progress
           ), bound AS MATERIALIZED (
               SELECT closed_to,
                      CASE WHEN $1::integer >= 3600 THEN noetl.span_start(closed_to, 3600) ELSE '-infinity' END AS hours_to,
                      CASE WHEN $1::integer >= 86400 THEN noetl.span_start(closed_to, 86400) ELSE '-infinity' END AS days_to
               FROM progress
           ), late AS MATERIALIZED (
               SELECT DISTINCT hour FROM progress CROSS JOIN noetl.execution_history_late
               WHERE hour >= greatest(final_to, noetl.span_start($2::timestamptz, 3600))
                 AND hour < least($3::timestamptz, closed_to)
           ), outdated AS MATERIALIZED (
               SELECT 3600 AS span, hour AS at FROM late
               UNION SELECT 86400, noetl.span_start(hour, 86400) FROM late
           ), part AS MATERIALIZED (
               SELECT 86400 AS span, $2::timestamptz AS low, least($3::timestamptz, days_to) AS high FROM bound
               UNION ALL
               SELECT 3600, greatest($2, days_to), least($3, hours_to) FROM bound
               UNION ALL
               SELECT 60, greatest($2, hours_to), least($3, closed_to) FROM bound
               UNION ALL
               -- The hours of a day of which one is outdated.
               SELECT 3600, at, at + interval '1 day' FROM outdated CROSS JOIN bound WHERE span = 86400 AND at < days_to
           ), stored AS MATERIALIZED (
               -- `OFFSET 0`, here and below, so that each part is read along the index.
               SELECT found.* FROM part CROSS JOIN LATERAL (
                   SELECT history.span, at, started, completed, failed, cancelled, classes, counts,
                          wait_classes, wait_counts
                   FROM noetl.execution_history AS history
                   WHERE history.span = part.span AND at >= low AND at < high
                     -- The first two conditions are evaluated before any row is read, also in a generic plan.
                     AND $4::text[] IS NULL AND ($6::text IS NULL OR $6 = 'default')
                     AND ($6::text IS NULL OR tenant_id = $6)
                     AND ($5::text[] IS NULL OR execution_pool = ANY($5))
                     AND ($7::text IS NULL OR organization_id = $7)
                   OFFSET 0
               ) AS found
               UNION ALL
               SELECT found.* FROM part CROSS JOIN LATERAL (
                   SELECT history.span, at, started, completed, failed, cancelled, classes, counts,
                          wait_classes, wait_counts
                   FROM noetl.execution_history AS history
                   WHERE history.span = part.span AND noetl.list_time(at, 1) >= low AND noetl.list_time(at, 1) < high
                     AND $4::text[] IS NULL AND tenant_id = $6 AND tenant_id <> 'default'
                     AND ($5::text[] IS NULL OR execution_pool = ANY($5))
                     AND ($7::text IS NULL OR organization_id = $7)
                   OFFSET 0
               ) AS found
               UNION ALL
               SELECT found.* FROM part CROSS JOIN LATERAL (
                   SELECT history.span, at, started, completed, failed, cancelled, classes, counts,
                          wait_classes, wait_counts
                   FROM noetl.execution_history AS history
                   WHERE history.span = part.span AND noetl.list_time(at, 2) >= low AND noetl.list_time(at, 2) < high
                     AND $4::text[] IS NOT NULL AND path = ANY($4) AND md5(path) = ANY(ARRAY(SELECT md5(wanted) FROM unnest($4) AS wanted))
                     AND ($6::text IS NULL OR tenant_id = $6)
                     AND ($5::text[] IS NULL OR execution_pool = ANY($5))
                     AND ($7::text IS NULL OR organization_id = $7)
                   OFFSET 0
               ) AS found
           ), valid AS MATERIALIZED (
               SELECT at, started, completed, failed, cancelled, classes, counts, wait_classes, wait_counts FROM stored
               WHERE NOT EXISTS (
                   SELECT FROM outdated
                   WHERE outdated.span = greatest(stored.span, 3600)
                     AND outdated.at = noetl.span_start(stored.at, greatest(stored.span, 3600)))
           ), uncounted AS MATERIALIZED (
               SELECT greatest($2, hour) AS low, least($3, hour + interval '1 hour', closed_to) AS high
               FROM late CROSS JOIN bound
               UNION ALL
               SELECT greatest($2, closed_to), $3 FROM bound
           ), live AS MATERIALIZED (
               SELECT begun.* FROM uncounted CROSS JOIN LATERAL (
                   SELECT start_time AS at, 1 AS started, 0 AS completed, 0 AS failed, 0 AS cancelled,
                          NULL::smallint AS class, NULL::smallint AS wait_class
                   FROM noetl.execution
                   WHERE noetl.list_time(start_time) >= low AND noetl.list_time(start_time) < high
                     AND CASE WHEN isfinite(start_time)
                              AND ($4::text[] IS NULL OR path = ANY($4))
                              AND ($5::text[] IS NULL OR execution_pool = ANY($5))
                              AND ($6::text IS NULL OR tenant_id = $6) AND ($7::text IS NULL OR organization_id = $7)
                              AND ($11::bytea IS NULL OR get_bit($11, noetl.bucket_of(execution_id)) = 1)
                         THEN true ELSE false END
                   OFFSET 0
               ) AS begun
               UNION ALL
               SELECT ended.* FROM uncounted CROSS JOIN LATERAL (
                   SELECT end_time, 0, (upper(status) = ANY($8::text[]))::integer,
                          (upper(status) = ANY($9::text[]))::integer, (upper(status) = ANY($10::text[]))::integer,
                          noetl.history_class(start_time, end_time), noetl.history_class(start_time, first_step_time)
                   FROM noetl.execution
                   WHERE end_time >= low AND end_time < high
                     AND CASE WHEN upper(status) = ANY($8::text[] || $9::text[] || $10::text[])
                              AND ($4::text[] IS NULL OR path = ANY($4))
                              AND ($5::text[] IS NULL OR execution_pool = ANY($5))
                              AND ($6::text IS NULL OR tenant_id = $6) AND ($7::text IS NULL OR organization_id = $7)
                              AND ($11::bytea IS NULL OR get_bit($11, noetl.bucket_of(execution_id)) = 1)
                         THEN true ELSE false END
                   OFFSET 0
               ) AS ended
           ), summed AS (
               SELECT noetl.span_start(at, $1) AS at, sum(started)::bigint AS started, sum(completed)::bigint AS completed,
                      sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled
               FROM (SELECT at, started, completed, failed, cancelled FROM valid
                     UNION ALL SELECT at, started, completed, failed, cancelled FROM live) AS each
               GROUP BY 1
           ), classed AS (
               SELECT at, waits, class, sum(number)::bigint AS number
               FROM (SELECT noetl.span_start(at, $1) AS at, false AS waits, class, number
                     FROM valid CROSS JOIN LATERAL unnest(classes, counts) AS pair (class, number)
                     UNION ALL
                     SELECT noetl.span_start(at, $1), true, class, number
                     FROM valid CROSS JOIN LATERAL unnest(wait_classes, wait_counts) AS pair (class, number)
                     UNION ALL SELECT noetl.span_start(at, $1), false, class, 1 FROM live WHERE class IS NOT NULL
                     UNION ALL
                     SELECT noetl.span_start(at, $1), true, wait_class, 1 FROM live WHERE wait_class IS NOT NULL) AS each
               GROUP BY at, waits, class
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
        buckets.as_slice(),
    );
    rows.fetch_all(shard.pool()).await
}

/// Returns the numbers of the executions of a tenant that have the labels of the filter; `None`: of all. They are read
/// along these entries of the index of labels; `None`: along the time.
async fn select_labelled(
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
