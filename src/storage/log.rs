//! Appending to one log while nobody else does: a transaction that holds the log's advisory lock.
//!
//! The lock is on the execution id, in the shard, for the transaction; every append of this server that must see what it
//! follows takes it first and then reads, in a statement of its own (a snapshot taken before the lock could be older
//! than the last holder's commit). Dropping the guard rolls back.

use sqlx::{Postgres, Transaction};

use super::error::StorageError;
use super::pools::Database;
use crate::domain::event::Event;
use crate::domain::ids::Id;

/// An exclusively held log.
#[derive(Debug)]
pub struct LockedLog<'a> {
    pub(super) shard: &'a Database,
    pub(super) tx: Transaction<'static, Postgres>,
    pub(super) execution: Id,
}

impl<'a> LockedLog<'a> {
    /// Waits for the log and takes it.
    pub async fn lock(shard: &'a Database, execution: Id) -> Result<Self, StorageError> {
        let work = async {
            let mut tx = shard.pool().begin().await?;
            sqlx::query!("SELECT pg_advisory_xact_lock($1)", execution.get()).execute(&mut *tx).await?;
            Ok(tx)
        };
        let tx = shard.run(work).await?;
        Ok(Self { shard, tx, execution })
    }

    /// The largest event id of the log; what the next one must exceed.
    pub async fn last_event_id(&mut self) -> Result<Option<Id>, StorageError> {
        let last = sqlx::query_scalar!(
            "SELECT event_id FROM noetl.event WHERE execution_id = $1 ORDER BY event_id DESC LIMIT 1",
            self.execution.get(),
        );
        Ok(self.shard.run(last.fetch_optional(&mut *self.tx)).await?.map(Id::new))
    }

    /// Adds one event of this log; its time is the database's, whatever `event.created_at` says.
    pub async fn append(&mut self, event: &Event) -> Result<(), StorageError> {
        debug_assert_eq!(event.execution_id, self.execution);
        let insert = sqlx::query!(
            "INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id,
                                      event_type, node_id, node_name, node_type, status, context, result, meta, error)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
            event.execution_id.get(),
            event.event_id.get(),
            event.catalog_id.get(),
            event.parent_event_id.map(Id::get),
            event.parent_execution_id.map(Id::get),
            event.event_type,
            event.node_id,
            event.node_name,
            event.node_type,
            event.status,
            event.context,
            event.result,
            event.meta,
            event.error,
        );
        self.shard.run(insert.execute(&mut *self.tx)).await?;
        Ok(())
    }

    /// Makes the appended events durable and releases the log.
    pub async fn commit(self) -> Result<(), StorageError> {
        self.shard.run(self.tx.commit()).await
    }
}
