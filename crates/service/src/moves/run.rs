//! The whole move of the buckets of a command, and its abortion.

use std::collections::BTreeMap;

use super::abort::abort;
use super::copy::BucketCopy;
use super::error::MoveError;
use super::mover::Mover;
use super::progress::{Progress, Report};
use super::switch::{finish, switch_all};
use noetl_domain::shard::ShardIndex;
use noetl_runtime::crash_point;
use noetl_storage::machines::{self, MapUser};
use noetl_storage::moves::fence;
use noetl_storage::moves::journal::{self, Move, MoveState};
use noetl_storage::moves::transfer::Transfer;
use noetl_storage::partitions;

impl Mover {
    /// Moves the buckets. A repetition continues where an earlier command ended.
    pub async fn run(&self, report: Report<'_>) -> Result<(), MoveError> {
        self.check_replicas().await?;
        self.finish_switched().await?;
        for source in self.sources().await? {
            let report = |progress| report(source, self.target, progress);
            let mut transfer = self.transfer(source, &report).await?;
            if let (true, false) = transfer.feeds().await? {
                return Err(MoveError::NoFeed(self.database(self.target).name(), self.database(source).name()));
            }
            // Another command may have moved buckets before it released the locks.
            self.databases.refresh_map().await?;
            let is_repetition = self.open_moves().await?.iter().any(|one| one.source == source);
            let version = journal::begin(self.cluster(), &self.buckets_of(source), self.target).await?;
            crash_point::reach("shards_move.begun");
            self.until_known(version).await?;
            report(Progress::Announced);
            crash_point::reach("shards_move.announced");
            self.move_from(source, transfer, is_repetition, &report).await?;
        }
        Ok(())
    }

    /// Returns the moves of the buckets that were not switched to the state before them.
    pub async fn abort(&self) -> Result<usize, MoveError> {
        self.finish_switched().await?;
        let mut aborted = 0;
        for (source, moves) in by_source(self.open_moves().await?) {
            let transfer = self.transfer(source, &|_| ()).await?;
            aborted += abort(self, transfer, &moves).await?;
        }
        Ok(aborted)
    }

    async fn move_from(
        &self,
        source: ShardIndex,
        transfer: Transfer<'_>,
        is_repetition: bool,
        report: &(dyn Fn(Progress) + Sync),
    ) -> Result<(), MoveError> {
        fence::create_triggers(self.database(source), &fence::OF_SOURCE).await?;
        fence::create_triggers(self.database(self.target), &fence::OF_TARGET).await?;
        self.create_partitions(source).await?;
        crash_point::reach("shards_move.prepared");
        let mut moves: Vec<Move> = self.open_moves().await?.into_iter().filter(|one| one.source == source).collect();
        // The fences of an earlier command.
        fence::lift(self.database(source), &journal::unfence(self.cluster(), &moves).await?).await?;
        for one in &mut moves {
            one.state = MoveState::Copying;
        }
        fence::close_target(self.database(self.target), &moves).await?;
        let mut copy = BucketCopy::new(self, source, transfer, moves, is_repetition).await?;
        copy.all(report).await?;
        switch_all(self, source, copy, report).await
    }

    /// Completes moves of the buckets that were switched, but not settled.
    async fn finish_switched(&self) -> Result<(), MoveError> {
        let open = journal::open(self.cluster()).await?.into_iter();
        let switched: Vec<Move> =
            open.filter(|one| one.state == MoveState::Switched && self.buckets.contains(&one.bucket)).collect();
        finish(&self.databases, &switched).await?;
        self.databases.refresh_map().await?;
        Ok(())
    }

    /// Returns the sources of the buckets that are not on the target.
    async fn sources(&self) -> Result<Vec<ShardIndex>, MoveError> {
        for one in journal::open(self.cluster()).await? {
            if one.target != self.target && self.buckets.contains(&one.bucket) {
                return Err(MoveError::OtherTarget(one.bucket, one.target));
            }
        }
        Ok(self.plan().into_keys().collect())
    }

    fn buckets_of(&self, source: ShardIndex) -> Vec<u16> {
        self.plan().remove(&source).unwrap_or_default()
    }

    /// Checks that every process that writes knows the target, and can use a map that changes.
    async fn check_replicas(&self) -> Result<(), MoveError> {
        for MapUser { name, map } in machines::map_users(self.cluster()).await? {
            if map.is_none_or(|map| map.shards <= self.target) {
                return Err(MoveError::Replica(name, self.target));
            }
        }
        Ok(())
    }

    /// Creates the partitions on the target in which the source's events are.
    async fn create_partitions(&self, source: ShardIndex) -> Result<(), MoveError> {
        let (from, to) = (self.database(source), self.database(self.target));
        if partitions::copy_bounds(from, to).await? {
            return Ok(());
        }
        Err(MoveError::NoPartition(to.name(), from.name()))
    }
}

fn by_source(moves: Vec<Move>) -> BTreeMap<ShardIndex, Vec<Move>> {
    let mut sources: BTreeMap<ShardIndex, Vec<Move>> = BTreeMap::new();
    for one in moves {
        sources.entry(one.source).or_default().push(one);
    }
    sources
}
