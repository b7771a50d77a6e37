//! The databases of a check that can be reached, and the logs that retention may have dropped.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Findings;
use crate::shards::by_shard;
use noetl_domain::ids::Id;
use noetl_domain::partition::{Partition, may_be_dropped};
use noetl_domain::shard::{ShardIndex, ShardMap};
use noetl_runtime::causes::WithCauses;
use noetl_storage::check;
use noetl_storage::pools::{Database, Databases};
use noetl_storage::view::View;
use noetl_use_cases::error::ServiceError;

/// The databases that can be reached.
#[derive(Debug)]
pub(super) struct Reach {
    databases: Databases,
    /// Partitions of the event table of each shard that is up.
    partitions: BTreeMap<ShardIndex, Vec<Partition>>,
}

impl Reach {
    /// Returns the reach of a check. Adds the shards that can't be reached to the findings.
    pub(super) async fn of(databases: Databases, findings: &mut Findings) -> Self {
        let mut partitions = BTreeMap::new();
        for (index, shard) in (0..).zip(databases.shards()) {
            match check::partitions(shard).await {
                Ok(found) => drop(partitions.insert(index, found)),
                Err(error) => findings.could_not_check(shard.name().to_string(), WithCauses(&error).to_string()),
            }
        }
        Self { databases, partitions }
    }

    /// Returns the shards that are up.
    pub(super) fn up(&self) -> impl Iterator<Item = ShardIndex> {
        self.partitions.keys().copied()
    }

    pub(super) fn cluster(&self) -> &Database {
        self.databases.cluster()
    }

    pub(super) fn shard(&self, index: ShardIndex) -> &Database {
        &self.databases.shards()[usize::from(index)]
    }

    /// Returns the logs without those whose rows are on the shard only because of a move. Such rows are no difference: the
    /// other shard of the move has the log.
    pub(super) fn own(&self, shard: ShardIndex, logs: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let map = self.databases.map();
        logs.into_iter().filter(|log| !is_moved(&map, shard, Id::new(*log))).collect()
    }

    /// Returns whether the rows of a log are on a shard only because of a move.
    pub(super) fn is_moved(&self, shard: ShardIndex, log: i64) -> bool {
        is_moved(&self.databases.map(), shard, Id::new(log))
    }

    /// Reads the bucket map again.
    pub(super) async fn read_map(&self) -> Result<(), ServiceError> {
        self.databases.refresh_map().await?;
        Ok(())
    }

    /// Returns a shard without rows that moved or are being moved.
    pub(super) fn view(&self, index: ShardIndex) -> View<'_> {
        self.databases.view(index)
    }

    /// Returns the shard that owns a log.
    pub(super) fn owner_of(&self, log: i64) -> ShardIndex {
        self.databases.index_of(Id::new(log))
    }

    /// Returns whether retention may have dropped a log. False for a log of a shard that is down.
    pub(super) fn may_be_dropped(&self, log: i64) -> bool {
        self.partitions.get(&self.owner_of(log)).is_some_and(|partitions| may_be_dropped(partitions, log))
    }

    /// Returns which of these executions and subscriptions do not exist on their shards. Leaves out those of shards that
    /// are down, and those that retention may have dropped.
    pub(super) async fn absent(&self, ids: impl IntoIterator<Item = i64>) -> Result<BTreeSet<i64>, ServiceError> {
        let ids: BTreeSet<i64> = ids.into_iter().filter(|id| !self.may_be_dropped(*id)).collect();
        let mut absent = BTreeSet::new();
        for (shard, ids) in by_shard(&self.databases, ids, |id| Id::new(*id)) {
            if self.partitions.contains_key(&shard) {
                absent.extend(check::executions::absent(self.shard(shard), &ids).await?);
            }
        }
        Ok(absent)
    }
}

/// Returns whether the rows of a log are on a shard only because of a move: its bucket has left the shard, or is arriving.
fn is_moved(map: &ShardMap, shard: ShardIndex, log: Id) -> bool {
    if !map.has_moves() || map.holds(shard, log) {
        return false;
    }
    let left = map.departures_of(log).iter().any(|departure| departure.from == shard);
    left || map.target_of(log) == Some(shard)
}
