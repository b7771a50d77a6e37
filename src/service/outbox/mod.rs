//! The outbox over all shards: claim, settle, retry, list, purge. Workers use it through the API and the built-in relay
//! directly, with the same guarantees.
//!
//! A claim is a lease. Until it expires, no other caller can claim the rows, and only its token settles them. Rows
//! claimed by a crashed worker become claimable when their lease expires. Rows are delivered at least once: if a worker
//! delivers a row and does not settle it in time, the row is delivered again under the same id.

mod claim;
mod failures;
mod pace;
mod read;
mod settle;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::runtime::wake::WakeUps;
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::LowWatermarks;
use noetl_storage::pools::Databases;
use pace::Pace;

pub use claim::{Claim, ClaimedRow, Claims};
pub use read::{Stats, place};
pub use settle::{ClaimRef, Published, Retried};

/// Maximum number of rows in one claim and in one settlement.
pub const MAX_ROWS: usize = 1000;

/// Use cases of the outbox.
#[derive(Debug, Clone)]
pub struct Outbox {
    databases: Databases,
    wake_ups: WakeUps,
    retention: Duration,
    /// By shard.
    sights: Arc<[Mutex<Seen>]>,
    /// Number of claims so far. It rotates the shard that gets the larger share.
    turn: Arc<AtomicUsize>,
}

/// Low watermarks of a shard's open rows, as this replica last saw them.
#[derive(Debug)]
struct Seen {
    marks: LowWatermarks,
    /// Pace of probes for claimable rows that read from the start.
    probe_pace: Pace,
    /// Pace of counts of claimable rows that read from the start.
    counts: Pace,
}

impl Outbox {
    /// Creates the use cases. Published rows are kept for `retention`.
    #[must_use]
    pub fn new(databases: Databases, wake_ups: WakeUps, retention: Duration) -> Self {
        let unseen =
            || Mutex::new(Seen { marks: LowWatermarks::START, probe_pace: Pace::default(), counts: Pace::default() });
        let sights = databases.shards().iter().map(|_| unseen()).collect();
        Self { databases, wake_ups, retention, sights, turn: Arc::default() }
    }

    /// Returns the indexes of all shards.
    #[must_use]
    pub fn shards(&self) -> std::ops::Range<ShardIndex> {
        0..ShardIndex::try_from(self.databases.shards().len()).unwrap_or(ShardIndex::MAX)
    }

    /// Reads from the start if the pace allows it, else from the low watermarks. If the read from the start fails
    /// because it takes too long, reads from the low watermarks too, so the rows above them stay claimable. The failed
    /// read counts as a cost for the pace.
    async fn read_paced<T, Answer: Future<Output = Result<T, StorageError>>>(
        &self,
        shard: ShardIndex,
        pace: fn(&mut Seen) -> &mut Pace,
        read: impl Fn(LowWatermarks) -> Answer,
    ) -> Result<T, StorageError> {
        let begun = Instant::now();
        let (marks, everything) = {
            let mut seen = self.seen(shard);
            (seen.marks, pace(&mut seen).is_due(begun))
        };
        if !everything {
            return read(marks).await;
        }
        let answer = read(LowWatermarks::START).await;
        pace(&mut self.seen(shard)).note(begun, Instant::now());
        match answer {
            Err(StorageError::Unavailable { .. }) if marks != LowWatermarks::START => read(marks).await,
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
    use noetl_domain::shard::ShardMap;
    use noetl_storage::error::DatabaseName;
    use noetl_storage::pools::Database;

    #[tokio::test]
    async fn reading_continues_from_the_watermarks_if_the_start_cannot_be_read_in_time() {
        let database = DatabaseName::Shard(0);
        let shard = Arc::new(Database::new(database, "postgres://127.0.0.1".parse().unwrap(), 1));
        let databases = Databases::new(Arc::clone(&shard), vec![shard], ShardMap::even(1));
        let outbox = Outbox::new(databases, WakeUps::new(1), Duration::ZERO);
        let read = async |from: LowWatermarks| {
            let late = StorageError::Unavailable { database, reason: "it took too long".to_owned() };
            if from == LowWatermarks::START { Err(late) } else { Ok(from) }
        };
        assert!(outbox.read_paced(0, |seen| &mut seen.probe_pace, read).await.is_err());
        let marks = LowWatermarks { pending: 7, ..LowWatermarks::START };
        outbox.seen(0).marks = marks;
        assert_eq!(outbox.read_paced(0, |seen| &mut seen.probe_pace, read).await.unwrap(), marks);
    }
}
