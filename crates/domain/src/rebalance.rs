//! Plan of bucket moves that makes the shards hold equal numbers of buckets, with the fewest moves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::shard::{BUCKETS, ShardIndex, ShardMap};

/// Move of buckets from one shard to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketMove {
    /// Shard that holds the buckets.
    pub from: ShardIndex,
    /// Shard that gets them.
    pub to: ShardIndex,
    /// Buckets, ascending.
    pub buckets: Vec<u16>,
}

/// Returns the moves after which the numbers of buckets on the `shards` shards differ by at most one. No plan with fewer
/// moved buckets reaches this. Where the plan has a choice, it moves buckets to the shard that the default map
/// `bucket mod shards` gives them.
///
/// The map must name no shard beyond `shards`.
#[must_use]
pub fn plan(map: &ShardMap, shards: u16) -> Vec<BucketMove> {
    let quotas = quotas(map, shards);
    // Number of buckets that a shard has beyond its quota; negative if it lacks buckets.
    let mut surplus: Vec<i32> = (0..shards).map(|shard| held(map, shard) - quotas[usize::from(shard)]).collect();
    let mut moves: BTreeMap<(ShardIndex, ShardIndex), Vec<u16>> = BTreeMap::new();
    let by_default = (0..BUCKETS).map(|bucket| (bucket, Some(bucket % shards)));
    let remaining = (0..BUCKETS).map(|bucket| (bucket, None));
    let mut planned = vec![false; usize::from(BUCKETS)];
    for (bucket, wanted) in by_default.chain(remaining) {
        let from = map.as_slice()[usize::from(bucket)];
        if planned[usize::from(bucket)] || surplus[usize::from(from)] <= 0 {
            continue;
        }
        let lacks = |shard: &ShardIndex| surplus[usize::from(*shard)] < 0;
        let to = match wanted {
            Some(shard) => Some(shard).filter(lacks),
            None => (0..shards).find(lacks),
        };
        if let Some(to) = to {
            planned[usize::from(bucket)] = true;
            surplus[usize::from(from)] -= 1;
            surplus[usize::from(to)] += 1;
            moves.entry((from, to)).or_default().push(bucket);
        }
    }
    let moves = moves.into_iter().map(|((from, to), mut buckets)| {
        buckets.sort_unstable();
        BucketMove { from, to, buckets }
    });
    moves.collect()
}

/// Returns the number of buckets that each shard shall hold. The shards that hold most get the larger share, if the
/// buckets can't be divided evenly.
fn quotas(map: &ShardMap, shards: u16) -> Vec<i32> {
    let (share, larger) = (BUCKETS / shards, usize::from(BUCKETS % shards));
    let mut by_size: Vec<ShardIndex> = (0..shards).collect();
    by_size.sort_by_key(|shard| std::cmp::Reverse(held(map, *shard)));
    let mut quotas = vec![i32::from(share); usize::from(shards)];
    for shard in by_size.into_iter().take(larger) {
        quotas[usize::from(shard)] += 1;
    }
    quotas
}

fn held(map: &ShardMap, shard: ShardIndex) -> i32 {
    i32::try_from(map.buckets_of(shard)).unwrap_or(i32::MAX)
}

/// Short form of ascending buckets: `7`, or the first and the last of a series with the distance of its members, such as
/// `2-5036/6`. Series are separated by commas.
#[derive(Debug, Clone, Copy)]
pub struct BucketSeries<'b>(pub &'b [u16]);

impl fmt::Display for BucketSeries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, mut separator) = (self.0, "");
        while let [first, ..] = *rest {
            let step = rest.get(1).map_or(1, |second| second - first);
            let length = 1 + rest.windows(2).take_while(|pair| pair[1] - pair[0] == step).count();
            // Two buckets make no series unless they are neighbours.
            let length = if length == 2 && step > 1 { 1 } else { length };
            let (series, after) = rest.split_at(length);
            match series.last() {
                Some(last) if length > 1 && step == 1 => write!(f, "{separator}{first}-{last}")?,
                Some(last) if length > 1 => write!(f, "{separator}{first}-{last}/{step}")?,
                _ => write!(f, "{separator}{first}")?,
            }
            (rest, separator) = (after, ",");
        }
        Ok(())
    }
}

/// A text that does not name buckets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no buckets; write single buckets from 0 to 5039 and series such as 2-5036/6, separated by commas")]
pub struct MalformedBuckets(String);

/// Parses buckets in the form of [`BucketSeries`]. Returns them ascending, each once.
pub fn parse_buckets(text: &str) -> Result<Vec<u16>, MalformedBuckets> {
    let mut buckets = BTreeSet::new();
    for series in text.split(',') {
        buckets.extend(parse_series(series.trim()).ok_or_else(|| MalformedBuckets(series.to_owned()))?);
    }
    Ok(buckets.into_iter().collect())
}

fn parse_series(text: &str) -> Option<Vec<u16>> {
    let (range, step) = text.split_once('/').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last, step): (u16, u16, u16) = (first.parse().ok()?, last.parse().ok()?, step.parse().ok()?);
    let valid = first <= last && last < BUCKETS && step > 0 && (range.contains('-') || !text.contains('/'));
    valid.then(|| (first..=last).step_by(usize::from(step)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the number of buckets on each shard after the moves; each move must find its buckets where it says.
    fn after(map: &ShardMap, shards: u16, moves: &[BucketMove]) -> Vec<usize> {
        let mut stored = map.as_slice().to_vec();
        for BucketMove { from, to, buckets } in moves {
            for bucket in buckets {
                assert_eq!(stored[usize::from(*bucket)], *from, "bucket {bucket} moves twice or from another shard");
                stored[usize::from(*bucket)] = *to;
            }
        }
        let map = ShardMap::from_stored(stored, shards).unwrap();
        (0..shards).map(|shard| map.buckets_of(shard)).collect()
    }

    fn shown(moves: &[BucketMove]) -> Vec<String> {
        let text =
            |of: &BucketMove| format!("{} {}->{}: {}", of.buckets.len(), of.from, of.to, BucketSeries(&of.buckets));
        moves.iter().map(text).collect()
    }

    #[test]
    fn an_even_map_with_all_shards_needs_no_moves() {
        for shards in [1, 2, 3, 11, 16] {
            assert_eq!(plan(&ShardMap::even(shards), shards), []);
        }
    }

    #[test]
    fn a_third_shard_gets_a_third_of_the_buckets_from_two_others() {
        let moves = plan(&ShardMap::even(2), 3);
        assert_eq!(shown(&moves), ["840 0->2: 2-5036/6", "840 1->2: 5-5039/6"]);
    }

    #[test]
    fn buckets_of_the_shard_in_the_default_map_move_if_no_others_are_left() {
        // Shard 0 holds only buckets that the default map of two shards gives to shard 0 as well.
        let stored = (0..BUCKETS).map(|bucket| u16::from(bucket % 2 == 1 && bucket < 100)).collect();
        let moves = plan(&ShardMap::from_stored(stored, 2).unwrap(), 2);
        assert_eq!(shown(&moves), ["2470 0->1: 101-5039/2"]);
        let stored = (0..BUCKETS).map(|bucket| u16::from(bucket % 2 == 0)).collect();
        let swapped = ShardMap::from_stored(stored, 2).unwrap();
        assert_eq!(plan(&swapped, 2), [], "even numbers need no moves");
    }

    #[test]
    fn series_are_short_and_single_buckets_are_listed() {
        for (buckets, text) in [
            (&[][..], ""),
            (&[7], "7"),
            (&[7, 8], "7-8"),
            (&[7, 9], "7,9"),
            (&[1, 2, 3, 10, 20, 30, 31], "1-3,10-30/10,31"),
            (&[0, 5, 6, 7, 9], "0,5-7,9"),
        ] {
            assert_eq!(BucketSeries(buckets).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn plans_make_any_map_even_with_the_fewest_moves(
            shards in 1_u16..20,
            weights in prop::collection::vec(0_u32..100, 20),
            seed in any::<u64>(),
        ) {
            let total: u32 = weights[..usize::from(shards)].iter().sum::<u32>().max(1);
            let draw = |bucket: u16| {
                let hash = xxhash_rust::xxh64::xxh64(&bucket.to_le_bytes(), seed);
                let mut at = u32::try_from(hash % u64::from(total)).unwrap();
                (0..shards).find(|shard| {
                    let weight = weights[usize::from(*shard)];
                    if at < weight { true } else { at -= weight; false }
                }).unwrap_or(0)
            };
            let map = ShardMap::from_stored((0..BUCKETS).map(draw).collect(), shards).unwrap();
            let moves = plan(&map, shards);
            let mut counts = after(&map, shards, &moves);
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
            // A shard that holds more than its share must give the difference away. With equal order of sizes, no plan
            // can move less.
            let mut held: Vec<usize> = (0..shards).map(|shard| map.buckets_of(shard)).collect();
            counts.sort_unstable();
            held.sort_unstable();
            let least: usize = held.iter().zip(&counts).map(|(held, wanted)| held.saturating_sub(*wanted)).sum();
            prop_assert_eq!(moves.iter().map(|of| of.buckets.len()).sum::<usize>(), least);
        }
    }

    #[test]
    fn printed_series_are_parsed_and_other_texts_are_refused() {
        for buckets in [&[7][..], &[7, 8], &[7, 9], &[1, 2, 3, 10, 20, 30, 31], &[0, 5039]] {
            assert_eq!(parse_buckets(&BucketSeries(buckets).to_string()).as_deref(), Ok(buckets));
        }
        assert_eq!(parse_buckets("9, 3-5,4").as_deref(), Ok(&[3, 4, 5, 9][..]));
        for text in ["", "5040", "-1", "5-3", "3-9/0", "3/2", "1,,2", "a", "1-2-3"] {
            assert!(parse_buckets(text).is_err(), "{text}");
        }
    }
}
