//! The operations of a shard's leader on a connection of its own: find new commits, fix a batch, read it, complete it.
//!
//! A batch is the set of events that `target` sees and `done` does not (see [`super::tail`]). The operations never wait
//! for the pool. A batch is streamed without a deadline, as a backlog may be long. A session can't be used again after
//! a call that failed or whose future was dropped.

use std::sync::Arc;

use async_stream::try_stream;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sqlx::PgConnection;

use super::error::StorageError;
use super::pools::Database;
use super::tail::{NOETL_TAILER, in_progress, parse};
use super::tail_foreign_ids;
use noetl_domain::event::EventKey;
use noetl_domain::tx_snapshot::TxSnapshot;

/// Settings of a session. One cached plan reads small and large batches: JIT compilation would take longer than most
/// runs, and a plan that was made while the newest partition was empty must not use a sequential scan. Commits of the
/// cursor must survive a crash, so they do not rely on the server's default.
const SETTINGS: [(&str, &str); 6] = [
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("work_mem", "32MB"),
    ("timezone", "UTC"),
    ("lock_timeout", "3500ms"),
    ("synchronous_commit", "on"),
];

/// Maximum size in bytes of a row's JSON that is reduced by leaving out only its large columns.
const MAX_REDUCED: i32 = 100 << 20;
/// Maximum length in characters of each name in a payload without all columns of variable size.
const NAME_CHARACTERS: i32 = 256;

/// A batch that is fixed in the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedBatch {
    /// Its number.
    pub number: i64,
    /// Whether NoETL's tailer publishes from this database, or did so earlier. It stores its position before its first
    /// publish, so `false` also means that it has published no event of the batch.
    pub noetl_publishes: bool,
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
    shard: Arc<Database>,
    connection: PgConnection,
    fence: i64,
    /// Last check that found no events: its `done`, and the database's snapshot at that time.
    nothing: Option<(TxSnapshot, String)>,
    /// True if rows with transaction ids of another server were reported.
    foreign_ids_reported: bool,
}

/// Result of one poll.
struct Poll {
    /// The database's snapshot.
    now: String,
    /// True if it sees events that are not published.
    any: bool,
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
        Ok(Self { shard, connection, fence, nothing: None, foreign_ids_reported: false })
    }

    /// Returns the end of the next batch after `done`, which covers everything committed so far. `Ok(None)`: no event
    /// has been committed.
    ///
    /// A batch never ends at a transaction id. Transactions get their ids at their first write, so such a batch would
    /// not follow the order of commits, and two batches could contain the events of a log in the wrong order.
    ///
    /// This is one round trip, which reads the log only if a transaction has ended since the last check. Rows with ids
    /// that this server has not assigned get its own ids, a page at a time, and are in the batch.
    pub async fn committed_since(&mut self, done: &TxSnapshot) -> Result<Option<TxSnapshot>, StorageError> {
        let mut poll = self.poll(done).await?;
        if poll.foreign_ids {
            self.assign_own_ids().await?;
            poll = self.poll(done).await?;
        }
        if poll.any {
            return parse(&self.shard, &poll.now).map(Some);
        }
        if !poll.foreign_ids {
            self.nothing = Some((done.clone(), poll.now));
        }
        Ok(None)
    }

    async fn poll(&mut self, done: &TxSnapshot) -> Result<Poll, StorageError> {
        let looked = self.nothing.as_ref().filter(|(since, _)| since == done).map(|(_, at)| at.as_str());
        // Each search reads the index in its order and ends at the first row.
        let poll = sqlx::query_as!(
            Poll,
            r#"SELECT now::text AS "now!",
                      now::text IS DISTINCT FROM $3 AND (
                          (SELECT true FROM noetl.event
                           WHERE tx_id >= $1::text::xid8 AND tx_id < pg_snapshot_xmax(now)
                             AND pg_visible_in_snapshot(tx_id, now) ORDER BY tx_id LIMIT 1) IS NOT NULL
                          OR (SELECT true FROM noetl.event
                              WHERE tx_id = ANY($2::text[]::xid8[]) AND pg_visible_in_snapshot(tx_id, now)
                              LIMIT 1) IS NOT NULL) AS "any!",
                      now::text IS DISTINCT FROM $3
                          AND (SELECT true FROM noetl.event
                               WHERE tx_id >= pg_snapshot_xmax(now) ORDER BY tx_id LIMIT 1) IS NOT NULL AS "foreign_ids!"
               FROM (SELECT pg_current_snapshot() AS now) AS snapshot"#,
            done.xmax().to_string(),
            &in_progress(done),
            looked,
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

    /// Stores the end of the next batch, before any of its events is published. The batch is to be appended to the
    /// stream after `last_sequence`. Returns the batch's number. `Ok(None)`: the fence was raised.
    #[tracing::instrument(
        level = "debug", name = "sql.tail_session.fix_target", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn fix_target(
        &mut self,
        target: &TxSnapshot,
        last_sequence: i64,
    ) -> Result<Option<FixedBatch>, StorageError> {
        let update = sqlx::query_as!(
            FixedBatch,
            r#"UPDATE noetl.tail_cursor
               SET target = $2::text::pg_snapshot, batch = batch + 1, last_sequence = $3, updated_at = now()
               WHERE fence = $1 AND target IS NULL
               RETURNING batch AS number,
                         EXISTS (SELECT FROM noetl.stream_cursor WHERE name = $4) AS "noetl_publishes!""#,
            self.fence,
            target.to_string(),
            last_sequence,
            NOETL_TAILER,
        );
        self.shard.run(update.fetch_optional(&mut self.connection)).await
    }

    /// Returns whether NoETL's tailer publishes from this database, or did so earlier.
    pub async fn noetl_publishes(&mut self) -> Result<bool, StorageError> {
        let row = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM noetl.stream_cursor WHERE name = $1) AS "publishes!""#,
            NOETL_TAILER,
        );
        self.shard.run(row.fetch_one(&mut self.connection)).await
    }

    /// Returns the events of a batch in the order of their keys, only those after `behind` if it is set. A row whose
    /// JSON has more than `limit` bytes comes without its large columns; if that is not enough, without all JSON
    /// columns and errors, and with the beginnings of its names.
    ///
    /// The inner query sorts, so the JSON texts are made row by row as rows are fetched, and not all before the first
    /// row. A row of more than [`MAX_REDUCED`] bytes is not reduced as jsonb, which can't hold 256 MiB.
    pub fn read_batch<'a>(
        &'a mut self,
        done: &'a TxSnapshot,
        target: &'a TxSnapshot,
        behind: Option<EventKey>,
        limit: i32,
    ) -> BoxStream<'a, Result<EventPayload, StorageError>> {
        let (shard, connection) = (&self.shard, &mut self.connection);
        let behind = behind.unwrap_or(EventKey { event_id: i64::MIN, execution_id: i64::MIN });
        let rows = try_stream! {
            let mut rows = sqlx::query_as!(
            EventPayload,
            r#"SELECT execution_id AS "execution_id!", event_id AS "event_id!", coalesce(event_type, '') AS "event_type!",
                      coalesce(meta #>> '{trace,traceparent}', meta ->> 'traceparent') AS traceparent,
                      CASE WHEN octet_length(whole.json) <= $7 THEN whole.json
                           WHEN octet_length(reduced.json) <= $7 THEN reduced.json
                           ELSE jsonb_build_object(
                               'execution_id', execution_id, 'event_id', event_id, 'catalog_id', catalog_id,
                               'parent_event_id', parent_event_id, 'parent_execution_id', parent_execution_id,
                               'created_at', created_at, 'event_type', left(event_type, $9), 'node_id', left(node_id, $9),
                               'node_name', left(node_name, $9), 'node_type', left(node_type, $9),
                               'status', left(status, $9), 'duration', duration, 'tenant_id', left(tenant_id, $9),
                               'organization_id', left(organization_id, $9), 'payload_omitted', true)::text
                      END AS "json!",
                      octet_length(whole.json) > $7 AS "omitted!"
               FROM (
                   SELECT * FROM (
                       SELECT * FROM noetl.event WHERE tx_id >= $1::text::xid8 AND tx_id < $2::text::xid8
                       UNION ALL
                       SELECT * FROM noetl.event WHERE tx_id = ANY($3::text[]::xid8[])
                   ) AS candidate
                   WHERE pg_visible_in_snapshot(tx_id, $4::text::pg_snapshot)
                     AND (event_id, execution_id) > ($5::bigint, $6::bigint)
                   ORDER BY event_id, execution_id
               ) AS event
               CROSS JOIN LATERAL (SELECT row_to_json(event)::text AS json OFFSET 0) AS whole
               CROSS JOIN LATERAL (
                   SELECT CASE WHEN octet_length(whole.json) > $7 AND octet_length(whole.json) <= $8
                          THEN (to_jsonb(event) - ARRAY['context', 'result', 'stack_trace']
                                || '{"payload_omitted": true}')::text END AS json OFFSET 0
               ) AS reduced
               ORDER BY event_id, execution_id"#,
            done.xmax().to_string(),
            target.xmax().to_string(),
            &in_progress(done),
            target.to_string(),
            behind.event_id,
            behind.execution_id,
            limit,
            MAX_REDUCED,
            NAME_CHARACTERS,
            )
            .fetch(connection);
            while let Some(row) = rows.try_next().await? {
                yield row;
            }
        };
        rows.map_err(|error: sqlx::Error| shard.failed(error)).boxed()
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
        let update = sqlx::query!(
            "UPDATE noetl.tail_cursor
             SET done = target, target = NULL, last_sequence = $2, published_events = published_events + $3,
                 last_error = $4, updated_at = now(),
                 overlap_from = CASE WHEN $3 = 0 THEN overlap_from END,
                 discard_from = CASE WHEN $3 = 0 THEN discard_from END,
                 discard_to = CASE WHEN $3 = 0 THEN discard_to END
             WHERE fence = $1 AND target IS NOT NULL",
            self.fence,
            last_sequence,
            events,
            notice,
        );
        Ok(self.shard.run(update.execute(&mut self.connection)).await?.rows_affected() == 1)
    }
}
