//! PostgreSQL's `pg_snapshot`: the set of transactions that had ended when it was taken. Its text form is
//! `xmin:xmax:xip,xip,…` (PostgreSQL manual, "Transaction ID and Snapshot Information Functions").

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A transaction snapshot. All transactions below `xmin` had ended, and none from `xmax` on. Between them, all had
/// ended except those in `in_progress`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TxSnapshot {
    xmin: u64,
    xmax: u64,
    in_progress: Vec<u64>,
}

/// A text that is not a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a transaction snapshot")]
pub struct MalformedSnapshot(String);

impl TxSnapshot {
    /// Returns the snapshot before all transactions.
    #[must_use]
    pub fn beginning() -> Self {
        Self::below(3)
    }

    /// Returns the snapshot at which exactly the transactions below this id had ended.
    #[must_use]
    pub fn below(xid: u64) -> Self {
        Self { xmin: xid, xmax: xid, in_progress: Vec::new() }
    }

    /// Returns the first transaction id that was not assigned yet.
    #[must_use]
    pub fn xmax(&self) -> u64 {
        self.xmax
    }

    /// Returns the transactions below `xmax` that had not ended.
    #[must_use]
    pub fn in_progress(&self) -> &[u64] {
        &self.in_progress
    }

    /// Returns the transactions that had ended when this snapshot was taken, and had not ended at an earlier one, as
    /// ascending ranges of their ids.
    #[must_use]
    pub fn ended_since(&self, earlier: &Self) -> Vec<Range<u64>> {
        let ended = |xid: &u64| *xid < self.xmax && self.in_progress.binary_search(xid).is_err();
        let mut ranges: Vec<_> = earlier.in_progress.iter().copied().filter(ended).map(|xid| xid..xid + 1).collect();
        let mut start = earlier.xmax;
        let running = self.in_progress.iter().copied().filter(|xid| *xid >= earlier.xmax);
        for end in running.chain([self.xmax]) {
            if start < end {
                ranges.push(start..end);
            }
            start = start.max(end + 1);
        }
        ranges
    }
}

impl fmt::Display for TxSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (position, xid) in self.in_progress.iter().enumerate() {
            write!(f, "{}{xid}", if position == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for TxSnapshot {
    type Err = MalformedSnapshot;

    fn from_str(text: &str) -> Result<Self, MalformedSnapshot> {
        parse(text).ok_or_else(|| MalformedSnapshot(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<TxSnapshot> {
    let mut parts = text.splitn(3, ':');
    let xmin = parts.next()?.parse().ok()?;
    let xmax = parts.next()?.parse().ok()?;
    let listed = parts.next()?;
    let in_progress: Vec<u64> = match listed {
        "" => Vec::new(),
        _ => listed.split(',').map(|xid| xid.parse().ok()).collect::<Option<_>>()?,
    };
    let sorted = in_progress.is_sorted() && in_progress.iter().all(|xid| (xmin..xmax).contains(xid));
    (xmin <= xmax && sorted).then_some(TxSnapshot { xmin, xmax, in_progress })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["10:10:", "10:20:10,14,15", "3:3:"] {
            assert_eq!(text.parse::<TxSnapshot>().unwrap().to_string(), text);
        }
        for bad in ["", "10", "10:9:", "10:20:21", "10:20:15,12", "a:b:", "1:2:3:4"] {
            assert!(bad.parse::<TxSnapshot>().is_err(), "{bad}");
        }
    }

    #[test]
    fn transactions_that_ended_between_two_snapshots_are_those_that_only_the_later_one_sees() {
        let snapshot = |text: &str| text.parse::<TxSnapshot>().unwrap();
        let sees = |at: &TxSnapshot, xid: u64| xid < at.xmax() && !at.in_progress().contains(&xid);
        for (earlier, later) in [
            ("10:20:10,14,15", "14:30:14,22,29"),
            ("10:20:10,14,15", "10:20:10,14,15"),
            ("10:20:", "20:20:"),
            ("3:3:", "9:12:9,10"),
            ("10:20:19", "20:21:20"),
            ("20:20:", "25:40:25,26,39"),
        ] {
            let (earlier, later) = (snapshot(earlier), snapshot(later));
            let ranges = later.ended_since(&earlier);
            let listed: Vec<u64> = ranges.iter().cloned().flatten().collect();
            let expected: Vec<u64> = (0..50).filter(|xid| sees(&later, *xid) && !sees(&earlier, *xid)).collect();
            assert_eq!(listed, expected, "{earlier} {later}");
        }
    }

    #[test]
    fn parts_of_a_snapshot_are_those_of_its_text() {
        let snapshot: TxSnapshot = "10:20:10,14,15".parse().unwrap();
        assert_eq!((snapshot.xmax(), snapshot.in_progress()), (20, [10, 14, 15].as_slice()));
        let below = TxSnapshot::below(30);
        assert_eq!((below.xmax(), below.in_progress()), (30, [].as_slice()));
    }
}
