//! Triggers that act for every writer, also for one that applies logical replication.

use sqlx::Connection;

use super::error::StorageError;
use super::lock_wait::{self, SHORT_WAIT};
use super::pools::Database;

/// Attempts to enable a trigger. Writers queue behind each attempt for up to a second.
const ATTEMPTS: u32 = 3;

/// Enables the triggers that give events their transaction ids, those of the fences of buckets and those that note late
/// changes of executions for every writer, if they are not: `ENABLE TRIGGER ALL` after a restore enables them for ordinary
/// writers only. Returns the names of those that were changed.
#[tracing::instrument(level = "debug", name = "sql.triggers.enable", skip_all, fields(database = %shard.name()))]
pub async fn enable(shard: &Database) -> Result<Vec<String>, StorageError> {
    let disabled = sqlx::query!(
        r#"SELECT DISTINCT coalesce(pg_partition_root(tgrelid), tgrelid)::regclass::text AS "table!",
                  tgname::text AS "name!"
           FROM pg_trigger
           WHERE tgname IN ('event_assign_tx_id', 'bucket_fence', 'bucket_fence_delete', 'execution_history_insert',
                            'execution_history_update', 'execution_history_delete') AND tgenabled <> 'A'
             AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'noetl'::regnamespace)"#,
    );
    let disabled = shard.run(disabled.fetch_all(shard.pool())).await?;
    if disabled.is_empty() {
        return Ok(Vec::new());
    }
    let work = async {
        let mut connection = shard.connect().await?;
        sqlx::raw_sql(SHORT_WAIT).execute(&mut connection).await?;
        for trigger in &disabled {
            let enable = format!("ALTER TABLE {} ENABLE ALWAYS TRIGGER {}", trigger.table, trigger.name);
            lock_wait::run(&mut connection, &enable, ATTEMPTS).await?;
        }
        connection.close().await
    };
    work.await.map_err(|error: sqlx::Error| shard.failed(error))?;
    Ok(disabled.into_iter().map(|trigger| trigger.name).collect())
}
