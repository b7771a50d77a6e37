//! The outbox: attempts of a row, and retention of delivered rows.

use std::time::Duration;

use super::reader::Reader;
use noetl_domain::outbox::{DEFAULT_MAX_ATTEMPTS, MAX_ATTEMPTS, OutboxPolicy};

pub(super) const NAMES: [&str; 2] = ["NOETL_OUTBOX_MAX_ATTEMPTS", "NOETL_OUTBOX_RETENTION_SECS"];

pub(super) fn read(read: &mut Reader<'_>) -> OutboxPolicy {
    let retention = read.sources.text("NOETL_OUTBOX_RETENTION_SECS").is_some();
    OutboxPolicy {
        max_attempts: read.within("NOETL_OUTBOX_MAX_ATTEMPTS", DEFAULT_MAX_ATTEMPTS, 1, MAX_ATTEMPTS),
        retention: retention
            .then(|| Duration::from_secs(read.within("NOETL_OUTBOX_RETENTION_SECS", 86_400, 1, u32::MAX.into()))),
    }
}
