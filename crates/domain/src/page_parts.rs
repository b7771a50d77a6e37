//! Pages that are merged from several shards, without reading a whole page from each.
//!
//! Ids are spread evenly over the buckets, so a shard has about its share of a page. Each shard is first read up to
//! this share and a margin: its *part*. A shard that returned its whole part may have more rows of the page, unless the
//! rows of all shards that come before its last one fill the page. It is read again, from its last row on. The second
//! read returns all rows that the page can still need, so there is no third one, with any distribution of the rows.
//!
//! A row whose position changes between both reads can be missing, or be in both.

use super::list_position::{ListPosition, PositionRange};
use super::shard::BUCKETS;

/// Rows of a part, as a shard returned them.
#[derive(Debug, Clone)]
pub struct ReadPart {
    /// Maximum number of rows of the part.
    pub limit: i64,
    /// Positions of the rows.
    pub positions: Vec<ListPosition>,
}

impl PositionRange {
    /// Returns the range of the part that is first read from a shard with this number of buckets.
    #[must_use]
    pub fn part(self, buckets: usize) -> Self {
        let all = i64::from(BUCKETS);
        let held = i64::try_from(buckets).unwrap_or(all).min(all);
        let expected = self.limit * held / all;
        // Twice the standard deviation of the binomial distribution: about every fortieth shard has more rows.
        let margin = (4 * self.limit * held * (all - held)).isqrt() / all;
        // Both numbers were rounded down.
        Self { limit: self.limit.min(expected + margin + 2), ..self }
    }

    /// Returns for each part the range of the rows that the page may need from its shard beside it; `None`: it needs no
    /// more. Parts of shards that could not be read are left out.
    #[must_use]
    pub fn rests(self, parts: &[ReadPart]) -> Vec<Option<Self>> {
        if parts.iter().all(|part| self.is_enough(part)) {
            return vec![None; parts.len()];
        }
        let mut read: Vec<ListPosition> = parts.iter().flat_map(|part| &part.positions).copied().collect();
        read.sort_unstable();
        if self.descending {
            read.reverse();
        }
        // With more rows, the page ends at this one or before it.
        let last = usize::try_from(self.limit - 1).ok().and_then(|last| read.get(last)).copied();
        parts.iter().map(|part| if self.is_enough(part) { None } else { self.rest(part, &read, last) }).collect()
    }

    /// Returns whether the page needs no further row of the part's shard, whichever rows the other shards have.
    fn is_enough(&self, part: &ReadPart) -> bool {
        let is_all = i64::try_from(part.positions.len()).is_ok_and(|count| count < part.limit);
        is_all || part.limit >= self.limit
    }

    /// Returns the range of the rows that the page may need beside a part. `read` has the rows of all parts in the
    /// direction of the range, and `last` is the row that fills the page, if there are so many.
    fn rest(self, part: &ReadPart, read: &[ListPosition], last: Option<ListPosition>) -> Option<Self> {
        let positions = part.positions.iter().copied();
        let end = if self.descending { positions.min()? } else { positions.max()? };
        let before = read.partition_point(|one| if self.descending { *one >= end } else { *one <= end });
        let limit = self.limit - i64::try_from(before).unwrap_or(i64::MAX);
        if limit <= 0 {
            return None;
        }
        Some(if self.descending {
            Self { above: last.unwrap_or(self.above), below: end, limit, ..self }
        } else {
            Self { above: end, below: last.unwrap_or(self.below), limit, ..self }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::page::PageRequest;

    /// Returns what a shard returns for a range.
    fn read(shard: &[ListPosition], range: PositionRange) -> Vec<ListPosition> {
        let within = |item: &ListPosition| *item > range.above && *item < range.below;
        let mut found: Vec<ListPosition> = shard.iter().copied().filter(within).collect();
        found.sort_unstable();
        if range.descending {
            found.reverse();
        }
        found.truncate(usize::try_from(range.limit).unwrap());
        found
    }

    /// Reads the parts of all shards and then their rests. Returns all rows in the direction of the range.
    fn read_in_parts(shards: &[Vec<ListPosition>], buckets: &[usize], range: PositionRange) -> Vec<ListPosition> {
        let part = |(shard, buckets): (&Vec<ListPosition>, &usize)| {
            let part = range.part(*buckets);
            ReadPart { limit: part.limit, positions: read(shard, part) }
        };
        let parts: Vec<ReadPart> = shards.iter().zip(buckets).map(part).collect();
        let rests = range.rests(&parts);
        let rests =
            shards.iter().zip(rests).flat_map(|(shard, rest)| rest.map(|rest| read(shard, rest)).unwrap_or_default());
        let mut found: Vec<ListPosition> = parts.iter().flat_map(|part| part.positions.clone()).chain(rests).collect();
        found.sort_unstable();
        if range.descending {
            found.reverse();
        }
        found
    }

    fn position(second: i64, id: i64) -> ListPosition {
        ListPosition::new(chrono::DateTime::from_timestamp(second, 0), id)
    }

    proptest! {
        #[test]
        fn parts_and_rests_are_the_page_of_all_shards_with_any_distribution(
            // Few times, so that many rows share one. The first shard has all rows, most of them, or its share.
            rows in prop::collection::btree_map((0..6i64, 0..1000i64), 0..8usize, 0..250),
            only in 1..8usize,
            buckets in prop::collection::vec(0..=usize::from(BUCKETS), 4),
            bounds in prop::collection::vec(prop::option::of((0..6i64, 0..1000i64)), 2),
            limit in 1u32..101, backwards: bool, oldest: bool,
        ) {
            let mut shards = vec![Vec::new(); buckets.len()];
            for ((second, id), place) in &rows {
                shards[if *place < only { 0 } else { place % buckets.len() }].push(position(*second, *id));
            }
            let bound = |bound: Option<(i64, i64)>| bound.map(|(second, id)| position(second, id));
            let request = PageRequest { limit, backwards, after: bound(bounds[0]), before: bound(bounds[1]) };
            let range = if oldest { request.earliest_first() } else { request.newest_first() };
            let found = read_in_parts(&shards, &buckets, range);
            let distinct: BTreeSet<ListPosition> = found.iter().copied().collect();
            prop_assert_eq!(distinct.len(), found.len());
            let expected = request.cut(read(&shards.concat(), range));
            prop_assert_eq!(request.cut(found), expected);
        }
    }

    #[test]
    fn a_part_is_the_share_of_the_shard_and_a_margin_and_at_most_the_page() {
        let all = usize::from(BUCKETS);
        for (limit, buckets, expected) in [
            (51, all, 51),
            (51, all / 2, 34),
            (51, all / 4, 20),
            (26, all / 4, 12),
            (101, all / 4, 35),
            (101, all / 16, 12),
            (51, all / 10, 11),
            (2, all / 4, 2),
            (51, 0, 2),
        ] {
            assert_eq!(PositionRange::newest(limit).part(buckets).limit, expected, "{limit}, {buckets} buckets");
        }
    }

    #[test]
    fn evenly_spread_rows_need_no_second_read() {
        let shards: Vec<Vec<ListPosition>> =
            (0..4).map(|shard| (0..100).map(|n| position(n, 4 * n + shard)).collect()).collect();
        for limit in [2, 26, 51, 101] {
            let range = PositionRange::newest(limit);
            let part = range.part(usize::from(BUCKETS) / 4);
            let parts = shards.iter().map(|shard| ReadPart { limit: part.limit, positions: read(shard, part) });
            assert_eq!(range.rests(&parts.collect::<Vec<_>>()), [None; 4], "{limit}");
        }
    }
}
