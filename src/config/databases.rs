//! Addresses of the databases, and the statuses in them.

use std::path::Path;
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

use super::reader::Reader;
use super::{Definition, dsn};
use noetl_domain::execution::StatusSource;
use noetl_domain::shard::BUCKETS;

pub(super) const SETTINGS: [Definition; 5] = [
    Definition::text(
        "NOETL_CLUSTER_DSN",
        "none",
        "URL of the cluster database; it can name [a primary and its standbys](failover.md#a-dsn-with-several-servers)",
    ),
    Definition::text(
        "NOETL_SHARDS",
        "none",
        "URLs of the shard databases, separated by commas; the first may be the cluster database; empty: the cluster database is the only shard. [Growth](growth.md) says how to add one",
    ),
    Definition::text(
        "NOETL_DB_PASSWORD_FILE",
        "none",
        "file with the password of the databases' role, for URLs without one. It is read for each connection, so the password can [change](../deploy.md#change-the-password-of-the-databases) while the server runs",
    ),
    Definition::value(
        "NOETL_POOL_SIZE",
        "connections per database for requests; up to five more serve leases, the feed, the projector and cancellations",
    ),
    Definition::value(
        "NOETL_EXECUTION_STATUS_FROM_STEPS",
        "whether an execution that ended is FAILED if one of its events has the status FAILED or ERROR, independent of the event that ended it, [as in NoETL](../noetl.md#noetl-383). All replicas need the same value: stop all of them before you change it ([in Kubernetes](../deploy.md#kubernetes)). The list of executions then gets the other statuses in the background",
    ),
];

/// Databases of one deployment.
#[derive(Debug, Clone)]
pub struct DatabaseSettings {
    /// Options of the servers of the cluster database: a single one, or a primary and its standbys.
    pub cluster: Vec<PgConnectOptions>,
    /// Options of the servers of each shard, by index; empty: the cluster database is the only shard.
    pub shards: Vec<Vec<PgConnectOptions>>,
    /// File with the password of the role, if one is configured.
    pub password_file: Option<Arc<Path>>,
    /// Connections per pool.
    pub pool_size: u32,
    /// Source of the statuses of ended executions.
    pub status_source: StatusSource,
}

pub(super) fn read(read: &mut Reader<'_>, needed: bool) -> Option<DatabaseSettings> {
    let cluster = read.sources.text("NOETL_CLUSTER_DSN");
    if cluster.is_none() && needed {
        read.problem(
            "NOETL_CLUSTER_DSN is missing; set it to the cluster database, such as postgres://user@host/noetl",
        );
    }
    let cluster = cluster.and_then(|text| dsn::parse(read, "NOETL_CLUSTER_DSN", text));
    let listed = dsn::joined(read.sources.list("NOETL_SHARDS"));
    if listed.len() > usize::from(BUCKETS) {
        read.problem(format!("NOETL_SHARDS lists {} shards; at most {BUCKETS} are possible", listed.len()));
    }
    let shards = listed.iter().filter_map(|text| dsn::parse(read, "NOETL_SHARDS", text)).collect();
    let pool_size = read.within("NOETL_POOL_SIZE", 16, 2, 500);
    let password_file = read.sources.text("NOETL_DB_PASSWORD_FILE").map(|path| Arc::from(Path::new(path)));
    let from_steps = read.flag("NOETL_EXECUTION_STATUS_FROM_STEPS", false);
    let status_source = if from_steps { StatusSource::Steps } else { StatusSource::End };
    Some(DatabaseSettings { cluster: cluster?, shards, password_file, pool_size, status_source })
}
