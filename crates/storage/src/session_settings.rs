//! Settings of the server's sessions. They override those that the role, the database or PostgreSQL's configuration
//! give, so a `statement_timeout` of the role does not end the server's long statements. They are options of the
//! connection. A pooler may drop these (`ignore_startup_parameters` of PgBouncer), so they are also set in the session.
//!
//! PostgreSQL notices a lost client within 10 s: by keepalive probes while the connection is idle, and by the user timeout
//! while it has data to send. The driver can't set these options on the client's side. There, each read has a deadline,
//! and a connection that missed one is not used again.

use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use tokio::time::sleep;

use super::error::{WRONG_PASSWORD, has_code};
use super::login::Login;
use super::servers;

/// Settings of every session. A session that is not pooled has no time limits of the database.
pub(super) const UNLIMITED: [(&str, &str); 15] = [
    // Statements name the schema of their tables. Functions and operators of other schemas are never found: a role that may
    // create them in `public` could run code as this role.
    ("search_path", "pg_catalog,pg_temp"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    // Statements rely on their own snapshots.
    ("default_transaction_isolation", "read committed"),
    // Commits of the tail cursor and the claims must survive a crash, so they do not rely on the server's default.
    ("synchronous_commit", "on"),
    // Patterns in statements have backslashes.
    ("standard_conforming_strings", "on"),
    // Definitions of PostgreSQL's catalog are read with the names that they were created with.
    ("quote_all_identifiers", "off"),
    // Every statement finds its rows, and those of a join, by an index of the partition that has them.
    ("enable_indexscan", "on"),
    ("enable_nestloop", "on"),
    ("enable_partition_pruning", "on"),
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "1"),
    ("tcp_keepalives_count", "4"),
    ("tcp_user_timeout", "9s"),
];

/// Additional settings of pooled sessions. `lock_timeout` is shorter than the deadline of an operation
/// (`OPERATION_DEADLINE` in `pools.rs`). The other timeouts are longer, because they bound how long the locks of a lost
/// client are held, and how long an abandoned statement runs.
pub(super) const POOLED: [(&str, &str); 6] = [
    // JIT compilation would take longer than any statement here, even if the planner estimates a high cost.
    ("jit", "off"),
    // Every statement finds its rows by an index. Plans are cached: a plan that was made while a table was empty could
    // use a sequential scan, and would keep it when the table is large.
    ("enable_seqscan", "off"),
    // For the same reason: a bitmap would read all rows of a list to return a page of them.
    ("enable_bitmapscan", "off"),
    ("lock_timeout", "3500ms"),
    ("statement_timeout", "8s"),
    ("idle_in_transaction_session_timeout", "6s"),
];

/// Time limits that only some versions of PostgreSQL have. A version without them would refuse a connection whose options
/// name them.
const NEWER_LIMITS: [&str; 2] = ["transaction_timeout", "idle_session_timeout"];

/// Time for which a rejected password in a file is tried again, so that no request fails while the password is changed in
/// PostgreSQL and then in the file.
const PASSWORD_CHANGE: Duration = Duration::from_secs(3);
/// Pause before a rejected password is tried again.
const PASSWORD_PAUSE: Duration = Duration::from_millis(100);

/// Opens a connection with the settings in its options.
pub(super) async fn open(login: &Login) -> sqlx::Result<PgConnection> {
    let begun = Instant::now();
    let mut connection = loop {
        match servers::connect(login).await {
            Err(error)
                if login.can_change() && has_code(&error, &[WRONG_PASSWORD]) && begun.elapsed() < PASSWORD_CHANGE =>
            {
                sleep(PASSWORD_PAUSE).await;
            }
            attempt => break attempt?,
        }
    };
    // Not as a prepared statement, which a pooler may not know in this session.
    sqlx::raw_sql(AssertSqlSafe(missing_settings(login))).execute(&mut connection).await?;
    Ok(connection)
}

/// Returns the statement that changes the settings of a session that differ from the wanted ones, and switches off the
/// newer limits, if PostgreSQL has them. Neither names nor values have quotes.
fn missing_settings(login: &Login) -> String {
    let own = login.settings().iter().map(|(name, value)| format!("('{name}', '{value}', true)"));
    let newer = NEWER_LIMITS.map(|name| format!("('{name}', '0', false)"));
    format!(
        "SELECT set_config(name, wanted, false) FROM (VALUES {}) AS setting (name, wanted, required)
         WHERE CASE WHEN required THEN current_setting(name, true) IS DISTINCT FROM wanted
                    ELSE current_setting(name, true) <> wanted END",
        own.chain(newer).collect::<Vec<_>>().join(", ")
    )
}
