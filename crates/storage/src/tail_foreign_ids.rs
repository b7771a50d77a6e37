//! Rows with transaction ids that this server has never assigned.
//!
//! A trigger gives each inserted row the id of its own transaction (`migrations/0002_event.sql`). Rows
//! that no trigger saw can have any id: they were inserted before the trigger existed, or by a restore that disabled it.
//! A row is proved to have a foreign id if a snapshot sees the row, but not the transaction in `tx_id`. Such a row would
//! be published when this server assigns that id, and not before.

use sqlx::PgConnection;

/// Maximum number of rows that one statement changes.
const PAGE: i64 = 10_000;

/// Gives up to [`PAGE`] rows with foreign ids the id of this transaction, as if they had been committed in it, and
/// returns their number. Lower ids come first. Changes nothing if the cursor exists and has another fence.
pub(super) async fn assign_own(connection: &mut PgConnection, fence: i64) -> sqlx::Result<u64> {
    let update = sqlx::query!(
        "UPDATE noetl.event SET tx_id = pg_current_xact_id()
         FROM (SELECT execution_id, event_id FROM noetl.event
               WHERE tx_id >= pg_snapshot_xmin(pg_current_snapshot())
                 AND NOT pg_visible_in_snapshot(tx_id, pg_current_snapshot())
               ORDER BY tx_id, event_id LIMIT $1 FOR UPDATE) AS foreign_row
         WHERE event.execution_id = foreign_row.execution_id AND event.event_id = foreign_row.event_id
           AND NOT EXISTS (SELECT FROM noetl.tail_cursor WHERE fence <> $2)",
        PAGE,
        fence,
    );
    Ok(update.execute(connection).await?.rows_affected())
}
