//! Growth of a deployment: its shards, the addition of a shard, and the plan of an even distribution.
//!
//! A shard is added in two steps. [`add_shards`] prepares the database that `NOETL_SHARDS` names after the existing
//! shards. Then each replica is restarted with the new list. The added shard holds no buckets, so replicas with either
//! list find all executions, and can serve at the same time.

use std::sync::Arc;

use super::databases::{check_identity, check_sessions, migrate_shard, open};
use super::error::AppError;
use crate::config::Config;
use crate::tasks::partitions;
use noetl_domain::rebalance::{self, BucketMove};
use noetl_domain::shard::{ShardIndex, ShardMap};
use noetl_runtime::crash_point;
use noetl_storage::error::DatabaseName;
use noetl_storage::migrate;
use noetl_storage::pools::Database;
use noetl_storage::shard_map::{self, Identity, Size};

/// A configured shard.
#[derive(Debug, Clone, Copy)]
pub struct ShardStatus {
    /// Index of the shard.
    pub shard: ShardIndex,
    /// State of its database.
    pub state: ShardState,
    /// Number of buckets on the shard.
    pub buckets: usize,
}

/// State of the database of a configured shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardState {
    /// It belongs to the deployment.
    Ready(Size),
    /// It can't be reached.
    Unavailable,
    /// It does not belong to a deployment. [`add_shards`] adds it.
    New,
}

/// The configured databases of a migrated deployment.
struct Configured {
    /// Identity of the cluster database.
    cluster: Identity,
    /// Shards by index.
    shards: Vec<Arc<Database>>,
    map: ShardMap,
}

impl Configured {
    async fn read(config: &Config) -> Result<Self, AppError> {
        let (cluster, shards) = open(config, Some(2))?;
        let not_migrated = || AppError::NotMigrated(DatabaseName::Cluster);
        if !migrate::is_current(&cluster).await? {
            return Err(not_migrated());
        }
        let found = shard_map::identity(&cluster).await?.ok_or_else(not_migrated)?;
        let is_shard = shards.iter().any(|shard| Arc::ptr_eq(shard, &cluster));
        check_identity(&cluster, Identity { shard: is_shard.then_some(0), ..found }, found)?;
        let count = u16::try_from(shards.len()).unwrap_or(u16::MAX);
        let map = shard_map::load(&cluster, count).await??;
        Ok(Self { cluster: found, shards, map })
    }

    /// Returns the shards with their indexes.
    fn shards(&self) -> impl Iterator<Item = (ShardIndex, &Arc<Database>)> {
        (0..).zip(&self.shards)
    }

    /// Returns the identity of the shard with this index.
    fn identity(&self, shard: ShardIndex) -> Identity {
        Identity { shard: Some(shard), ..self.cluster }
    }

    /// Returns whether the database belongs to the deployment, as the shard with this index. A database that belongs to
    /// none must hold no buckets and no data.
    async fn belongs(&self, shard: ShardIndex, database: &Database) -> Result<bool, AppError> {
        if let Some(found) = shard_map::identity(database).await? {
            check_identity(database, self.identity(shard), found)?;
            return Ok(true);
        }
        match self.map.buckets_of(shard) {
            0 if shard_map::holds_executions(database).await? => Err(AppError::ShardHoldsData(database.name())),
            0 => Ok(false),
            buckets => Err(AppError::UnknownShard { database: database.name(), buckets }),
        }
    }
}

/// Returns the status of each configured shard. Changes nothing.
pub async fn shards(config: &Config) -> Result<Vec<ShardStatus>, AppError> {
    let configured = Configured::read(config).await?;
    let mut found = Vec::new();
    for (shard, database) in configured.shards() {
        let state = match state(&configured, shard, database).await {
            Err(AppError::Storage(error)) if error.is_temporary() => ShardState::Unavailable,
            state => state?,
        };
        found.push(ShardStatus { shard, state, buckets: configured.map.buckets_of(shard) });
    }
    Ok(found)
}

async fn state(configured: &Configured, shard: ShardIndex, database: &Database) -> Result<ShardState, AppError> {
    if configured.belongs(shard, database).await? {
        Ok(ShardState::Ready(shard_map::size(database).await?))
    } else {
        Ok(ShardState::New)
    }
}

/// Adds the configured databases that do not belong to the deployment yet, and returns their indexes. With `dry_run`,
/// checks only that they can be added. A shard gets its identity last, so an interrupted addition can be repeated.
pub async fn add_shards(config: &Config, dry_run: bool) -> Result<Vec<ShardIndex>, AppError> {
    super::arm_fault_point(config);
    let configured = Configured::read(config).await?;
    let mut new = Vec::new();
    for (shard, database) in configured.shards() {
        if !configured.belongs(shard, database).await? {
            new.push((shard, database));
        }
    }
    if !dry_run {
        for (shard, database) in &new {
            check_sessions(database).await?;
            migrate_shard(database).await?;
            crash_point::reach("shards_add.migrated");
            partitions::ensure(database).await?;
            crash_point::reach("shards_add.partitioned");
            let identity = configured.identity(*shard);
            check_identity(database, identity, shard_map::identify(database, identity).await?)?;
            tracing::info!(database = %database.name(), "added");
        }
    }
    Ok(new.into_iter().map(|(shard, _)| shard).collect())
}

/// Returns the moves after which the configured shards hold equal numbers of buckets.
pub async fn rebalance_plan(config: &Config) -> Result<Vec<BucketMove>, AppError> {
    let Configured { shards, map, .. } = Configured::read(config).await?;
    Ok(rebalance::plan(&map, u16::try_from(shards.len()).unwrap_or(u16::MAX)))
}
