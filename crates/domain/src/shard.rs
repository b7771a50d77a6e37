//! The shard of an execution: the id hashes to one of 5040 buckets, and a map gives the shard of each bucket. 5040 is
//! divisible by 1 to 10, 12, 14, 15 and 16, so for these shard counts the default map equals `hash mod count`.

use xxhash_rust::xxh64::xxh64;

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

/// Bucket map of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardMap {
    shard_of_bucket: Vec<ShardIndex>,
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
        Self { shard_of_bucket: (0..BUCKETS).map(|bucket| bucket % shards.max(1)).collect() }
    }

    /// Returns the map from its stored form: the shard of each bucket, in bucket order.
    pub fn from_stored(shard_of_bucket: Vec<ShardIndex>, configured: u16) -> Result<Self, BadShardMap> {
        if shard_of_bucket.len() != usize::from(BUCKETS) {
            return Err(BadShardMap::Size(shard_of_bucket.len()));
        }
        match shard_of_bucket.iter().find(|shard| **shard >= configured) {
            Some(&named) => Err(BadShardMap::Shard { named, configured }),
            None => Ok(Self { shard_of_bucket }),
        }
    }

    /// Returns the shard that holds an execution.
    #[must_use]
    pub fn shard_of(&self, execution: Id) -> ShardIndex {
        self.shard_of_bucket[usize::from(bucket_of(execution))]
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
    fn a_shard_holds_the_buckets_that_the_map_gives_it() {
        let even = ShardMap::even(7);
        assert!((0..7).all(|shard| even.buckets_of(shard) == 720), "5040 buckets on 7 shards");
        let mut stored = vec![0; 5040];
        stored[17] = 2;
        let map = ShardMap::from_stored(stored, 3).unwrap();
        assert_eq!([0, 1, 2].map(|shard| map.buckets_of(shard)), [5039, 0, 1]);
    }
}
