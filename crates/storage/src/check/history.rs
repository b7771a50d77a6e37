//! Hours of the history of executions, compared with the executions.
//!
//! An hour is compared in one statement with its progress and its note: what is not computed, final or noted as late is no
//! difference. Such a statement reads the executions of an hour, so it has the time limit of the task that computes the rows.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgConnection;

use super::Pages;
use crate::error::StorageError;
use crate::execution_history_close::{DAY, DAYS_COUNTED, HOUR, MINUTES_KEPT, start};
use crate::execution_history_rows::{of_day, of_spans};
use crate::pools::Database;
use crate::view::View;
use noetl_domain::history::Interval;

/// Time limit of a statement that compares rows.
const TIME_LIMIT: &str = "SET statement_timeout = '5min'";

/// Returns up to `limit` of the closed hours after an hour that have rows or executions, in order. Final hours are left
/// out, because their executions are deleted.
#[tracing::instrument(level = "debug", name = "sql.check.history_hours", skip_all, fields(database = %pages.name()))]
pub async fn hours(
    pages: &mut Pages<'_>,
    view: &View<'_>,
    after: Option<DateTime<Utc>>,
    limit: i64,
) -> Result<Vec<DateTime<Utc>>, StorageError> {
    let buckets = view.buckets();
    let hours = sqlx::query_scalar!(
        r#"WITH RECURSIVE found AS (
               SELECT low - interval '1 hour' AS hour, low, high FROM (
                   SELECT greatest(final_to, noetl.span_start(now() - make_interval(days => $2), 3600),
                                   $3::timestamptz + interval '1 hour') AS low,
                          noetl.span_start(closed_to, 3600) AS high
                   FROM noetl.execution_history_progress WHERE held = $1::bytea AND closed_to IS NOT NULL
               ) AS bound
               UNION ALL
               SELECT noetl.span_start(least(
                          (SELECT noetl.list_time(start_time) FROM noetl.execution
                           WHERE noetl.list_time(start_time) >= found.hour + interval '1 hour'
                           ORDER BY noetl.list_time(start_time) LIMIT 1),
                          (SELECT end_time FROM noetl.execution
                           WHERE end_time >= found.hour + interval '1 hour' ORDER BY end_time LIMIT 1),
                          (SELECT min(first.at) FROM unnest(ARRAY[60, 3600, 86400]) AS length (span)
                           CROSS JOIN LATERAL (
                               SELECT at FROM noetl.execution_history AS history
                               WHERE history.span = length.span AND at >= found.hour + interval '1 hour'
                               ORDER BY at LIMIT 1
                           ) AS first)), 3600), low, high
               FROM found WHERE found.hour < high
           )
           SELECT hour AS "hour!" FROM found WHERE hour >= low AND hour < high LIMIT $4"#,
        buckets.as_slice(),
        DAYS_COUNTED,
        after,
        limit,
    );
    pages.database.run(hours.fetch_all(&mut pages.connection)).await
}

/// Returns the hours of which the rows of the hour, of its minutes or of its day differ from those that the executions give,
/// with the length of these rows. A day is compared with its first hour that is given.
#[tracing::instrument(
    level = "debug", name = "sql.check.history_differs", skip_all,
    fields(database = %view.name(), count = hours.len(), first = hours.first().map(tracing::field::display))
)]
pub async fn differing(
    view: &View<'_>,
    hours: &[DateTime<Utc>],
) -> Result<Vec<(DateTime<Utc>, Interval)>, StorageError> {
    let mut pages = Pages::of(view.database()).await?;
    let connection = &mut pages.connection;
    let work = async {
        sqlx::raw_sql(TIME_LIMIT).execute(&mut *connection).await?;
        let (mut found, mut days) = (Vec::new(), BTreeSet::new());
        for hour in hours {
            for interval in [Interval::Hour, Interval::Minute] {
                if spans_differ(connection, view, interval.seconds(), *hour).await? {
                    found.push((*hour, interval));
                }
            }
            let day = start(*hour, DAY);
            if days.insert(day) && day_differs(connection, view, day).await? {
                found.push((*hour, Interval::Day));
            }
        }
        Ok(found)
    };
    work.await.map_err(|error: sqlx::Error| view.failed(error))
}

/// Returns whether the rows of a length in an hour differ; false if they are not comparable.
async fn spans_differ(
    connection: &mut PgConnection,
    view: &View<'_>,
    span: i32,
    hour: DateTime<Utc>,
) -> sqlx::Result<bool> {
    let (buckets, counted) = (view.buckets(), view.counted());
    let differs = of_spans!(
        query_scalar!,
        "WITH expected AS MATERIALIZED (",
        r#"), stored AS MATERIALIZED (
               SELECT span, at, tenant_id, organization_id, path, execution_pool, started, completed, failed, cancelled,
                      classes, counts, wait_classes, wait_counts
               FROM noetl.execution_history WHERE span = $1 AND at >= $2 AND at < $3
           )
           SELECT EXISTS (SELECT * FROM expected EXCEPT ALL SELECT * FROM stored)
                  OR EXISTS (SELECT * FROM stored EXCEPT ALL SELECT * FROM expected) AS "differs!"
           FROM noetl.execution_history_progress
           WHERE held = $8 AND final_to <= $2 AND closed_to >= $3
             AND ($1 <> 60 OR $3 > now() - make_interval(secs => $9))
             AND NOT EXISTS (SELECT FROM noetl.execution_history_late AS late
                             WHERE late.hour >= $2 AND late.hour < $3)"#,
        span,
        hour,
        hour + TimeDelta::seconds(HOUR.into()),
        counted.as_deref(),
        buckets.as_slice(),
        MINUTES_KEPT.as_seconds_f64(),
    );
    Ok(differs.fetch_optional(connection).await? == Some(true))
}

/// Returns whether the rows of a day differ from those of its hours; false if they are not comparable.
async fn day_differs(connection: &mut PgConnection, view: &View<'_>, day: DateTime<Utc>) -> sqlx::Result<bool> {
    let buckets = view.buckets();
    let differs = of_day!(
        query_scalar!,
        "WITH expected AS MATERIALIZED (",
        r#"), stored AS MATERIALIZED (
               SELECT span, at, tenant_id, organization_id, path, execution_pool, started, completed, failed, cancelled,
                      classes, counts, wait_classes, wait_counts
               FROM noetl.execution_history WHERE span = 86400 AND at = $1
           )
           SELECT EXISTS (SELECT * FROM expected EXCEPT ALL SELECT * FROM stored)
                  OR EXISTS (SELECT * FROM stored EXCEPT ALL SELECT * FROM expected) AS "differs!"
           FROM noetl.execution_history_progress
           WHERE held = $2 AND final_to <= $1 AND closed_to >= $1 + interval '1 day'
             AND $1 >= now() - make_interval(days => $3)
             AND NOT EXISTS (SELECT FROM noetl.execution_history_late AS late
                             WHERE late.hour >= $1 AND late.hour < $1 + interval '1 day')"#,
        day,
        buckets.as_slice(),
        DAYS_COUNTED,
    );
    Ok(differs.fetch_optional(connection).await? == Some(true))
}

/// Notes hours as late, so that reads count their executions until the task computes the rows again. An hour without a
/// difference gets the same numbers again.
#[tracing::instrument(
    level = "debug", name = "sql.check.note_hours", skip_all,
    fields(database = %shard.name(), count = hours.len())
)]
pub async fn note(shard: &Database, hours: &[DateTime<Utc>]) -> Result<(), StorageError> {
    let insert =
        sqlx::query!("INSERT INTO noetl.execution_history_late (hour) SELECT unnest($1::timestamptz[])", hours,);
    shard.run(insert.execute(shard.pool())).await?;
    Ok(())
}
