//! Health of the shards.

use async_graphql::SimpleObject;

use crate::context::Services;
use noetl_domain::shard::ShardIndex;
use noetl_storage::pools::{Database, Down};

/// Health of one shard, as this replica sees it.
#[derive(Debug, Clone, SimpleObject)]
pub struct Shard {
    /// Index of the shard, counted from 0.
    pub shard: u16,
    /// Whether the shard can be reached and written.
    pub available: bool,
    /// Round-trip time of the last successful probe in milliseconds; null before the first one.
    pub latency_milliseconds: Option<f64>,
    /// Number of connections from this replica to the shard.
    pub pool_size: u32,
    /// Number of these connections that are idle.
    pub pool_idle: u32,
    /// Number of buckets on the shard, out of 5040.
    pub buckets: u32,
    /// Error message; null if the shard is available.
    pub error: Option<String>,
}

/// Returns the health of the shards, as found by their latest probes.
pub(super) fn shards(services: &Services) -> Vec<Shard> {
    let databases = &services.databases;
    let health_of = |database: &Database, shard: ShardIndex| {
        let health = database.health();
        let (pool_size, pool_idle) = database.pool_size();
        Shard {
            shard,
            available: health.down.is_none(),
            latency_milliseconds: health.latency.map(|latency| latency.as_secs_f64() * 1000.0),
            pool_size,
            pool_idle: u32::try_from(pool_idle).unwrap_or(u32::MAX),
            buckets: u32::try_from(databases.map().buckets_of(shard)).unwrap_or(u32::MAX),
            error: health.down.map(|down| error(database, &down)),
        }
    };
    databases.shards().iter().zip(0..).map(|(database, shard)| health_of(database, shard)).collect()
}

/// Returns an error message that names no server.
fn error(database: &Database, down: &Down) -> String {
    let name = database.name();
    match down {
        Down::ReadOnly => format!("{name} is read-only, such as a standby"),
        Down::Full => format!("the disk of {name} is full"),
        Down::Unreachable(_) => format!("{name} can't be reached"),
    }
}
