//! The one home of the wall clock.

use chrono::{DateTime, Utc};

use crate::domain::ids::EPOCH_UNIX_MS;

/// The time of this machine; where two replicas must agree, the database's counts instead.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one home of the wall clock")]
pub fn now() -> DateTime<Utc> {
    Utc::now()
}

/// Milliseconds since 2024-01-01T00:00:00Z.
#[must_use]
pub fn snowflake_ms() -> u64 {
    u64::try_from(now().timestamp_millis()).unwrap_or_default().saturating_sub(EPOCH_UNIX_MS)
}
