//! The whole move of the buckets of a command, and its abortion.

use std::collections::BTreeSet;

use super::copy::BucketCopy;
use super::error::MoveError;
use super::mover::{Mover, by_source};
use super::progress::{Progress, Report};
use super::switch::{finish, switch_all};
use noetl_domain::ids::Id;
use noetl_domain::shard::{ShardIndex, bucket_of};
use noetl_runtime::crash_point;
use noetl_storage::machines;
use noetl_storage::moves::fence;
use noetl_storage::moves::journal::{self, Move, MoveState};
use noetl_storage::partitions;

impl Mover {
    /// Moves the buckets. A repetition continues where an earlier command ended.
    pub async fn run(&self, report: Report<'_>) -> Result<(), MoveError> {
        self.check_replicas().await?;
        self.finish_switched().await?;
        for source in self.sources().await? {
            self.move_from(source, &|progress| report(source, self.target, progress)).await?;
        }
        Ok(())
    }

    /// Returns the moves of the buckets that were not switched to the state before them: the copied rows are deleted.
    /// Returns the number of aborted moves; those that another command fenced meanwhile are not among them.
    pub async fn abort(&self) -> Result<usize, MoveError> {
        self.finish_switched().await?;
        let mut aborted = 0;
        for (source, moves) in by_source(self.open_moves().await?) {
            aborted += self.abort_from(source, &moves).await?;
        }
        Ok(aborted)
    }

    /// Moves the buckets of a source.
    async fn move_from(&self, source: ShardIndex, report: &(dyn Fn(Progress) + Sync)) -> Result<(), MoveError> {
        let (from, to) = (self.database(source), self.database(self.target));
        let mut transfer = self.transfer(source, report).await?;
        if let (true, false) = transfer.feeds().await? {
            return Err(MoveError::NoFeed(to.name(), from.name()));
        }
        // Another command may have moved buckets before it released the locks.
        self.finish_switched().await?;
        let is_repetition = !self.open_moves_from(source).await?.is_empty();
        let buckets = self.plan().remove(&source).unwrap_or_default();
        let version = journal::begin(self.cluster(), &buckets, self.target).await?;
        crash_point::reach("shards_move.begun");
        self.until_known(version).await?;
        report(Progress::Announced);
        crash_point::reach("shards_move.announced");
        fence::create_triggers(from, &fence::OF_SOURCE).await?;
        fence::create_triggers(to, &fence::OF_TARGET).await?;
        if !partitions::copy_bounds(from, to).await? {
            return Err(MoveError::NoPartition(to.name(), from.name()));
        }
        crash_point::reach("shards_move.prepared");
        let open = self.open_moves_from(source).await?;
        let moves = self.unfence(source, &open).await?;
        if moves.len() < open.len() {
            // A command that lost its locks has fenced or switched a bucket meanwhile. The copy of a switched one would
            // replace what was written to the target since.
            return Err(MoveError::Busy(from.name(), to.name()));
        }
        fence::close_target(to, &moves).await?;
        let mut copy = BucketCopy::new(self, source, transfer, moves, is_repetition).await?;
        copy.all(report).await?;
        switch_all(copy, report).await
    }

    /// Aborts moves from a source under the locks that exclude other movers.
    async fn abort_from(&self, source: ShardIndex, open: &[Move]) -> Result<usize, MoveError> {
        let mut transfer = self.transfer(source, &|_| ()).await?;
        if let Some(switched) = open.iter().find(|one| one.state == MoveState::Switched) {
            return Err(MoveError::Switched(switched.bucket, switched.target));
        }
        let copying = self.unfence(source, open).await?;
        crash_point::reach("shards_move.unfenced");
        let buckets: BTreeSet<u16> = copying.iter().map(|one| one.bucket).collect();
        transfer.delete_from_target(|id| buckets.contains(&bucket_of(Id::new(id)))).await?;
        transfer.forget_outbox(&copying).await?;
        crash_point::reach("shards_move.deleted");
        Ok(journal::forget(self.cluster(), &copying).await?)
    }

    /// Returns fenced moves from a source to the copy, and lifts their fences, which an earlier command left. Returns the
    /// moves that are being copied.
    async fn unfence(&self, source: ShardIndex, moves: &[Move]) -> Result<Vec<Move>, MoveError> {
        let copying = journal::unfence(self.cluster(), moves).await?;
        fence::lift(self.database(source), &copying).await?;
        Ok(copying)
    }

    async fn open_moves_from(&self, source: ShardIndex) -> Result<Vec<Move>, MoveError> {
        Ok(by_source(self.open_moves().await?).remove(&source).unwrap_or_default())
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

    /// Checks that every process that writes knows the target, and can use a map that changes.
    async fn check_replicas(&self) -> Result<(), MoveError> {
        for lease in machines::leases(self.cluster()).await? {
            if lease.map.is_none_or(|map| map.shards <= self.target) {
                return Err(MoveError::Replica(lease.name(), self.target));
            }
        }
        Ok(())
    }
}
