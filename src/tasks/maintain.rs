//! Every duty of housekeeping, once, on every database that it concerns. One that fails keeps no other from being done.

use super::partitions::Partitions;
use super::{dedup_purge, partitions};
use crate::service::error::ServiceError;
use crate::service::executions::Executions;
use crate::service::outbox::Outbox;
use crate::service::retention::Retention;
use crate::service::subscriptions::Subscriptions;
use crate::storage::error::DatabaseName;

/// Why a duty was not done.
#[derive(Debug, thiserror::Error)]
pub enum DutyError {
    /// It met a fault.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// An operator has to make room.
    #[error(
        "events of that time in noetl.event_default keep {blocked} from being made (made {made}). Their ids are often of \
         a clock that was far ahead: in one transaction, move the rows of that range out of noetl.event_default, create the \
         partition, and insert them again; or delete them if nobody needs them"
    )]
    Blocked {
        /// Partitions that can't be made.
        blocked: String,
        /// Partitions that were.
        made: String,
    },
}

/// What a duty did on a database.
#[derive(Debug)]
pub struct Done {
    /// Which duty.
    pub duty: &'static str,
    /// Where.
    pub database: DatabaseName,
    /// What it did, or why it could not.
    pub outcome: Result<String, DutyError>,
}

/// Does every duty, and tells of each as it is done.
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
        let outcome = ensured.map_err(DutyError::from).and_then(|ensured| said(&ensured));
        tell(Done { duty: "partitions", database, outcome });
        let outcome = retention.enforce(shard).await.map(|enforced| enforced.to_string());
        tell(Done { duty: "retention", database, outcome: outcome.map_err(DutyError::from) });
        let outcome = outbox.purge(index).await.map(|purged| format!("purged {purged} delivered"));
        tell(Done { duty: "outbox purge", database, outcome: outcome.map_err(DutyError::from) });
    }
    let cluster = databases.cluster();
    let database = cluster.name();
    let outcome = executions.sweep().await.map(|found| format!("finished {found} abandoned"));
    tell(Done { duty: "dedup claims", database, outcome: outcome.map_err(DutyError::from) });
    let outcome = subscriptions.sweep().await.map(|found| format!("finished {found} abandoned"));
    tell(Done { duty: "registrations", database, outcome: outcome.map_err(DutyError::from) });
    let purged = dedup_purge::purge(cluster).await.map_err(ServiceError::from);
    let outcome = purged.map(|purged| format!("purged {purged} expired"));
    tell(Done { duty: "dedup purge", database, outcome: outcome.map_err(DutyError::from) });
}

fn said(Partitions { made, blocked }: &Partitions) -> Result<String, DutyError> {
    if blocked.is_empty() {
        return Ok(format!("made {}", if made.is_empty() { "none, as all are there".to_owned() } else { list(made) }));
    }
    Err(DutyError::Blocked { blocked: list(blocked), made: list(made) })
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
