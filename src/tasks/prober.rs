//! Probes one database: at an interval, at once after an operation failed, and more often while it is down.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use noetl_storage::pools::Database;

/// Interval of the probes while the database is available.
const WHILE_UP: Duration = Duration::from_secs(5);
/// Interval of the probes while it is not. Requests fail until a probe notices that the database is back.
const WHILE_DOWN: Duration = Duration::from_millis(300);

/// Interval of the checks of idle connections.
const CHECKS: Duration = Duration::from_secs(1);

/// Checks the idle connections of a database until `stop`, and reports the number of connections as metrics.
pub async fn check_connections(database: Arc<Database>, stop: CancellationToken) {
    while stop.run_until_cancelled(sleep(CHECKS)).await.is_some() {
        stop.run_until_cancelled(database.check_idle_connections()).await;
        report_connections(&database);
    }
}

fn report_connections(database: &Database) {
    let (open, idle) = database.pool_size();
    let idle = u32::try_from(idle).unwrap_or(u32::MAX);
    for (state, connections) in [("idle", idle), ("used", open.saturating_sub(idle))] {
        let labels = [("database", database.name().to_string()), ("state", state.to_owned())];
        metrics::gauge!("noetl_database_connections", &labels).set(connections);
    }
    let name = database.name().to_string();
    metrics::gauge!("noetl_database_connections_max", "database" => name).set(database.pool_limit());
}

/// Probes until `stop`.
pub async fn run(database: Arc<Database>, stop: CancellationToken) {
    while stop.run_until_cancelled(database.probe()).await.is_some() {
        let is_up = database.health().down.is_none();
        let period = if is_up { WHILE_UP } else { WHILE_DOWN };
        let name = database.name().to_string();
        metrics::gauge!("noetl_database_up", "database" => name).set(f64::from(u8::from(is_up)));
        tokio::select! {
            () = stop.cancelled() => return,
            () = database.suspected() => {}
            () = sleep(period) => {}
        }
    }
}
