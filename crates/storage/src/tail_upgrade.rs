//! Recognition of `pg_upgrade`, which changes the system identifier and the timeline but keeps transaction ids.
//!
//! The row of `noetl.tail_anchor` holds the id of the transaction that wrote it. `pg_upgrade` copies the tables' files,
//! so the row's system column `xmin` is still that transaction. In a restored dump, `xmin` is the transaction of the
//! restore. On a new server this can be the same number by chance, so the latest published events are compared too.

use super::error::StorageError;
use super::pools::Database;

/// Returns whether this database, which is not the one in which the cursor was written, was made from that one by
/// `pg_upgrade`. Changes nothing.
#[tracing::instrument(level = "debug", name = "sql.tail_upgrade.is_upgraded", skip_all, fields(database = %shard.name()))]
pub(super) async fn is_upgraded(shard: &Database) -> Result<bool, StorageError> {
    let upgraded = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM noetl.tail_anchor
                          WHERE xmin::text::bigint = (tx_id::text::bigint & 4294967295))
              AND coalesce((
                  SELECT bool_or(latest.xmin::text::bigint = (latest.tx_id::text::bigint & 4294967295))
                  FROM (SELECT event.xmin, event.tx_id FROM noetl.event
                        WHERE event.tx_id >= pg_snapshot_xmax(cursor.origin)
                          AND event.tx_id < pg_snapshot_xmax(cursor.done)
                        ORDER BY event.tx_id DESC LIMIT 100) AS latest), true) AS "upgraded!"
           FROM noetl.tail_cursor AS cursor"#,
    );
    Ok(shard.run(upgraded.fetch_optional(shard.leases())).await?.unwrap_or(false))
}

/// Binds the cursor to this database if `pg_upgrade` made it from the one in which the cursor was written. `Ok(false)`:
/// it is another database, or the fence was raised.
#[tracing::instrument(level = "debug", name = "sql.tail_upgrade.adopt", skip_all, fields(database = %shard.name()))]
pub(super) async fn adopt(shard: &Database, fence: i64) -> Result<bool, StorageError> {
    if !is_upgraded(shard).await? {
        return Ok(false);
    }
    let update = sqlx::query!(
        "UPDATE noetl.tail_cursor
         SET system_identifier = control.system_identifier,
             timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer, updated_at = now(),
             database_oid = (SELECT oid FROM pg_database WHERE datname = current_database())
         FROM pg_control_system() AS control
         WHERE fence = $1",
        fence,
    );
    Ok(shard.run(update.execute(shard.leases())).await?.rows_affected() == 1)
}
