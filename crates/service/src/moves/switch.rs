//! Switch of buckets whose rows are copied: fence, last rows, comparison, seal, and the change of the map.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::copy::BucketCopy;
use super::error::MoveError;
use super::mover::Mover;
use super::progress::Progress;
use super::repetition::REPEATED_FOR;
use noetl_domain::shard::{Barrier, ShardIndex};
use noetl_runtime::crash_point;
use noetl_storage::error::StorageError;
use noetl_storage::moves::fence::{self, Writers};
use noetl_storage::moves::journal::{self, Move, MoveState};
use noetl_storage::moves::transfer::Published;
use noetl_storage::pools::{Database, Databases};

/// Number of buckets that are fenced together, at first. It is halved after each group that takes too long.
const TOGETHER: usize = 16;
/// Time from the fence to the seal. A group that takes longer is tried again.
const FENCED_FOR: Duration = Duration::from_millis(700);
const _: () = assert!(FENCED_FOR.as_millis() < 1000, "writers wait for less than a second");
const _: () = assert!(FENCED_FOR.as_millis() < fence::FENCE.as_millis(), "a fence has an effect until its seal");
const _: () =
    assert!(FENCED_FOR.as_millis() < REPEATED_FOR.as_millis(), "a refused statement is repeated after the fence");
/// Time from the fence within which writers of the source that began earlier must end.
const WRITERS_WITHIN: Duration = Duration::from_millis(500);
const _: () =
    assert!(WRITERS_WITHIN.as_millis() < FENCED_FOR.as_millis(), "the last rows are copied after the writers");
/// Time from the fence within which the events of the source must be published, and writers of the target must end.
const PUBLISHED_WITHIN: Duration = Duration::from_millis(600);
const _: () = assert!(
    PUBLISHED_WITHIN.as_millis() < FENCED_FOR.as_millis(),
    "after a long wait, the sessions of the copy stay usable"
);
/// Time within which the sessions of the copy must show, under the seal, that they hold their locks.
const LOCKS_WITHIN: Duration = Duration::from_millis(300);
/// Pause between two probes of the writers or of the feed.
const PROBE_AGAIN: Duration = Duration::from_millis(5);
/// Pause between two attempts to return a group to the state before its fence.
const RESTORE_AGAIN: Duration = Duration::from_millis(200);
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
    /// The group was not switched, and can be tried again.
    Postponed {
        reason: &'static str,
        /// False if the sessions of the copy can't be used any more.
        intact: bool,
    },
}

const fn postponed(reason: &'static str, intact: bool) -> Attempt {
    Attempt::Postponed { reason, intact }
}

/// Switches all buckets of a copy, in groups.
pub(super) async fn switch_all(mut copy: BucketCopy<'_>, report: &(dyn Fn(Progress) + Sync)) -> Result<(), MoveError> {
    let (mover, source, of) = (copy.mover, copy.source, copy.moves.len());
    let (mut together, mut pause, mut last) = (TOGETHER, FIRST_PAUSE, Instant::now());
    while !copy.moves.is_empty() {
        let group: Vec<Move> = copy.moves.values().take(together).copied().collect();
        let begun = Instant::now();
        let attempt = postponed_if_temporary(attempt(&mut copy, &group).await);
        let rest = match attempt {
            Ok(Attempt::Switched) => Vec::new(),
            _ => restored(mover, source, &group, last + GIVE_UP).await?,
        };
        copy.moves.retain(|_, one| !group.iter().any(|done| done.id == one.id));
        copy.moves.extend(rest.iter().map(|one| (one.bucket, *one)));
        let attempt = attempt?;
        if rest.len() < group.len() {
            let pause_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            report(Progress::Switched { done: of - copy.moves.len(), of, pause_ms });
            (pause, last) = (FIRST_PAUSE, Instant::now());
        }
        if copy.moves.is_empty() {
            break;
        }
        let mut intact = true;
        if let Attempt::Postponed { reason, intact: is_intact } = attempt {
            report(Progress::Postponed(reason));
            if last.elapsed() > GIVE_UP {
                return Err(MoveError::NotSwitched(reason));
            }
            sleep(pause).await;
            (together, pause, intact) = ((together / 2).max(1), LONGEST_PAUSE.min(pause * 2), is_intact);
        }
        copy = caught_up(copy, intact, last + GIVE_UP, report).await?;
    }
    Ok(())
}

/// Postpones an attempt that failed because a database did not respond, or waited too long for a lock.
fn postponed_if_temporary(attempt: Result<Attempt, MoveError>) -> Result<Attempt, MoveError> {
    match attempt {
        Err(MoveError::Storage(error)) if error.is_temporary() => {
            tracing::warn!(%error, "could not switch a group of buckets");
            Ok(postponed("a database did not respond in time", false))
        }
        attempt => attempt,
    }
}

/// Fences a group and switches it. If that fails, the fence may be there, and the outcome of the switch may be unknown:
/// [`restored`] must follow.
async fn attempt(copy: &mut BucketCopy<'_>, group: &[Move]) -> Result<Attempt, MoveError> {
    let mover = copy.mover;
    let fenced = journal::fence(mover.cluster(), group).await?;
    if fenced.len() < group.len() {
        return Ok(postponed("another process changed the moves", false));
    }
    crash_point::reach("shards_move.fencing");
    let barrier = match timeout(FENCED_FOR, prepare(copy, &fenced)).await {
        Ok(Ok(Ok(barrier))) => barrier,
        Ok(Ok(Err(reason))) => return Ok(postponed(reason, true)),
        Ok(Err(error)) => return Err(error),
        Err(_) => return Ok(postponed("the last rows could not be copied in time", false)),
    };
    if !fence::seal(mover.database(copy.source), &fenced).await? {
        return Ok(postponed("the time of the fence has passed", true));
    }
    crash_point::reach("shards_move.sealed");
    if !timeout(LOCKS_WITHIN, copy.transfer.holds_locks()).await.is_ok_and(|held| held.unwrap_or(false)) {
        return Ok(postponed("a session of the command was lost", false));
    }
    if journal::switch(mover.cluster(), &fenced, barrier).await?.is_none() {
        return Ok(postponed("the fence was lifted by a replica", true));
    }
    crash_point::reach("shards_move.switched");
    finish(&mover.databases, &fenced).await?;
    Ok(Attempt::Switched)
}

/// Ends an attempt that did not succeed. Waits for databases that do not respond.
async fn restored(mover: &Mover, source: ShardIndex, group: &[Move], give_up: Instant) -> Result<Vec<Move>, MoveError> {
    loop {
        match restore(mover, source, group).await {
            Err(MoveError::Storage(error)) if error.is_temporary() && Instant::now() < give_up => {
                tracing::warn!(%error, "could not end the attempt to switch a group of buckets");
                sleep(RESTORE_AGAIN).await;
            }
            outcome => return outcome,
        }
    }
}

/// Returns the moves of a group that are not switched to the copy, and lifts their fences. The journal decides, because
/// the outcome of a switch is unknown if the connection was lost: [`journal::unfence`] waits for a transaction that is
/// switching the moves, and afterwards none can. Moves that were switched are completed. Returns the others, also those
/// that another command has fenced meanwhile.
async fn restore(mover: &Mover, source: ShardIndex, group: &[Move]) -> Result<Vec<Move>, MoveError> {
    let attempts = journal::stored(mover.cluster(), group).await?;
    let copying = journal::unfence(mover.cluster(), &attempts).await?;
    let lifted = fence::lift(mover.database(source), &copying).await;
    let stored = journal::stored(mover.cluster(), group).await?;
    if let Some(aborted) = group.iter().find(|one| !stored.iter().any(|stored| stored.id == one.id)) {
        return Err(MoveError::Aborted(aborted.bucket));
    }
    let in_state = |states: &[MoveState]| stored.iter().filter(|one| states.contains(&one.state)).copied().collect();
    let switched: Vec<Move> = in_state(&[MoveState::Switched]);
    finish(&mover.databases, &switched).await?;
    lifted?;
    Ok(in_state(&[MoveState::Copying, MoveState::Fenced]))
}

/// Opens the sessions of a copy again, unless they are intact, and copies what was written meanwhile.
async fn caught_up<'a>(
    mut copy: BucketCopy<'a>,
    mut intact: bool,
    give_up: Instant,
    report: &(dyn Fn(Progress) + Sync),
) -> Result<BucketCopy<'a>, MoveError> {
    loop {
        if !intact {
            copy = copy.reconnect(give_up, report).await?;
        }
        match copy.later(None).await {
            Err(MoveError::Storage(error)) if error.is_temporary() && Instant::now() < give_up => {
                tracing::warn!(%error, "could not copy what was written meanwhile");
                sleep(FIRST_PAUSE).await;
                intact = false;
            }
            outcome => return outcome.map(|_| copy),
        }
    }
}

/// Fences the buckets of a group, copies their last rows, makes the old states of the target unusable, and compares the
/// rows. Returns the barrier, or the reason that the group can't be switched.
async fn prepare(
    copy: &mut BucketCopy<'_>,
    group: &[Move],
) -> Result<Result<Option<Barrier>, &'static str>, MoveError> {
    let (begun, mover) = (Instant::now(), copy.mover);
    let (source, target) = (mover.database(copy.source), mover.database(mover.target));
    let writers = fence::raise(source, group).await?;
    crash_point::reach("shards_move.fenced");
    if !end_in_time(&writers, source, begun + WRITERS_WITHIN).await? {
        return Ok(Err("a transaction that writes to the source did not end in time"));
    }
    copy.later(Some(group)).await?;
    let executions = copy.of(group);
    copy.transfer.copy_executions(&executions).await?;
    copy.transfer.copy_outbox(group, &executions).await?;
    let writers = fence::outdate_states(target, group).await?;
    crash_point::reach("shards_move.last_rows");
    let barrier = loop {
        match copy.transfer.published(group).await? {
            Published::NoFeed => break None,
            Published::UpTo(barrier) => break Some(barrier),
            Published::Waiting if begun.elapsed() > PUBLISHED_WITHIN => {
                return Ok(Err("the source's events are not published"));
            }
            Published::Waiting => sleep(PROBE_AGAIN).await,
        }
    };
    if let Some(table) = copy.transfer.difference(&executions).await? {
        tracing::warn!(table, "the copied rows differ from those of the source");
        return Ok(Err("the copied rows differ from those of the source"));
    }
    crash_point::reach("shards_move.compared");
    if !end_in_time(&writers, target, begun + PUBLISHED_WITHIN).await? {
        return Ok(Err("a transaction that writes to the target did not end in time"));
    }
    Ok(Ok(barrier))
}

/// Waits until writers have ended, up to a time. Returns whether they have.
async fn end_in_time(writers: &Writers, shard: &Database, limit: Instant) -> Result<bool, StorageError> {
    while writers.run(shard).await? {
        if Instant::now() > limit {
            return Ok(false);
        }
        sleep(PROBE_AGAIN).await;
    }
    Ok(true)
}

/// Settles switched moves: opens their targets, and closes their sources. A shard that fails does not delay the moves
/// between others; the last error is returned.
pub(super) async fn finish(databases: &Databases, moves: &[Move]) -> Result<(), StorageError> {
    if moves.is_empty() {
        return Ok(());
    }
    let shard = |index: ShardIndex| &databases.shards()[usize::from(index)];
    let pairs: BTreeSet<(ShardIndex, ShardIndex)> = moves.iter().map(|one| (one.source, one.target)).collect();
    let of = |(source, target)| -> Vec<Move> {
        moves.iter().filter(|one| (one.source, one.target) == (source, target)).copied().collect()
    };
    let (mut opened, mut closed, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
    for pair in pairs {
        match fence::open_target(shard(pair.1), &of(pair)).await {
            Ok(()) => opened.push(pair),
            Err(error) => outcome = Err(error),
        }
    }
    crash_point::reach("shards_move.opened");
    for pair in opened {
        match fence::close_source(shard(pair.0), &of(pair)).await {
            Ok(()) => closed.extend(of(pair)),
            Err(error) => outcome = Err(error),
        }
    }
    crash_point::reach("shards_move.closed");
    if !closed.is_empty() {
        journal::settle(databases.cluster(), &closed).await?;
    }
    outcome
}
