//! Exclusive appends to one log: a transaction that holds the log's advisory lock.
//!
//! The lock is on the execution id, in the shard, until the transaction ends. An append that depends on the events
//! before it takes the lock first and then reads in a separate statement, because a snapshot from before the lock could
//! be older than the last holder's commit. Dropping the guard rolls back.

use serde_json::Value;
use sqlx::{Executor, Postgres};

use super::connections::Transaction;
use super::durability;
use super::error::StorageError;
use super::pools::Database;
use noetl_domain::event::Event;
use noetl_domain::ids::Id;

/// Waits for the locks of these logs, in their order, and takes them until the transaction ends.
pub(super) async fn lock_each(executor: impl Executor<'_, Database = Postgres>, logs: &[i64]) -> sqlx::Result<()> {
    let locks = sqlx::query_scalar!(
        r#"SELECT pg_advisory_xact_lock(log)::text FROM (SELECT DISTINCT unnest($1::bigint[]) AS log ORDER BY 1) AS logs"#,
        logs,
    );
    locks.fetch_all(executor).await.map(drop)
}

/// A log whose lock is held.
#[derive(Debug)]
pub struct LockedLog<'a> {
    pub(super) shard: &'a Database,
    pub(super) tx: Transaction,
    pub(super) execution: Id,
}

impl<'a> LockedLog<'a> {
    /// Waits for the log's lock and takes it.
    #[tracing::instrument(
        level = "debug", name = "sql.log.lock", skip_all,
        fields(database = %shard.name(), execution = %execution)
    )]
    pub async fn lock(shard: &'a Database, execution: Id) -> Result<Self, StorageError> {
        let work = async {
            let mut tx = shard.pool().begin().await?;
            sqlx::query!("SELECT pg_advisory_xact_lock($1)", execution.get()).execute(&mut *tx).await?;
            Ok(tx)
        };
        let tx = shard.run(work).await?;
        Ok(Self { shard, tx, execution })
    }

    /// Returns the largest event id of the log, which the next event's id must exceed. `Ok(None)`: the log is empty.
    #[tracing::instrument(
        level = "debug", name = "sql.log.last_event_id", skip_all,
        fields(database = %self.shard.name(), execution = %self.execution)
    )]
    pub async fn last_event_id(&mut self) -> Result<Option<Id>, StorageError> {
        let last = sqlx::query_scalar!(
            "SELECT event_id FROM noetl.event WHERE execution_id = $1 ORDER BY event_id DESC LIMIT 1",
            self.execution.get(),
        );
        Ok(self.shard.run(last.fetch_optional(&mut *self.tx)).await?.map(Id::new))
    }

    /// Appends events to this log. The database sets their time; `created_at` of the arguments is ignored. The time is
    /// taken here and not at the start of the transaction, which may have waited for the lock while others wrote.
    #[tracing::instrument(
        level = "debug", name = "sql.log.append", skip_all,
        fields(database = %self.shard.name(), execution = %self.execution, count = events.len())
    )]
    pub async fn append(&mut self, events: &[Event]) -> Result<(), StorageError> {
        debug_assert!(events.iter().all(|event| event.execution_id == self.execution));
        let column = |of: fn(&Event) -> Option<String>| events.iter().map(of).collect::<Vec<Option<String>>>();
        let json = |of: fn(&Event) -> Option<Value>| events.iter().map(of).collect::<Vec<Option<Value>>>();
        let ids: Vec<i64> = events.iter().map(|event| event.event_id.get()).collect();
        let catalog_ids: Vec<i64> = events.iter().map(|event| event.catalog_id.get()).collect();
        let parents: Vec<Option<i64>> = events.iter().map(|event| event.parent_execution_id.map(Id::get)).collect();
        let tenants: Vec<String> = events.iter().map(|event| event.tenant_id.clone()).collect();
        let organizations: Vec<String> = events.iter().map(|event| event.organization_id.clone()).collect();
        let types: Vec<String> = events.iter().map(|event| event.event_type.clone()).collect();
        let insert = sqlx::query!(
            "INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_execution_id, event_type, node_id,
                                      node_name, node_type, status, context, meta, tenant_id, organization_id,
                                      created_at)
             SELECT $1, event_id, catalog_id, parent, event_type, node_id, node_name, node_type, status, context, meta,
                    tenant_id, organization_id, clock_timestamp() AT TIME ZONE 'UTC'
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::text[], $10::jsonb[], $11::jsonb[], $12::text[], $13::text[])
                 AS t (event_id, catalog_id, parent, event_type, node_id, node_name, node_type, status, context, meta,
                       tenant_id, organization_id)",
            self.execution.get(),
            &ids,
            &catalog_ids,
            &parents as &[Option<i64>],
            &types,
            &column(|event| event.node_id.clone()) as &[Option<String>],
            &column(|event| event.node_name.clone()) as &[Option<String>],
            &column(|event| event.node_type.clone()) as &[Option<String>],
            &column(|event| event.status.clone()) as &[Option<String>],
            &json(|event| event.context.clone()) as &[Option<Value>],
            &json(|event| event.meta.clone()) as &[Option<Value>],
            &tenants,
            &organizations,
        );
        self.shard.run(insert.execute(&mut *self.tx)).await?;
        Ok(())
    }

    /// Releases the log, and waits until what was found in it is as durable as an append.
    #[tracing::instrument(
        level = "debug", name = "sql.log.confirm", skip_all,
        fields(database = %self.shard.name(), execution = %self.execution)
    )]
    pub async fn confirm(mut self) -> Result<(), StorageError> {
        self.shard.run(durability::write_record(&mut *self.tx)).await?;
        self.commit().await
    }

    /// Commits the appended events and releases the log.
    #[tracing::instrument(
        level = "debug", name = "sql.log.commit", skip_all,
        fields(database = %self.shard.name(), execution = %self.execution)
    )]
    pub async fn commit(self) -> Result<(), StorageError> {
        self.shard.run(self.tx.commit()).await
    }
}
