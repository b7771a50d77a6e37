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
mod read;
mod settle;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use noetl_domain::outbox::OutboxPolicy;
use noetl_domain::outbox_reads::{RateLimit, places};
use noetl_domain::shard::ShardIndex;
use noetl_runtime::coalesce::Coalescer;
use noetl_runtime::wake::WakeUps;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::LowWatermarks;
use noetl_storage::pools::{Database, Databases};
use noetl_storage::view::View;
use noetl_use_cases::ids::ReserveIds;
use settle::PublishBatches;

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
    publishing: Arc<[Coalescer<PublishBatches>]>,
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
        let publishing = |database: &Arc<Database>| Coalescer::new(PublishBatches { database: Arc::clone(database) });
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
        let (first, then) = places(LowWatermarks::START, low_watermarks, from_start);
        let result = read(first).await;
        if from_start {
            limit_of(&mut self.open_rows(shard)).note(begun, Instant::now());
        }
        match (result, then) {
            (Err(error), Some(then)) if error.is_temporary() => read(then).await,
            (result, _) => result,
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
