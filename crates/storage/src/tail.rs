//! The tail cursor of a shard: the transactions whose events are published, and the lease of the replica that
//! publishes.
//!
//! `done` and `target` are transaction snapshots; a batch is the set of events that `target` sees and `done` does not.
//! Each committed transaction is in exactly one batch; one that commits late is in a later batch. A fixed batch returns
//! the same events each time it is read. Taking the lease raises the fence. Every write carries the fence of its
//! leader, and has no effect if the stored fence differs. [`super::tail_session`] holds the leader's operations on
//! batches. The operations on the lease use connections on which no request waits.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::error::StorageError;
use super::moves::session::CHANGES_FENCED_ROWS;
use super::pools::Database;
use super::tail_row::SEARCHES;
use super::{tail_foreign_ids, tail_upgrade};
use noetl_domain::event::EventKey;
use noetl_domain::feed::{FeedId, FeedOwner};
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_domain::tx_spans::Spans;

/// Name of NoETL's tailer in `noetl.stream_cursor`.
pub(super) const NOETL_TAILER: &str = "event_stream_tailer";

/// Number up to which unpublished events are counted.
const MAX_LAG: i64 = 100_000;

/// A cursor whose lease was just taken.
#[derive(Debug, Clone)]
pub struct TailCursor {
    /// Fence that every write of the leader carries.
    pub fence: i64,
    /// Snapshot at which the feed began; the events that it sees are not published.
    pub origin: TxSnapshot,
    /// Snapshot that sees all published events.
    pub done: TxSnapshot,
    /// End of the batch that is being published; `None` between batches.
    pub target: Option<TxSnapshot>,
    /// Number of the latest batch.
    pub batch: i64,
    /// Random number of the batch that is being published; `None` before the first one.
    pub batch_id: Option<i64>,
    /// Epoch of the feed. It is raised when positions in the stream become invalid.
    pub feed_epoch: i32,
    /// Last sequence of the stream when the last batch was completed.
    pub last_sequence: i64,
    /// Creation time of the stream in nanoseconds since 1970; `None` until a leader has stored it.
    pub stream_created: Option<i64>,
    /// Relation of the database to the one in which the cursor was written.
    pub history: History,
    /// Identity of the feed, and of this database.
    pub owner: FeedOwner,
    /// OID of this database.
    pub database_oid: u32,
    /// Start time of the PostgreSQL server in microseconds since 1970.
    pub server_started: i64,
    /// Messages that another state of this database published. `None` after the next events were published.
    pub overlap: Option<Overlap>,
}

/// Messages of the stream that another state of the database published after the cursor's position, such as the primary
/// of a promoted standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// First sequence. The messages from here to `discard_from` are events of this database, which are not published
    /// again.
    pub from: i64,
    /// First sequence whose event this database does not have.
    pub discard_from: i64,
    /// Last sequence; less than `discard_from` if the database has all events.
    pub discard_to: i64,
}

/// Relation of a database to the one in which a cursor was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// The same database.
    Same,
    /// A promoted standby, a recovery to a point in time, or a copy on the same server. Transaction ids continue from there.
    Continued,
    /// Another database, such as a restored dump. Its transaction ids are unrelated to the cursor's.
    Other,
}

impl History {
    /// Returns the relation. `other` is true if the server or its transaction ids differ, and `continued` if the
    /// timeline or the OID of the database differs. An upgrade changes both and keeps the data.
    pub(super) fn of(upgraded: bool, other: bool, continued: bool) -> Self {
        match (other, continued) {
            _ if upgraded => Self::Same,
            (true, _) => Self::Other,
            (_, true) => Self::Continued,
            _ => Self::Same,
        }
    }
}

/// Status of a shard's feed.
#[derive(Debug, Clone)]
pub struct TailStatus {
    /// Replica that holds the lease; `None` if it has expired.
    pub leader: Option<String>,
    /// Time at which the lease expires unless it is renewed.
    pub lease_until: Option<DateTime<Utc>>,
    /// Last sequence of the stream when the last batch was completed.
    pub last_sequence: i64,
    /// Number of events published since the feed began.
    pub published_events: i64,
    /// The feed's epoch.
    pub feed_epoch: i32,
    /// Last error or notice; the next completed batch replaces it.
    pub last_error: Option<String>,
    /// Number of committed events that are not published, counted up to 100,000.
    pub lag_events: i64,
    /// Age in seconds of the oldest of the counted events; 0 if there is none.
    pub lag_seconds: f64,
    /// Age in seconds of the oldest open transaction that has written to the database.
    pub oldest_open_transaction_seconds: Option<f64>,
}

/// Creates the cursor if the shard has none. With `backfill` the feed starts before the first event. Without, it starts
/// with the next commits; if NoETL's tailer has published from this database, it starts after that tailer's position.
///
/// A shard without events, such as an added one, begins like a renumbered database
/// ([`super::tail_restore::numbered`]): rows that are moved to it later count as published, and belong to the feed.
///
/// The rows after NoETL's position get the id of this transaction, as if they had been committed now. The feed's origin
/// does not see this transaction, so they are in the first batch. Without a backfill, rows with ids that this server has
/// not assigned yet first get ids that the origin sees, so that they are not published when these ids are assigned.
///
/// Rows of buckets that have moved to another shard are not published here: that shard has them too, and publishes
/// them.
#[tracing::instrument(level = "debug", name = "sql.tail.begin", skip_all, fields(database = %shard.name()))]
pub async fn begin(shard: &Database, backfill: bool) -> Result<(), StorageError> {
    let begun = sqlx::query_scalar!("SELECT EXISTS (SELECT FROM noetl.tail_cursor) AS \"begun!\"");
    if shard.run(begun.fetch_one(shard.leases())).await? {
        return Ok(());
    }
    let work = async {
        // The table may be large, and nothing can be published before the cursor exists: no deadline applies.
        let mut connection = shard.connect_with([CHANGES_FENCED_ROWS]).await?;
        let skips = backfill && skip_moved(&mut connection).await?;
        while !backfill && tail_foreign_ids::assign_own(&mut connection, 0).await? > 0 {}
        let insert = sqlx::query!(
            "WITH begun AS (
                 INSERT INTO noetl.tail_cursor (origin, done, system_identifier, timeline, database_oid)
                 SELECT origin, done, system_identifier,
                        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer,
                        (SELECT oid FROM pg_database WHERE datname = current_database())
                 FROM (SELECT CASE WHEN empty OR $3 THEN '4:4:' WHEN $1 THEN '3:3:' ELSE now END::pg_snapshot AS origin,
                              CASE WHEN empty THEN '5:5:' WHEN $3 THEN '4:4:' WHEN $1 THEN '3:3:' ELSE now
                              END::pg_snapshot AS done
                       FROM (SELECT NOT EXISTS (SELECT FROM noetl.event) AS empty, pg_current_snapshot()::text AS now)
                           AS found) AS start,
                      pg_control_system()
                 ON CONFLICT DO NOTHING
                 RETURNING origin
             ), bound AS (
                 INSERT INTO noetl.tail_anchor (singleton) SELECT true FROM begun
                 ON CONFLICT (singleton) DO UPDATE SET tx_id = excluded.tx_id
             )
             UPDATE noetl.event SET tx_id = pg_current_xact_id()
             FROM begun, noetl.stream_cursor
             WHERE NOT $1 AND stream_cursor.name = $2 AND event.event_id > stream_cursor.position
               AND NOT EXISTS (SELECT FROM noetl.bucket_fence
                               WHERE bucket = noetl.bucket_of(event.execution_id) AND moved_to IS NOT NULL)",
            backfill,
            NOETL_TAILER,
            skips,
        );
        insert.execute(&mut connection).await
    };
    let resumed = work.await.map_err(|error| shard.failed(error))?.rows_affected();
    if resumed > 0 {
        tracing::info!(database = %shard.name(), events = resumed, "the feed continues from the position of NoETL's tailer");
    }
    Ok(())
}

/// Gives the rows of buckets that have moved to another shard the id 3, and other rows with this id the id 4. A feed
/// that begins after 3 publishes the others only. Returns false if no bucket has moved; nothing is changed then.
async fn skip_moved(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let left =
        sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM noetl.bucket_fence WHERE moved_to IS NOT NULL) AS "left!""#);
    if !left.fetch_one(&mut *connection).await? {
        return Ok(false);
    }
    let update = sqlx::query!(
        "UPDATE noetl.event SET tx_id = CASE tx_id WHEN '3' THEN '4'::xid8 ELSE '3'::xid8 END
         WHERE (noetl.bucket_of(execution_id) IN (SELECT bucket FROM noetl.bucket_fence WHERE moved_to IS NOT NULL))
               <> (tx_id = '3')"
    );
    update.execute(connection).await?;
    Ok(true)
}

/// Takes the lease for `seconds` if it has expired or `owner` holds it, and raises the fence. `Ok(None)`: another owner
/// holds it, or released it less than `pause` seconds ago. Times that no replica could have set yet were set before the
/// clock stepped back, as in a standby with a slower clock, and do not count.
#[tracing::instrument(level = "debug", name = "sql.tail.acquire", skip_all, fields(database = %shard.name()))]
pub async fn acquire(
    shard: &Database,
    owner: &str,
    seconds: f64,
    pause: f64,
) -> Result<Option<TailCursor>, StorageError> {
    let update = sqlx::query!(
        r#"UPDATE noetl.tail_cursor AS cursor
           SET fence = fence + 1, lease_owner = $1, lease_until = now() + make_interval(secs => $2), updated_at = now()
           FROM pg_control_system() AS control,
                (SELECT oid FROM pg_database WHERE datname = current_database()) AS here
           WHERE lease_until < now()
                 AND (cursor.updated_at <= now() - make_interval(secs => $3) OR cursor.updated_at > now())
              OR lease_until > now() + 2 * make_interval(secs => $2) OR lease_owner = $1
           RETURNING fence, origin::text AS "origin!", done::text AS "done!", target::text, batch, batch_id, feed_epoch,
                     last_sequence, stream_created, feed_id, overlap_from, discard_from, discard_to,
                     control.system_identifier AS "here!",
                     ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer AS "timeline_here!",
                     (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS "started!",
                     control.system_identifier <> cursor.system_identifier AS "moved!",
                     pg_snapshot_xmax(done) > pg_snapshot_xmax(pg_current_snapshot()) AS "ahead!",
                     ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer <> cursor.timeline
                         OR cursor.database_oid <> here.oid AS "continued!",
                     here.oid AS "oid_here!""#,
        owner,
        seconds,
        pause,
    );
    let Some(row) = shard.run(update.fetch_optional(shard.leases())).await? else {
        return Ok(None);
    };
    // The timeline of an upgraded server starts over, so it does not show a promotion.
    let upgraded = row.moved && !row.ahead && tail_upgrade::adopt(shard, row.fence).await?;
    if upgraded {
        tracing::info!(database = %shard.name(), "the database was upgraded with its transaction ids; the feed continues");
    }
    Ok(Some(TailCursor {
        fence: row.fence,
        origin: parse(shard, &row.origin)?,
        done: parse(shard, &row.done)?,
        target: row.target.map(|target| parse(shard, &target)).transpose()?,
        batch: row.batch,
        batch_id: row.batch_id,
        feed_epoch: row.feed_epoch,
        last_sequence: row.last_sequence,
        stream_created: row.stream_created,
        history: History::of(upgraded, row.moved || row.ahead, row.continued),
        owner: FeedOwner {
            feed: FeedId::new(row.feed_id.as_u128()),
            system_identifier: row.here,
            timeline: row.timeline_here,
        },
        database_oid: row.oid_here.0,
        server_started: row.started,
        overlap: overlap(row.overlap_from, row.discard_from, row.discard_to),
    }))
}

fn overlap(from: Option<i64>, discard_from: Option<i64>, discard_to: Option<i64>) -> Option<Overlap> {
    Some(Overlap { from: from?, discard_from: discard_from?, discard_to: discard_to? })
}

/// Renews the lease for `seconds`. `Ok(false)`: the fence was raised.
#[tracing::instrument(level = "debug", name = "sql.tail.renew", skip_all, fields(database = %shard.name(), fence))]
pub async fn renew(shard: &Database, fence: i64, seconds: f64) -> Result<bool, StorageError> {
    let (row, leases) = (shard.cursor_row(), shard.leases());
    let work = async {
        for _ in 0..SEARCHES {
            let Some(location) = row.location(leases, fence).await? else { break };
            let update = sqlx::query_scalar!(
                r#"UPDATE noetl.tail_cursor SET lease_until = now() + make_interval(secs => $3)
                   WHERE ctid = $2::text::tid AND fence = $1 RETURNING ctid::text AS "location!""#,
                fence,
                location,
                seconds,
            );
            let updated = update.fetch_optional(leases).await?;
            row.note(updated.clone());
            if updated.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    };
    shard.renew(work).await
}

/// Releases the lease, and stores the error if there was one.
#[tracing::instrument(level = "debug", name = "sql.tail.release", skip_all, fields(database = %shard.name(), fence))]
pub async fn release(shard: &Database, fence: i64, error: Option<&str>) -> Result<(), StorageError> {
    let update = sqlx::query!(
        "UPDATE noetl.tail_cursor
         SET lease_until = '-infinity', lease_owner = NULL, last_error = coalesce($2, last_error), updated_at = now()
         WHERE fence = $1",
        fence,
        error,
    );
    shard.run(update.execute(shard.leases())).await?;
    Ok(())
}

/// Stores the reason that the leader can't publish now; `None`: it can. The leader keeps the lease. Has no effect if
/// the fence was raised.
#[tracing::instrument(level = "debug", name = "sql.tail.note_error", skip_all, fields(database = %shard.name(), fence))]
pub async fn note_error(shard: &Database, fence: i64, error: Option<&str>) -> Result<(), StorageError> {
    let update = sqlx::query!(
        "UPDATE noetl.tail_cursor SET last_error = $2 WHERE fence = $1 AND last_error IS DISTINCT FROM $2",
        fence,
        error,
    );
    shard.run(update.execute(shard.leases())).await?;
    Ok(())
}

/// Returns whether the role sees the transactions of other roles. Without this right, [`status`] misses them.
#[tracing::instrument(level = "debug", name = "sql.tail.sees_transactions", skip_all, fields(database = %shard.name()))]
pub async fn sees_transactions(shard: &Database) -> Result<bool, StorageError> {
    let right = sqlx::query_scalar!(r#"SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS "sees!""#);
    shard.run(right.fetch_one(shard.pool())).await
}

/// Sets the cursor to another position and epoch, and binds it to this database. `Ok(false)`: the fence was raised.
///
/// With `restored`, another pass fills the executions' list: states that were stored before are those of other
/// transaction ids.
///
/// The events in `again` get the id of this transaction, as if they had been committed now, so the next batch has them. No
/// stored state from before is used later ([`super::snapshots`]).
#[tracing::instrument(
    level = "debug", name = "sql.tail.rewind", skip_all,
    fields(database = %shard.name(), again = again.len())
)]
pub async fn rewind(
    shard: &Database,
    back: &TailCursor,
    restored: bool,
    again: &[EventKey],
) -> Result<bool, StorageError> {
    let executions: Vec<i64> = again.iter().map(|key| key.execution_id).collect();
    let events: Vec<i64> = again.iter().map(|key| key.event_id).collect();
    let update = sqlx::query!(
        "WITH bound AS (
             UPDATE noetl.tail_cursor
             SET done = $2::text::pg_snapshot, target = $3::text::pg_snapshot, batch = $4, last_sequence = $5,
                 feed_epoch = $6, origin = $7::text::pg_snapshot, stream_created = $8, progress_batch = NULL,
                 system_identifier = control.system_identifier,
                 timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer,
                 overlap_from = $9, discard_from = $10, discard_to = $11, updated_at = now(),
                 database_oid = here.oid, batch_id = $13
             FROM pg_control_system() AS control,
                  (SELECT oid FROM pg_database WHERE datname = current_database()) AS here
             WHERE fence = $1
             RETURNING fence
         ), renumbered AS (
             DELETE FROM noetl.tail_renumbering WHERE EXISTS (SELECT FROM bound)
         ), filled AS (
             DELETE FROM noetl.read_model_fill WHERE $12 AND EXISTS (SELECT FROM bound)
         ), again AS (
             UPDATE noetl.event SET tx_id = pg_current_xact_id()
             FROM unnest($14::bigint[], $15::bigint[]) AS given (execution_id, event_id)
             WHERE event.execution_id = given.execution_id AND event.event_id = given.event_id
               AND EXISTS (SELECT FROM bound)
               AND NOT EXISTS (SELECT FROM noetl.bucket_fence
                               WHERE bucket = noetl.bucket_of(event.execution_id) AND moved_to IS NOT NULL)
         )
         INSERT INTO noetl.tail_anchor (singleton) SELECT true FROM bound
         ON CONFLICT (singleton) DO UPDATE SET tx_id = excluded.tx_id",
        back.fence,
        back.done.to_string(),
        back.target.as_ref().map(TxSnapshot::to_string),
        back.batch,
        back.last_sequence,
        back.feed_epoch,
        back.origin.to_string(),
        back.stream_created,
        back.overlap.map(|overlap| overlap.from),
        back.overlap.map(|overlap| overlap.discard_from),
        back.overlap.map(|overlap| overlap.discard_to),
        restored,
        back.batch_id,
        &executions,
        &events,
    );
    if again.is_empty() {
        return Ok(shard.run(update.execute(shard.leases())).await?.rows_affected() == 1);
    }
    // Many rows may change, so no deadline applies.
    let work = async { update.execute(&mut shard.connect_with([CHANGES_FENCED_ROWS]).await?).await };
    Ok(work.await.map_err(|error| shard.failed(error))?.rows_affected() == 1)
}

/// Stores the creation time of the stream. `Ok(false)`: the fence was raised.
#[tracing::instrument(level = "debug", name = "sql.tail.bind_stream", skip_all, fields(database = %shard.name()))]
pub async fn bind_stream(shard: &Database, fence: i64, created: i64) -> Result<bool, StorageError> {
    let update = sqlx::query!("UPDATE noetl.tail_cursor SET stream_created = $2 WHERE fence = $1", fence, created);
    Ok(shard.run(update.execute(shard.leases())).await?.rows_affected() == 1)
}

/// Position of a feed that decides whether a reader's cursor can exist in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedHead {
    /// Identity of the feed.
    pub feed: FeedId,
    /// Epoch of the feed.
    pub epoch: i32,
    /// Last sequence of the stream when the last batch was completed.
    pub last_sequence: i64,
    /// True while a batch is being published, so that the stream may be ahead of `last_sequence`.
    pub publishing: bool,
}

/// Returns the position of a shard's feed. `Ok(None)`: the feed never began.
#[tracing::instrument(level = "debug", name = "sql.tail.head", skip_all, fields(database = %shard.name()))]
pub async fn head(shard: &Database) -> Result<Option<FeedHead>, StorageError> {
    let cursor = sqlx::query!(
        r#"SELECT feed_id, feed_epoch, last_sequence, target IS NOT NULL AS "publishing!" FROM noetl.tail_cursor"#
    );
    let row = shard.run(cursor.fetch_optional(shard.pool())).await?;
    Ok(row.map(|row| FeedHead {
        feed: FeedId::new(row.feed_id.as_u128()),
        epoch: row.feed_epoch,
        last_sequence: row.last_sequence,
        publishing: row.publishing,
    }))
}

/// Returns the status of a shard's feed, without the lease. `Ok(None)`: the feed never began.
#[tracing::instrument(level = "debug", name = "sql.tail.status", skip_all, fields(database = %shard.name()))]
pub async fn status(shard: &Database) -> Result<Option<TailStatus>, StorageError> {
    let cursor = sqlx::query!(
        r#"SELECT done::text AS "done!", target::text, pg_current_snapshot()::text AS "now!",
                  CASE WHEN lease_until > now() THEN lease_owner END AS leader,
                  CASE WHEN lease_until > now() THEN lease_until END AS lease_until, last_sequence, published_events,
                  feed_epoch, last_error,
                  CASE WHEN progress_batch = batch AND target IS NOT NULL THEN progress_events END AS progress_events,
                  progress_event_id, progress_execution_id,
                  (SELECT extract(epoch FROM now() - min(since))::float8 FROM (
                       SELECT xact_start FROM pg_stat_activity
                       WHERE backend_xid IS NOT NULL AND datname = current_database()
                       UNION ALL SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()
                   ) AS open(since)) AS oldest_open
           FROM noetl.tail_cursor"#,
    );
    let Some(cursor) = shard.run(cursor.fetch_optional(shard.pool())).await? else {
        return Ok(None);
    };
    let (done, now) = (parse(shard, &cursor.done)?, parse(shard, &cursor.now)?);
    let target = cursor.target.map(|target| parse(shard, &target)).transpose()?;
    let lag = match (target, cursor.progress_events, cursor.progress_event_id, cursor.progress_execution_id) {
        (Some(target), Some(_), Some(event_id), Some(execution_id)) => {
            let rest = rest_of_batch(shard, &done, &target, EventKey { event_id, execution_id }).await?;
            rest.and(lag_between(shard, &target, &now).await?)
        }
        _ => lag_between(shard, &done, &now).await?,
    };
    Ok(Some(TailStatus {
        leader: cursor.leader,
        lease_until: cursor.lease_until,
        last_sequence: cursor.last_sequence,
        published_events: cursor.published_events + cursor.progress_events.unwrap_or(0),
        feed_epoch: cursor.feed_epoch,
        last_error: cursor.last_error,
        lag_events: lag.events.min(MAX_LAG),
        lag_seconds: lag.seconds,
        oldest_open_transaction_seconds: cursor.oldest_open,
    }))
}

/// Events that are committed and not published: their number up to [`MAX_LAG`], and the age of the oldest of them.
#[derive(Debug, Clone, Copy)]
struct Lag {
    events: i64,
    seconds: f64,
}

impl Lag {
    fn and(self, other: Self) -> Self {
        Self { events: self.events + other.events, seconds: self.seconds.max(other.seconds) }
    }
}

/// Returns the lag of the transactions that `now` sees and `done` does not. The rows of open transactions are not
/// visited.
async fn lag_between(shard: &Database, done: &TxSnapshot, now: &TxSnapshot) -> Result<Lag, StorageError> {
    let spans = Spans::between(done, now);
    let lag = sqlx::query_as!(
        Lag,
        r#"SELECT count(*) AS "events!",
                  greatest(extract(epoch FROM (now() AT TIME ZONE 'UTC') - min(created_at)), 0)::float8 AS "seconds!"
           FROM (
               SELECT event.created_at FROM unnest($1::text[]::xid8[], $2::text[]::xid8[]) AS span (low, high)
               CROSS JOIN LATERAL (
                   SELECT created_at FROM noetl.event WHERE tx_id >= span.low AND tx_id < span.high OFFSET 0
               ) AS event
               LIMIT $3
           ) AS waiting"#,
        &spans.low,
        &spans.high,
        MAX_LAG,
    );
    shard.run(lag.fetch_one(shard.pool())).await
}

/// Returns the lag of the part of a batch that comes after a key. Only so many index entries are read that a dense batch
/// is counted up to [`MAX_LAG`].
async fn rest_of_batch(
    shard: &Database,
    done: &TxSnapshot,
    target: &TxSnapshot,
    after: EventKey,
) -> Result<Lag, StorageError> {
    let lag = sqlx::query_as!(
        Lag,
        r#"SELECT count(*) AS "events!",
                  greatest(extract(epoch FROM (now() AT TIME ZONE 'UTC') - min(created_at)), 0)::float8 AS "seconds!"
           FROM (
               SELECT tx_id, created_at FROM noetl.event
               WHERE (event_id, execution_id) > ($1::bigint, $2::bigint)
               ORDER BY event_id, execution_id LIMIT $3
           ) AS entry
           WHERE pg_visible_in_snapshot(tx_id, $5::text::pg_snapshot)
             AND NOT pg_visible_in_snapshot(tx_id, $4::text::pg_snapshot)"#,
        after.event_id,
        after.execution_id,
        2 * MAX_LAG,
        done.to_string(),
        target.to_string(),
    );
    shard.run(lag.fetch_one(shard.pool())).await
}

pub(super) fn parse(shard: &Database, text: &str) -> Result<TxSnapshot, StorageError> {
    text.parse().map_err(|malformed| shard.corrupt(format!("an invalid tail cursor: {malformed}")))
}
