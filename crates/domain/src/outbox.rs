//! Outbox rows: their ids, their statuses and the policy for them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::ids::Id;
use super::shard::ShardIndex;

/// Maximum number of characters of a stored error.
pub const MAX_ERROR_CHARS: usize = 2000;
/// Name of the built-in relay in the rows that it claims.
pub const RELAY: &str = "outbox-relay";
/// Number of claims after which a row that was not delivered is dead, if none is set. With the backoff, the last one is
/// about 50 minutes after the first.
pub const DEFAULT_MAX_ATTEMPTS: i32 = 20;
/// Largest number of claims that can be set.
pub const MAX_ATTEMPTS: i32 = 1000;

/// Type of the event that a retry of a row by a caller writes to the log of its execution.
pub const RETRIED: &str = "outbox.retried";
/// Type of the event that a discard of a row writes to the log of its execution.
pub const DISCARDED: &str = "outbox.discarded";

/// Returns whether events of this type only say what a caller did with an outbox row.
#[must_use]
pub fn is_of_outbox(event_type: &str) -> bool {
    [RETRIED, DISCARDED].contains(&event_type)
}

/// Policy for the rows of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxPolicy {
    /// Number of claims after which a row that was not delivered is dead, unless its claim sets another number.
    pub max_attempts: i32,
    /// Time for which delivered rows are kept; `None`: it is not set.
    pub retention: Option<Duration>,
}

/// Prefix of the id of an outbox entry among the ids of all types.
pub const OUTBOX_PREFIX: &str = "outbox-";

/// Id of a row over all shards: `<shard>-<number>`. Inputs may have [`OUTBOX_PREFIX`] before it.
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
        let text = text.strip_prefix(OUTBOX_PREFIX).unwrap_or(text);
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
    /// No longer tried: the last of its attempts failed, or it can't be delivered as it is.
    Dead,
    /// Stored under a name that is not known.
    Unknown,
}

impl OutboxStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::InFlight, Self::Published, Self::Failed, Self::Dead, Self::Unknown];

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InFlight => "IN_FLIGHT",
            Self::Published => "PUBLISHED",
            Self::Failed => "FAILED",
            Self::Dead => "DEAD",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Returns the status with a name. Another text is unknown.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == name).unwrap_or(Self::Unknown)
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
    fn a_name_that_no_status_has_is_unknown() {
        for status in OutboxStatus::ALL {
            assert_eq!(OutboxStatus::named(status.as_str()), status);
        }
        for name in ["", "PARKED", "failed", "FAILED "] {
            assert_eq!(OutboxStatus::named(name), OutboxStatus::Unknown, "{name:?}");
        }
    }
}
