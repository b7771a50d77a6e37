//! Reading of a fixed batch, in the order of its keys: event id, then execution id. Every version of the server uses
//! this order, so a leader continues after the last stored event of any other leader.
//!
//! A small batch is found by its transaction ids, and sorted. A large one is read in pages along the index on the keys,
//! which needs no sort. A page first counts the batch's events among a fixed number of index entries, and then reads
//! these events. So its work is bounded also where events of earlier batches lie between those of the batch, and no
//! snapshot is held for longer than a page. Memory is bounded on both sides: rows are passed on one by one.
//!
//! The lowest event id of a large batch is found in the index on transaction ids. This reads an index entry for each
//! event of the batch, but not the events.

use async_stream::try_stream;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::error::StorageError;
use super::pools::Database;
use super::tail_session::{Committed, EventPayload, SMALL, TailSession};
use noetl_domain::event::EventKey;
use noetl_domain::tail_progress::{Boundaries, Boundary};
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_domain::tx_spans::Spans;

/// Number of index entries that a page covers.
const PAGE: i64 = 5_000;
/// Number of index entries that a page covers after pages without events of the batch.
const MAX_PAGE: i64 = 100_000;
/// Number of transaction ids among which one statement searches for the lowest event id.
const SEARCHED: u64 = 1_000_000;
/// Maximum size in bytes of a row's JSON that is reduced by leaving out only its large columns. A larger row is not
/// reduced as jsonb, which can't hold 256 MiB.
const MAX_REDUCED: i32 = 100 << 20;
/// Maximum length in characters of each name in a payload without all columns of variable size.
const NAME_CHARACTERS: i32 = 256;

/// The part of a batch that is to be read.
#[derive(Debug, Clone, Copy)]
pub struct BatchRead<'a> {
    /// Snapshot at which the batch starts.
    pub done: &'a TxSnapshot,
    /// Snapshot at which the batch ends.
    pub target: &'a TxSnapshot,
    /// Key after which the read starts; `None`: the whole batch.
    pub behind: Option<EventKey>,
    /// Number of the batch's events up to `behind`.
    pub before: u64,
    /// Maximum size in bytes of an event's JSON. A larger one comes without its large columns; if that is not enough,
    /// without all JSON columns and errors, and with the beginnings of its names.
    pub payload_limit: i32,
    /// Maximum number of events that were read and may not be stored in the stream yet.
    pub in_flight: u64,
}

/// Returns the query for the events among rows, which are given as a query with the parameters from `$4` on. The JSON
/// texts are made row by row as rows are fetched, and not all before the first row.
macro_rules! payloads {
    ($rows:tt, $limit:expr, $($argument:expr),+) => {
        sqlx::query_as!(
            EventPayload,
            r#"SELECT execution_id AS "execution_id!", event_id AS "event_id!", coalesce(event_type, '') AS "event_type!",
                      coalesce(meta #>> '{trace,traceparent}', meta ->> 'traceparent') AS traceparent,
                      CASE WHEN octet_length(whole.json) <= $1 THEN whole.json
                           WHEN octet_length(reduced.json) <= $1 THEN reduced.json
                           ELSE jsonb_build_object(
                               'execution_id', execution_id, 'event_id', event_id, 'catalog_id', catalog_id,
                               'parent_event_id', parent_event_id, 'parent_execution_id', parent_execution_id,
                               'created_at', created_at, 'event_type', left(event_type, $3), 'node_id', left(node_id, $3),
                               'node_name', left(node_name, $3), 'node_type', left(node_type, $3),
                               'status', left(status, $3), 'duration', duration, 'tenant_id', left(tenant_id, $3),
                               'organization_id', left(organization_id, $3), 'payload_omitted', true)::text
                      END AS "json!",
                      octet_length(whole.json) > $1 AS "omitted!"
               FROM ("# + $rows + r#") AS event
               CROSS JOIN LATERAL (SELECT row_to_json(event)::text AS json OFFSET 0) AS whole
               CROSS JOIN LATERAL (
                   SELECT CASE WHEN octet_length(whole.json) > $1 AND octet_length(whole.json) <= $2
                          THEN (to_jsonb(event) - ARRAY['context', 'result', 'stack_trace']
                                || '{"payload_omitted": true}')::text END AS json OFFSET 0
               ) AS reduced
               ORDER BY event_id, execution_id"#,
            $limit,
            MAX_REDUCED,
            NAME_CHARACTERS,
            $($argument),+
        )
    };
}

/// Index entries that a page covers.
#[derive(Debug, Clone, Copy)]
struct Page {
    /// Key of the last entry.
    last: EventKey,
    /// Number of entries.
    entries: i64,
    /// Number of events of the batch among them.
    events: i64,
}

impl TailSession {
    /// Returns the events of a batch in the order of their keys.
    pub fn read_batch<'a>(&'a mut self, read: BatchRead<'a>) -> BoxStream<'a, Result<EventPayload, StorageError>> {
        try_stream! {
            let spans = Spans::between(read.done, read.target);
            let batch = Committed { done: read.done.clone(), target: read.target.clone() };
            let size = self.size(&batch, &spans).await?;
            let is_small = size.events <= SMALL;
            let mut events = if is_small { self.small(&spans, read) } else { self.large(&spans, read, size.lowest) };
            while let Some(event) = events.try_next().await? {
                yield event;
            }
        }
        .boxed()
    }

    /// Returns the events of a large batch, given the lowest event id of some of its events.
    fn large<'a>(
        &'a mut self,
        spans: &'a Spans,
        read: BatchRead<'a>,
        known: i64,
    ) -> BoxStream<'a, Result<EventPayload, StorageError>> {
        try_stream! {
            let mut after = match read.behind {
                Some(behind) => behind,
                None => EventKey { event_id: self.lowest(spans, known).await?, execution_id: i64::MIN },
            };
            let mut boundaries = Boundaries::new(read.in_flight);
            let (mut before, mut entries) = (read.before, PAGE);
            while let Some(page) = self.page(read, after, entries).await? {
                let is_last = page.entries < entries;
                entries = if page.events == 0 { (entries * 4).min(MAX_PAGE) } else { PAGE };
                if page.events > 0 {
                    if let Some(stored) = boundaries.pass(Boundary { events: before, key: after }) {
                        self.store_progress(stored).await?;
                    }
                    let mut events = self.between(read, after, page.last);
                    while let Some(event) = events.try_next().await? {
                        before += 1;
                        yield event;
                    }
                }
                if is_last {
                    break;
                }
                after = page.last;
            }
        }
        .boxed()
    }

    fn small<'a>(
        &'a mut self,
        spans: &'a Spans,
        read: BatchRead<'a>,
    ) -> BoxStream<'a, Result<EventPayload, StorageError>> {
        let behind = read.behind.unwrap_or(EventKey { event_id: i64::MIN, execution_id: i64::MIN });
        let events = payloads!(
            "SELECT event.* FROM unnest($4::text[]::xid8[], $5::text[]::xid8[]) AS span (low, high)
             CROSS JOIN LATERAL (
                 SELECT * FROM noetl.event WHERE tx_id >= span.low AND tx_id < span.high OFFSET 0
             ) AS event
             WHERE (event_id, execution_id) > ($6::bigint, $7::bigint)
             ORDER BY event_id, execution_id",
            read.payload_limit,
            &spans.low,
            &spans.high,
            behind.event_id,
            behind.execution_id
        );
        within_deadline(&self.shard, events.fetch(&mut self.connection))
    }

    /// Returns the events of the batch with keys after `after`, up to `last`.
    fn between<'a>(
        &'a mut self,
        read: BatchRead<'a>,
        after: EventKey,
        last: EventKey,
    ) -> BoxStream<'a, Result<EventPayload, StorageError>> {
        let events = payloads!(
            "SELECT * FROM (
                 SELECT * FROM noetl.event
                 WHERE (event_id, execution_id) > ($4::bigint, $5::bigint)
                   AND (event_id, execution_id) <= ($6::bigint, $7::bigint)
                 ORDER BY event_id, execution_id OFFSET 0
             ) AS entry
             WHERE pg_visible_in_snapshot(tx_id, $9::text::pg_snapshot)
               AND NOT pg_visible_in_snapshot(tx_id, $8::text::pg_snapshot)
             ORDER BY event_id, execution_id",
            read.payload_limit,
            after.event_id,
            after.execution_id,
            last.event_id,
            last.execution_id,
            read.done.to_string(),
            read.target.to_string()
        );
        within_deadline(&self.shard, events.fetch(&mut self.connection))
    }

    /// Returns the page of up to `entries` index entries after a key. `Ok(None)`: there are no more.
    async fn page(&mut self, read: BatchRead<'_>, after: EventKey, entries: i64) -> Result<Option<Page>, StorageError> {
        let page = sqlx::query!(
            r#"WITH entry AS MATERIALIZED (
                   SELECT event_id, execution_id, tx_id FROM noetl.event
                   WHERE (event_id, execution_id) > ($1::bigint, $2::bigint)
                   ORDER BY event_id, execution_id LIMIT $3
               )
               SELECT event_id AS "event_id!", execution_id AS "execution_id!",
                      (SELECT count(*) FROM entry) AS "entries!",
                      (SELECT count(*) FROM entry
                       WHERE pg_visible_in_snapshot(tx_id, $5::text::pg_snapshot)
                         AND NOT pg_visible_in_snapshot(tx_id, $4::text::pg_snapshot)) AS "events!"
               FROM entry ORDER BY event_id DESC, execution_id DESC LIMIT 1"#,
            after.event_id,
            after.execution_id,
            entries,
            read.done.to_string(),
            read.target.to_string(),
        );
        let page = self.shard.run(page.fetch_optional(&mut self.connection)).await?;
        Ok(page.map(|page| Page {
            last: EventKey { event_id: page.event_id, execution_id: page.execution_id },
            entries: page.entries,
            events: page.events,
        }))
    }

    /// Returns an event id below which the batch has no events, given the lowest of some of its events. If the search
    /// takes too long, or if the batch contains all events, that is the lowest possible id.
    async fn lowest(&mut self, spans: &Spans, known: i64) -> Result<i64, StorageError> {
        if spans.include_the_first() {
            return Ok(i64::MIN);
        }
        self.limit_statements("3s").await?;
        let mut lowest = known;
        for part in spans.parts(SEARCHED) {
            let search = sqlx::query_scalar!(
                "SELECT min(event.event_id) FROM unnest($1::text[]::xid8[], $2::text[]::xid8[]) AS span (low, high)
                 CROSS JOIN LATERAL (
                     SELECT event_id FROM noetl.event
                     WHERE tx_id >= span.low AND tx_id < span.high AND event_id < $3 OFFSET 0
                 ) AS event",
                &part.low,
                &part.high,
                lowest,
            );
            match self.shard.run(search.fetch_one(&mut self.connection)).await {
                Ok(found) => lowest = found.unwrap_or(lowest),
                Err(error) if error.timed_out().is_some() => {
                    lowest = i64::MIN;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.limit_statements("0").await?;
        Ok(lowest)
    }

    async fn limit_statements(&mut self, limit: &str) -> Result<(), StorageError> {
        let set = sqlx::query_scalar!("SELECT set_config('statement_timeout', $1, false)", limit);
        self.shard.run(set.fetch_one(&mut self.connection)).await?;
        Ok(())
    }

    /// Stores how much of the current batch is in the stream, for the status. This has no effect if the row has moved,
    /// and the next page stores a later progress; or if the fence was raised, which the renewal of the lease notices.
    async fn store_progress(&mut self, progress: Boundary) -> Result<(), StorageError> {
        let Self { shard, connection, fence, .. } = self;
        let row = shard.cursor_row();
        let work = async {
            let Some(location) = row.location(&mut *connection, *fence).await? else { return Ok(()) };
            let update = sqlx::query_scalar!(
                r#"UPDATE noetl.tail_cursor
                   SET progress_batch = batch, progress_events = $3, progress_event_id = $4, progress_execution_id = $5
                   WHERE ctid = $2::text::tid AND fence = $1 AND target IS NOT NULL
                   RETURNING ctid::text AS "location!""#,
                *fence,
                location,
                progress.events.cast_signed(),
                progress.key.event_id,
                progress.key.execution_id,
            );
            row.note(update.fetch_optional(&mut *connection).await?);
            Ok(())
        };
        shard.run(work).await
    }
}

/// Returns rows, each of which must arrive within the deadline of an operation.
fn within_deadline<'a, T: Send + 'a>(
    shard: &'a Database,
    mut rows: BoxStream<'a, sqlx::Result<T>>,
) -> BoxStream<'a, Result<T, StorageError>> {
    try_stream! {
        while let Some(row) = shard.run(rows.try_next()).await? {
            yield row;
        }
    }
    .boxed()
}
