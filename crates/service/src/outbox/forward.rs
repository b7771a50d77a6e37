//! Rows by ids of before a move. A row that moved with its bucket has another id in its new shard, and the old id stays
//! valid: its shard knows the new one.
//!
//! The new id is used once the map gives the bucket to another shard than the id names. Until then, the row is where the id
//! says, also if it was copied. If a bucket has come back to a shard that it left before, the shard's first row is gone,
//! and its new id leads over the other shards to the current row.
//!
//! A process may use the map of before a switch. A row that is gone from its shard has left it, although this map does not
//! say so, and its new id is used too.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::future::join_all;

use noetl_domain::outbox::OutboxId;
use noetl_domain::outbox_forward::{Step, followed};
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::outbox;
use noetl_storage::pools::Databases;
use noetl_use_cases::error::ServiceError;

/// Maximum number of moves of a row that an id is followed over.
const MAX_MOVES: usize = 16;

/// Current ids of rows.
#[derive(Debug, Default)]
pub(crate) struct CurrentIds {
    /// Those that differ from the given ones.
    moved: HashMap<OutboxId, OutboxId>,
    /// Errors of given ids' shards for which they are not known.
    pub(crate) failed: BTreeMap<ShardIndex, ServiceError>,
}

impl CurrentIds {
    /// Returns the current id of a row.
    pub(crate) fn of(&self, given: OutboxId) -> OutboxId {
        self.moved.get(&given).copied().unwrap_or(given)
    }
}

/// Returns the current ids of rows. While no bucket has moved by the map, they are the given ones.
pub(crate) async fn current_ids(databases: &Databases, given: impl IntoIterator<Item = OutboxId>) -> CurrentIds {
    if databases.map().has_moves() { followed_ids(databases, given).await } else { CurrentIds::default() }
}

/// Returns the current ids of rows, also if the map names no moves. For rows that their shards do not have.
pub(crate) async fn followed_ids(databases: &Databases, given: impl IntoIterator<Item = OutboxId>) -> CurrentIds {
    let map = databases.map();
    let mut ids = CurrentIds::default();
    let given: BTreeSet<OutboxId> = given.into_iter().collect();
    let mut open: Vec<Step> = given.into_iter().map(|id| Step { given: id, at: id }).collect();
    let shard_of = |step: &Step| databases.shards().get(usize::from(step.at.shard));
    for _ in 0..MAX_MOVES {
        let mut by_shard: BTreeMap<ShardIndex, Vec<Step>> = BTreeMap::new();
        for step in open.drain(..).filter(|step| shard_of(step).is_some()) {
            by_shard.entry(step.at.shard).or_default().push(step);
        }
        let reads = by_shard.iter().map(async |(shard, rows)| {
            let numbers: Vec<i64> = rows.iter().map(|step| step.at.number).collect();
            (*shard, outbox::forwarded(&databases.shards()[usize::from(*shard)], &numbers).await)
        });
        for (shard, read) in join_all(reads).await {
            let rows = by_shard.remove(&shard).unwrap_or_default();
            match read {
                Ok(found) => open.extend(followed(&rows, &found, shard, &map)),
                Err(error) => ids.fail(&rows, error),
            }
        }
        if open.is_empty() {
            break;
        }
        ids.moved.extend(open.iter().map(|step| (step.given, step.at)));
    }
    ids
}

impl CurrentIds {
    fn fail(&mut self, rows: &[Step], error: StorageError) {
        let error = ServiceError::from(error);
        self.failed.extend(rows.iter().map(|step| (step.given.shard, error.clone())));
    }
}
