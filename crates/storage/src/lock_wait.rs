//! Waits for locks on tables that writers use, and for the locks of tasks that one process does at a time.
//!
//! Writers queue behind a statement that waits for a lock on their table. So such a statement waits for a short time,
//! and is repeated after a pause in which the writers continue.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection};
use tokio::time::sleep;

use super::error::has_code;

/// Statement that sets the longest wait of a session for a lock.
pub(super) const SHORT_WAIT: &str = "SET lock_timeout = '1s'";
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause between two attempts to take an advisory lock.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Longest wait of a statement for rows that another transaction holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    /// 0.75 s, or 1.5 s if others wait too: the statement also writes rows of callers that do not need the held one. The
    /// wait is far below the deadline of an operation.
    ///
    /// The setting bounds each wait for a lock, and a row with several waiters has two waits: until the first waiter has
    /// gone, and then until the holder has gone.
    Short,
    /// 3.5 s, as other statements.
    Long,
}

impl LockWait {
    /// Returns the wait of a statement that is shared by several callers or not.
    #[must_use]
    pub const fn of(shared: bool) -> Self {
        if shared { Self::Short } else { Self::Long }
    }

    /// Returns the value of PostgreSQL's setting `lock_timeout`.
    pub(super) const fn setting(self) -> &'static str {
        match self {
            Self::Short => "750ms",
            Self::Long => "3500ms",
        }
    }
}

/// Takes the advisory lock with a name until the connection is closed. `Ok(false)`: another connection holds it.
pub(super) async fn try_hold(connection: &mut PgConnection, lock: &str) -> sqlx::Result<bool> {
    let taken = sqlx::query_scalar!(r#"SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS "taken!""#, lock);
    taken.fetch_one(connection).await
}

/// Waits until no other connection holds the advisory lock with a name, and takes it until the connection is closed.
///
/// It polls and does not wait in the database: a waiting statement holds a snapshot, and the holder's
/// `CREATE INDEX CONCURRENTLY` waits for every snapshot, so the two would deadlock.
pub(super) async fn hold(connection: &mut PgConnection, lock: &str) -> sqlx::Result<()> {
    while !try_hold(&mut *connection, lock).await? {
        sleep(ASK_AGAIN).await;
    }
    Ok(())
}

/// Returns whether a lock was not available in time: SQLSTATE `lock_not_available`.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    has_code(error, &["55P03"])
}

/// Runs statements as one transaction, in a session with [`SHORT_WAIT`]. Repeats them up to `attempts` times while a lock
/// is not available. The text must consist of constants, numbers and quoted names from PostgreSQL's catalog.
pub(super) async fn run(connection: &mut PgConnection, statements: &str, attempts: u32) -> sqlx::Result<()> {
    for _ in 1..attempts {
        match sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut *connection).await {
            Err(error) if is_busy(&error) => sleep(PAUSE).await,
            outcome => return outcome.map(drop),
        }
    }
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(connection).await.map(drop)
}
