//! Abortion of moves that were not switched: the copied rows are deleted.

use std::collections::BTreeSet;

use super::error::MoveError;
use super::mover::{IDS, Mover};
use noetl_domain::ids::Id;
use noetl_domain::shard::bucket_of;
use noetl_runtime::crash_point;
use noetl_storage::moves::fence;
use noetl_storage::moves::journal::{self, Move, MoveState};
use noetl_storage::moves::transfer::Transfer;

/// Aborts moves from the source of the transfer, whose locks exclude other movers. Returns the number of aborted moves;
/// those that another command fenced meanwhile are not among them.
pub(super) async fn abort(mover: &Mover, mut transfer: Transfer<'_>, open: &[Move]) -> Result<usize, MoveError> {
    if let Some(switched) = open.iter().find(|one| one.state == MoveState::Switched) {
        return Err(MoveError::Switched(switched.bucket, switched.target));
    }
    let copying = journal::unfence(mover.cluster(), open).await?;
    if let Some(one) = copying.first() {
        fence::lift(mover.database(one.source), &copying).await?;
    }
    crash_point::reach("shards_move.unfenced");
    let buckets: BTreeSet<u16> = copying.iter().map(|one| one.bucket).collect();
    let mut from = i64::MIN;
    loop {
        let ids = transfer.target_executions_from(from, IDS).await?;
        let Some(next) = ids.last().and_then(|last| last.checked_add(1)) else { break };
        from = next;
        let ours: BTreeSet<i64> = ids.into_iter().filter(|id| buckets.contains(&bucket_of(Id::new(*id)))).collect();
        if !ours.is_empty() {
            transfer.delete_from_target(&ours).await?;
        }
    }
    transfer.forget_outbox(&copying).await?;
    crash_point::reach("shards_move.deleted");
    Ok(journal::forget(mover.cluster(), &copying).await?)
}
