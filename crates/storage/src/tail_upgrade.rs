//! Recognition of `pg_upgrade`, which changes the system identifier and the timeline but keeps transaction ids.
//!
//! The row of `noetl.tail_anchor` holds the id of the transaction that wrote it. `pg_upgrade` copies the tables' files,
//! so the row's system column `xmin` is still that transaction. In a restored dump, `xmin` is the transaction of the
//! restore. On a new server this can be the same number by chance, so the latest published events are compared too.

use super::error::StorageError;
use super::pools::Database;

/// Binds the cursor to this database if `pg_upgrade` made it from the one in which the cursor was written. `Ok(false)`:
/// it is another database, or the fence was raised.
#[tracing::instrument(level = "debug", name = "sql.tail_upgrade.adopt", skip_all, fields(database = %shard.name()))]
pub(super) async fn adopt(shard: &Database, fence: i64) -> Result<bool, StorageError> {
    let update = sqlx::query!(
        "UPDATE noetl.tail_cursor AS cursor
         SET system_identifier = control.system_identifier,
             timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer, updated_at = now()
         FROM pg_control_system() AS control
         WHERE fence = $1
           AND EXISTS (SELECT FROM noetl.tail_anchor
                       WHERE xmin::text::bigint = (tx_id::text::bigint & 4294967295))
           AND coalesce((
               SELECT bool_or(latest.xmin::text::bigint = (latest.tx_id::text::bigint & 4294967295))
               FROM (SELECT event.xmin, event.tx_id FROM noetl.event
                     WHERE event.tx_id >= pg_snapshot_xmax(cursor.origin) AND event.tx_id < pg_snapshot_xmax(cursor.done)
                     ORDER BY event.tx_id DESC LIMIT 100) AS latest), true)",
        fence,
    );
    Ok(shard.run(update.execute(shard.pool())).await?.rows_affected() == 1)
}
