//! Probes one database: at an interval, at once after an operation failed, and more often while it is down.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use noetl_storage::pools::Database;

const WHILE_UP: Duration = Duration::from_secs(5);
const WHILE_DOWN: Duration = Duration::from_millis(300);

/// Interval of the checks of idle connections.
const CHECKS: Duration = Duration::from_secs(1);

/// Checks the idle connections of a database until `stop`.
pub async fn check_connections(database: Arc<Database>, stop: CancellationToken) {
    while stop.run_until_cancelled(sleep(CHECKS)).await.is_some() {
        stop.run_until_cancelled(database.check_idle_connections()).await;
    }
}

/// Probes until `stop`.
pub async fn run(database: Arc<Database>, stop: CancellationToken) {
    while stop.run_until_cancelled(database.probe()).await.is_some() {
        let period = if database.health().down.is_some() { WHILE_DOWN } else { WHILE_UP };
        let shard = database.name().to_string();
        metrics::gauge!("noetl_database_up", "database" => shard).set(f64::from(u8::from(period == WHILE_UP)));
        tokio::select! {
            () = stop.cancelled() => return,
            () = database.suspected() => {}
            () = sleep(period) => {}
        }
    }
}
