//! Repair of the transaction ids in a database that was restored from a dump. Its rows keep the transaction ids of the
//! old server, but the new server has a counter of its own. A new transaction may get an id that old rows hold, and old
//! rows may have ids above the counter.
//!
//! [`renumber`] gives the old rows ids that fit the new server: [`BEFORE`] to rows that committed before the feed
//! began, [`PUBLISHED`] to rows that the dump's cursor knew as published, and the id of a transaction of the new server
//! to the others, as if they had been committed in it. It reads the rows in pages along their key and stores its
//! position with each page, so it can be interrupted at any point and repeated: it does not change the cursor, and it
//! skips rows that it has renumbered.

use sqlx::PgConnection;

use super::error::StorageError;
use super::moves::session::CHANGES_FENCED_ROWS;
use super::pools::Database;
use super::tail::TailCursor;
use noetl_domain::tx_snapshot::TxSnapshot;

/// Transaction id given to rows that committed before the feed began: the smallest that a transaction can have.
const BEFORE: &str = "3";
/// Transaction id given to rows that were published.
const PUBLISHED: &str = "4";
/// Maximum number of rows that one statement reads.
const PAGE: i64 = 10_000;

/// Returns the cursor's `origin` and `done` for a database whose rows were renumbered.
#[must_use]
pub fn numbered() -> (TxSnapshot, TxSnapshot) {
    (TxSnapshot::below(4), TxSnapshot::below(5))
}

/// Renumbers the rows of the old server and returns their number.
#[tracing::instrument(
    level = "debug", name = "sql.tail_restore.renumber", skip_all,
    fields(database = %shard.name())
)]
pub async fn renumber(shard: &Database, cursor: &TailCursor) -> Result<u64, StorageError> {
    let work = async {
        let mut connection = shard.connect_with([CHANGES_FENCED_ROWS]).await?;
        tracing::info!(database = %shard.name(), "renumbering the transaction ids of a restored database");
        let mut rows = 0;
        loop {
            let page = renumber_page(&mut connection, cursor).await?;
            rows += page.rows.cast_unsigned();
            if page.last {
                return Ok(rows);
            }
        }
    };
    work.await.map_err(|error| shard.failed(error))
}

/// Page of rows that was read.
struct Page {
    /// Number of rows that were renumbered.
    rows: i64,
    /// True if there are no rows after the stored position, or the fence was raised.
    last: bool,
}

/// Renumbers the rows of the old server among the next [`PAGE`] rows, and stores the position.
///
/// A row belongs to the new server if its transaction is younger than the restored table, and if that transaction or
/// one of its subtransactions, whose ids are larger, wrote the row.
async fn renumber_page(connection: &mut PgConnection, cursor: &TailCursor) -> sqlx::Result<Page> {
    let update = sqlx::query_as!(
        Page,
        r#"WITH next AS (
             SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS id
         ), restored AS (
             SELECT next.id - ((next.id - pg_attribute.xmin::text::bigint) & 4294967295) AS at
             FROM next, pg_attribute WHERE attrelid = 'noetl.tail_cursor'::regclass AND attname = 'singleton'
         ), position AS (
             SELECT execution_id, event_id
             FROM noetl.tail_renumbering JOIN pg_control_system() AS control USING (system_identifier)
         ), page AS MATERIALIZED (
             SELECT event.execution_id, event.event_id, event.tx_id, event.xmin FROM noetl.event
             WHERE (event.execution_id, event.event_id)
                   > (coalesce((SELECT execution_id FROM position), -9223372036854775808),
                      coalesce((SELECT event_id FROM position), -9223372036854775808))
             ORDER BY event.execution_id, event.event_id LIMIT $5
         ), old AS MATERIALIZED (
             SELECT page.execution_id, page.event_id,
                    CASE WHEN NOT pg_visible_in_snapshot(page.tx_id, $1::text::pg_snapshot) THEN pg_current_xact_id()
                         WHEN pg_visible_in_snapshot(page.tx_id, $2::text::pg_snapshot) THEN $3::text::xid8
                         ELSE $4::text::xid8 END AS tx_id
             FROM page, next, restored
             WHERE page.tx_id > $4::text::xid8
               AND NOT (page.tx_id::text::bigint > restored.at
                        AND next.id - ((next.id - page.xmin::text::bigint) & 4294967295) >= page.tx_id::text::bigint)
         ), leader AS (
             SELECT FROM noetl.tail_cursor WHERE fence = $6
         ), renumbered AS (
             UPDATE noetl.event SET tx_id = old.tx_id FROM old, leader
             WHERE event.execution_id = old.execution_id AND event.event_id = old.event_id
             RETURNING 1
         ), stored AS (
             INSERT INTO noetl.tail_renumbering (system_identifier, execution_id, event_id)
             SELECT control.system_identifier, reached.execution_id, reached.event_id
             FROM leader, pg_control_system() AS control,
                  (SELECT execution_id, event_id FROM page ORDER BY execution_id DESC, event_id DESC LIMIT 1) AS reached
             ON CONFLICT (singleton) DO UPDATE
             SET system_identifier = excluded.system_identifier, execution_id = excluded.execution_id,
                 event_id = excluded.event_id
             RETURNING 1
         )
         SELECT (SELECT count(*) FROM renumbered) AS "rows!", NOT EXISTS (SELECT FROM stored) AS "last!""#,
        cursor.done.to_string(),
        cursor.origin.to_string(),
        BEFORE,
        PUBLISHED,
        PAGE,
        cursor.fence,
    );
    update.fetch_one(connection).await
}
