//! Cancellation of running statements, over a separate connection per database that is kept for this purpose.
//!
//! Relies on its caller: only the user of a connection may cancel its statement, and only while it keeps the
//! connection.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgConnection;
use tokio::sync::Mutex;

use super::login::Login;
use super::session_settings;

/// Time between two checks of a backend whether its client still exists.
const CLIENT_CHECK: &str = "1s";

/// The server process of one connection. Process ids are reused, so the start time is part of its identity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backend {
    pid: i32,
    started: DateTime<Utc>,
}

impl Backend {
    /// Returns the process that serves `connection`, and lets it check every second, also within a statement, whether
    /// its client still exists. PostgreSQL 13 does not have this check.
    ///
    /// The process belongs to the role that logged in, and a role that this role became at login can't see it. So the
    /// statement runs as the former.
    pub(super) async fn of(connection: &mut PgConnection) -> sqlx::Result<Self> {
        sqlx::query_as!(
            Self,
            r#"WITH login AS MATERIALIZED (SELECT set_config('role', 'none', true) AS role)
               SELECT activity.pid AS "pid!", activity.backend_start AS "started!"
               FROM login
               CROSS JOIN LATERAL
                   pg_stat_get_activity(CASE login.role WHEN 'none' THEN pg_backend_pid() END) AS activity
               WHERE CASE WHEN current_setting('client_connection_check_interval', true) IS NULL THEN true
                          ELSE set_config('client_connection_check_interval', $1, false) IS NOT NULL END"#,
            CLIENT_CHECK,
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

/// Canceller of one database's statements.
#[derive(Debug)]
pub(super) struct Canceller {
    login: Login,
    connection: Mutex<Option<PgConnection>>,
}

impl Canceller {
    /// Creates a canceller that connects on its first use, as the role that logs in: only this role owns the backends.
    pub(super) fn new(login: &Login) -> Self {
        Self { login: login.with([("role", "none")]), connection: Mutex::default() }
    }

    /// Cancels the statement that runs on a backend's connection. The signal is sent when this returns; an idle backend
    /// ignores it.
    pub(super) async fn cancel(&self, backend: Backend) -> sqlx::Result<()> {
        let mut kept = self.connection.lock().await;
        // Taken out, so that a connection is not used again after this future is dropped in the middle of a use.
        if let Some(mut connection) = kept.take()
            && backend.cancel(&mut connection).await.is_ok()
        {
            *kept = Some(connection);
            return Ok(());
        }
        let mut connection = session_settings::open(&self.login).await?;
        backend.cancel(&mut connection).await?;
        *kept = Some(connection);
        Ok(())
    }
}
