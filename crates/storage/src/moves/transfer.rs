//! Copy of a source's rows to a target, and their comparison.
//!
//! Events are immutable, so they are copied while the source is written: each page is compared in one snapshot of the
//! source. Rows of executions change; their last copy is made under the fence. Copied events get the transaction id 4,
//! which every cursor of a feed sees as published.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;

use super::journal::Move;
use super::rows::{self, Columns, checksum, of, open};
use super::session::Session;
use crate::error::StorageError;
use crate::grown_logs;
use crate::pools::Database;
use noetl_domain::feed::FeedId;
use noetl_domain::ids::Id;
use noetl_domain::shard::Barrier;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_domain::tx_spans::Spans;

/// Temporary tables of the target's session. They are empty at the end of each transaction.
const STAGES: &str = "SET client_min_messages = warning;
    CREATE TEMP TABLE IF NOT EXISTS moved_event (LIKE noetl.event) ON COMMIT DELETE ROWS;
    CREATE TEMP TABLE IF NOT EXISTS moved_execution (LIKE noetl.execution) ON COMMIT DELETE ROWS;
    CREATE TEMP TABLE IF NOT EXISTS moved_outbox (LIKE noetl.outbox) ON COMMIT DELETE ROWS";

/// Transaction id of copied events, as of the published rows of a renumbered database.
const PUBLISHED: &str = "4";

/// Sessions of the source and of the target of a move.
#[derive(Debug)]
pub struct Transfer<'a> {
    pub(super) source: Session<'a>,
    pub(super) target: Session<'a>,
    events: Columns,
    executions: Columns,
    pub(super) outbox: Columns,
}

impl<'a> Transfer<'a> {
    /// Opens both sessions and takes their locks. `Ok(None)`: another session holds one of them.
    pub async fn open(source: &'a Database, target: &'a Database) -> Result<Option<Self>, StorageError> {
        let Some(mut source) = Session::take(source).await? else { return Ok(None) };
        let Some(mut target) = Session::take(target).await? else { return Ok(None) };
        rows::run(&mut target, STAGES).await?;
        let events = Columns::read(&mut source, &mut target, "event").await?;
        let executions = Columns::read(&mut source, &mut target, "execution").await?;
        let outbox = Columns::read(&mut source, &mut target, "outbox").await?;
        Ok(Some(Self { source, target, events, executions, outbox }))
    }

    /// Returns whether both sessions hold their locks.
    pub async fn holds_locks(&mut self) -> Result<bool, StorageError> {
        let (source, target) = tokio::join!(self.source.holds_lock(), self.target.holds_lock());
        Ok(source? && target?)
    }

    /// Returns the source's current snapshot.
    pub async fn snapshot(&mut self) -> Result<TxSnapshot, StorageError> {
        let snapshot = sqlx::query_scalar!(r#"SELECT pg_current_snapshot()::text AS "now!""#);
        let snapshot =
            snapshot.fetch_one(&mut self.source.connection).await.map_err(|error| self.source.failed(error))?;
        snapshot.parse().map_err(|malformed| self.source.shard.corrupt(format!("{malformed}")))
    }

    /// Returns a page of the executions of the source from an id on, by id.
    pub async fn executions_from(&mut self, from: i64) -> Result<Vec<i64>, StorageError> {
        super::residue::executions_from(&mut self.source, from).await
    }

    /// Returns the executions with events of the transactions that `now` sees and `before` does not.
    pub async fn executions_between(
        &mut self,
        before: &TxSnapshot,
        now: &TxSnapshot,
    ) -> Result<Vec<i64>, StorageError> {
        let ids = grown_logs::of(&mut self.source.connection, &Spans::between(before, now), &[]).await;
        let ids = ids.map_err(|error| self.source.failed(error))?;
        Ok(ids.into_iter().map(Id::get).collect())
    }

    /// Copies events of these executions: all, or those that a snapshot does not see. Compares their whole logs on both
    /// sides, and returns the number of added events. `Ok(None)`: the logs differ, for example because the source has
    /// deleted rows since an earlier copy.
    pub async fn copy_events(
        &mut self,
        executions: &[i64],
        since: Option<&TxSnapshot>,
    ) -> Result<Option<u64>, StorageError> {
        let (all, ours) = (self.events.without(&[]), of(executions));
        rows::run(&mut self.source, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let condition = match since {
            None => ours.clone(),
            Some(before) => format!("{ours} AND {}", between(before, &self.snapshot().await?)),
        };
        rows::run(&mut self.target, "BEGIN").await?;
        let query = format!("SELECT {all} FROM noetl.event WHERE {condition}");
        let stage = format!("moved_event ({all})");
        rows::copy(&mut self.source, &mut self.target, &query, &stage).await?;
        let names = self.events.without(&["tx_id"]);
        let insert = format!(
            "INSERT INTO noetl.event ({names}, tx_id) SELECT {names}, '{PUBLISHED}'::xid8 FROM moved_event
             ON CONFLICT DO NOTHING"
        );
        let inserted = sqlx::query(AssertSqlSafe(insert)).execute(&mut self.target.connection).await;
        let inserted = inserted.map_err(|error| self.target.failed(error))?.rows_affected();
        let here = checksum(&mut self.source, "event", &names, &ours).await?;
        rows::run(&mut self.source, "COMMIT").await?;
        let there = checksum(&mut self.target, "event", &names, &ours).await?;
        rows::run(&mut self.target, "COMMIT").await?;
        Ok((here == there).then_some(inserted))
    }

    /// Deletes the target's events of these executions.
    pub async fn delete_events(&mut self, executions: &[i64]) -> Result<(), StorageError> {
        rows::run(&mut self.target, &format!("DELETE FROM noetl.event WHERE {}", of(executions))).await
    }

    /// Deletes the target's snapshots of these executions. They are from an earlier time at which the target had the
    /// bucket. Its cursor sees copied events as older than every snapshot, so a state would lack them.
    pub async fn delete_snapshots(&mut self, executions: &[i64]) -> Result<(), StorageError> {
        super::residue::delete_snapshots(&mut self.target, executions).await
    }

    /// Makes the target's rows of these executions in the list of executions equal those of the source.
    pub async fn copy_executions(&mut self, executions: &[i64]) -> Result<(), StorageError> {
        let query = format!(
            "SELECT execution_id, hashtextextended(ROW({})::text, 0) FROM noetl.execution WHERE {}",
            self.executions.without(&[]),
            of(executions),
        );
        let (here, there) = tokio::join!(digests(&mut self.source, &query), digests(&mut self.target, &query));
        let (here, there) = (here?, there?);
        let changed: Vec<i64> =
            here.iter().filter(|(id, digest)| there.get(*id) != Some(*digest)).map(|(id, _)| *id).collect();
        let gone: Vec<i64> = there.keys().filter(|id| !here.contains_key(*id)).copied().collect();
        if !gone.is_empty() {
            rows::run(&mut self.target, &format!("DELETE FROM noetl.execution WHERE {}", of(&gone))).await?;
        }
        if changed.is_empty() {
            return Ok(());
        }
        let (all, replaced) = (self.executions.without(&[]), self.executions.replaced());
        let query = format!("SELECT {all} FROM noetl.execution WHERE {}", of(&changed));
        rows::run(&mut self.target, "BEGIN").await?;
        rows::copy(&mut self.source, &mut self.target, &query, &format!("moved_execution ({all})")).await?;
        let insert = format!(
            "INSERT INTO noetl.execution ({all}) SELECT {all} FROM moved_execution
             ON CONFLICT (execution_id) DO UPDATE SET {replaced}; COMMIT"
        );
        rows::run(&mut self.target, &insert).await
    }

    /// Compares the rows of these executions on both sides: the numbers of their events, and number and content of the
    /// rows of executions and of the open outbox rows. Returns the name of a table that differs.
    pub async fn difference(&mut self, executions: &[i64]) -> Result<Option<&'static str>, StorageError> {
        let events = of(executions);
        if self.differs("event", "execution_id", &events).await? {
            return Ok(Some("noetl.event"));
        }
        let columns = self.executions.without(&[]);
        if self.differs("execution", &columns, &events).await? {
            return Ok(Some("noetl.execution"));
        }
        let (columns, open) = (self.outbox.without(&["outbox_id", "message_history"]), open(executions));
        Ok(self.differs("outbox", &columns, &open).await?.then_some("noetl.outbox"))
    }

    /// Returns whether these columns of the rows of a table differ.
    async fn differs(&mut self, table: &str, columns: &str, condition: &str) -> Result<bool, StorageError> {
        let (here, there) = tokio::join!(
            checksum(&mut self.source, table, columns, condition),
            checksum(&mut self.target, table, columns, condition),
        );
        Ok(here? != there?)
    }

    /// Deletes the target's rows of the selected executions.
    pub async fn delete_from_target(&mut self, is_selected: impl Fn(i64) -> bool) -> Result<(), StorageError> {
        super::residue::delete_selected(&mut self.target, is_selected).await
    }

    /// Returns the end of the source's feed, if all events of the moves' buckets are published. The buckets must be
    /// constant.
    pub async fn published(&mut self, moves: &[Move]) -> Result<Published, StorageError> {
        let cursor = sqlx::query!(
            r#"SELECT feed_id, feed_epoch, last_sequence, done::text AS "done!", pg_current_snapshot()::text AS "now!",
                      (control.system_identifier <> cursor.system_identifier
                       OR ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer <> cursor.timeline
                       OR pg_snapshot_xmax(done) > pg_snapshot_xmax(pg_current_snapshot())) AS "changed!"
               FROM noetl.tail_cursor AS cursor, pg_control_system() AS control"#
        );
        let connection = &mut self.source.connection;
        let cursor = cursor.fetch_optional(&mut *connection).await.map_err(|error| self.source.shard.failed(error))?;
        let Some(cursor) = cursor else { return Ok(Published::NoFeed) };
        if cursor.changed {
            // The database was restored or promoted, and the feed has not continued on it.
            return Ok(Published::Waiting);
        }
        let parse = |text: &str| {
            text.parse::<TxSnapshot>().map_err(|malformed| self.source.shard.corrupt(format!("{malformed}")))
        };
        let spans = Spans::between(&parse(&cursor.done)?, &parse(&cursor.now)?);
        let waiting = sqlx::query_scalar!(
            r#"SELECT EXISTS (
                   SELECT FROM unnest($1::text[]::xid8[], $2::text[]::xid8[]) AS span (low, high)
                   CROSS JOIN LATERAL (
                       SELECT execution_id FROM noetl.event WHERE tx_id >= span.low AND tx_id < span.high OFFSET 0
                   ) AS event
                   WHERE noetl.bucket_of(event.execution_id) = ANY($3::smallint[])
               ) AS "waiting!""#,
            &spans.low,
            &spans.high,
            &super::fence::buckets(moves),
        );
        if waiting.fetch_one(connection).await.map_err(|error| self.source.failed(error))? {
            return Ok(Published::Waiting);
        }
        Ok(Published::UpTo(Barrier {
            feed: FeedId::new(cursor.feed_id.as_u128()),
            epoch: cursor.feed_epoch.cast_unsigned(),
            sequence: cursor.last_sequence.cast_unsigned(),
        }))
    }

    /// Returns whether the source has a feed, and whether the target has one that sees copied events as published.
    pub async fn feeds(&mut self) -> Result<(bool, bool), StorageError> {
        Ok((has_feed(&mut self.source, None).await?, has_feed(&mut self.target, Some(PUBLISHED)).await?))
    }
}

/// Publication of the events of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The source has no feed.
    NoFeed,
    /// An event is not published.
    Waiting,
    /// All events are published up to this position.
    UpTo(Barrier),
}

/// Returns the hash of each row, by execution.
async fn digests(session: &mut Session<'_>, query: &str) -> Result<BTreeMap<i64, i64>, StorageError> {
    let rows = sqlx::query_as::<_, (i64, i64)>(AssertSqlSafe(query)).fetch_all(&mut session.connection).await;
    Ok(rows.map_err(|error| session.shard.failed(error))?.into_iter().collect())
}

/// Returns whether a shard has a feed, which sees the given transaction as published.
async fn has_feed(session: &mut Session<'_>, published: Option<&str>) -> Result<bool, StorageError> {
    let exists = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM noetl.tail_cursor
                          WHERE $1::text IS NULL OR pg_visible_in_snapshot($1::text::xid8, done)) AS "exists!""#,
        published,
    );
    exists.fetch_one(&mut session.connection).await.map_err(|error| session.shard.failed(error))
}

/// Returns the condition that selects the events of the transactions that ended between two snapshots.
fn between(before: &TxSnapshot, now: &TxSnapshot) -> String {
    let ranges = now.ended_since(before);
    let range =
        |range: &std::ops::Range<u64>| format!("(tx_id >= '{}'::xid8 AND tx_id < '{}'::xid8)", range.start, range.end);
    let ranges: Vec<String> = ranges.iter().map(range).collect();
    if ranges.is_empty() { "false".to_owned() } else { format!("({})", ranges.join(" OR ")) }
}
