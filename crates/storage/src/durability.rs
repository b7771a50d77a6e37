//! Durability of answers that rest on rows that were found.
//!
//! With synchronous standbys, a commit is acknowledged when a standby has it. A commit whose wait was cancelled, because the
//! standby did not answer in time, is visible although it can still be lost. A request that is repeated then finds its rows
//! and writes nothing. So before it is acknowledged, it commits a small WAL record, whose wait includes all earlier commits.

use sqlx::{Executor, Postgres};

use super::error::StorageError;
use super::pools::Database;

/// Waits until everything that is visible now is as durable as a commit. Costs a statement without synchronous standbys.
#[tracing::instrument(level = "debug", name = "sql.durability.confirm", skip_all, fields(database = %database.name()))]
pub(super) async fn confirm(database: &Database) -> Result<(), StorageError> {
    database.run(write_record(database.pool())).await
}

/// Writes a WAL record that the commit of the transaction waits for.
pub(super) async fn write_record(executor: impl Executor<'_, Database = Postgres>) -> sqlx::Result<()> {
    let record = sqlx::query_scalar!(
        r#"SELECT pg_logical_emit_message(true, 'noetl', '')::text AS "position!"
           WHERE current_setting('synchronous_standby_names') <> ''"#
    );
    record.fetch_optional(executor).await.map(drop)
}
