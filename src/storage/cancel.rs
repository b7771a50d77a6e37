//! Cancelling a statement from beside: over a connection per database that is kept for this purpose.
//!
//! Only the user of a connection may cancel what runs on it, and only while it keeps the connection.

use chrono::{DateTime, Utc};
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::Mutex;

/// A database server's process that serves one connection. Process ids come round again, so its start belongs to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backend {
    pid: i32,
    started: DateTime<Utc>,
}

impl Backend {
    /// The process that serves `connection`.
    pub(super) async fn of(connection: &mut PgConnection) -> sqlx::Result<Self> {
        sqlx::query_as!(
            Self,
            r#"SELECT pid AS "pid!", backend_start AS "started!" FROM pg_stat_activity WHERE pid = pg_backend_pid()"#,
        )
        .fetch_one(connection)
        .await
    }

    async fn cancel(self, connection: &mut PgConnection) -> sqlx::Result<()> {
        sqlx::query_scalar!(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2",
            self.pid,
            self.started,
        )
        .fetch_optional(connection)
        .await
        .map(drop)
    }
}

/// Cancels statements of one database.
#[derive(Debug)]
pub(super) struct Canceller {
    options: PgConnectOptions,
    connection: Mutex<Option<PgConnection>>,
}

impl Canceller {
    /// A canceller that connects when it is first needed.
    pub(super) fn new(options: PgConnectOptions) -> Self {
        Self { options, connection: Mutex::default() }
    }

    /// Cancels what runs on a backend's connection. When this returns, the signal was sent; a backend that has nothing to
    /// do ignores it.
    pub(super) async fn cancel(&self, backend: Backend) -> sqlx::Result<()> {
        let mut kept = self.connection.lock().await;
        // Taken out, so that a connection whose use was broken off is not used again.
        if let Some(mut connection) = kept.take()
            && backend.cancel(&mut connection).await.is_ok()
        {
            *kept = Some(connection);
            return Ok(());
        }
        let mut connection = PgConnection::connect_with(&self.options).await?;
        backend.cancel(&mut connection).await?;
        *kept = Some(connection);
        Ok(())
    }
}
