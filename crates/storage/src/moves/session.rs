//! A session of the mover in a shard. It holds the lock under which rows of the shard are moved or deleted in bulk, which
//! the retention uses too.

use sqlx::PgConnection;

use crate::error::StorageError;
use crate::pools::Database;

/// Lock of the retention.
const LOCK: &str = "noetl.retention";
/// Settings of the session. Rows have the same text in every session. Statements find their rows by an index. The last
/// setting lets the session write to fenced buckets, and choose the transaction ids of events.
const SETTINGS: &str =
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex';
    SET extra_float_digits = 1; SET jit = off; SET enable_seqscan = off;
    SET plan_cache_mode = force_custom_plan; SET lock_timeout = '3s'; SET noetl.moves_buckets = 'on'";

/// Setting of a session that may change rows of fenced buckets, for changes of their transaction ids only.
pub(crate) const CHANGES_FENCED_ROWS: (&str, &str) = ("noetl.moves_buckets", "on");

/// A session that holds the lock.
#[derive(Debug)]
pub struct Session<'a> {
    pub(super) shard: &'a Database,
    pub(super) connection: PgConnection,
}

impl<'a> Session<'a> {
    /// Opens a session and takes the lock. `Ok(None)`: another session holds it.
    #[tracing::instrument(level = "debug", name = "sql.moves.take", skip_all, fields(database = %shard.name()))]
    pub async fn take(shard: &'a Database) -> Result<Option<Self>, StorageError> {
        let connection = shard.exclusive_connection(LOCK, SETTINGS).await?;
        Ok(connection.map(|connection| Self { shard, connection }))
    }

    /// Returns whether the session still holds the lock. A session that was lost has an error.
    #[tracing::instrument(
        level = "debug", name = "sql.moves.holds_lock", skip_all,
        fields(database = %self.shard.name())
    )]
    pub(super) async fn holds_lock(&mut self) -> Result<bool, StorageError> {
        let holds = sqlx::query_scalar!(
            r#"SELECT EXISTS (
                   SELECT FROM pg_locks
                   WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND objsubid = 1
                     AND ((classid::bigint << 32) | objid::bigint) = hashtextextended($1, 0)
               ) AS "holds!""#,
            LOCK,
        );
        holds.fetch_one(&mut self.connection).await.map_err(|error| self.shard.failed(error))
    }

    pub(super) fn failed(&self, error: sqlx::Error) -> StorageError {
        self.shard.failed(error)
    }
}
