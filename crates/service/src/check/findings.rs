//! Result of a check: the differences by kind, and the parts that could not be checked.

use std::collections::BTreeMap;

use super::kinds::{Kind, Repair};

/// Number of differences of a kind that are described.
const EXAMPLES: usize = 5;

/// Differences of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of differences.
    pub found: u64,
    /// Number of these that were repaired.
    pub repaired: u64,
    /// Descriptions of the first ones.
    pub examples: Vec<String>,
}

impl Tally {
    /// Returns the number of differences that are left.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.found.saturating_sub(self.repaired)
    }
}

/// A part that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchecked {
    /// Name of the part.
    pub part: String,
    /// Reason.
    pub reason: String,
}

/// Result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Differences by kind. Kinds without differences are left out.
    pub kinds: BTreeMap<Kind, Tally>,
    /// Parts that could not be checked.
    pub unchecked: Vec<Unchecked>,
}

impl Findings {
    /// Adds a difference.
    pub fn add(&mut self, kind: Kind, description: String, repaired: bool) {
        let tally = self.kinds.entry(kind).or_default();
        tally.found += 1;
        tally.repaired += u64::from(repaired);
        if tally.examples.len() < EXAMPLES {
            tally.examples.push(description);
        }
    }

    /// Adds differences that were not repaired, of which some are described.
    pub fn add_many(&mut self, kind: Kind, count: u64, examples: impl IntoIterator<Item = String>) {
        if count > 0 {
            let tally = self.kinds.entry(kind).or_default();
            tally.found += count;
            tally.examples.extend(examples);
            tally.examples.truncate(EXAMPLES);
        }
    }

    /// Adds a part that could not be checked.
    pub fn could_not_check(&mut self, part: impl Into<String>, reason: impl Into<String>) {
        self.unchecked.push(Unchecked { part: part.into(), reason: reason.into() });
    }

    /// Returns the number of differences that are left. Those that the servers handle count only if `including_servers`.
    #[must_use]
    pub fn left(&self, including_servers: bool) -> u64 {
        let counts = |kind: &Kind| including_servers || kind.repair() != Repair::Servers;
        self.kinds.iter().filter(|(kind, _)| counts(kind)).map(|(_, tally)| tally.left()).sum()
    }
}
