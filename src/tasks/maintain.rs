//! Runs every housekeeping task once, on every database that it applies to. A task that fails does not stop the others.

use super::partitions::Partitions;
use super::{dedup_purge, partitions};
use crate::service::error::ServiceError;
use crate::service::executions::Executions;
use crate::service::outbox::Outbox;
use crate::service::retention::Retention;
use crate::service::subscriptions::Subscriptions;
use noetl_storage::error::DatabaseName;

/// Failure of a housekeeping task.
#[derive(Debug, thiserror::Error)]
pub enum HousekeepingError {
    /// The task met a fault.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// An operator must first move rows out of the default partition.
    #[error(
        "can't create {blocked}, because noetl.event_default holds events of their time (made {made}). Such ids often \
         come from a clock that was far ahead. In one transaction, move the rows of that range out of \
         noetl.event_default, create the partition, and insert the rows again; or delete them if they are not needed"
    )]
    Blocked {
        /// Names of the partitions that can't be created.
        blocked: String,
        /// Names of the partitions that were created.
        made: String,
    },
}

/// Result of a housekeeping task on one database.
#[derive(Debug)]
pub struct Done {
    /// Name of the task.
    pub duty: &'static str,
    /// Database on which the task ran.
    pub database: DatabaseName,
    /// Summary of the work that was done, or the failure.
    pub outcome: Result<String, HousekeepingError>,
}

/// Runs every housekeeping task, and passes each result to `tell` at once.
pub async fn once(
    executions: &Executions,
    subscriptions: &Subscriptions,
    outbox: &Outbox,
    retention: Retention,
    mut tell: impl FnMut(Done),
) {
    let databases = executions.databases();
    for (index, shard) in (0..).zip(databases.shards()) {
        let database = shard.name();
        let ensured = partitions::ensure(shard).await.map_err(ServiceError::from);
        let outcome = ensured.map_err(HousekeepingError::from).and_then(|ensured| said(&ensured));
        tell(Done { duty: "partitions", database, outcome });
        let outcome = retention.enforce(shard).await.map(|enforced| enforced.to_string());
        tell(Done { duty: "retention", database, outcome: outcome.map_err(HousekeepingError::from) });
        let outcome = outbox.purge(index).await.map(|purged| format!("purged {purged} delivered"));
        tell(Done { duty: "outbox purge", database, outcome: outcome.map_err(HousekeepingError::from) });
    }
    let cluster = databases.cluster();
    let database = cluster.name();
    let outcome = executions.sweep().await.map(|found| format!("finished {found} abandoned"));
    tell(Done { duty: "dedup claims", database, outcome: outcome.map_err(HousekeepingError::from) });
    let outcome = subscriptions.sweep().await.map(|found| format!("finished {found} abandoned"));
    tell(Done { duty: "registrations", database, outcome: outcome.map_err(HousekeepingError::from) });
    let purged = dedup_purge::purge(cluster).await.map_err(ServiceError::from);
    let outcome = purged.map(|purged| format!("purged {purged} expired"));
    tell(Done { duty: "dedup purge", database, outcome: outcome.map_err(HousekeepingError::from) });
}

fn said(Partitions { made, blocked }: &Partitions) -> Result<String, HousekeepingError> {
    if blocked.is_empty() {
        return Ok(format!("made {}", if made.is_empty() { "none, because all exist".to_owned() } else { list(made) }));
    }
    Err(HousekeepingError::Blocked { blocked: list(blocked), made: list(made) })
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
