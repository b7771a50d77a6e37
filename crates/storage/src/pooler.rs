//! Detection of poolers that share the sessions of PostgreSQL.
//!
//! A connection needs a session of its own: locks, settings and prepared statements belong to a session. PgBouncer gives
//! each transaction any session in its modes `transaction` and `statement`, and keeps a session for a connection in its
//! mode `session`.

use sqlx::{PgConnection, Row};

use super::error::{StorageError, has_code};
use super::pools::Database;

/// Comparisons of the sessions of two connections. One finds a pooler that gives the session that was used last, which is
/// usual; more find one that takes the sessions in turn.
const COMPARISONS: usize = 3;

/// SQLSTATE with which PgBouncer refuses a transaction in its mode `statement`.
const PROTOCOL_VIOLATION: &str = "08P01";

/// Returns whether two connections get the same session, or one connection gets several. Otherwise the connections stay
/// open for the next statements, one in the pool and one among those for leases.
#[tracing::instrument(level = "debug", name = "sql.pooler.shares_sessions", skip_all, fields(database = %database.name()))]
pub async fn shares_sessions(database: &Database) -> Result<bool, StorageError> {
    let work = async {
        let (pool, leases) = (database.pool(), database.leases());
        let (mut one, mut other) = (pool.open().await?, leases.open().await?);
        let own = session(&mut one).await?;
        let mut shares = false;
        for _ in 0..COMPARISONS {
            match sqlx::raw_sql("BEGIN").execute(&mut other).await {
                Err(error) if has_code(&error, &[PROTOCOL_VIOLATION]) => return Ok(true),
                begun => begun?,
            };
            // A pooler without another session would let `one` wait for this transaction.
            shares = session(&mut other).await? == own || session(&mut one).await? != own;
            sqlx::raw_sql("ROLLBACK").execute(&mut other).await?;
            if shares {
                break;
            }
        }
        if !shares {
            pool.adopt(one).await?;
            leases.adopt(other).await?;
        }
        Ok(shares)
    };
    database.run(work).await
}

/// Returns the process of PostgreSQL that runs a statement of a connection.
async fn session(connection: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
