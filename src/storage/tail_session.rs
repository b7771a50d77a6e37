//! What a shard's leader does on a connection of its own: find what committed, fix a batch, read it, note it as done.
//!
//! A batch is what `target` sees and `done` does not (see [`super::tail`]). A turn costs no connection and waits for no
//! pool; a batch is streamed without a deadline, as a backlog takes as long as it takes. A session whose call failed, or
//! was given up, is done with.

use std::sync::Arc;

use async_stream::try_stream;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sqlx::PgConnection;

use super::error::StorageError;
use super::pools::Database;
use super::tail::{in_progress, parse};
use crate::domain::event::EventKey;
use crate::domain::tx_snapshot::TxSnapshot;

/// A batch reads a few rows or very many by one plan, which is kept: compiling it would take longer than most runs, and one
/// that was made while the newest partition was empty must not read all of it. What the cursor notes must outlive a crash,
/// whatever the server's default is.
const SETTINGS: [(&str, &str); 6] = [
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("work_mem", "32MB"),
    ("datestyle", "ISO"),
    ("lock_timeout", "3500ms"),
    ("synchronous_commit", "on"),
];

/// An event's row with its JSON and its time as the texts that Postgres writes: no row is beyond those.
#[derive(Debug, Clone, Default)]
pub struct EventText {
    /// The log that the event belongs to.
    pub execution_id: i64,
    /// Grows along the log.
    pub event_id: i64,
    /// The catalog entry.
    pub catalog_id: i64,
    /// The event that caused this one.
    pub parent_event_id: Option<i64>,
    /// The execution that started this one.
    pub parent_execution_id: Option<i64>,
    /// When it was written, in UTC: ISO form, or `infinity`.
    pub created_at: String,
    /// What happened.
    pub event_type: String,
    /// The node that it happened at.
    pub node_id: Option<String>,
    /// The node's name.
    pub node_name: Option<String>,
    /// The node's kind.
    pub node_type: Option<String>,
    /// The state after it.
    pub status: Option<String>,
    /// Seconds.
    pub duration: Option<f64>,
    /// What it was given, as JSON.
    pub context: Option<String>,
    /// What it gave, as JSON.
    pub result: Option<String>,
    /// About the event itself, as JSON.
    pub meta: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Where it went wrong.
    pub stack_trace: Option<String>,
    /// Whose.
    pub tenant_id: String,
    /// Whose.
    pub organization_id: String,
}

/// A leader's connection to its shard.
#[derive(Debug)]
pub struct TailSession {
    shard: Arc<Database>,
    connection: PgConnection,
    fence: i64,
    /// The snapshot at which nothing was found, with what it was compared with.
    nothing: Option<(TxSnapshot, String)>,
}

impl TailSession {
    /// Connects for the leader that took the lease with this fence.
    #[tracing::instrument(
        level = "debug", name = "sql.tail_session.open", skip_all,
        fields(database = %shard.name(), fence)
    )]
    pub async fn open(shard: Arc<Database>, fence: i64) -> Result<Self, StorageError> {
        let connection = shard.run(shard.connect_with(SETTINGS)).await?;
        Ok(Self { shard, connection, fence, nothing: None })
    }

    /// The end of a next batch after `done`: everything that has committed by then. `Ok(None)`: nothing has.
    ///
    /// It is never cut at a transaction id. Ids are given out when transactions begin to write, so a cut one would no
    /// longer be in the order of commits, and a log's events could be split over two batches the wrong way round.
    ///
    /// One round trip, which looks at the log only when a transaction has ended since the last look.
    pub async fn committed_since(&mut self, done: &TxSnapshot) -> Result<Option<TxSnapshot>, StorageError> {
        let looked = self.nothing.as_ref().filter(|(since, _)| since == done).map(|(_, at)| at.as_str());
        let row = sqlx::query!(
            r#"SELECT now AS "now!",
                      now IS DISTINCT FROM $3 AND (
                          EXISTS (SELECT 1 FROM noetl.event WHERE tx_id >= $1::text::xid8)
                          OR EXISTS (SELECT 1 FROM noetl.event WHERE tx_id = ANY($2::text[]::xid8[]))) AS "any!"
               FROM (SELECT pg_current_snapshot()::text AS now) AS snapshot"#,
            done.xmax().to_string(),
            &in_progress(done),
            looked,
        );
        let row = self.shard.run(row.fetch_one(&mut self.connection)).await?;
        if row.any {
            return parse(&self.shard, &row.now).map(Some);
        }
        self.nothing = Some((done.clone(), row.now));
        Ok(None)
    }

    /// Fixes the batch that ends at `target`, to be appended behind `last_sequence`, before anything of it is published.
    /// Answers the batch's number, `Ok(None)` if the fence has moved on.
    #[tracing::instrument(
        level = "debug", name = "sql.tail_session.fix_target", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn fix_target(&mut self, target: &TxSnapshot, last_sequence: i64) -> Result<Option<i64>, StorageError> {
        let update = sqlx::query_scalar!(
            "UPDATE noetl.tail_cursor
             SET target = $2::text::pg_snapshot, batch = batch + 1, last_sequence = $3, updated_at = now()
             WHERE fence = $1 AND target IS NULL RETURNING batch",
            self.fence,
            target.to_string(),
            last_sequence,
        );
        self.shard.run(update.fetch_optional(&mut self.connection)).await
    }

    /// The events of a batch in the order of their keys, those behind a key if there is one.
    ///
    /// They are sorted once, inside: so the texts are made as rows are fetched, while others are published, not before the
    /// first.
    pub fn read_batch<'a>(
        &'a mut self,
        done: &'a TxSnapshot,
        target: &'a TxSnapshot,
        behind: Option<EventKey>,
    ) -> BoxStream<'a, Result<EventText, StorageError>> {
        let (shard, connection) = (&self.shard, &mut self.connection);
        let behind = behind.unwrap_or(EventKey { event_id: i64::MIN, execution_id: i64::MIN });
        let rows = try_stream! {
            let mut rows = sqlx::query_as!(
            EventText,
            r#"SELECT execution_id AS "execution_id!", event_id AS "event_id!", catalog_id AS "catalog_id!",
                      parent_event_id, parent_execution_id, created_at::text AS "created_at!",
                      coalesce(event_type, '') AS "event_type!", node_id, node_name, node_type, status, duration,
                      context::text, result::text, meta::text, error, stack_trace, tenant_id AS "tenant_id!",
                      organization_id AS "organization_id!"
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
               ORDER BY event_id, execution_id"#,
            done.xmax().to_string(),
            target.xmax().to_string(),
            &in_progress(done),
            target.to_string(),
            behind.event_id,
            behind.execution_id,
            )
            .fetch(connection);
            while let Some(row) = rows.try_next().await? {
                yield row;
            }
        };
        rows.map_err(|error: sqlx::Error| shard.failed(error)).boxed()
    }

    /// Notes that the batch is in the stream, and what was strange about the stream if anything was. `Ok(false)`: the fence has moved on.
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
                 last_error = $4, updated_at = now()
             WHERE fence = $1 AND target IS NOT NULL",
            self.fence,
            last_sequence,
            events,
            notice,
        );
        Ok(self.shard.run(update.execute(&mut self.connection)).await?.rows_affected() == 1)
    }
}
