//! The outbox: attempts of a row, and retention of delivered rows.

use std::time::Duration;

use super::Definition;
use super::reader::Reader;
use noetl_domain::outbox::{DEFAULT_MAX_ATTEMPTS, MAX_ATTEMPTS, OutboxPolicy};

pub(super) const SETTINGS: [Definition; 3] = [
    Definition::value(
        "NOETL_OUTBOX_MAX_ATTEMPTS",
        "number of claims after which an outbox row that was not delivered is `DEAD`; with the backoff, 20 claims take about 50 minutes",
    ),
    Definition::text(
        "NOETL_OUTBOX_RETENTION_SECS",
        "86400",
        "time for which delivered outbox rows are kept, in seconds. In an outbox that NoETL's own server made, they are kept forever unless this is set",
    ),
    Definition::value(
        "NOETL_OUTBOX_RELAY",
        "whether this replica delivers outbox rows to the broker; turn it off if workers claim them",
    ),
];

pub(super) fn read(read: &mut Reader<'_>) -> OutboxPolicy {
    let retention: Option<u32> = read.optional("NOETL_OUTBOX_RETENTION_SECS", 1, u32::MAX);
    OutboxPolicy {
        max_attempts: read.within("NOETL_OUTBOX_MAX_ATTEMPTS", DEFAULT_MAX_ATTEMPTS, 1, MAX_ATTEMPTS),
        retention: retention.map(|seconds| Duration::from_secs(seconds.into())),
    }
}
