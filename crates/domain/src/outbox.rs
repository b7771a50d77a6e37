//! Outbox rows: their ids, their statuses, and the subjects that they can be published to.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use super::ids::Id;
use super::shard::ShardIndex;

/// Maximum number of characters of a stored error.
pub const MAX_ERROR_CHARS: usize = 2000;
/// Maximum size of a subject in bytes. The broker closes a connection that sends a line of more than 4 KiB.
const MAX_SUBJECT_BYTES: usize = 1024;

/// Id of a row over all shards; in the API `<shard>-<number>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxId {
    /// Shard that holds the row.
    pub shard: ShardIndex,
    /// The row's `outbox_id` in the shard.
    pub number: i64,
}

impl fmt::Display for OutboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shard, self.number)
    }
}

/// A text that is not an outbox id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an outbox id: an outbox id is <shard>-<number>, such as 0-17")]
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

/// Status of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxStatus {
    /// Not claimed.
    Pending,
    /// Claimed under a lease.
    InFlight,
    /// Delivered.
    Published,
    /// The last attempt failed; the row is claimable again after a backoff.
    Failed,
}

impl OutboxStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InFlight, Self::Published, Self::Failed];

    /// Returns the name as stored in rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InFlight => "IN_FLIGHT",
            Self::Published => "PUBLISHED",
            Self::Failed => "FAILED",
        }
    }

    /// Returns the status with a stored name. The table allows no other names than these.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == name).unwrap_or(Self::Failed)
    }
}

/// Position of a row in the list over all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutboxPosition {
    /// Time at which the row was written.
    pub created_at: DateTime<Utc>,
    /// Id of the row.
    pub id: OutboxId,
}

/// Returns an error's text as it is stored: at most [`MAX_ERROR_CHARS`] characters. NUL is replaced, because PostgreSQL
/// can't store it.
#[must_use]
pub fn truncated_error(text: &str) -> String {
    text.chars().take(MAX_ERROR_CHARS).map(|c| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns whether a message can be published to a subject. A subject consists of dot-separated tokens without white
/// space, control characters and wildcards. The broker's own subjects, which begin with `$` or `_INBOX.`, are not
/// allowed.
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
    fn only_canonical_texts_are_outbox_ids() {
        let id = OutboxId { shard: 3, number: 17 };
        assert_eq!((id.to_string().as_str(), "3-17".parse()), ("3-17", Ok(id)));
        for text in
            ["", "-", "1", "1-", "-1", "01-1", "1-01", "1--1", "+1-1", "1-1-1", "65536-1", "0-9223372036854775808"]
        {
            assert_eq!(text.parse::<OutboxId>(), Err(MalformedOutboxId), "{text:?}");
        }
    }

    #[test]
    fn errors_are_truncated_by_characters() {
        assert_eq!(truncated_error(&"ß".repeat(5000)), "ß".repeat(MAX_ERROR_CHARS));
        assert_eq!(truncated_error("a\0b"), "a\u{fffd}b");
    }

    #[test]
    fn only_plain_subjects_are_publishable() {
        assert!(is_publishable("noetl.executions.shared.1"));
        for subject in
            ["", ".", "a..b", "a.", "a b", "a.*", "a.>", "a\r\nb", "$JS.API.INFO", "_INBOX.x", &"a".repeat(2000)]
        {
            assert!(!is_publishable(subject), "{subject:?}");
        }
    }

    #[test]
    fn statuses_have_the_names_of_noetls_table() {
        let stored = ["PENDING", "IN_FLIGHT", "PUBLISHED", "FAILED"];
        assert_eq!(OutboxStatus::ALL.map(OutboxStatus::as_str), stored);
        assert_eq!(stored.map(OutboxStatus::from_stored), OutboxStatus::ALL);
    }
}
