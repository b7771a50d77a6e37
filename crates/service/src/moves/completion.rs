//! Completion of moves whose command has ended, and the deletion of the rows that a bucket left behind. A housekeeping
//! task of every replica runs it.

use std::collections::BTreeSet;

use super::mover::by_source;
use super::switch::finish;
use noetl_domain::ids::Id;
use noetl_domain::shard::{ShardIndex, bucket_of};
use noetl_storage::error::StorageError;
use noetl_storage::moves::journal::{self, Move, MoveState};
use noetl_storage::moves::session::Session;
use noetl_storage::moves::{fence, residue};
use noetl_storage::pools::Databases;
use noetl_use_cases::error::ServiceError;

/// Seconds after its last change from which a move counts as abandoned.
const ABANDONED_SECONDS: f64 = 5.0;
const _: () = assert!(ABANDONED_SECONDS > fence::FENCE.as_secs_f64(), "the fence of an abandoned move has no effect");
/// Seconds after a move for which its source keeps the rows, so that the bucket can be moved back quickly.
const KEPT_SECONDS: f64 = 24.0 * 3600.0;

/// Lifts the fences of abandoned moves, settles those that were switched, and deletes the rows of buckets that left a
/// shard long ago. Returns what was done.
pub async fn complete(databases: &Databases) -> Result<String, ServiceError> {
    // A process with the list of before the last added shard leaves the rest to the others.
    let is_known = |one: &Move| usize::from(one.source.max(one.target)) < databases.shards().len();
    let mut abandoned = journal::abandoned(databases.cluster(), ABANDONED_SECONDS).await?;
    abandoned.retain(is_known);
    let (switched, open): (Vec<Move>, Vec<Move>) =
        abandoned.into_iter().partition(|one| one.state == MoveState::Switched);
    let (fenced, mut copying): (Vec<Move>, Vec<Move>) =
        open.into_iter().partition(|one| one.state == MoveState::Fenced);
    if !fenced.is_empty() {
        copying.extend(journal::unfence(databases.cluster(), &fenced).await?);
    }
    // A shard that fails does not delay the moves between others.
    let mut outcome = finish(databases, &switched).await;
    for (source, moves) in by_source(copying) {
        outcome = fence::lift(&databases.shards()[usize::from(source)], &moves).await.and(outcome);
    }
    outcome?;
    let mut cleanable = journal::cleanable(databases.cluster(), KEPT_SECONDS).await?;
    cleanable.retain(is_known);
    let mut cleaned = 0;
    for (source, moves) in by_source(cleanable) {
        cleaned += clean(databases, source, &moves).await?;
    }
    Ok(format!("settled {} moves of buckets, cleaned {cleaned}", switched.len()))
}

/// Deletes the source's rows of moved buckets in one pass over its ids. Returns the number of moves; 0 if another process
/// works on the shard.
async fn clean(databases: &Databases, source: ShardIndex, moves: &[Move]) -> Result<usize, StorageError> {
    let Some(mut session) = Session::take(&databases.shards()[usize::from(source)]).await? else { return Ok(0) };
    // Read again under the lock, which a move back to the source needs too.
    let cleanable = journal::cleanable(databases.cluster(), KEPT_SECONDS).await?;
    let moves: Vec<Move> = moves.iter().filter(|one| cleanable.contains(one)).copied().collect();
    let buckets: BTreeSet<u16> = moves.iter().map(|one| one.bucket).collect();
    residue::delete_selected(&mut session, |id| buckets.contains(&bucket_of(Id::new(id)))).await?;
    journal::clean(databases.cluster(), &moves).await?;
    Ok(moves.len())
}
