//! Switch of buckets whose rows are copied: fence, last rows, comparison, seal, and the change of the map.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::copy::BucketCopy;
use super::error::MoveError;
use super::mover::Mover;
use super::progress::Progress;
use noetl_domain::shard::{Barrier, ShardIndex};
use noetl_runtime::crash_point;
use noetl_storage::error::StorageError;
use noetl_storage::moves::fence;
use noetl_storage::moves::journal::{self, Move};
use noetl_storage::moves::transfer::Published;
use noetl_storage::pools::{Database, Databases};

/// Number of buckets that are fenced together, at first. It is halved after each group that takes too long.
const TOGETHER: usize = 16;
/// Time from the fence to the seal. A group that takes longer is tried again.
const FENCED_FOR: Duration = Duration::from_millis(700);
/// Time to wait for writers that began before the fence.
const WRITERS_WITHIN: Duration = Duration::from_millis(500);
/// Time from the fence within which the events of the source must be published.
const PUBLISHED_WITHIN: Duration = Duration::from_millis(600);
/// Pause between two looks at the writers or at the feed.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// First pause after a group that could not be switched; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause after a group that could not be switched.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time without a switch after which the command ends.
const GIVE_UP: Duration = Duration::from_mins(10);

/// Outcome of the attempt to switch a group of buckets.
enum Attempt {
    /// The buckets are on the target.
    Switched,
    /// The fence was lifted, for this reason.
    Postponed(&'static str),
}

/// Switches all buckets of a copy, in groups.
pub(super) async fn switch_all(
    mover: &Mover,
    source: ShardIndex,
    mut copy: BucketCopy<'_>,
    report: &(dyn Fn(Progress) + Sync),
) -> Result<(), MoveError> {
    let of = copy.moves.len();
    let (mut together, mut pause, mut last) = (TOGETHER, FIRST_PAUSE, Instant::now());
    while !copy.moves.is_empty() {
        let group: Vec<Move> = copy.moves.values().take(together).copied().collect();
        let begun = Instant::now();
        let (attempt, intact) = attempt(mover, source, &mut copy, &group).await?;
        match attempt {
            Attempt::Switched => {
                let pause_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                copy.moves.retain(|_, one| !group.iter().any(|done| done.id == one.id));
                report(Progress::Switched { done: of - copy.moves.len(), of, pause_ms });
                (pause, last) = (FIRST_PAUSE, Instant::now());
            }
            Attempt::Postponed(reason) => {
                report(Progress::Postponed(reason));
                if last.elapsed() > GIVE_UP {
                    return Err(MoveError::NotSwitched(reason));
                }
                sleep(pause).await;
                (together, pause) = ((together / 2).max(1), LONGEST_PAUSE.min(pause * 2));
            }
        }
        if !intact {
            copy = copy.reconnect(report).await?;
        }
        copy.later(None).await?;
    }
    Ok(())
}

/// Fences a group and switches it, or lifts the fence. The second value is false if the sessions of the copy can't be used
/// any more.
async fn attempt(
    mover: &Mover,
    source: ShardIndex,
    copy: &mut BucketCopy<'_>,
    group: &[Move],
) -> Result<(Attempt, bool), MoveError> {
    let fenced = journal::fence(mover.cluster(), group).await?;
    if fenced.len() < group.len() {
        lift(mover, source, &fenced).await?;
        return Ok((Attempt::Postponed("another process changed the moves"), false));
    }
    crash_point::reach("shards_move.fencing");
    let prepared = timeout(FENCED_FOR, prepare(mover.database(source), copy, &fenced)).await;
    let intact = matches!(prepared, Ok(Ok(_)));
    let barrier = match prepared {
        Ok(Ok(Ok(barrier))) => barrier,
        outcome => {
            lift(mover, source, &fenced).await?;
            return match outcome {
                Ok(Ok(Ok(_))) => Ok((Attempt::Postponed("the group was not prepared"), intact)),
                Ok(Ok(Err(reason))) => Ok((Attempt::Postponed(reason), intact)),
                Ok(Err(MoveError::Storage(error))) if error.is_temporary() => {
                    tracing::warn!(%error, "could not prepare the switch");
                    Ok((Attempt::Postponed("a database did not respond in time"), false))
                }
                Ok(Err(error)) => Err(error),
                Err(_) => Ok((Attempt::Postponed("the last rows could not be copied in time"), false)),
            };
        }
    };
    if !fence::seal(mover.database(source), &fenced).await? {
        lift(mover, source, &fenced).await?;
        return Ok((Attempt::Postponed("the time of the fence has passed"), intact));
    }
    crash_point::reach("shards_move.sealed");
    if journal::switch(mover.cluster(), &fenced, barrier).await?.is_none() {
        lift(mover, source, &fenced).await?;
        return Ok((Attempt::Postponed("the fence was lifted by a replica"), intact));
    }
    crash_point::reach("shards_move.switched");
    finish(mover.databases(), &fenced).await?;
    Ok((Attempt::Switched, intact))
}

/// Fences the buckets of a group, copies their last rows, and compares them. Returns the barrier, or the reason that the
/// group can't be switched.
async fn prepare(
    source: &Database,
    copy: &mut BucketCopy<'_>,
    group: &[Move],
) -> Result<Result<Option<Barrier>, &'static str>, MoveError> {
    let begun = Instant::now();
    let writers = fence::raise(source, group).await?;
    crash_point::reach("shards_move.fenced");
    while writers.run(source).await? {
        if begun.elapsed() > WRITERS_WITHIN {
            return Ok(Err("a transaction that writes to the source did not end in time"));
        }
        sleep(LOOK_AGAIN).await;
    }
    copy.later(Some(group)).await?;
    let executions = copy.of(group);
    copy.transfer.copy_executions(&executions).await?;
    copy.transfer.copy_outbox(group, &executions).await?;
    crash_point::reach("shards_move.last_rows");
    let barrier = loop {
        match copy.transfer.published(group).await? {
            Published::NoFeed => break None,
            Published::UpTo(barrier) => break Some(barrier),
            Published::Waiting if begun.elapsed() > PUBLISHED_WITHIN => {
                return Ok(Err("the source's events are not published"));
            }
            Published::Waiting => sleep(LOOK_AGAIN).await,
        }
    };
    if let Some(table) = copy.transfer.difference(&executions).await? {
        tracing::warn!(table, "the copied rows differ from those of the source");
        return Ok(Err("the copied rows differ from those of the source"));
    }
    crash_point::reach("shards_move.compared");
    Ok(Ok(barrier))
}

/// Returns moves to the copy, and lifts their fences.
async fn lift(mover: &Mover, source: ShardIndex, fenced: &[Move]) -> Result<(), StorageError> {
    let lifted = journal::unfence(mover.cluster(), fenced).await?;
    fence::lift(mover.database(source), &lifted).await
}

/// Settles switched moves: opens their targets, and closes their sources.
pub(super) async fn finish(databases: &Databases, moves: &[Move]) -> Result<(), StorageError> {
    if moves.is_empty() {
        return Ok(());
    }
    let shard = |index: ShardIndex| &databases.shards()[usize::from(index)];
    let pairs: BTreeSet<(ShardIndex, ShardIndex)> = moves.iter().map(|one| (one.source, one.target)).collect();
    let of = |(source, target)| -> Vec<Move> {
        moves.iter().filter(|one| (one.source, one.target) == (source, target)).copied().collect()
    };
    for pair in &pairs {
        fence::open_target(shard(pair.1), &of(*pair)).await?;
    }
    crash_point::reach("shards_move.opened");
    for pair in &pairs {
        fence::close_source(shard(pair.0), &of(*pair)).await?;
    }
    crash_point::reach("shards_move.closed");
    journal::settle(databases.cluster(), moves).await
}
