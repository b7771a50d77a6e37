//! Identity of a feed, and of the databases that publish it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Identity of a shard's feed: a random number, created with the shard's cursor. Copies of the database have the same
/// identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeedId(u128);

impl FeedId {
    /// Returns the identity with this number.
    #[must_use]
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Returns its number.
    #[must_use]
    pub const fn number(self) -> u128 {
        self.0
    }

    /// Returns the short form, which is part of every reader's cursor.
    #[must_use]
    pub fn tag(self) -> FeedTag {
        let [a, b, c, d, ..] = self.0.to_be_bytes();
        FeedTag::new(u32::from_be_bytes([a, b, c, d])).unwrap_or(FeedTag(NonZeroU32::MIN))
    }
}

impl fmt::Display for FeedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Short form of a [`FeedId`]. Two feeds have the same one with a probability of 1 in 4 billion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeedTag(NonZeroU32);

impl FeedTag {
    /// Returns the short form with this number; `None` for 0, which no feed has.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// Returns its number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// Database that publishes a feed. Copies of a database differ in the system identifier or in the timeline, unless their
/// files were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedOwner {
    /// Identity of the feed.
    pub feed: FeedId,
    /// System identifier of the PostgreSQL server. `initdb` creates it, and a standby has that of its primary.
    pub system_identifier: i64,
    /// Timeline of the PostgreSQL server. It increases when a standby is promoted.
    pub timeline: i32,
}

/// A text that does not name the owner of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the owner of a feed: an identity of 32 hexadecimal digits, a system identifier and a timeline")]
pub struct MalformedOwner;

impl FeedOwner {
    /// Returns true if this database was promoted from a standby of `other`, or of the same primary. It then publishes,
    /// and `other` must not.
    #[must_use]
    pub fn replaces(&self, other: &Self) -> bool {
        self.feed == other.feed && self.system_identifier == other.system_identifier && self.timeline > other.timeline
    }
}

impl fmt::Display for FeedOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.feed, self.system_identifier, self.timeline)
    }
}

impl FromStr for FeedOwner {
    type Err = MalformedOwner;

    fn from_str(text: &str) -> Result<Self, MalformedOwner> {
        let mut parts = text.split(' ');
        let [Some(feed), Some(system), Some(timeline), None] = std::array::from_fn(|_| parts.next()) else {
            return Err(MalformedOwner);
        };
        Ok(Self {
            feed: FeedId(u128::from_str_radix(feed, 16).map_err(|_| MalformedOwner)?),
            system_identifier: system.parse().map_err(|_| MalformedOwner)?,
            timeline: timeline.parse().map_err(|_| MalformedOwner)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_round_trip_and_other_texts_are_malformed() {
        let owner = FeedOwner { feed: FeedId::new(7), system_identifier: -3, timeline: 2 };
        assert_eq!(owner.to_string(), "00000000000000000000000000000007 -3 2");
        assert_eq!(owner.to_string().parse(), Ok(owner));
        for text in ["", "7 3", "7 3 2 1", "x 3 2", "7 3 two"] {
            assert_eq!(text.parse::<FeedOwner>(), Err(MalformedOwner), "{text}");
        }
    }

    #[test]
    fn only_a_later_timeline_of_the_same_server_replaces_an_owner() {
        let owner =
            |feed, system_identifier, timeline| FeedOwner { feed: FeedId::new(feed), system_identifier, timeline };
        let primary = owner(1, 5, 1);
        assert!(owner(1, 5, 2).replaces(&primary));
        for other in [primary, owner(1, 5, 0), owner(1, 6, 2), owner(2, 5, 2)] {
            assert!(!other.replaces(&primary), "{other}");
        }
    }

    #[test]
    fn a_tag_is_never_zero() {
        assert_eq!(FeedId::new(9).tag().get(), 1);
        assert_eq!(FeedId::new(u128::MAX).tag().get(), u32::MAX);
    }
}
