//! Ranges of transaction ids, as parameters of statements that look rows up by the index on transaction ids.

use std::ops::Range;

use super::tx_snapshot::TxSnapshot;

/// The smallest id that a transaction can have.
const FIRST: u64 = 3;

/// The transactions that ended between two snapshots, as ranges of their ids. Ids of transactions that were still in
/// progress are left out, so a statement does not visit the rows of an open transaction.
#[derive(Debug)]
pub struct Spans {
    ranges: Vec<Range<u64>>,
    /// Lower bounds, inclusive.
    pub low: Vec<String>,
    /// Upper bounds, exclusive.
    pub high: Vec<String>,
}

impl Spans {
    /// Returns the transactions that `target` sees and `done` does not.
    #[must_use]
    pub fn between(done: &TxSnapshot, target: &TxSnapshot) -> Self {
        Self::of(target.ended_since(done))
    }

    fn of(ranges: Vec<Range<u64>>) -> Self {
        let low = ranges.iter().map(|range| range.start.to_string()).collect();
        let high = ranges.iter().map(|range| range.end.to_string()).collect();
        Self { ranges, low, high }
    }

    /// Returns true if there are no transactions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns true if the transactions include the first one of the database.
    #[must_use]
    pub fn include_the_first(&self) -> bool {
        self.ranges.first().is_some_and(|range| range.start <= FIRST)
    }

    /// Returns the same transactions in parts of at most `ids` ids each.
    #[must_use]
    pub fn parts(&self, ids: u64) -> Vec<Self> {
        let mut parts: Vec<Vec<Range<u64>>> = Vec::new();
        let mut room = 0;
        for range in &self.ranges {
            let mut start = range.start;
            while start < range.end {
                if room == 0 {
                    parts.push(Vec::new());
                    room = ids;
                }
                let end = range.end.min(start + room);
                if let Some(part) = parts.last_mut() {
                    part.push(start..end);
                }
                room -= end - start;
                start = end;
            }
        }
        parts.into_iter().map(Self::of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_same_transactions() {
        let spans = Spans::of(vec![5..6, 10..35, 40..42]);
        let parts: Vec<_> = spans.parts(10).into_iter().map(|part| format!("{:?}", part.ranges)).collect();
        assert_eq!(parts, ["[5..6, 10..19]", "[19..29]", "[29..35, 40..42]"]);
        assert!(Spans::of(Vec::new()).parts(10).is_empty());
        assert!(!spans.include_the_first());
        assert!(Spans::of(vec![3..6, 8..9]).include_the_first());
    }
}
