//! Position of a shard's projector: the transactions whose events are in the list of executions and in the snapshots.
//!
//! The position is a transaction snapshot, as that of the feed ([`super::tail`]), so an event that commits late is
//! projected late, and not left out. It belongs to the database: a standby, a recovery to a point in time and a copy have
//! the position of their own tables. In another database, such as a restored dump, transaction ids are other ones. There,
//! the projector continues with the next commits, and a pass over all logs fills the list ([`super::read_model`]).
//!
//! One process at a time projects a shard. It holds an advisory lock until its connection is closed, so it can't store a
//! position that it read before the database crashed.

use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::Instant;

use super::error::StorageError;
use super::grown_logs;
use super::pools::Database;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::types_of_subscriptions;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_domain::tx_spans::Spans;

/// Settings of the connection. The rows are found by indexes, also if the planner has no statistics. A statement ends
/// before the deadline of an operation, so the connection can be used after a long one.
const SETTINGS: &str = "SET statement_timeout = '3s'; SET lock_timeout = '3s'; SET jit = off;
                        SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan";

/// Name of the advisory lock.
const LOCK: &str = "noetl.projection_cursor";

/// The exclusive right to project a shard.
#[derive(Debug)]
pub struct ProjectionCursor<'a> {
    shard: &'a Database,
    connection: PgConnection,
}

/// Position of a projector.
#[derive(Debug, Clone)]
pub struct Position {
    /// Sees the transactions whose events are projected.
    pub done: TxSnapshot,
    /// Executions with such events that could not be advanced, and are tried again.
    pub deferred: Vec<Id>,
    /// Time at which it was stored.
    pub since: Instant,
}

impl<'a> ProjectionCursor<'a> {
    /// Takes the lock. `Ok(None)`: another process projects the shard. Then no connection is opened.
    #[tracing::instrument(level = "debug", name = "sql.projection_cursor.take", skip_all, fields(database = %shard.name()))]
    pub async fn take(shard: &'a Database) -> Result<Option<Self>, StorageError> {
        // Released at the end of the statement.
        let free =
            sqlx::query_scalar!(r#"SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS "free!""#, LOCK,);
        if !shard.run(free.fetch_one(shard.leases())).await? {
            return Ok(None);
        }
        let connection = shard.exclusive_connection(LOCK, SETTINGS).await?;
        Ok(connection.map(|connection| Self { shard, connection }))
    }

    /// Returns the stored position. In another database than that of the position, begins anew.
    #[tracing::instrument(
        level = "debug", name = "sql.projection_cursor.position", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn position(&mut self) -> Result<Position, StorageError> {
        let begun = sqlx::query!(
            "WITH begun AS (
                 INSERT INTO noetl.projection_cursor AS cursor (done, system_identifier)
                 SELECT pg_current_snapshot(), system_identifier FROM pg_control_system()
                 ON CONFLICT (singleton) DO UPDATE
                 SET done = excluded.done, deferred = excluded.deferred, updated_at = now(),
                     system_identifier = excluded.system_identifier
                 -- The ids of a dump can be larger than those of its server.
                 WHERE cursor.system_identifier <> excluded.system_identifier
                    OR pg_snapshot_xmax(cursor.done) > pg_snapshot_xmax(excluded.done)
                 RETURNING 1
             )
             DELETE FROM noetl.read_model_fill WHERE EXISTS (SELECT FROM begun)"
        );
        self.shard.run(begun.execute(&mut self.connection)).await?;
        let position = sqlx::query!(
            r#"SELECT done::text AS "done!", deferred, extract(epoch FROM now() - updated_at)::float8 AS "age!"
               FROM noetl.projection_cursor"#
        );
        let position = self.shard.run(position.fetch_one(&mut self.connection)).await?;
        let deferred = position.deferred.into_iter().map(Id::new).collect();
        let age = Duration::try_from_secs_f64(position.age).unwrap_or_default();
        let now = Instant::now();
        Ok(Position { done: self.parse(&position.done)?, deferred, since: now.checked_sub(age).unwrap_or(now) })
    }

    /// Returns the current snapshot.
    pub async fn now(&mut self) -> Result<TxSnapshot, StorageError> {
        let now = sqlx::query_scalar!(r#"SELECT pg_current_snapshot()::text AS "now!""#);
        let now = self.shard.run(now.fetch_one(&mut self.connection)).await?;
        self.parse(&now)
    }

    /// Returns the executions with events of these transactions. A source subscription has no state that is stored.
    #[tracing::instrument(
        level = "debug", name = "sql.projection_cursor.grown", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn grown(&mut self, transactions: &Spans) -> Result<Vec<Id>, StorageError> {
        let other_types: Vec<&str> = types_of_subscriptions().collect();
        self.shard.run(grown_logs::of(&mut self.connection, transactions, &other_types)).await
    }

    /// Stores the position.
    #[tracing::instrument(
        level = "debug", name = "sql.projection_cursor.store", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn store(&mut self, done: &TxSnapshot, deferred: &[Id]) -> Result<(), StorageError> {
        let deferred: Vec<i64> = deferred.iter().map(|id| id.get()).collect();
        let update = sqlx::query!(
            "UPDATE noetl.projection_cursor SET done = $1::text::pg_snapshot, deferred = $2, updated_at = now()",
            done.to_string(),
            &deferred,
        );
        self.shard.run(update.execute(&mut self.connection)).await?;
        Ok(())
    }

    fn parse(&self, snapshot: &str) -> Result<TxSnapshot, StorageError> {
        snapshot.parse().map_err(|malformed| self.shard.corrupt(format!("{malformed}")))
    }
}
