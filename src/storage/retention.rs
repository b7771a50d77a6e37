//! Dropping partitions of the event table that are past their time, and what was derived from their events.
//!
//! A partition is judged without a lock, as that may read much, and dropped under a short one. In between, nothing may
//! have been written to it: the judge notes a transaction snapshot first, and the dropper, holding the lock, looks for
//! rows that the snapshot does not see. So the verdict still holds when the partition goes: an event that is young,
//! unpublished or of a log that goes on would be such a row.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::error::StorageError;
use super::pools::Database;
use crate::domain::ids::{EPOCH_UNIX_MS, Id};
use crate::domain::tx_snapshot::TxSnapshot;

/// Executions whose derived rows one statement looks at.
const PAGE: i64 = 500;
/// How long writers may have to wait: behind the wish for the lock, and while it is held.
const PATIENCE: &str = "SET LOCAL lock_timeout = '250ms'; SET LOCAL statement_timeout = '1s'";
/// One question of the judge may take long, and is planned for the snapshot that it asks about: with a general plan, the
/// rows that there are not would be looked for in the whole partition.
const SETTINGS: &str = "SET statement_timeout = '5min'; SET plan_cache_mode = force_custom_plan";
/// SQLSTATE `lock_not_available` and `query_canceled`.
const BUSY: [&str; 2] = ["55P03", "57014"];

/// A partition of the event table with bounds on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Schema and table, quoted.
    pub name: String,
    /// The smallest execution id that it takes.
    pub from: i64,
    /// The smallest execution id above those that it takes.
    pub to: i64,
}

/// Why a partition stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Kept {
    /// What is published can't be told.
    #[error("no feed has begun on this shard, so nothing of it is published")]
    FeedNeverBegan,
    /// The cursor tells of another database.
    #[error("the database changed since the feed's cursor was written")]
    DatabaseChanged,
    /// The feed is not past it.
    #[error("it holds events that are not published")]
    Unpublished,
    /// A subscription's state is its log.
    #[error("it holds the log of source subscription {0}, which is not deactivated")]
    LiveSubscription(i64),
    /// An execution's state is its log.
    #[error("it holds the log of execution {0}, which has not ended")]
    RunningExecution(i64),
    /// A log may go on for long after the time that its id tells of.
    #[error("it holds an event of log {0} that is younger than the retention")]
    YoungEvent(i64),
    /// The verdict may be outdated.
    #[error("it was written to a moment ago")]
    JustWritten,
    /// Dropping it would hold writers up.
    #[error("the event table is in use by a long transaction")]
    Busy,
}

impl Kept {
    /// The reason as a metric's label.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::FeedNeverBegan => "feed_never_began",
            Self::DatabaseChanged => "database_changed",
            Self::Unpublished => "unpublished",
            Self::LiveSubscription(_) => "live_subscription",
            Self::RunningExecution(_) => "running_execution",
            Self::YoungEvent(_) => "young_event",
            Self::JustWritten => "just_written",
            Self::Busy => "busy",
        }
    }
}

/// A turn at a shard's retention, which one process has at a time. The lock on it ends with the connection.
#[derive(Debug)]
pub struct Turn<'a> {
    shard: &'a Database,
    connection: PgConnection,
}

/// A partition that may go, as of a snapshot of before the verdict.
#[derive(Debug, Clone)]
pub struct Judged {
    partition: Partition,
    snapshot: TxSnapshot,
}

/// What one statement removed.
#[derive(Debug, Clone, Copy)]
pub struct Purged {
    /// The last execution that was looked at; `None`: there was none.
    pub last: Option<i64>,
    /// Executions, each with its snapshot and settled outbox rows.
    pub executions: i64,
}

impl<'a> Turn<'a> {
    /// Takes the turn. `Ok(None)`: another process has it.
    #[tracing::instrument(level = "debug", name = "sql.retention.take", skip_all, fields(database = %shard.name()))]
    pub async fn take(shard: &'a Database) -> Result<Option<Self>, StorageError> {
        let work = async {
            let mut connection = shard.connect().await?;
            sqlx::raw_sql(SETTINGS).execute(&mut connection).await?;
            let taken = sqlx::query_scalar!(
                r#"SELECT pg_try_advisory_lock(hashtextextended('noetl.retention', 0)) AS "taken!""#
            );
            Ok(taken.fetch_one(&mut connection).await?.then_some(connection))
        };
        Ok(shard.run(work).await?.map(|connection| Self { shard, connection }))
    }

    /// The smallest execution id that is younger than `days`, on the database's clock.
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

    /// All partitions with bounds, by their bounds.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.partitions", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn partitions(&mut self) -> Result<Vec<Partition>, StorageError> {
        let rows = sqlx::query!(
            r#"SELECT format('%I.%I', nspname, relname) AS "name!", trim(bound[1], '''') AS "from!",
                      trim(bound[2], '''') AS "to!"
               FROM pg_inherits AS part
               JOIN pg_class ON pg_class.oid = part.inhrelid
               JOIN pg_namespace ON pg_namespace.oid = relnamespace
               CROSS JOIN LATERAL regexp_match(pg_get_expr(relpartbound, pg_class.oid),
                   'FROM \((MINVALUE|''?-?\d+''?)\) TO \((MAXVALUE|''?-?\d+''?)\)') AS bound
               WHERE part.inhparent = 'noetl.event'::regclass AND bound IS NOT NULL"#,
        );
        let rows = rows.fetch_all(&mut self.connection).await.map_err(|error| self.shard.failed(error))?;
        let partition = |(name, from, to): (String, String, String)| Partition {
            name,
            from: from.parse().unwrap_or(i64::MIN),
            to: to.parse().unwrap_or(i64::MAX),
        };
        let mut partitions: Vec<_> = rows.into_iter().map(|row| partition((row.name, row.from, row.to))).collect();
        partitions.sort_unstable_by_key(|partition| partition.from);
        Ok(partitions)
    }

    /// Whether a partition may go, as far as its events say; `cutoff` is the smallest id that is young.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.judge", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn judge(&mut self, partition: Partition, cutoff: i64) -> Result<Result<Judged, Kept>, StorageError> {
        let work = async {
            let connection = &mut self.connection;
            let snapshot = sqlx::query_scalar!(r#"SELECT pg_current_snapshot()::text AS "now!""#);
            let snapshot = parse(&snapshot.fetch_one(&mut *connection).await?)?;
            if let Some(kept) = unpublished(connection, &partition).await? {
                return Ok(Err(kept));
            }
            if let Some(id) = live_subscription(connection, &partition).await? {
                return Ok(Err(Kept::LiveSubscription(id)));
            }
            if let Some(id) = running_execution(connection, &partition).await? {
                return Ok(Err(Kept::RunningExecution(id)));
            }
            // Last, as it reads the whole partition.
            if let Some(id) = young_event(connection, &partition, cutoff).await? {
                return Ok(Err(Kept::YoungEvent(id)));
            }
            Ok(Ok(Judged { partition, snapshot }))
        };
        let verdict: sqlx::Result<_> = work.await;
        verdict.map_err(|error| self.shard.failed(error))
    }

    /// Drops a partition, if nothing was written to it since the verdict and nobody holds the table for long.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.drop_partition", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn drop_partition(&mut self, judged: &Judged) -> Result<Option<Kept>, StorageError> {
        match drop_partition(&mut self.connection, judged).await {
            Err(sqlx::Error::Database(refusal)) if refusal.code().is_some_and(|code| BUSY.contains(&code.as_ref())) => {
                Ok(Some(Kept::Busy))
            }
            outcome => outcome.map_err(|error| self.shard.failed(error)),
        }
    }

    /// Gives the turn back.
    #[tracing::instrument(
        level = "debug", name = "sql.retention.end", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn end(self) -> Result<(), StorageError> {
        self.connection.close().await.map_err(|error| self.shard.failed(error))
    }
}

/// Rolls back unless it answers `None`.
async fn drop_partition(connection: &mut PgConnection, judged: &Judged) -> sqlx::Result<Option<Kept>> {
    let mut tx = connection.begin().await?;
    sqlx::raw_sql(PATIENCE).execute(&mut *tx).await?;
    // The parent first, as everybody else does; its other partitions are left alone.
    sqlx::query("LOCK TABLE ONLY noetl.event IN ACCESS EXCLUSIVE MODE").execute(&mut *tx).await?;
    if holds_unseen(&mut tx, &judged.partition, &judged.snapshot).await? {
        return Ok(Some(Kept::JustWritten));
    }
    // A feed that lost its stream may have gone back meanwhile.
    if let Some(kept) = unpublished(&mut tx, &judged.partition).await? {
        return Ok(Some(kept));
    }
    sqlx::query(AssertSqlSafe(format!("DROP TABLE {}", judged.partition.name))).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(None)
}

/// Why the feed keeps a partition, if it does.
async fn unpublished(connection: &mut PgConnection, partition: &Partition) -> sqlx::Result<Option<Kept>> {
    let feed = sqlx::query!(
        r#"SELECT done::text AS "done!",
                  (control.system_identifier <> cursor.system_identifier
                   OR ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer <> cursor.timeline
                   OR pg_snapshot_xmax(done) > pg_snapshot_xmax(pg_current_snapshot())) AS "changed!"
           FROM noetl.tail_cursor AS cursor, pg_control_system() AS control"#,
    );
    let Some(feed) = feed.fetch_optional(&mut *connection).await? else {
        return Ok(Some(Kept::FeedNeverBegan));
    };
    if feed.changed {
        return Ok(Some(Kept::DatabaseChanged));
    }
    Ok(holds_unseen(connection, partition, &parse(&feed.done)?).await?.then_some(Kept::Unpublished))
}

/// Whether a partition holds rows that a snapshot does not see: two looks into the index on the writing transaction.
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

async fn live_subscription(connection: &mut PgConnection, partition: &Partition) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM noetl.source_subscription
           WHERE id >= $1 AND id < $2 AND state IS DISTINCT FROM 'DEACTIVATED' LIMIT 1"#,
        partition.from,
        partition.to,
    )
    .fetch_optional(connection)
    .await
}

/// An execution that did not end, neither by its log nor by the read model; the read model may lack it, or lag.
async fn running_execution(connection: &mut PgConnection, partition: &Partition) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        r#"SELECT execution_id AS "id!" FROM (
               SELECT execution_id FROM noetl.execution
               WHERE execution_id >= $1 AND execution_id < $2
                 AND upper(status) NOT IN ('COMPLETED', 'SUCCESS', 'FAILED', 'ERROR', 'CANCELLED', 'CANCELED')
               UNION ALL
               SELECT execution_id FROM noetl.event AS started
               WHERE execution_id >= $1 AND execution_id < $2 AND event_type = 'playbook_started'
                 AND NOT EXISTS (SELECT 1 FROM noetl.execution WHERE execution_id = started.execution_id)
           ) AS unended
           WHERE NOT EXISTS (
               SELECT 1 FROM noetl.event
               WHERE execution_id = unended.execution_id AND event_type IN (
                   'playbook_completed', 'playbook.completed', 'playbook_failed', 'playbook.failed',
                   'playbook.cancelled'))
           LIMIT 1"#,
        partition.from,
        partition.to,
    )
    .fetch_optional(connection)
    .await
}

/// A log with an event that is young by its id or by its time: workers make their own ids.
async fn young_event(connection: &mut PgConnection, partition: &Partition, cutoff: i64) -> sqlx::Result<Option<i64>> {
    let unix_ms = EPOCH_UNIX_MS.saturating_add(Id::new(cutoff).millis());
    sqlx::query_scalar!(
        r#"SELECT execution_id FROM noetl.event
           WHERE execution_id >= $1 AND execution_id < $2
             AND (event_id >= $3 OR created_at >= to_timestamp($4::bigint / 1000) AT TIME ZONE 'UTC')
           LIMIT 1"#,
        partition.from,
        partition.to,
        cutoff,
        i64::try_from(unix_ms).unwrap_or(i64::MAX),
    )
    .fetch_optional(connection)
    .await
}

/// Removes what was derived from logs that are gone, of the first executions in a range of ids: the row of the read
/// model, the snapshot, the outbox rows that are settled.
#[tracing::instrument(
    level = "debug", name = "sql.retention.purge_derived", skip_all,
    fields(database = %shard.name())
)]
pub async fn purge_derived(shard: &Database, from: i64, to: i64) -> Result<Purged, StorageError> {
    let statement = sqlx::query_as!(
        Purged,
        r#"WITH page AS (
               SELECT execution_id FROM noetl.execution
               WHERE execution_id >= $1 AND execution_id < $2 ORDER BY execution_id LIMIT $3
           ), gone AS (
               SELECT execution_id FROM page
               WHERE NOT EXISTS (SELECT 1 FROM noetl.event WHERE event.execution_id = page.execution_id)
           ), snapshots AS (
               DELETE FROM noetl.projection_snapshot USING gone
               WHERE tenant_id = 'default' AND organization_id = 'default'
                 AND aggregate_type = 'orchestrator_workflow_state' AND aggregate_id = gone.execution_id::text
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
    );
    shard.run(statement.fetch_one(shard.pool())).await
}
