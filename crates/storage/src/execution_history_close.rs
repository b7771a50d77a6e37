//! Computation of the history of executions: the rows of closed minutes, hours and days.
//!
//! A row is computed from the executions of its span, and not counted with each change, so a repeated, late or reordered
//! change counts once. A trigger on `noetl.execution` notes the hours of late changes: those more than a minute after the
//! start or the end that they concern. So the executions of a time can be read when it is more than a minute ago and all
//! transactions of then have ended. The hours that are noted later are computed again. A day is added up from its hours.
//!
//! The retention makes hours final and deletes their executions in one statement ([`super::retention`]). A transaction that
//! computes rows first locks the progress, so the hours that it computes do not become final before it ends.
//!
//! One process at a time computes the rows of a shard. It holds an advisory lock until its connection is closed.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{Connection, PgConnection};

use super::error::StorageError;
use super::execution_history_rows::{of_day, of_spans};
use super::view::View;

/// Settings of the connection. The executions are found by indexes, also if the planner has no statistics.
const SETTINGS: &str = "SET statement_timeout = '5min'; SET lock_timeout = '5s'; SET enable_seqscan = off";
/// Length of a minute's span in seconds.
const MINUTE: i32 = 60;
/// Length of an hour's span in seconds.
pub(super) const HOUR: i32 = 3600;
/// Length of a day's span in seconds.
pub(super) const DAY: i32 = 86400;
/// Time for which the rows of minutes are complete. [`Closing::end`] deletes those that are 8 days old.
pub const MINUTES_KEPT: TimeDelta = TimeDelta::days(7);
/// Number of days for which the rows of hours and days are complete.
pub const DAYS_KEPT: i32 = 400;
/// Number of days whose executions are counted, so that the day that contains the oldest kept moment is complete.
pub(super) const DAYS_COUNTED: i32 = DAYS_KEPT + 1;
/// Number of days after which the rows of hours and days are deleted: a day is added up from all its hours.
const DAYS_STORED: i32 = DAYS_COUNTED + 1;

/// The exclusive right to compute the history of one shard.
#[derive(Debug)]
pub struct Closing<'a> {
    view: View<'a>,
    connection: PgConnection,
}

/// Time whose rows can be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Start: the end of the computed rows.
    pub from: DateTime<Utc>,
    /// End. Each change of an execution before it is visible or will be noted as late.
    pub to: DateTime<Utc>,
}

/// Progress that is locked until the end of a transaction.
#[derive(Debug)]
struct Progress {
    closed_to: DateTime<Utc>,
    now: DateTime<Utc>,
}

impl<'a> Closing<'a> {
    /// Takes the lock. `Ok(None)`: another process computes the rows.
    #[tracing::instrument(
        level = "debug", name = "sql.execution_history.take", skip_all,
        fields(database = %view.name())
    )]
    pub async fn take(view: View<'a>) -> Result<Option<Self>, StorageError> {
        let connection = view.database().exclusive_connection("noetl.execution_history", SETTINGS).await?;
        Ok(connection.map(|connection| Self { view, connection }))
    }

    /// Stores where the next rows end, if the last ones are computed: 5 minutes ago, when all transactions up to this one
    /// have ended. Begins where the rows are final, or at the oldest execution that is counted, if no rows are computed or
    /// the shard had other buckets then. Rows from before the beginning, which are not computed again, are deleted.
    ///
    /// The 5 minutes must be longer than the minute after which a change is noted as late by more than the largest step of
    /// the database's clock.
    ///
    /// A transaction id that is not smaller than the next one is of another server, from which the database was restored.
    #[tracing::instrument(
        level = "debug", name = "sql.execution_history.plan", skip_all,
        fields(database = %self.view.name())
    )]
    pub async fn plan(&mut self) -> Result<(), StorageError> {
        let buckets = self.view.buckets();
        let plan = sqlx::query!(
            "WITH due AS MATERIALIZED (
                 SELECT now() - make_interval(days => $2) AS counted_from, final_to AS kept_to,
                        closed_to IS NULL OR closed_to < final_to OR held IS DISTINCT FROM $1::bytea AS begins,
                        next_xid IS NULL OR next_to <= closed_to
                            OR next_xid >= pg_snapshot_xmax(pg_current_snapshot()) AS ends
                 FROM noetl.execution_history_progress
             ), first AS MATERIALIZED (
                 SELECT due.*, CASE WHEN begins AND kept_to >= counted_from THEN kept_to
                            WHEN begins THEN noetl.span_start(least(
                                (SELECT noetl.list_time(start_time) FROM noetl.execution
                                 WHERE noetl.list_time(start_time) >= counted_from
                                 ORDER BY noetl.list_time(start_time) LIMIT 1),
                                (SELECT end_time FROM noetl.execution
                                 WHERE end_time >= counted_from ORDER BY end_time LIMIT 1),
                                -- Transactions in progress may have written older ones.
                                now() - interval '1 hour'), 3600) END AS oldest
                 FROM due
             ), outdated AS (
                 DELETE FROM noetl.execution_history USING first WHERE begins AND at >= kept_to AND at < oldest
             )
             UPDATE noetl.execution_history_progress AS progress
             SET closed_to = CASE WHEN begins THEN greatest(oldest, final_to) ELSE closed_to END, held = $1,
                 next_to = CASE WHEN ends THEN noetl.span_start(clock_timestamp() - interval '5 minutes', 60)
                                ELSE next_to END,
                 next_xid = CASE WHEN ends THEN pg_current_xact_id() ELSE next_xid END
             FROM first WHERE begins OR ends",
            buckets.as_slice(),
            DAYS_COUNTED,
        );
        plan.execute(&mut self.connection).await.map_err(|error| self.view.failed(error))?;
        Ok(())
    }

    /// Returns the time whose rows can be computed. `Ok(None)`: an older transaction is in progress.
    #[tracing::instrument(
        level = "debug", name = "sql.execution_history.open", skip_all,
        fields(database = %self.view.name())
    )]
    pub async fn open(&mut self) -> Result<Option<Open>, StorageError> {
        let open = sqlx::query_as!(
            Open,
            r#"SELECT closed_to AS "from!", next_to AS "to!" FROM noetl.execution_history_progress
               WHERE pg_snapshot_xmin(pg_current_snapshot()) > next_xid AND closed_to < next_to"#,
        );
        open.fetch_optional(&mut self.connection).await.map_err(|error| self.view.failed(error))
    }

    /// Computes the next rows of an open time: up to the end of an hour, or of a day if the minutes are not kept. Returns the
    /// rest; `Ok(None)`: the time is closed, or an operator has reset the progress.
    #[tracing::instrument(
        level = "debug", name = "sql.execution_history.close", skip_all,
        fields(database = %self.view.name(), from = %open.from)
    )]
    pub async fn close(&mut self, open: Open) -> Result<Option<Open>, StorageError> {
        let (kept, hour, day) = (open.to - MINUTES_KEPT, start(open.from, HOUR), start(open.from, DAY));
        let next_day = day + TimeDelta::days(1);
        let to = if next_day <= kept { next_day } else { open.to.min(hour + TimeDelta::hours(1)) };
        let work = async {
            let mut tx = self.connection.begin().await?;
            let counted = self.view.counted();
            if locked(&mut tx, hour).await?.is_none_or(|progress| progress.closed_to != open.from) {
                return Ok(false);
            }
            if to > kept {
                compute(&mut tx, MINUTE, open.from, to, counted.as_deref()).await?;
            }
            if start(to, HOUR) > hour {
                compute(&mut tx, HOUR, hour, start(to, HOUR), counted.as_deref()).await?;
            }
            if start(to, DAY) > day {
                add_up(&mut tx, day).await?;
            }
            let update = sqlx::query!(
                "UPDATE noetl.execution_history_progress SET closed_to = $1 WHERE closed_to = $2",
                to,
                open.from,
            );
            let updated = update.execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            Ok(updated == 1)
        };
        let closed: sqlx::Result<bool> = work.await;
        let closed = closed.map_err(|error| self.view.failed(error))?;
        Ok((closed && to < open.to).then_some(Open { from: to, ..open }))
    }

    /// Returns up to `most` of the closed hours with late changes, and forgets those that are final or no longer counted.
    #[tracing::instrument(
        level = "debug", name = "sql.execution_history.late", skip_all,
        fields(database = %self.view.name())
    )]
    pub async fn late(&mut self, most: usize) -> Result<Vec<DateTime<Utc>>, StorageError> {
        let work = async {
            let forget = sqlx::query!(
                "DELETE FROM noetl.execution_history_late AS late USING noetl.execution_history_progress AS progress
                 WHERE late.hour < greatest(progress.final_to, now() - make_interval(days => $1))
                    OR late.hour >= progress.closed_to",
                DAYS_COUNTED,
            );
            forget.execute(&mut self.connection).await?;
            let hours = sqlx::query_scalar!(
                r#"SELECT DISTINCT hour AS "hour!" FROM noetl.execution_history_late
                   WHERE isfinite(hour) ORDER BY 1 LIMIT $1"#,
                i64::try_from(most).unwrap_or(i64::MAX),
            );
            hours.fetch_all(&mut self.connection).await
        };
        let hours: sqlx::Result<_> = work.await;
        hours.map_err(|error| self.view.failed(error))
    }

    /// Computes the rows of a closed hour and of its day again. Changes that are noted in the meantime stay noted. Does
    /// nothing if the hour is final.
    #[tracing::instrument(
        level = "debug", name = "sql.execution_history.repeat", skip_all,
        fields(database = %self.view.name(), %hour)
    )]
    pub async fn repeat(&mut self, hour: DateTime<Utc>) -> Result<(), StorageError> {
        let work = async {
            let mut tx = self.connection.begin().await?;
            let Some(progress) = locked(&mut tx, hour).await? else { return Ok(()) };
            // Before the executions are read, so that a change which they lack stays noted.
            let taken = sqlx::query!("DELETE FROM noetl.execution_history_late WHERE hour = $1", hour);
            taken.execute(&mut *tx).await?;
            let (end, day, counted) = (hour + TimeDelta::hours(1), start(hour, DAY), self.view.counted());
            if end > progress.now - MINUTES_KEPT {
                compute(&mut tx, MINUTE, hour, end.min(progress.closed_to), counted.as_deref()).await?;
            }
            if end <= progress.closed_to {
                compute(&mut tx, HOUR, hour, end, counted.as_deref()).await?;
            }
            if day + TimeDelta::days(1) <= progress.closed_to {
                add_up(&mut tx, day).await?;
            }
            tx.commit().await
        };
        let done: sqlx::Result<()> = work.await;
        done.map_err(|error| self.view.failed(error))
    }

    /// Deletes the rows that are no longer kept, and releases the lock.
    #[tracing::instrument(
        level = "debug", name = "sql.execution_history.end", skip_all,
        fields(database = %self.view.name())
    )]
    pub async fn end(mut self) -> Result<(), StorageError> {
        let work = async {
            let delete = sqlx::query!(
                "DELETE FROM noetl.execution_history
                 WHERE (span = 60 AND at < now() - interval '8 days')
                    OR (span IN (3600, 86400) AND at < now() - make_interval(days => $1))",
                DAYS_STORED,
            );
            delete.execute(&mut self.connection).await?;
            self.connection.close().await
        };
        let ended: sqlx::Result<()> = work.await;
        ended.map_err(|error| self.view.failed(error))
    }
}

/// Returns the start of the span with this length that contains a time.
pub(super) fn start(time: DateTime<Utc>, span: i32) -> DateTime<Utc> {
    let second = time.timestamp();
    DateTime::from_timestamp(second - second.rem_euclid(i64::from(span)), 0).unwrap_or(time)
}

/// Locks the progress. `Ok(None)`: the hour is final, or no rows are computed.
async fn locked(connection: &mut PgConnection, hour: DateTime<Utc>) -> sqlx::Result<Option<Progress>> {
    let progress = sqlx::query_as!(
        Progress,
        r#"SELECT closed_to AS "closed_to!", now() AS "now!" FROM noetl.execution_history_progress
           WHERE closed_to IS NOT NULL AND final_to <= $1 FOR UPDATE"#,
        hour,
    );
    progress.fetch_optional(connection).await
}

/// Replaces the rows of a day by the sums of those of its hours.
async fn add_up(connection: &mut PgConnection, day: DateTime<Utc>) -> sqlx::Result<()> {
    let delete = sqlx::query!("DELETE FROM noetl.execution_history WHERE span = 86400 AND at = $1", day);
    delete.execute(&mut *connection).await?;
    let insert = of_day!(
        query!,
        "INSERT INTO noetl.execution_history (span, at, tenant_id, organization_id, path, execution_pool, started,
                                              completed, failed, cancelled, classes, counts, wait_classes, wait_counts) ",
        "",
        day
    );
    insert.execute(&mut *connection).await?;
    Ok(())
}

/// Replaces the rows of the spans of a length between two times. `counted` has the bits of the buckets whose executions
/// are counted; `None`: of all.
async fn compute(
    connection: &mut PgConnection,
    span: i32,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    counted: Option<&[u8]>,
) -> sqlx::Result<()> {
    let delete =
        sqlx::query!("DELETE FROM noetl.execution_history WHERE span = $1 AND at >= $2 AND at < $3", span, from, to);
    delete.execute(&mut *connection).await?;
    let insert = of_spans!(
        query!,
        "INSERT INTO noetl.execution_history (span, at, tenant_id, organization_id, path, execution_pool, started,
                                              completed, failed, cancelled, classes, counts, wait_classes, wait_counts) ",
        "",
        span,
        from,
        to,
        counted,
    );
    insert.execute(&mut *connection).await?;
    Ok(())
}
