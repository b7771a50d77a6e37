//! The operations of a shard's leader on a connection of its own: find new commits, fix a batch, complete it.
//! [`super::tail_pages`] reads a batch.
//!
//! A batch is the set of events that `target` sees and `done` does not (see [`super::tail`]). The operations never wait
//! for the pool, and each has a deadline. Rows are looked up by the ids of the transactions that have ended, so the rows
//! of an open transaction are not visited. A session can't be used again after a call that failed or whose future was
//! dropped.

use std::sync::Arc;

use sqlx::PgConnection;

use super::error::StorageError;
use super::moves::session::CHANGES_FENCED_ROWS;
use super::pools::Database;
use super::tail::{NOETL_TAILER, parse};
use super::tail_foreign_ids;
use super::tail_row::SEARCHES;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_domain::tx_spans::Spans;

/// Settings of a session. One cached plan reads small and large batches: JIT compilation would take longer than most
/// runs. A plan that was made while the newest partition was empty must not use a sequential scan; nor a bitmap or a sort,
/// which read everything before the first row. (A statement that needs a sort still has it.)
const SETTINGS: [(&str, &str); 9] = [
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_sort", "off"),
    ("work_mem", "32MB"),
    ("timezone", "UTC"),
    ("lock_timeout", "3500ms"),
    CHANGES_FENCED_ROWS,
];

/// Maximum number of events in a small batch.
pub(super) const SMALL: i64 = 2_000;

/// A batch that is fixed in the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedBatch {
    /// Its number.
    pub number: i64,
    /// A random number, by which its messages are recognised.
    pub id: i64,
    /// Whether NoETL's tailer publishes from this database, or did so earlier. It stores its position before its first
    /// publish, so `false` also means that it has published no event of the batch.
    pub noetl_publishes: bool,
}

/// Snapshots between which events were committed: what `target` sees and `done` does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Sees everything that is published, and transactions without events.
    pub done: TxSnapshot,
    /// Sees everything that is committed.
    pub target: TxSnapshot,
}

/// Size of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Number of events, counted up to one more than [`SMALL`].
    pub(super) events: i64,
    /// Lowest event id of the counted events.
    pub(super) lowest: i64,
}

/// An event as it is published: the JSON text of its row, which PostgreSQL writes.
#[derive(Debug, Clone, Default)]
pub struct EventPayload {
    /// Execution to whose log the event belongs.
    pub execution_id: i64,
    /// Event id, ascending in the log.
    pub event_id: i64,
    /// Type of the event, such as `playbook_started`.
    pub event_type: String,
    /// W3C trace context in the event's meta.
    pub traceparent: Option<String>,
    /// The row as a JSON object, with every column of the table.
    pub json: String,
    /// True if `json` leaves out columns, because the whole row is larger than the limit.
    pub omitted: bool,
}

/// A leader's connection to its shard.
#[derive(Debug)]
pub struct TailSession {
    pub(super) shard: Arc<Database>,
    pub(super) connection: PgConnection,
    pub(super) fence: i64,
    /// Last check that found no events: its `done`, and the database's snapshot at that time.
    nothing: Option<Committed>,
    /// The batch that was measured last.
    measured: Option<(Committed, Size)>,
    /// True if rows with transaction ids of another server were reported.
    foreign_ids_reported: bool,
}

/// Result of one poll.
struct Poll {
    /// The database's snapshot.
    now: String,
    /// True if it sees rows with transaction ids that are not assigned yet.
    foreign_ids: bool,
}

impl TailSession {
    /// Opens the session of the leader that holds the lease with this fence.
    #[tracing::instrument(
        level = "debug", name = "sql.tail_session.open", skip_all,
        fields(database = %shard.name(), fence)
    )]
    pub async fn open(shard: Arc<Database>, fence: i64) -> Result<Self, StorageError> {
        let connection = shard.run(shard.connect_with(SETTINGS)).await?;
        Ok(Self { shard, connection, fence, nothing: None, measured: None, foreign_ids_reported: false })
    }

    /// Returns the next batch after `done`, which covers everything committed so far. `Ok(None)`: no event has been
    /// committed.
    ///
    /// A batch never ends at a transaction id. Transactions get their ids at their first write, so such a batch would
    /// not follow the order of commits, and two batches could contain the events of a log in the wrong order.
    ///
    /// The log is read only if a transaction has ended since the last check, and only for the transactions that have.
    /// If earlier checks found no event, the batch starts after them, so that its readers skip their transactions too.
    /// Rows with ids that this server has not assigned get its own ids, a page at a time, and are in the batch.
    pub async fn committed_since(&mut self, done: &TxSnapshot) -> Result<Option<Committed>, StorageError> {
        let nothing = self.nothing.take().filter(|nothing| nothing.done == *done);
        let known = nothing.as_ref().map(|nothing| nothing.target.to_string());
        let from = nothing.map_or_else(|| done.clone(), |nothing| nothing.target);
        let mut poll = self.poll(known.as_deref()).await?;
        if poll.foreign_ids {
            self.assign_own_ids().await?;
            poll = self.poll(known.as_deref()).await?;
        }
        let found = Committed { done: from, target: parse(&self.shard, &poll.now)? };
        let spans = Spans::between(&found.done, &found.target);
        if !spans.is_empty() && self.measure(&found, &spans).await?.events > 0 {
            return Ok(Some(found));
        }
        // While such rows remain, the next poll searches for them again.
        if !poll.foreign_ids {
            self.nothing = Some(Committed { done: done.clone(), target: found.target });
        }
        Ok(None)
    }

    /// Returns the database's snapshot, and searches for rows with ids that are not assigned, unless the snapshot is known.
    async fn poll(&mut self, known: Option<&str>) -> Result<Poll, StorageError> {
        // The search reads the index in its order and ends at the first row.
        let poll = sqlx::query_as!(
            Poll,
            r#"SELECT now::text AS "now!",
                      now::text IS DISTINCT FROM $1
                          AND (SELECT true FROM noetl.event
                               WHERE tx_id >= pg_snapshot_xmax(now) ORDER BY tx_id LIMIT 1) IS NOT NULL AS "foreign_ids!"
               FROM (SELECT pg_current_snapshot() AS now) AS snapshot"#,
            known,
        );
        self.shard.run(poll.fetch_one(&mut self.connection)).await
    }

    async fn assign_own_ids(&mut self) -> Result<(), StorageError> {
        let assigned = tail_foreign_ids::assign_own(&mut self.connection, self.fence);
        let rows = self.shard.run(assigned).await?;
        let reported = std::mem::replace(&mut self.foreign_ids_reported, true);
        if rows > 0 && !reported {
            tracing::warn!(
                database = %self.shard.name(),
                "rows with transaction ids of another server were found; they get ids of this server and are published"
            );
        }
        Ok(())
    }

    /// Returns the size of a batch.
    pub(super) async fn size(&mut self, batch: &Committed, spans: &Spans) -> Result<Size, StorageError> {
        match &self.measured {
            Some((measured, size)) if measured == batch => Ok(*size),
            _ => self.measure(batch, spans).await,
        }
    }

    async fn measure(&mut self, batch: &Committed, spans: &Spans) -> Result<Size, StorageError> {
        let size = sqlx::query_as!(
            Size,
            r#"SELECT count(*) AS "events!", coalesce(min(event_id), 0) AS "lowest!"
               FROM (
                   SELECT event.event_id FROM unnest($1::text[]::xid8[], $2::text[]::xid8[]) AS span (low, high)
                   CROSS JOIN LATERAL (
                       SELECT event_id FROM noetl.event WHERE tx_id >= span.low AND tx_id < span.high OFFSET 0
                   ) AS event
                   LIMIT $3
               ) AS counted"#,
            &spans.low,
            &spans.high,
            SMALL + 1,
        );
        let size = self.shard.run(size.fetch_one(&mut self.connection)).await?;
        self.measured = Some((batch.clone(), size));
        Ok(size)
    }

    /// Stores the next batch, before any of its events is published. The batch is to be appended to the stream after
    /// `last_sequence`. Returns the batch's number. `Ok(None)`: the fence was raised.
    #[tracing::instrument(
        level = "debug", name = "sql.tail_session.fix_target", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn fix_target(
        &mut self,
        batch: &Committed,
        last_sequence: i64,
    ) -> Result<Option<FixedBatch>, StorageError> {
        let Self { shard, connection, fence, .. } = self;
        let row = shard.cursor_row();
        let work = async {
            for _ in 0..SEARCHES {
                let Some(location) = row.location(&mut *connection, *fence).await? else { break };
                let update = sqlx::query!(
                    r#"UPDATE noetl.tail_cursor
                       SET done = $3::text::pg_snapshot, target = $4::text::pg_snapshot, batch = batch + 1,
                           batch_id = hashtextextended(gen_random_uuid()::text, 0), last_sequence = $5, updated_at = now()
                       WHERE ctid = $2::text::tid AND fence = $1 AND target IS NULL
                       RETURNING ctid::text AS "location!", batch AS number, batch_id AS "id!",
                                 EXISTS (SELECT FROM noetl.stream_cursor WHERE name = $6) AS "noetl_publishes!""#,
                    *fence,
                    location,
                    batch.done.to_string(),
                    batch.target.to_string(),
                    last_sequence,
                    NOETL_TAILER,
                );
                let updated = update.fetch_optional(&mut *connection).await?;
                row.note(updated.as_ref().map(|updated| updated.location.clone()));
                if let Some(updated) = updated {
                    return Ok(Some(FixedBatch {
                        number: updated.number,
                        id: updated.id,
                        noetl_publishes: updated.noetl_publishes,
                    }));
                }
            }
            Ok(None)
        };
        shard.run(work).await
    }

    /// Returns whether NoETL's tailer publishes from this database, or did so earlier.
    pub async fn noetl_publishes(&mut self) -> Result<bool, StorageError> {
        let row = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM noetl.stream_cursor WHERE name = $1) AS "publishes!""#,
            NOETL_TAILER,
        );
        self.shard.run(row.fetch_one(&mut self.connection)).await
    }

    /// Marks the batch as published, and stores a notice about the stream if there is one. If it had events, the
    /// messages of another state of the database are dealt with. `Ok(false)`: the fence was raised.
    #[tracing::instrument(
        level = "debug", name = "sql.tail_session.complete", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn complete(
        &mut self,
        last_sequence: i64,
        events: i64,
        notice: Option<&str>,
    ) -> Result<bool, StorageError> {
        let Self { shard, connection, fence, .. } = self;
        let row = shard.cursor_row();
        let work = async {
            for _ in 0..SEARCHES {
                let Some(location) = row.location(&mut *connection, *fence).await? else { break };
                let update = sqlx::query_scalar!(
                    r#"UPDATE noetl.tail_cursor
                       SET done = target, target = NULL, last_sequence = $3, published_events = published_events + $4,
                           last_error = $5, updated_at = now(),
                           overlap_from = CASE WHEN $4 = 0 THEN overlap_from END,
                           discard_from = CASE WHEN $4 = 0 THEN discard_from END,
                           discard_to = CASE WHEN $4 = 0 THEN discard_to END
                       WHERE ctid = $2::text::tid AND fence = $1 AND target IS NOT NULL
                       RETURNING ctid::text AS "location!""#,
                    *fence,
                    location,
                    last_sequence,
                    events,
                    notice,
                );
                let updated = update.fetch_optional(&mut *connection).await?;
                row.note(updated.clone());
                if updated.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        shard.run(work).await
    }
}
