//! The mover: what the steps of its moves share.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::error::{MAPS_WITHIN, MoveError};
use super::progress::Progress;
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::machines;
use noetl_storage::moves::journal::{self, Move};
use noetl_storage::moves::transfer::Transfer;
use noetl_storage::pools::{Database, Databases};

/// Time between two attempts to take the locks, and between two probes of the replicas' maps.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Time to wait for the locks of the shards.
const LOCKS_WITHIN: Duration = Duration::from_mins(2);

/// Use case that moves buckets to a target.
#[derive(Debug)]
pub struct Mover {
    pub(super) databases: Databases,
    pub(super) target: ShardIndex,
    pub(super) buckets: Vec<u16>,
}

impl Mover {
    /// Creates the use case for buckets that are moved to `target`.
    pub fn new(databases: Databases, buckets: Vec<u16>, target: ShardIndex) -> Result<Self, MoveError> {
        if usize::from(target) >= databases.shards().len() {
            return Err(MoveError::NoShard(target));
        }
        Ok(Self { databases, target, buckets })
    }

    /// Returns the buckets that would be moved, by source.
    #[must_use]
    pub fn plan(&self) -> BTreeMap<ShardIndex, Vec<u16>> {
        let map = self.databases.map();
        let mut plan: BTreeMap<ShardIndex, Vec<u16>> = BTreeMap::new();
        for bucket in &self.buckets {
            let source = map.as_slice()[usize::from(*bucket)];
            if source != self.target {
                plan.entry(source).or_default().push(*bucket);
            }
        }
        plan
    }

    /// Returns the open moves of the buckets to the target.
    pub(super) async fn open_moves(&self) -> Result<Vec<Move>, StorageError> {
        let open = journal::open(self.cluster()).await?.into_iter();
        Ok(open.filter(|one| one.target == self.target && self.buckets.contains(&one.bucket)).collect())
    }

    /// Opens the sessions of a source and the target.
    pub(super) async fn transfer(
        &self,
        source: ShardIndex,
        report: &(dyn Fn(Progress) + Sync),
    ) -> Result<Transfer<'_>, MoveError> {
        let (from, to, give_up) = (self.database(source), self.database(self.target), Instant::now() + LOCKS_WITHIN);
        loop {
            if let Some(transfer) = Transfer::open(from, to).await? {
                return Ok(transfer);
            }
            if Instant::now() > give_up {
                return Err(MoveError::Busy(from.name(), to.name()));
            }
            report(Progress::Waiting);
            sleep(ASK_AGAIN).await;
        }
    }

    /// Waits until every process that holds a lease uses a map of this version or a later one.
    pub(super) async fn until_known(&self, version: u64) -> Result<(), MoveError> {
        let give_up = Instant::now() + MAPS_WITHIN;
        loop {
            let mut leases = machines::leases(self.cluster()).await?.into_iter();
            let outdated = leases.find(|lease| lease.map.is_none_or(|map| map.version < version));
            let Some(outdated) = outdated else { return Ok(()) };
            if Instant::now() > give_up {
                return Err(MoveError::SlowReplica(outdated.name()));
            }
            sleep(ASK_AGAIN).await;
        }
    }

    pub(super) fn cluster(&self) -> &Database {
        self.databases.cluster()
    }

    pub(super) fn database(&self, shard: ShardIndex) -> &Database {
        &self.databases.shards()[usize::from(shard)]
    }
}

/// Groups moves by the shards that the buckets leave.
pub(super) fn by_source(moves: Vec<Move>) -> BTreeMap<ShardIndex, Vec<Move>> {
    let mut sources: BTreeMap<ShardIndex, Vec<Move>> = BTreeMap::new();
    for one in moves {
        sources.entry(one.source).or_default().push(one);
    }
    sources
}
