//! Shares of the shards in a claim of outbox rows.

use super::shard::ShardIndex;

/// One row in this many is reserved for rows that were tried before, even if untried rows wait.
const RETRIED: usize = 4;

/// Returns the number of rows to claim from each shard. The first shards get the remainder of the division.
pub fn shares(wanted: usize, shards: &[ShardIndex]) -> impl Iterator<Item = (ShardIndex, usize)> {
    let (each, rest) = (wanted / shards.len(), wanted % shards.len());
    let share = move |(place, shard): (usize, &ShardIndex)| (*shard, each + usize::from(place < rest));
    shards.iter().enumerate().map(share).filter(|(_, share)| *share > 0)
}

/// Returns the bytes of payloads that a shard may return. The first one gets two thirds, which hold the largest
/// payload. The first place changes from claim to claim, so that no shard waits for ever with a large row.
#[must_use]
pub const fn byte_share(bytes: usize, place: usize, shards: usize) -> usize {
    let first = if shards == 1 { bytes } else { bytes / 3 * 2 };
    if place == 0 { first } else { (bytes - first) / (shards - 1) }
}

/// Returns the number of rows of a share that are reserved for rows that were tried before. The rounding depends on the
/// round, so that the ratio is exact over [`RETRIED`] rounds even for the smallest shares.
#[must_use]
pub const fn retried(share: usize, round: usize) -> usize {
    (share + round % RETRIED) / RETRIED
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of the largest payload in bytes, and of the payloads of one claim.
    const LARGEST: usize = 16 << 20;
    const ALL: usize = LARGEST / 2 * 3;

    #[test]
    fn limit_is_divided_among_the_shards() {
        assert_eq!(shares(7, &[2, 0, 1]).collect::<Vec<_>>(), [(2, 3), (0, 2), (1, 2)]);
        assert_eq!(shares(1, &[1, 0]).collect::<Vec<_>>(), [(1, 1)]);
    }

    #[test]
    fn shares_of_bytes_fit_into_the_claim_and_the_first_holds_the_largest_payload() {
        for shards in 1..=64 {
            let total: usize = (0..shards).map(|place| byte_share(ALL, place, shards)).sum();
            assert!(total <= ALL);
            assert!(byte_share(ALL, 0, shards) >= LARGEST);
        }
    }

    #[test]
    fn one_row_in_four_is_reserved_for_rows_tried_before() {
        for share in [1, 2, 3, 4, 100] {
            assert_eq!((0..4).map(|round| retried(share, round)).sum::<usize>(), share);
        }
    }
}
