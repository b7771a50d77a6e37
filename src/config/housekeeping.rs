//! Retention of data. The periods of the housekeeping tasks are not settings: `TASKS` in `src/tasks/housekeeping.rs` has
//! them.

use std::time::Duration;

use super::reader::Reader;

pub(super) const NAMES: [&str; 2] = ["NOETL_EVENT_RETENTION_DAYS", "NOETL_OUTBOX_RETENTION_SECS"];

/// Times for which the housekeeping tasks keep data.
#[derive(Debug, Clone, Copy)]
pub struct HousekeepingSettings {
    /// Number of days for which events are kept in the databases; `None`: forever.
    pub event_retention_days: Option<u32>,
    /// Time for which delivered outbox rows are kept.
    pub outbox_retention: Duration,
}

pub(super) fn read(read: &mut Reader<'_>) -> HousekeepingSettings {
    let days = read.sources.text("NOETL_EVENT_RETENTION_DAYS").is_some();
    HousekeepingSettings {
        event_retention_days: days.then(|| read.within("NOETL_EVENT_RETENTION_DAYS", 1, 1, 36_500)),
        outbox_retention: Duration::from_secs(read.within("NOETL_OUTBOX_RETENTION_SECS", 86_400, 1, u32::MAX.into())),
    }
}
