//! The wall clock. All other code takes the time from here, or as an argument.

use chrono::{DateTime, Utc};

use noetl_domain::ids::EPOCH_UNIX_MS;

/// Returns the time of this machine. Where two replicas must agree, use the database's time instead.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the only reader of the wall clock")]
pub fn now() -> DateTime<Utc> {
    Utc::now()
}

/// Returns the milliseconds since 2024-01-01T00:00:00Z.
#[must_use]
pub fn snowflake_ms() -> u64 {
    u64::try_from(now().timestamp_millis()).unwrap_or_default().saturating_sub(EPOCH_UNIX_MS)
}
