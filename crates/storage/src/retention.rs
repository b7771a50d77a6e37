//! Retention of the event table: drops partitions that are older than the retention, and the rows derived from their
//! events.
//!
//! A partition is checked without a lock, as the check may read many rows, and dropped under a short lock. The check
//! first takes a transaction snapshot. The drop, under the lock, verifies that this snapshot sees every row of the
//! partition. So the result of the check is still valid when the partition is dropped: a later event would be a row
//! that the snapshot does not see.
//!
//! Rows of buckets that belong to another shard do not keep a partition: the other shard has them. Rows that are copied to
//! a shard have a transaction id that every snapshot sees, so a move holds the lock of the retention on both shards.
//!
//! The history of executions outlives them: the row of an execution is deleted only when the hours of its start and its end
//! are counted, and in the same statement these hours become final, so they are not computed again.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::error::{DENIED, StorageError, has_code};
use super::execution_history_close::DAYS_COUNTED;
use super::partitions;
use super::snapshots::AGGREGATE;
use super::view::View;
use noetl_domain::ids::{EPOCH_UNIX_MS, Id};
use noetl_domain::partition::Partition;
use noetl_domain::tx_snapshot::TxSnapshot;

/// Maximum number of executions that one statement checks for derived rows.
const PAGE: i64 = 500;
/// Bounds on the time that writers wait: while the lock is requested, and while it is held.
const TIMEOUTS: &str = "SET LOCAL lock_timeout = '250ms'; SET LOCAL statement_timeout = '1s'";
/// Settings of the connection. A check may take long, but not forever: then the partition is kept. Each statement is
/// planned for its own parameters: a generic plan would search the whole partition for rows that do not exist.
const SETTINGS: &str =
    "SET statement_timeout = '5min'; SET lock_timeout = '5s'; SET plan_cache_mode = force_custom_plan";
/// SQLSTATEs of a busy table: `lock_not_available` and `query_canceled`.
const BUSY: [&str; 2] = ["55P03", "57014"];
/// SQLSTATEs of a table that this server may not drop: `insufficient_privilege` and `dependent_objects_still_exist`.
const REFUSED: [&str; 2] = [DENIED, "2BP01"];

/// Reason that a partition is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepReason {
    /// No cursor says which events are published.
    #[error("no feed has begun on this shard, so nothing of it is published")]
    FeedNeverBegan,
    /// The database was restored or failed over after the feed's cursor was written.
    #[error("the database changed since the feed's cursor was written")]
    DatabaseChanged,
    /// The feed has not published all its events.
    #[error("it holds events that are not published")]
    Unpublished,
    /// It holds the log of a live subscription, which is that subscription's state.
    #[error("it holds the log of source subscription {0}, which is not deactivated")]
    LiveSubscription(i64),
    /// It holds the log of a running execution, which is that execution's state.
    #[error("it holds the log of execution {0}, which has not ended")]
    RunningExecution(i64),
    /// A log in it has a recent event. Logs may grow long after the time in their id.
    #[error("it holds an event of log {0} that is younger than the retention")]
    YoungEvent(i64),
    /// The history of executions does not count all its executions.
    #[error("it holds the log of an execution that the history of executions does not count yet")]
    HistoryBehind,
    /// An event was inserted after the check began.
    #[error("events were written to it after its check began")]
    JustWritten,
    /// The table's lock was not available in time.
    #[error("the event table is in use by a long transaction")]
    Busy,
    /// The check took too long, or a statement with a lock on the partition delayed it.
    #[error("its check did not end in time")]
    SlowCheck,
    /// The database does not let this server drop it.
    #[error("the database refused to drop it: {0}")]
    Refused(String),
    /// It is the default partition, which has no bounds.
    #[error("it is the default partition, and holds events that are older; move these into a partition with bounds")]
    DefaultPartition,
}

impl KeepReason {
    /// Returns the reason as the label of a metric.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::FeedNeverBegan => "feed_never_began",
            Self::DatabaseChanged => "database_changed",
            Self::Unpublished => "unpublished",
            Self::LiveSubscription(_) => "live_subscription",
            Self::RunningExecution(_) => "running_execution",
            Self::YoungEvent(_) => "young_event",
            Self::HistoryBehind => "history_behind",
            Self::JustWritten => "just_written",
            Self::Busy => "busy",
            Self::SlowCheck => "slow_check",
            Self::Refused(_) => "refused",
            Self::DefaultPartition => "default_partition",
        }
    }
}

/// The exclusive lock on a shard's retention, which one process holds at a time. It ends with the connection.
#[derive(Debug)]
pub struct Turn<'a> {
    shard: View<'a>,
    connection: PgConnection,
}

/// A partition that may be dropped, with the snapshot taken before its check.
#[derive(Debug, Clone)]
pub struct DroppablePartition {
    partition: Partition,
    snapshot: TxSnapshot,
}

/// Result of one purge statement.
#[derive(Debug, Clone, Copy)]
pub struct Purged {
    /// Largest execution id that was checked; `None` if the range is empty.
    pub last: Option<i64>,
    /// Number of executions whose derived rows were deleted.
    pub executions: i64,
}

impl<'a> Turn<'a> {
    /// Takes the lock. `Ok(None)`: another process holds it.
    #[tracing::instrument(level = "debug", name = "sql.retention.take", skip_all, fields(database = %shard.name()))]
    pub async fn take(shard: View<'a>) -> Result<Option<Self>, StorageError> {
        let connection = shard.exclusive_connection("noetl.retention", SETTINGS).await?;
        Ok(connection.map(|connection| Self { shard, connection }))
    }

    /// Sets the bucket map after the lock was taken. While the lock is held, no bucket moves to or from the shard.
    pub fn set_view(&mut self, shard: View<'a>) {
        self.shard = shard;
    }

    /// Returns the smallest id of the last `days` days, on the database's clock.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.cutoff", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn cutoff(&mut self, days: i32) -> Result<i64, StorageError> {
        let unix_ms = sqlx::query_scalar!(
            r#"SELECT (extract(epoch FROM now() - make_interval(days => $1)) * 1000)::bigint AS "ms!""#,
            days,
        );
        let unix_ms = unix_ms.fetch_one(&mut self.connection).await.map_err(|error| self.shard.failed(error))?;
        let ms = u64::try_from(unix_ms).unwrap_or_default().saturating_sub(EPOCH_UNIX_MS);
        Ok(Id::first_of(ms).get())
    }

    /// Returns all partitions with bounds, in the order of their bounds.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.partitions", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn partitions(&mut self) -> Result<Vec<Partition>, StorageError> {
        partitions::bounded(&mut self.connection).await.map_err(|error| self.shard.failed(error))
    }

    /// Returns the name of the default partition if it holds logs that are older than the retention.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.old_default", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn old_default(&mut self, cutoff: i64) -> Result<Option<String>, StorageError> {
        let found = partitions::default_with_rows_below(&mut self.connection, cutoff).await;
        found.map_err(|error| self.shard.failed(error))
    }

    /// Checks whether a partition may be dropped. Events with an id from `cutoff` on are younger than the retention.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.judge", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn judge(
        &mut self,
        partition: Partition,
        cutoff: i64,
    ) -> Result<Result<DroppablePartition, KeepReason>, StorageError> {
        let work = async {
            let connection = &mut self.connection;
            let snapshot = sqlx::query_scalar!(r#"SELECT pg_current_snapshot()::text AS "now!""#);
            let snapshot = parse(&snapshot.fetch_one(&mut *connection).await?)?;
            if let Some(kept) = unpublished(connection, &partition).await? {
                return Ok(Err(kept));
            }
            if let Some(id) = live_subscription(connection, &partition, self.shard.held()).await? {
                return Ok(Err(KeepReason::LiveSubscription(id)));
            }
            if let Some(id) = running_execution(connection, &partition, self.shard.held()).await? {
                return Ok(Err(KeepReason::RunningExecution(id)));
            }
            if uncounted_execution(connection, &partition, cutoff, &self.shard.buckets()).await? {
                return Ok(Err(KeepReason::HistoryBehind));
            }
            // The last check, as it reads the whole partition.
            if let Some(id) = young_event(connection, &partition, cutoff).await? {
                return Ok(Err(KeepReason::YoungEvent(id)));
            }
            Ok(Ok(DroppablePartition { partition, snapshot }))
        };
        let verdict: sqlx::Result<_> = work.await;
        match verdict {
            Err(error) if has_code(&error, &BUSY) => Ok(Err(KeepReason::SlowCheck)),
            verdict => verdict.map_err(|error| self.shard.failed(error)),
        }
    }

    /// Drops a partition, unless an event was written to it since the check or the table's lock is not available in
    /// time. Returns the reason if the partition is kept.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.drop_partition", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn drop_partition(&mut self, judged: &DroppablePartition) -> Result<Option<KeepReason>, StorageError> {
        match drop_partition(&mut self.connection, judged).await {
            Err(error) if has_code(&error, &BUSY) => Ok(Some(KeepReason::Busy)),
            Err(sqlx::Error::Database(refusal)) if REFUSED.contains(&refusal.code().unwrap_or_default().as_ref()) => {
                Ok(Some(KeepReason::Refused(refusal.message().to_owned())))
            }
            outcome => outcome.map_err(|error| self.shard.failed(error)),
        }
    }

    /// Releases the lock.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.end", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn end(self) -> Result<(), StorageError> {
        self.connection.close().await.map_err(|error| self.shard.failed(error))
    }
}

/// Drops the partition in one transaction, or returns the reason to keep it and rolls back.
async fn drop_partition(
    connection: &mut PgConnection,
    judged: &DroppablePartition,
) -> sqlx::Result<Option<KeepReason>> {
    let mut tx = connection.begin().await?;
    sqlx::raw_sql(TIMEOUTS).execute(&mut *tx).await?;
    // The parent is locked first, as in every other statement. `ONLY` leaves its other partitions unlocked.
    sqlx::query("LOCK TABLE ONLY noetl.event IN ACCESS EXCLUSIVE MODE").execute(&mut *tx).await?;
    if holds_unseen(&mut tx, &judged.partition, &judged.snapshot).await? {
        return Ok(Some(KeepReason::JustWritten));
    }
    // A feed that lost messages of its stream may have been rewound since the check.
    if let Some(kept) = unpublished(&mut tx, &judged.partition).await? {
        return Ok(Some(kept));
    }
    sqlx::query(AssertSqlSafe(format!("DROP TABLE {}", judged.partition.name))).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(None)
}

/// Returns the reason to keep a partition that follows from the feed's cursor, if any.
async fn unpublished(connection: &mut PgConnection, partition: &Partition) -> sqlx::Result<Option<KeepReason>> {
    let feed = sqlx::query!(
        r#"SELECT done::text AS "done!",
                  (control.system_identifier <> cursor.system_identifier
                   OR ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer <> cursor.timeline
                   OR pg_snapshot_xmax(done) > pg_snapshot_xmax(pg_current_snapshot())) AS "changed!"
           FROM noetl.tail_cursor AS cursor, pg_control_system() AS control"#,
    );
    let Some(feed) = feed.fetch_optional(&mut *connection).await? else {
        return Ok(Some(KeepReason::FeedNeverBegan));
    };
    if feed.changed {
        return Ok(Some(KeepReason::DatabaseChanged));
    }
    Ok(holds_unseen(connection, partition, &parse(&feed.done)?).await?.then_some(KeepReason::Unpublished))
}

/// Returns whether a partition holds rows that a snapshot does not see: two lookups in the index on the transaction id.
async fn holds_unseen(
    connection: &mut PgConnection,
    partition: &Partition,
    snapshot: &TxSnapshot,
) -> sqlx::Result<bool> {
    let in_progress: Vec<String> = snapshot.in_progress().iter().map(u64::to_string).collect();
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT 1 FROM noetl.event
               WHERE execution_id >= $1 AND execution_id < $2 AND tx_id >= $3::text::xid8
           ) OR EXISTS (
               SELECT 1 FROM noetl.event
               WHERE execution_id >= $1 AND execution_id < $2 AND tx_id = ANY($4::text[]::xid8[])
           ) AS "unseen!""#,
        partition.from,
        partition.to,
        snapshot.xmax().to_string(),
        &in_progress,
    )
    .fetch_one(connection)
    .await
}

fn parse(snapshot: &str) -> sqlx::Result<TxSnapshot> {
    snapshot.parse().map_err(|malformed| sqlx::Error::Decode(Box::new(malformed)))
}

async fn live_subscription(
    connection: &mut PgConnection,
    partition: &Partition,
    held: Option<&[u8]>,
) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM noetl.source_subscription
           WHERE id >= $1 AND id < $2 AND state IS DISTINCT FROM 'DEACTIVATED'
             AND CASE WHEN $3::bytea IS NULL THEN true ELSE get_bit($3, noetl.bucket_of(id)) = 1 END
           LIMIT 1"#,
        partition.from,
        partition.to,
        held,
    )
    .fetch_optional(connection)
    .await
}

/// Returns an execution that has ended neither by its log nor by the read model, which may lag or lack the execution.
async fn running_execution(
    connection: &mut PgConnection,
    partition: &Partition,
    held: Option<&[u8]>,
) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        r#"SELECT execution_id AS "id!" FROM (
               SELECT execution_id FROM noetl.execution
               WHERE execution_id >= $1 AND execution_id < $2
                 AND upper(status) NOT IN ('COMPLETED', 'SUCCESS', 'FAILED', 'ERROR', 'CANCELLED', 'CANCELED')
               UNION ALL
               SELECT execution_id FROM noetl.event AS started
               WHERE execution_id >= $1 AND execution_id < $2
                 AND event_type IN ('playbook_started', 'playbook.initialized')
                 AND NOT EXISTS (SELECT 1 FROM noetl.execution WHERE execution_id = started.execution_id)
           ) AS unended
           WHERE NOT EXISTS (
               SELECT 1 FROM noetl.event
               WHERE execution_id = unended.execution_id AND event_type IN (
                   'playbook_completed', 'playbook.completed', 'workflow.completed', 'playbook_failed', 'playbook.failed',
                   'workflow.failed', 'playbook.cancelled', 'playbook_cancelled', 'execution.cancelled'))
             AND CASE WHEN $3::bytea IS NULL THEN true ELSE get_bit($3, noetl.bucket_of(execution_id)) = 1 END
           LIMIT 1"#,
        partition.from,
        partition.to,
        held,
    )
    .fetch_optional(connection)
    .await
}

/// Returns a log with an event that is younger than the retention by its id or by its time. Both are checked, since
/// workers make their own ids.
async fn young_event(connection: &mut PgConnection, partition: &Partition, cutoff: i64) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        r#"SELECT execution_id FROM noetl.event
           WHERE execution_id >= $1 AND execution_id < $2
             AND (event_id >= $3 OR created_at >= to_timestamp($4::bigint / 1000) AT TIME ZONE 'UTC')
           LIMIT 1"#,
        partition.from,
        partition.to,
        cutoff,
        unix_ms(cutoff),
    )
    .fetch_optional(connection)
    .await
}

/// Returns whether an execution has a time before the retention that the history will count, and has not counted. Reads no
/// execution while the history is counted up to there.
async fn uncounted_execution(
    connection: &mut PgConnection,
    partition: &Partition,
    cutoff: i64,
    buckets: &[u8],
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM (
                   SELECT greatest(final_to, CASE WHEN held = $4::bytea THEN closed_to END,
                                   now() - make_interval(days => $5)) AS counted_to,
                          to_timestamp($3::bigint / 1000) AS young_from
                   FROM noetl.execution_history_progress
               ) AS progress
               CROSS JOIN LATERAL (
                   SELECT FROM noetl.execution
                   WHERE counted_to < young_from AND execution_id >= $1 AND execution_id < $2
                     AND ((start_time >= counted_to AND start_time < young_from)
                          OR (end_time >= counted_to AND end_time < young_from))
                   LIMIT 1
               ) AS execution
           ) AS "uncounted!""#,
        partition.from,
        partition.to,
        unix_ms(cutoff),
        buckets,
        DAYS_COUNTED,
    )
    .fetch_one(connection)
    .await
}

/// Returns the time in an id in milliseconds since 1970.
fn unix_ms(id: i64) -> i64 {
    i64::try_from(EPOCH_UNIX_MS.saturating_add(Id::new(id).millis())).unwrap_or(i64::MAX)
}

/// Deletes the rows derived from dropped logs, for the first executions in a range of ids: the row of the read model,
/// the snapshot, and the published outbox rows. Makes the hours of these executions final. Executions with a start or an end
/// since `cutoff` are kept, because those hours can be computed again. If the history has not counted one of the hours, or
/// has a late change of it to count, the rows are kept until a later run.
#[tracing::instrument(
    level = "debug", name = "sql.retention.purge_derived", skip_all,
    fields(database = %shard.name())
)]
pub async fn purge_derived(shard: &View<'_>, from: i64, to: i64, cutoff: i64) -> Result<Purged, StorageError> {
    let buckets = shard.buckets();
    let statement = sqlx::query_as!(
        Purged,
        r#"WITH page AS (
               SELECT execution_id, tenant_id, organization_id, start_time, end_time FROM noetl.execution
               WHERE execution_id >= $1 AND execution_id < $2 ORDER BY execution_id LIMIT $3
           ), without_log AS MATERIALIZED (
               SELECT * FROM page
               WHERE NOT EXISTS (SELECT 1 FROM noetl.event WHERE event.execution_id = page.execution_id)
                 AND NOT EXISTS (SELECT FROM unnest(ARRAY[start_time, end_time]) AS moment
                                 WHERE isfinite(moment) AND moment >= to_timestamp($5::bigint / 1000))
           ), latest AS MATERIALIZED (
               SELECT noetl.span_start(max(moment), 3600) + interval '1 hour' AS end_of_hour
               FROM without_log CROSS JOIN LATERAL unnest(ARRAY[start_time, end_time]) AS moment
               WHERE moment >= now() - make_interval(days => $7) AND moment < to_timestamp($5::bigint / 1000)
           ), made_final AS (
               UPDATE noetl.execution_history_progress AS progress SET final_to = end_of_hour FROM latest
               WHERE final_to < end_of_hour AND closed_to >= end_of_hour AND held = $6::bytea
                 AND NOT EXISTS (SELECT FROM noetl.execution_history_late
                                 WHERE hour >= progress.final_to AND hour < end_of_hour)
               RETURNING progress.final_to
           ), gone AS MATERIALIZED (
               SELECT without_log.* FROM without_log CROSS JOIN latest
               WHERE end_of_hour IS NULL OR EXISTS (SELECT FROM made_final)
                  OR end_of_hour <= (SELECT final_to FROM noetl.execution_history_progress)
           ), owner AS (
               SELECT execution_id, tenant_id, organization_id FROM gone
               -- Snapshots that were stored before an event of the log named its tenant.
               UNION SELECT execution_id, 'default', 'default' FROM gone
           ), snapshots AS (
               DELETE FROM noetl.projection_snapshot AS stored USING owner
               WHERE stored.tenant_id = owner.tenant_id AND stored.organization_id = owner.organization_id
                 AND stored.aggregate_type = $4 AND stored.aggregate_id = owner.execution_id::text
           ), settled AS (
               DELETE FROM noetl.outbox USING gone
               WHERE outbox.execution_id = gone.execution_id AND outbox.status = 'PUBLISHED'
           ), executions AS (
               DELETE FROM noetl.execution USING gone WHERE execution.execution_id = gone.execution_id
               RETURNING execution.execution_id
           )
           SELECT (SELECT max(execution_id) FROM page) AS last, (SELECT count(*) FROM executions) AS "executions!""#,
        from,
        to,
        PAGE,
        AGGREGATE,
        unix_ms(cutoff),
        buckets.as_slice(),
        DAYS_COUNTED,
    );
    shard.run(statement.fetch_one(shard.pool())).await
}
