//! The rows of the history of executions as they follow from the executions and from each other. The task that computes rows
//! stores them ([`super::execution_history_close`]), and `check` compares the stored ones with them
//! ([`super::check::history`]).

/// Expands to a statement with the rows of spans of a length between two times. `before` and `after` surround the query of the
/// rows, which begins with `WITH`. The first argument is the macro of sqlx. The parameters 1 to 7 are the length in seconds,
/// both times, the names of the statuses completed, failed and cancelled, and the bits of the buckets whose executions are
/// counted (null: of all). Those of the surroundings follow.
macro_rules! of_spans {
    (
        $query:ident!, $before:literal, $after:literal, $span:expr, $from:expr, $to:expr, $counted:expr
        $(, $argument:expr)* $(,)?
    ) => {
        sqlx::$query!(
            $before
                + "WITH ended AS MATERIALIZED (
                 SELECT noetl.span_start(end_time, $1::integer) AS at, tenant_id, organization_id,
                        coalesce(path, '') AS path, coalesce(execution_pool, '') AS execution_pool,
                        count(*) FILTER (WHERE upper(status) = ANY($4::text[])) AS completed,
                        count(*) FILTER (WHERE upper(status) = ANY($5::text[])) AS failed,
                        count(*) FILTER (WHERE upper(status) = ANY($6::text[])) AS cancelled, count(*) AS number,
                        noetl.history_class(start_time, end_time) AS class,
                        noetl.history_class(start_time, first_step_time) AS wait_class
                 FROM noetl.execution
                 WHERE end_time >= $2::timestamptz AND end_time < $3::timestamptz
                   AND upper(status) = ANY($4::text[] || $5::text[] || $6::text[])
                   AND CASE WHEN $7::bytea IS NULL THEN true
                            ELSE get_bit($7, noetl.bucket_of(execution_id)) = 1 END
                 GROUP BY 1, 2, 3, 4, 5, 10, 11
             ), counted AS (
                 SELECT noetl.span_start(start_time, $1) AS at, tenant_id, organization_id, coalesce(path, '') AS path,
                        coalesce(execution_pool, '') AS execution_pool, count(*) AS started, 0::bigint AS completed,
                        0::bigint AS failed, 0::bigint AS cancelled, NULL::smallint AS class,
                        NULL::smallint AS wait_class, 0::bigint AS number
                 FROM noetl.execution
                 WHERE noetl.list_time(start_time) >= $2 AND noetl.list_time(start_time) < $3
                   AND CASE WHEN $7 IS NULL THEN true ELSE get_bit($7, noetl.bucket_of(execution_id)) = 1 END
                 GROUP BY 1, 2, 3, 4, 5
                 UNION ALL
                 SELECT at, tenant_id, organization_id, path, execution_pool, 0, sum(completed)::bigint,
                        sum(failed)::bigint, sum(cancelled)::bigint, class, NULL, sum(number)::bigint
                 FROM ended GROUP BY at, tenant_id, organization_id, path, execution_pool, class
                 UNION ALL
                 SELECT at, tenant_id, organization_id, path, execution_pool, 0, 0, 0, 0, NULL, wait_class,
                        sum(number)::bigint
                 FROM ended WHERE wait_class IS NOT NULL
                 GROUP BY at, tenant_id, organization_id, path, execution_pool, wait_class
             )
             SELECT $1::integer AS span, at, tenant_id, organization_id, path, execution_pool,
                    sum(started)::bigint AS started, sum(completed)::bigint AS completed,
                    sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled,
                    coalesce(array_agg(class ORDER BY class) FILTER (WHERE class IS NOT NULL), '{}') AS classes,
                    coalesce(array_agg(number ORDER BY class) FILTER (WHERE class IS NOT NULL), '{}') AS counts,
                    coalesce(array_agg(wait_class ORDER BY wait_class) FILTER (WHERE wait_class IS NOT NULL), '{}')
                        AS wait_classes,
                    coalesce(array_agg(number ORDER BY wait_class) FILTER (WHERE wait_class IS NOT NULL), '{}')
                        AS wait_counts
             FROM counted GROUP BY at, tenant_id, organization_id, path, execution_pool"
                + $after,
            $span,
            $from,
            $to,
            &crate::executions::stored_names(&[noetl_domain::execution::Status::Completed]),
            &crate::executions::stored_names(&[noetl_domain::execution::Status::Failed]),
            &crate::executions::stored_names(&[noetl_domain::execution::Status::Cancelled]),
            $counted
            $(, $argument)*
        )
    };
}

/// Expands to a statement with the rows of the day that begins at a time, as the sums of those of its hours. `before` and
/// `after` surround the query of the rows, which begins with `WITH`. The first argument is the macro of sqlx. The first
/// parameter is the start of the day; those of the surroundings follow.
macro_rules! of_day {
    ($query:ident!, $before:literal, $after:literal, $day:expr $(, $argument:expr)* $(,)?) => {
        sqlx::$query!(
            $before
                + "WITH of_hour AS MATERIALIZED (
                 SELECT * FROM noetl.execution_history
                 WHERE span = 3600 AND at >= $1::timestamptz AND at < $1::timestamptz + interval '1 day'
             ), number AS (
                 SELECT tenant_id, organization_id, path, execution_pool, started, completed, failed, cancelled,
                        NULL::boolean AS waits, NULL::smallint AS class, NULL::bigint AS number
                 FROM of_hour
                 UNION ALL
                 SELECT tenant_id, organization_id, path, execution_pool, 0, 0, 0, 0, waits, class,
                        sum(number)::bigint
                 FROM of_hour CROSS JOIN LATERAL (
                     SELECT false AS waits, * FROM unnest(classes, counts) AS pair (class, number)
                     UNION ALL SELECT true, * FROM unnest(wait_classes, wait_counts) AS pair (class, number)
                 ) AS each
                 GROUP BY tenant_id, organization_id, path, execution_pool, waits, class
             )
             SELECT 86400 AS span, $1::timestamptz AS at, tenant_id, organization_id, path, execution_pool,
                    sum(started)::bigint AS started, sum(completed)::bigint AS completed,
                    sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled,
                    coalesce(array_agg(class ORDER BY class) FILTER (WHERE NOT waits), '{}') AS classes,
                    coalesce(array_agg(number ORDER BY class) FILTER (WHERE NOT waits), '{}') AS counts,
                    coalesce(array_agg(class ORDER BY class) FILTER (WHERE waits), '{}') AS wait_classes,
                    coalesce(array_agg(number ORDER BY class) FILTER (WHERE waits), '{}') AS wait_counts
             FROM number GROUP BY tenant_id, organization_id, path, execution_pool"
                + $after,
            $day
            $(, $argument)*
        )
    };
}

pub(super) use {of_day, of_spans};
