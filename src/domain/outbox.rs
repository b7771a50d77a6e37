//! What an outbox row is called, where it stands, and which subjects it can be published to (SPEC, "Outbox").

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use super::ids::Id;
use super::shard::ShardIndex;

/// Characters of an error that are kept.
pub const MAX_ERROR_CHARS: usize = 2000;
/// Bytes of a subject; the broker ends the connection over a line of 4 KiB.
const MAX_SUBJECT_BYTES: usize = 1024;

/// A row's name: the shard that holds it and its number there, in the API `<shard>-<number>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxId {
    /// The shard.
    pub shard: ShardIndex,
    /// Counts up in the shard.
    pub number: i64,
}

impl fmt::Display for OutboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shard, self.number)
    }
}

/// A text that names no outbox row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an outbox id: one is written <shard>-<number>, such as 0-17")]
pub struct MalformedOutboxId;

impl FromStr for OutboxId {
    type Err = MalformedOutboxId;

    fn from_str(text: &str) -> Result<Self, MalformedOutboxId> {
        let number = |part: &str| part.parse::<Id>().map(Id::get).map_err(|_| MalformedOutboxId);
        let (shard, row) = text.split_once('-').ok_or(MalformedOutboxId)?;
        let shard = ShardIndex::try_from(number(shard)?).map_err(|_| MalformedOutboxId)?;
        Ok(Self { shard, number: number(row)? })
    }
}

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxStatus {
    /// Not claimed yet.
    Pending,
    /// Claimed under a lease.
    InFlight,
    /// Delivered.
    Published,
    /// Not delivered at the last attempt; it is due again later.
    Failed,
}

impl OutboxStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InFlight, Self::Published, Self::Failed];

    /// The name that rows store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InFlight => "IN_FLIGHT",
            Self::Published => "PUBLISHED",
            Self::Failed => "FAILED",
        }
    }

    /// The status that a stored name means; the table takes no other names than these.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == name).unwrap_or(Self::Failed)
    }
}

/// A row's place in the list over all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutboxPlace {
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// The row.
    pub id: OutboxId,
}

/// An error's text as it is kept: at most [`MAX_ERROR_CHARS`] characters, without NUL, which a text can't hold there.
#[must_use]
pub fn kept_error(text: &str) -> String {
    text.chars().take(MAX_ERROR_CHARS).map(|c| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Whether a message can be published to a subject: dot-separated tokens without space, control characters and
/// wildcards, and not one of the broker's own, which begin with `$` or `_INBOX`.
#[must_use]
pub fn is_publishable(subject: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"*>".contains(c);
    let foreign = ["$", "_INBOX."].iter().any(|prefix| subject.starts_with(prefix));
    let token = |part: &str| !part.is_empty() && part.chars().all(plain);
    subject.len() <= MAX_SUBJECT_BYTES && !foreign && subject.split('.').all(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_nothing_else_is_one() {
        let id = OutboxId { shard: 3, number: 17 };
        assert_eq!((id.to_string().as_str(), "3-17".parse()), ("3-17", Ok(id)));
        for text in
            ["", "-", "1", "1-", "-1", "01-1", "1-01", "1--1", "+1-1", "1-1-1", "65536-1", "0-9223372036854775808"]
        {
            assert_eq!(text.parse::<OutboxId>(), Err(MalformedOutboxId), "{text:?}");
        }
    }

    #[test]
    fn an_error_is_cut_by_characters() {
        assert_eq!(kept_error(&"ß".repeat(5000)), "ß".repeat(MAX_ERROR_CHARS));
        assert_eq!(kept_error("a\0b"), "a\u{fffd}b");
    }

    #[test]
    fn only_plain_subjects_are_publishable() {
        assert!(is_publishable("noetl.commands.shared.1"));
        for subject in
            ["", ".", "a..b", "a.", "a b", "a.*", "a.>", "a\r\nb", "$JS.API.INFO", "_INBOX.x", &"a".repeat(2000)]
        {
            assert!(!is_publishable(subject), "{subject:?}");
        }
    }
}
