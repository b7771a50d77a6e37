//! Every duty of housekeeping, once, on every database that it concerns. One that fails keeps no other from being done.

use super::{dedup_purge, partitions};
use crate::service::error::ServiceError;
use crate::service::executions::Executions;
use crate::service::outbox::Outbox;
use crate::service::retention::Retention;
use crate::service::subscriptions::Subscriptions;
use crate::storage::error::DatabaseName;

/// What a duty did on a database.
#[derive(Debug)]
pub struct Done {
    /// Which duty.
    pub duty: &'static str,
    /// Where.
    pub database: DatabaseName,
    /// What it did, or why it could not.
    pub outcome: Result<String, ServiceError>,
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
        let made = partitions::ensure(shard).await.map_err(ServiceError::from);
        let outcome = made.map(|made| format!("made {}", list(&made)));
        tell(Done { duty: "partitions", database, outcome });
        let outcome = retention.enforce(shard).await.map(|enforced| enforced.to_string());
        tell(Done { duty: "retention", database, outcome });
        let outcome = outbox.purge(index).await.map(|purged| format!("purged {purged} delivered"));
        tell(Done { duty: "outbox purge", database, outcome });
    }
    let cluster = databases.cluster();
    let database = cluster.name();
    let outcome = executions.sweep().await.map(|found| format!("finished {found} abandoned"));
    tell(Done { duty: "dedup claims", database, outcome });
    let outcome = subscriptions.sweep().await.map(|found| format!("finished {found} abandoned"));
    tell(Done { duty: "registrations", database, outcome });
    let purged = dedup_purge::purge(cluster).await.map_err(ServiceError::from);
    let outcome = purged.map(|purged| format!("purged {purged} expired"));
    tell(Done { duty: "dedup purge", database, outcome });
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none, as all are there".to_owned() } else { names.join(", ") }
}
