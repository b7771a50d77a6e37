//! A database that was restored from a dump: its rows keep the transaction ids of the old server, whose counter the new
//! one does not share. A new transaction may get an id that old rows hold, and old rows may lie above the counter.
//!
//! [`renumber`] gives the old rows ids that fit: [`BEFORE`] to what committed before the feed began, [`PUBLISHED`] to what
//! the dump's cursor knew as published, and an id of the new server's to the rest, as if it were committed just then.
//! It can be stopped and repeated at any place: the cursor stays as it is until all is done, and a row that has its number
//! is left alone.

use sqlx::PgConnection;

use super::error::StorageError;
use super::pools::Database;
use super::tail::TailCursor;
use crate::domain::tx_snapshot::TxSnapshot;

/// The id of rows that committed before the feed began: the first that a transaction can have.
const BEFORE: &str = "3";
/// The id of rows that were published.
const PUBLISHED: &str = "4";
/// Rows that one statement renumbers.
const PAGE: i64 = 10_000;

/// Where the feed began, and what is published, of a log that was renumbered.
#[must_use]
pub fn numbered() -> (TxSnapshot, TxSnapshot) {
    (TxSnapshot::below(4), TxSnapshot::below(5))
}

/// Renumbers the rows of the old server and answers how many there were.
#[tracing::instrument(
    level = "debug", name = "sql.tail_restore.renumber", skip_all,
    fields(database = %shard.name())
)]
pub async fn renumber(shard: &Database, cursor: &TailCursor) -> Result<u64, StorageError> {
    let work = async {
        let mut connection = shard.connect().await?;
        let mut rows = 0;
        loop {
            let renumbered = renumber_page(&mut connection, cursor).await?;
            rows += renumbered;
            if renumbered == 0 {
                return Ok(rows);
            }
            tracing::info!(database = %shard.name(), rows, "numbering the transactions of a restored database anew");
        }
    };
    work.await.map_err(|error| shard.failed(error))
}

/// A row is the new server's own if its transaction is younger than the restored table, and wrote the row itself or by a
/// subtransaction, whose ids are larger.
async fn renumber_page(connection: &mut PgConnection, cursor: &TailCursor) -> sqlx::Result<u64> {
    let update = sqlx::query!(
        "WITH next AS (
             SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS id
         ), restored AS (
             SELECT next.id - ((next.id - pg_attribute.xmin::text::bigint) & 4294967295) AS at
             FROM next, pg_attribute WHERE attrelid = 'noetl.tail_cursor'::regclass AND attname = 'singleton'
         ), old AS MATERIALIZED (
             SELECT event.execution_id, event.event_id,
                    CASE WHEN NOT pg_visible_in_snapshot(event.tx_id, $1::text::pg_snapshot) THEN pg_current_xact_id()
                         WHEN pg_visible_in_snapshot(event.tx_id, $2::text::pg_snapshot) THEN $3::text::xid8
                         ELSE $4::text::xid8 END AS tx_id
             FROM noetl.event, next, restored
             WHERE event.tx_id > $4::text::xid8
               AND NOT (event.tx_id::text::bigint > restored.at
                        AND next.id - ((next.id - event.xmin::text::bigint) & 4294967295) >= event.tx_id::text::bigint)
             LIMIT $5
         )
         UPDATE noetl.event SET tx_id = old.tx_id FROM old
         WHERE event.execution_id = old.execution_id AND event.event_id = old.event_id
           AND EXISTS (SELECT FROM noetl.tail_cursor WHERE fence = $6)",
        cursor.done.to_string(),
        cursor.origin.to_string(),
        BEFORE,
        PUBLISHED,
        PAGE,
        cursor.fence,
    );
    Ok(update.execute(connection).await?.rows_affected())
}
