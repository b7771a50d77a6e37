//! The buckets of a shard as bits, which statements compare with the bucket of each row.

use super::shard::{BUCKETS, ShardIndex, ShardMap};

/// Returns one bit for each bucket, which is set if the map gives the bucket to the shard. `get_bit` of PostgreSQL counts
/// the bits of a byte from the lowest one.
#[must_use]
pub fn bits(map: &ShardMap, shard: ShardIndex) -> Vec<u8> {
    let mut bits = vec![0_u8; usize::from(BUCKETS.div_ceil(8))];
    for (bucket, held_by) in map.as_slice().iter().enumerate() {
        if *held_by == shard {
            bits[bucket / 8] |= 1 << (bucket % 8);
        }
    }
    bits
}

/// Returns the bits of the shard's buckets, and the number of switches that it took part in.
#[must_use]
pub fn identity(map: &ShardMap, shard: ShardIndex) -> Vec<u8> {
    let mut identity = bits(map, shard);
    let departures = (0..BUCKETS).flat_map(|bucket| map.departures_of_bucket(bucket));
    let switches = departures.filter(|one| one.from == shard || one.to == shard).count();
    identity.extend(switches.to_be_bytes());
    identity
}

/// Returns whether the bit of a bucket is set.
#[must_use]
pub fn is_set(bits: &[u8], bucket: u16) -> bool {
    let bucket = usize::from(bucket);
    bits.get(bucket / 8).is_some_and(|byte| byte >> (bucket % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{Departure, Moves};

    #[test]
    fn each_bucket_is_in_the_bits_of_one_shard() {
        let map = ShardMap::even(3);
        let bits: Vec<Vec<u8>> = (0..3).map(|shard| bits(&map, shard)).collect();
        for bucket in 0..BUCKETS {
            let held: Vec<bool> = bits.iter().map(|bits| is_set(bits, bucket)).collect();
            let expected: Vec<bool> = (0..3).map(|shard| bucket % 3 == shard).collect();
            assert_eq!(held, expected, "{bucket}");
        }
    }

    #[test]
    fn a_bucket_that_was_away_changes_the_identity_of_its_shards() {
        let departures = [(0, 1), (1, 0)].map(|(from, to)| Departure { from, to, barrier: None }).to_vec();
        let moves = Moves { departures: [(0, departures)].into(), ..Moves::default() };
        let (before, after) = (ShardMap::even(3), ShardMap::even(3).with_moves(1, moves));
        let changed = (0..3).map(|shard| identity(&before, shard) != identity(&after, shard));
        assert_eq!(changed.collect::<Vec<_>>(), [true, true, false]);
    }
}
