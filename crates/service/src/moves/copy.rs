//! Copy of the events of several buckets in one pass over the ids of the source, and of what was written meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::error::MoveError;
use super::mover::Mover;
use super::progress::Progress;
use noetl_domain::ids::Id;
use noetl_domain::shard::{ShardIndex, bucket_of};
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_runtime::crash_point;
use noetl_storage::error::StorageError;
use noetl_storage::event_arrivals;
use noetl_storage::moves::journal::Move;
use noetl_storage::moves::transfer::Transfer;

/// Number of executions whose events one transaction copies.
const EXECUTIONS: usize = 200;
/// Duration of a pass over later events from which another one follows.
const SHORT_PASS: Duration = Duration::from_millis(200);
/// Maximum number of passes over later events before the buckets are fenced.
const PASSES: usize = 10;
/// Pause between two attempts to open the sessions again.
const RECONNECT_AGAIN: Duration = Duration::from_millis(500);

/// The copy of the buckets that move from a source to a target.
pub(super) struct BucketCopy<'a> {
    pub(super) mover: &'a Mover,
    pub(super) source: ShardIndex,
    pub(super) transfer: Transfer<'a>,
    /// Moves that are not switched, by bucket.
    pub(super) moves: BTreeMap<u16, Move>,
    /// Executions of each bucket.
    pub(super) executions: BTreeMap<u16, BTreeSet<i64>>,
    /// The events that this snapshot sees are copied.
    seen: TxSnapshot,
    /// Identity of the source's server, to which the snapshot belongs.
    server: u64,
    /// True if the target may have rows of the buckets: it had one before, or an earlier command copied some.
    has_leftovers: bool,
}

impl<'a> BucketCopy<'a> {
    pub(super) async fn new(
        mover: &'a Mover,
        source: ShardIndex,
        mut transfer: Transfer<'a>,
        open: Vec<Move>,
        is_repetition: bool,
    ) -> Result<Self, MoveError> {
        let server = event_arrivals::moment(mover.database(source)).await?.server;
        let seen = transfer.snapshot().await?;
        let map = mover.databases.map();
        let left_target =
            |one: &Move| map.departures_of_bucket(one.bucket).iter().any(|left| left.from == mover.target);
        let has_leftovers = is_repetition || open.iter().any(left_target);
        let by_bucket = open.into_iter().map(|one| (one.bucket, one)).collect();
        Ok(Self { mover, source, transfer, moves: by_bucket, executions: BTreeMap::new(), seen, server, has_leftovers })
    }

    /// Copies the rows of all buckets, and then what was written meanwhile, until a pass is short.
    pub(super) async fn all(&mut self, report: &(dyn Fn(Progress) + Sync)) -> Result<(), MoveError> {
        let (mut from, mut executions, mut events) = (i64::MIN, 0, 0);
        loop {
            let ids = self.transfer.executions_from(from).await?;
            let Some(next) = ids.last().and_then(|last| last.checked_add(1)) else { break };
            from = next;
            let ids = self.note(ids);
            for page in ids.chunks(EXECUTIONS) {
                events += self.page(page, None).await?;
                executions += page.len() as u64;
                report(Progress::Copied { executions, events });
                crash_point::reach("shards_move.copied");
            }
        }
        if self.has_leftovers {
            self.delete_others().await?;
        }
        for _ in 0..PASSES {
            let begun = Instant::now();
            events += self.later(None).await?;
            report(Progress::Copied { executions, events });
            if begun.elapsed() < SHORT_PASS {
                break;
            }
        }
        crash_point::reach("shards_move.caught_up");
        Ok(())
    }

    /// Copies the events that were written since the last call: of all buckets, or of those that are fenced.
    pub(super) async fn later(&mut self, fenced: Option<&[Move]>) -> Result<u64, MoveError> {
        let now = self.transfer.snapshot().await?;
        let ids = self.transfer.executions_between(&self.seen, &now).await?;
        let ids = match fenced {
            None => ids,
            Some(moves) => ids.into_iter().filter(|id| moves.iter().any(|one| one.bucket == bucket(*id))).collect(),
        };
        let ids = self.note(ids);
        let (before, mut events) = (self.seen.clone(), 0);
        for page in ids.chunks(EXECUTIONS) {
            events += self.page(page, Some(&before)).await?;
        }
        if fenced.is_none() {
            self.seen = now;
        }
        Ok(events)
    }

    /// Returns the executions of these buckets.
    pub(super) fn of(&self, moves: &[Move]) -> Vec<i64> {
        moves.iter().filter_map(|one| self.executions.get(&one.bucket)).flatten().copied().collect()
    }

    /// Opens the sessions again after a failure. Waits for databases that do not respond.
    pub(super) async fn reconnect(
        self,
        give_up: Instant,
        report: &(dyn Fn(Progress) + Sync),
    ) -> Result<BucketCopy<'a>, MoveError> {
        let Self { mover, source, transfer, moves, executions, seen, server, has_leftovers } = self;
        drop(transfer);
        let transfer = loop {
            match reopened(mover, source, server, report).await {
                Err(MoveError::Storage(error)) if error.is_temporary() && Instant::now() < give_up => {
                    tracing::warn!(%error, "could not open the sessions of the copy again");
                    sleep(RECONNECT_AGAIN).await;
                }
                outcome => break outcome?,
            }
        };
        Ok(Self { mover, source, transfer, moves, executions, seen, server, has_leftovers })
    }

    /// Keeps the executions of the moved buckets, and notes them.
    fn note(&mut self, ids: Vec<i64>) -> Vec<i64> {
        let (moves, executions) = (&self.moves, &mut self.executions);
        let ours: Vec<i64> = ids.into_iter().filter(|id| moves.contains_key(&bucket(*id))).collect();
        for id in &ours {
            executions.entry(bucket(*id)).or_default().insert(*id);
        }
        ours
    }

    /// Copies a page of executions: all their events, or those that a snapshot does not see.
    async fn page(&mut self, ids: &[i64], since: Option<&TxSnapshot>) -> Result<u64, MoveError> {
        let mut copied = self.transfer.copy_events(ids, since).await?;
        if copied.is_none() {
            // The source has deleted logs since the target had them.
            self.transfer.delete_events(ids).await?;
            copied = self.transfer.copy_events(ids, None).await?;
        }
        let target = self.mover.database(self.mover.target);
        let copied = copied.ok_or_else(|| MoveError::Different(target.name()))?;
        if self.has_leftovers {
            self.transfer.delete_snapshots(ids).await?;
        }
        self.transfer.copy_executions(ids).await?;
        Ok(copied)
    }

    /// Deletes the target's rows of executions in the buckets that the source does not have.
    async fn delete_others(&mut self) -> Result<(), StorageError> {
        let (moves, executions) = (&self.moves, &self.executions);
        let is_known = |id: i64| executions.get(&bucket(id)).is_some_and(|known| known.contains(&id));
        self.transfer.delete_from_target(|id| moves.contains_key(&bucket(id)) && !is_known(id)).await
    }
}

/// Opens the sessions of a copy, if the source is still on this server.
async fn reopened<'a>(
    mover: &'a Mover,
    source: ShardIndex,
    server: u64,
    report: &(dyn Fn(Progress) + Sync),
) -> Result<Transfer<'a>, MoveError> {
    let transfer = mover.transfer(source, report).await?;
    if event_arrivals::moment(mover.database(source)).await?.server != server {
        return Err(MoveError::OtherServer(mover.database(source).name()));
    }
    Ok(transfer)
}

fn bucket(id: i64) -> u16 {
    bucket_of(Id::new(id))
}
