//! PostgreSQL's `pg_snapshot`: the set of transactions that had ended when it was taken. Its text form is
//! `xmin:xmax:xip,xip,…` (PostgreSQL manual, "Transaction ID and Snapshot Information Functions").

use std::fmt;
use std::str::FromStr;

/// A transaction snapshot. All transactions below `xmin` had ended, and none from `xmax` on. Between them, all had
/// ended except those in `in_progress`.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    fn parts_of_a_snapshot_are_those_of_its_text() {
        let snapshot: TxSnapshot = "10:20:10,14,15".parse().unwrap();
        assert_eq!((snapshot.xmax(), snapshot.in_progress()), (20, [10, 14, 15].as_slice()));
        let below = TxSnapshot::below(30);
        assert_eq!((below.xmax(), below.in_progress()), (30, [].as_slice()));
    }
}
