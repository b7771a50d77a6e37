//! Retention of events. The periods of the housekeeping tasks are not settings: `TASKS` in `src/tasks/housekeeping.rs`
//! has them.

use super::reader::Reader;

pub(super) const NAMES: [&str; 1] = ["NOETL_EVENT_RETENTION_DAYS"];

/// Times for which the housekeeping tasks keep data.
#[derive(Debug, Clone, Copy)]
pub struct HousekeepingSettings {
    /// Number of days for which events are kept in the databases; `None`: forever.
    pub event_retention_days: Option<u32>,
}

pub(super) fn read(read: &mut Reader<'_>) -> HousekeepingSettings {
    let days = read.sources.text("NOETL_EVENT_RETENTION_DAYS").is_some();
    HousekeepingSettings { event_retention_days: days.then(|| read.within("NOETL_EVENT_RETENTION_DAYS", 1, 1, 36_500)) }
}
