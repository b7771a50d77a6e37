//! Retention of events, and whether the projector runs. The periods of the housekeeping tasks are not settings: `TASKS` in `src/tasks/housekeeping.rs`
//! has them.

use super::Definition;
use super::reader::Reader;

pub(super) const SETTINGS: [Definition; 2] = [
    Definition::text(
        "NOETL_EVENT_RETENTION_DAYS",
        "forever",
        "number of days for which events are kept in the databases; whole partitions (quarters) are dropped",
    ),
    Definition::value(
        "NOETL_PROJECTOR",
        "whether this replica keeps executions' snapshots and the list of executions current",
    ),
];

/// Reads the number of days for which events are kept in the databases; `None`: forever.
pub(super) fn event_retention_days(read: &mut Reader<'_>) -> Option<u32> {
    read.optional("NOETL_EVENT_RETENTION_DAYS", 1, 36_500)
}
