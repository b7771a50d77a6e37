//! The shard of an execution: the id hashes to one of 5040 buckets, and a map gives the shard of each bucket. 5040 is
//! divisible by 1 to 10, 12, 14, 15 and 16, so for these shard counts the default map equals `hash mod count`.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh64::xxh64;

use super::feed::FeedId;
use super::ids::Id;

/// Number of buckets.
pub const BUCKETS: u16 = 5040;

/// Index of a shard, counted from 0.
pub type ShardIndex = u16;

/// Returns the bucket of an execution.
#[must_use]
pub fn bucket_of(execution: Id) -> u16 {
    let hash = xxh64(&execution.get().to_le_bytes(), 0);
    u16::try_from(hash % u64::from(BUCKETS)).unwrap_or_default()
}

/// Bucket map of a deployment, with the moves of its buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardMap {
    version: u64,
    shard_of_bucket: Vec<ShardIndex>,
    moves: Moves,
}

/// Moves of buckets that are known to a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves {
    /// Departures of each bucket that has moved, oldest first.
    pub departures: BTreeMap<u16, Vec<Departure>>,
    /// Target of each bucket that is being moved.
    pub targets: BTreeMap<u16, ShardIndex>,
    /// Shards that may have rows of buckets that the map gives to other shards.
    pub concealing: BTreeSet<ShardIndex>,
}

/// Move of a bucket that took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Shard that held the bucket before.
    pub from: ShardIndex,
    /// Shard that held it afterwards.
    pub to: ShardIndex,
    /// End of the feed of `from` at the move. `None`: `from` published nothing.
    pub barrier: Option<Barrier>,
}

/// Position in the feed of the shard that a bucket left: all events that the shard published of the bucket are at this
/// position or before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// Identity of the feed.
    pub feed: FeedId,
    /// Epoch of the feed.
    pub epoch: u32,
    /// Sequence in the stream.
    pub sequence: u64,
}

/// A map that does not fit the configured shards.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadShardMap {
    /// The number of buckets is wrong.
    #[error("the bucket map has {0} buckets, not {BUCKETS}")]
    Size(usize),
    /// The shard of a bucket is not configured.
    #[error("the bucket map names shard {named}, but only {configured} shards are configured")]
    Shard {
        /// Index of the shard in the map.
        named: ShardIndex,
        /// Number of configured shards.
        configured: u16,
    },
}

impl ShardMap {
    /// Returns the map `bucket mod shards`, the default of a deployment.
    #[must_use]
    pub fn even(shards: u16) -> Self {
        let shard_of_bucket = (0..BUCKETS).map(|bucket| bucket % shards.max(1)).collect();
        Self { version: 0, shard_of_bucket, moves: Moves::default() }
    }

    /// Returns the map from its stored form: the shard of each bucket, in bucket order.
    pub fn from_stored(shard_of_bucket: Vec<ShardIndex>, configured: u16) -> Result<Self, BadShardMap> {
        if shard_of_bucket.len() != usize::from(BUCKETS) {
            return Err(BadShardMap::Size(shard_of_bucket.len()));
        }
        match shard_of_bucket.iter().find(|shard| **shard >= configured) {
            Some(&named) => Err(BadShardMap::Shard { named, configured }),
            None => Ok(Self { version: 0, shard_of_bucket, moves: Moves::default() }),
        }
    }

    /// Returns the map with its version, and with the moves of its buckets.
    #[must_use]
    pub fn with_moves(self, version: u64, moves: Moves) -> Self {
        Self { version, moves, ..self }
    }

    /// Returns the version of the map. It increases with each change of the map or of its moves.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether a bucket has ever moved, or is being moved.
    #[must_use]
    pub fn has_moves(&self) -> bool {
        !self.moves.departures.is_empty() || !self.moves.targets.is_empty()
    }

    /// Returns whether a bucket is being moved: the map may change soon.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        !self.moves.targets.is_empty()
    }

    /// Returns whether the shard may have rows of buckets that the map gives to another shard: copied rows of a move in
    /// progress, or rows of a bucket that has left.
    #[must_use]
    pub fn conceals(&self, shard: ShardIndex) -> bool {
        self.moves.concealing.contains(&shard)
    }

    /// Returns the shard to which the execution is being moved.
    #[must_use]
    pub fn target_of(&self, execution: Id) -> Option<ShardIndex> {
        if self.moves.targets.is_empty() {
            return None;
        }
        self.moves.targets.get(&bucket_of(execution)).copied()
    }

    /// Returns the departures of the execution's bucket, oldest first.
    #[must_use]
    pub fn departures_of(&self, execution: Id) -> &[Departure] {
        if self.moves.departures.is_empty() {
            return &[];
        }
        self.departures_of_bucket(bucket_of(execution))
    }

    /// Returns the departures of a bucket, oldest first.
    #[must_use]
    pub fn departures_of_bucket(&self, bucket: u16) -> &[Departure] {
        self.moves.departures.get(&bucket).map_or(&[], Vec::as_slice)
    }

    /// Returns whether the shard holds the execution. Rows of other executions on the shard are copies: they are being
    /// moved to the shard, or have been moved away.
    #[must_use]
    pub fn holds(&self, shard: ShardIndex, execution: Id) -> bool {
        self.shard_of(execution) == shard
    }

    /// Returns the shard that holds an execution.
    #[must_use]
    pub fn shard_of(&self, execution: Id) -> ShardIndex {
        self.shard_of_bucket[usize::from(bucket_of(execution))]
    }

    /// Returns the shard that holds an execution, and those that held it before.
    pub fn shards_of(&self, execution: Id) -> impl Iterator<Item = ShardIndex> {
        let left = self.departures_of(execution).iter().map(|departure| departure.from);
        std::iter::once(self.shard_of(execution)).chain(left)
    }

    /// Returns the number of buckets that a shard holds.
    #[must_use]
    pub fn buckets_of(&self, shard: ShardIndex) -> usize {
        self.shard_of_bucket.iter().filter(|held_by| **held_by == shard).count()
    }

    /// Returns the shard of each bucket, in bucket order.
    #[must_use]
    pub fn as_slice(&self) -> &[ShardIndex] {
        &self.shard_of_bucket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_map_is_hash_mod_count() {
        for shards in [1_u16, 2, 3, 7, 12, 16] {
            let map = ShardMap::even(shards);
            for raw in (0..10_000).map(|n| n * 7_919_999_983) {
                let hash = xxh64(&i64::to_le_bytes(raw), 0);
                assert_eq!(u64::from(map.shard_of(Id::new(raw))), hash % u64::from(shards));
            }
        }
    }

    #[test]
    fn the_hash_is_xxh64_of_little_endian_bytes() {
        // Reference: the xxHash project's test vector for eight zero bytes, seed 0.
        assert_eq!(xxh64(&0_i64.to_le_bytes(), 0), 0x34C9_6ACD_CADB_1BBB);
    }

    #[test]
    fn a_map_that_names_an_unknown_shard_is_refused() {
        let stored = ShardMap::even(3).as_slice().to_vec();
        assert_eq!(ShardMap::from_stored(stored, 2), Err(BadShardMap::Shard { named: 2, configured: 2 }));
        assert_eq!(ShardMap::from_stored(vec![0; 4], 2), Err(BadShardMap::Size(4)));
    }

    #[test]
    fn a_map_with_moves_has_the_departures_of_its_buckets() {
        let execution = Id::new(17);
        let even = ShardMap::even(2);
        assert!(!even.has_moves());
        assert_eq!(even.departures_of(execution), []);
        let barrier = Some(Barrier { feed: FeedId::new(1), epoch: 2, sequence: 3 });
        let departure = Departure { from: 0, to: 1, barrier };
        let departures = BTreeMap::from([(bucket_of(execution), vec![departure])]);
        let moved = even.with_moves(5, Moves { departures, ..Moves::default() });
        assert_eq!((moved.version(), moved.has_moves()), (5, true));
        assert_eq!(moved.departures_of(execution), [departure]);
        assert_eq!(moved.shards_of(execution).collect::<Vec<_>>(), [moved.shard_of(execution), 0]);
        let other = (0..1000).map(Id::new).find(|id| bucket_of(*id) != bucket_of(execution)).unwrap();
        assert_eq!(moved.departures_of(other), []);
    }

    #[test]
    fn a_shard_holds_the_buckets_that_the_map_gives_it() {
        let even = ShardMap::even(7);
        assert!((0..7).all(|shard| even.buckets_of(shard) == 720), "5040 buckets on 7 shards");
        let mut stored = vec![0; 5040];
        stored[17] = 2;
        let map = ShardMap::from_stored(stored, 3).unwrap();
        assert_eq!([0, 1, 2].map(|shard| map.buckets_of(shard)), [5039, 0, 1]);
    }
}
