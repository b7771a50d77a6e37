//! The outbox over all shards: claim, settle, retry, discard, list, purge. Workers use it through the API and the
//! built-in relay directly, with the same guarantees ([`noetl_use_cases::outbox`]).
//!
//! A row that can't be delivered becomes DEAD after its last attempt. It then waits for an operator, and no other row
//! waits for it.

mod bulk;
mod claim;
mod dead;
mod failures;
pub(crate) mod forward;
mod lost;
mod purge;
mod rate_limit;
mod read;
mod settle;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use noetl_domain::outbox::OutboxPolicy;
use noetl_domain::shard::ShardIndex;
use noetl_runtime::coalesce::Coalescer;
use noetl_runtime::wake::WakeUps;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::LowWatermarks;
use noetl_storage::pools::{Database, Databases};
use noetl_storage::view::View;
use noetl_use_cases::ids::ReserveIds;
use rate_limit::RateLimit;
use settle::PublishFlight;

pub use purge::OutboxPurge;

/// Maximum number of times that a request reads the rows of a list or of given ids, if the bucket map changes each
/// time.
const READS: usize = 3;

/// Use cases of the outbox.
#[derive(Debug, Clone)]
pub struct Outbox {
    databases: Databases,
    ids: Arc<dyn ReserveIds>,
    wake_ups: WakeUps,
    policy: OutboxPolicy,
    /// By shard.
    open_rows: Arc<[Mutex<OpenRows>]>,
    /// By shard.
    publishing: Arc<[Coalescer<PublishFlight>]>,
    /// Number of claims so far. It rotates the shard that gets the larger share.
    turn: Arc<AtomicUsize>,
}

/// Open and DEAD rows of a shard, as this replica last saw them, and the limits of reads below the low watermarks.
#[derive(Debug)]
struct OpenRows {
    low_watermarks: LowWatermarks,
    /// Version of the bucket map with which the low watermarks were found. A switch makes rows below them visible.
    map_version: u64,
    /// Limit of probes for claimable rows that read from the start.
    full_probes: RateLimit,
    /// Limit of counts of claimable rows that read from the start.
    full_counts: RateLimit,
    /// Number of DEAD rows at the last count.
    known_dead: i64,
}

impl OpenRows {
    /// State of a replica that has read nothing.
    const UNKNOWN: Self = Self {
        low_watermarks: LowWatermarks::START,
        map_version: 0,
        full_probes: RateLimit::UNUSED,
        full_counts: RateLimit::UNUSED,
        known_dead: 0,
    };
}

impl Outbox {
    /// Creates the use cases.
    #[must_use]
    pub fn new(databases: Databases, ids: Arc<dyn ReserveIds>, wake_ups: WakeUps, policy: OutboxPolicy) -> Self {
        let open_rows = databases.shards().iter().map(|_| Mutex::new(OpenRows::UNKNOWN)).collect();
        let publishing = |database: &Arc<Database>| Coalescer::new(PublishFlight { database: Arc::clone(database) });
        let publishing = databases.shards().iter().map(publishing).collect();
        Self { databases, ids, wake_ups, policy, open_rows, publishing, turn: Arc::default() }
    }

    /// Returns the indexes of all shards.
    #[must_use]
    pub fn shards(&self) -> std::ops::Range<ShardIndex> {
        0..ShardIndex::try_from(self.databases.shards().len()).unwrap_or(ShardIndex::MAX)
    }

    /// Reads from the start if the rate limit allows it, else from the low watermarks. If the read from the start fails
    /// because it takes too long, reads from the low watermarks too, so the rows above them stay claimable. The failed
    /// read counts as a cost for the rate limit.
    async fn read_open_rows<T, Rows: Future<Output = Result<T, StorageError>>>(
        &self,
        shard: ShardIndex,
        map_version: u64,
        limit_of: fn(&mut OpenRows) -> &mut RateLimit,
        read: impl Fn(LowWatermarks) -> Rows,
    ) -> Result<T, StorageError> {
        let begun = Instant::now();
        let (low_watermarks, from_start) = {
            let mut open_rows = self.open_rows(shard);
            if open_rows.map_version < map_version {
                (open_rows.map_version, open_rows.low_watermarks) = (map_version, LowWatermarks::START);
            }
            (open_rows.low_watermarks, limit_of(&mut open_rows).is_due(begun))
        };
        if !from_start {
            return read(low_watermarks).await;
        }
        let result = read(LowWatermarks::START).await;
        limit_of(&mut self.open_rows(shard)).note(begun, Instant::now());
        match result {
            Err(error) if error.is_temporary() && low_watermarks != LowWatermarks::START => read(low_watermarks).await,
            result => result,
        }
    }

    /// Returns all shards, by index, without the rows that moved or are being moved.
    fn views(&self) -> impl Iterator<Item = (ShardIndex, View<'_>)> {
        (0..).zip(self.databases.views())
    }

    /// Returns the database of a shard. The index must be one of [`Self::shards`].
    fn database(&self, shard: ShardIndex) -> &Database {
        &self.databases.shards()[usize::from(shard)]
    }

    /// Locks the state of a shard's open rows.
    fn open_rows(&self, shard: ShardIndex) -> MutexGuard<'_, OpenRows> {
        self.open_rows[usize::from(shard)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use noetl_domain::ids::Id;
    use noetl_domain::shard::ShardMap;
    use noetl_runtime::clock;
    use noetl_storage::error::DatabaseName;
    use noetl_storage::machines::Lease;
    use noetl_use_cases::error::{NoIdReason, ServiceError};

    /// Ids for reads, which make none.
    #[derive(Debug)]
    struct NoIds;

    #[async_trait]
    impl ReserveIds for NoIds {
        async fn leases(&self) -> Result<Vec<Lease>, ServiceError> {
            Ok(Vec::new())
        }

        async fn reserve(&self, _: u32) -> Result<Vec<Id>, ServiceError> {
            Err(NoIdReason::LeaseLost.into())
        }

        fn machine_id(&self) -> u16 {
            0
        }
    }

    #[tokio::test]
    async fn reading_continues_from_the_watermarks_if_the_start_cannot_be_read_in_time() {
        let database = DatabaseName::Shard(0);
        let shard = Arc::new(Database::new(database, "postgres://127.0.0.1".parse().unwrap(), 1));
        let databases = Databases::new(Arc::clone(&shard), vec![shard], ShardMap::even(1), clock::now());
        let policy = OutboxPolicy { max_attempts: 1, retention: None };
        let outbox = Outbox::new(databases, Arc::new(NoIds), WakeUps::new(1), policy);
        let read = async |from: LowWatermarks| {
            let late = StorageError::Unavailable { database, reason: "it took too long".to_owned() };
            if from == LowWatermarks::START { Err(late) } else { Ok(from) }
        };
        assert!(outbox.read_open_rows(0, 0, |open_rows| &mut open_rows.full_probes, read).await.is_err());
        let low_watermarks = LowWatermarks { pending: 7, ..LowWatermarks::START };
        outbox.open_rows(0).low_watermarks = low_watermarks;
        let found = outbox.read_open_rows(0, 0, |open_rows| &mut open_rows.full_probes, read).await.unwrap();
        assert_eq!(found, low_watermarks);
    }
}
