//! The outbox over all shards: claim, settle, retry, look, purge. Workers come through the API, the built-in relay comes
//! directly; both get the same.
//!
//! A claim is a lease: until it passes nobody else holds the rows, and only its token settles them. Who crashes holds
//! them until then. Rows are delivered at least once: a worker that delivers and then fails to settle in time delivers
//! again, under the same id.

mod claim;
mod failures;
mod pace;
mod read;
mod settle;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::wake::Wakes;
use crate::domain::shard::ShardIndex;
use crate::storage::error::StorageError;
use crate::storage::outbox::Marks;
use crate::storage::pools::Databases;
use pace::Pace;

pub use claim::{Claim, Claims, Leased};
pub use read::{Stats, place};
pub use settle::{ClaimRef, Published, Retried};

/// Rows of one claim, and of one settlement.
pub const MAX_ROWS: usize = 1000;

/// The outbox's use cases.
#[derive(Debug, Clone)]
pub struct Outbox {
    databases: Databases,
    wakes: Wakes,
    retention: Duration,
    sights: Arc<[Mutex<Seen>]>,
    /// Which shard gets the larger share of the next claim.
    turn: Arc<AtomicUsize>,
}

/// What this replica knows of a shard's open rows.
#[derive(Debug)]
struct Seen {
    marks: Marks,
    /// Looking for what is to be claimed, from the start.
    looks: Pace,
    /// Counting it, from the start.
    counts: Pace,
}

impl Outbox {
    /// The outbox of a deployment; delivered rows are kept for `retention`.
    #[must_use]
    pub fn new(databases: Databases, wakes: Wakes, retention: Duration) -> Self {
        let unseen = || Mutex::new(Seen { marks: Marks::START, looks: Pace::default(), counts: Pace::default() });
        let sights = databases.shards().iter().map(|_| unseen()).collect();
        Self { databases, wakes, retention, sights, turn: Arc::default() }
    }

    /// The shards.
    #[must_use]
    pub fn shards(&self) -> std::ops::Range<ShardIndex> {
        0..ShardIndex::try_from(self.databases.shards().len()).unwrap_or(ShardIndex::MAX)
    }

    /// Reads from the start as often as the pace of it allows, and else from the marks. So it does where the start can't
    /// be read in time, which counts as a cost like any other: what is open above the marks stays within reach.
    async fn read_paced<T, Answer: Future<Output = Result<T, StorageError>>>(
        &self,
        shard: ShardIndex,
        pace: fn(&mut Seen) -> &mut Pace,
        read: impl Fn(Marks) -> Answer,
    ) -> Result<T, StorageError> {
        let begun = Instant::now();
        let (marks, everything) = {
            let mut seen = self.seen(shard);
            (seen.marks, pace(&mut seen).is_due(begun))
        };
        if !everything {
            return read(marks).await;
        }
        let answer = read(Marks::START).await;
        pace(&mut self.seen(shard)).note(begun, Instant::now());
        match answer {
            Err(StorageError::Unavailable { .. }) if marks != Marks::START => read(marks).await,
            answer => answer,
        }
    }

    fn seen(&self, shard: ShardIndex) -> MutexGuard<'_, Seen> {
        self.sights[usize::from(shard)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::shard::ShardMap;
    use crate::storage::error::DatabaseName;
    use crate::storage::pools::Database;

    #[tokio::test]
    async fn where_the_start_cannot_be_read_in_time_reading_goes_on_from_the_marks() {
        let database = DatabaseName::Shard(0);
        let shard = Arc::new(Database::new(database, "postgres://127.0.0.1".parse().unwrap(), 1));
        let databases = Databases::new(Arc::clone(&shard), vec![shard], ShardMap::even(1));
        let outbox = Outbox::new(databases, Wakes::new(1), Duration::ZERO);
        let read = async |from: Marks| {
            let late = StorageError::Unavailable { database, reason: "it took too long".to_owned() };
            if from == Marks::START { Err(late) } else { Ok(from) }
        };
        assert!(outbox.read_paced(0, |seen| &mut seen.looks, read).await.is_err());
        let marks = Marks { pending: 7, ..Marks::START };
        outbox.seen(0).marks = marks;
        assert_eq!(outbox.read_paced(0, |seen| &mut seen.looks, read).await.unwrap(), marks);
    }
}
