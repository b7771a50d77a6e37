//! Partitions of the event table: ranges of execution ids. The default partition has the ids of the gaps between them.

use std::ops::Range;

/// A partition of the event table with bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Quoted names of schema and table.
    pub name: String,
    /// Inclusive lower bound of its execution ids.
    pub from: i64,
    /// Exclusive upper bound of its execution ids.
    pub to: i64,
}

/// Returns whether retention may have dropped a log, given the partitions in their order: it is older than one of them,
/// and none covers it.
#[must_use]
pub fn may_be_dropped(partitions: &[Partition], log: i64) -> bool {
    let covered = partitions.iter().any(|partition| (partition.from..partition.to).contains(&log));
    !covered && partitions.last().is_some_and(|last| log < last.to)
}

/// Returns the parts of a range that no partition covers. The partitions are in the order of their bounds.
#[must_use]
pub fn gaps(range: &Range<i64>, partitions: &[Partition]) -> Vec<Range<i64>> {
    let (mut gaps, mut covered) = (Vec::new(), range.start);
    for partition in partitions.iter().filter(|partition| partition.to > range.start && partition.from < range.end) {
        gaps.push(covered..partition.from);
        covered = covered.max(partition.to);
    }
    gaps.push(covered..range.end);
    gaps.retain(|gap| !gap.is_empty());
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_the_parts_of_a_range_that_no_partition_covers() {
        let partition = |from, to| Partition { name: String::new(), from, to };
        let whole = 10..20;
        assert_eq!(gaps(&whole, &[]), std::slice::from_ref(&whole));
        assert_eq!(gaps(&whole, &[partition(i64::MIN, 10), partition(20, i64::MAX)]), std::slice::from_ref(&whole));
        assert_eq!(gaps(&(10..20), &[partition(0, 12), partition(14, 15), partition(18, 30)]), [12..14, 15..18]);
        assert!(gaps(&(10..20), &[partition(0, 15), partition(15, 20)]).is_empty());
        assert!(gaps(&(10..20), &[partition(i64::MIN, i64::MAX)]).is_empty());
    }

    #[test]
    fn gaps_below_a_cutoff_end_there() {
        let partition = |from, to| Partition { name: String::new(), from, to };
        let partitions = [partition(i64::MIN, 10), partition(20, 30), partition(30, 40), partition(60, 70)];
        assert_eq!(gaps(&(0..55), &partitions), [10..20, 40..55]);
        assert_eq!(gaps(&(0..65), &partitions), [10..20, 40..60]);
        assert_eq!(gaps(&(0..80), &partitions), [10..20, 40..60, 70..80]);
        assert_eq!(gaps(&(0..15), &partitions), [Range { start: 10, end: 15 }]);
    }

    #[test]
    fn a_log_may_be_dropped_if_it_is_older_than_a_partition_and_none_covers_it() {
        let partitions = [(10, 20), (30, 40)].map(|(from, to)| Partition { name: String::new(), from, to });
        for (log, expected) in [(9, true), (10, false), (19, false), (20, true), (30, false), (40, false)] {
            assert_eq!(may_be_dropped(&partitions, log), expected, "{log}");
        }
        assert!(!may_be_dropped(&[], 1));
    }
}
