//! Deleting delivered rows that are older than their retention.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Outbox;
use noetl_domain::shard::ShardIndex;
use noetl_storage::outbox;
use noetl_use_cases::error::ServiceError;

/// Time for which delivered rows are kept if no retention is set, except in a table that NoETL's own server made.
const DEFAULT_RETENTION: Duration = Duration::from_hours(24);
/// Number of rows that one statement deletes.
const BATCH: i64 = 1000;

/// Result of a purge on one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxPurge {
    /// NoETL's own server made the table, and no retention is set.
    NotAskedFor,
    /// The purge is complete.
    Done {
        /// Number of deleted rows.
        rows: u64,
    },
}

impl Outbox {
    /// Deletes a shard's published rows that are older than the retention, in small batches.
    #[tracing::instrument(level = "debug", name = "outbox.purge", skip_all, fields(shard))]
    pub async fn purge(&self, shard: ShardIndex) -> Result<OutboxPurge, ServiceError> {
        let database = self.database(shard);
        let retention = match self.policy.retention {
            Some(retention) => retention,
            None if outbox::is_adopted(database).await? => return Ok(OutboxPurge::NotAskedFor),
            None => DEFAULT_RETENTION,
        };
        let (mut rows, mut from) = (0, DateTime::<Utc>::UNIX_EPOCH);
        loop {
            let batch = outbox::purge(database, retention.as_secs_f64(), from, BATCH).await?;
            rows += batch.rows.unsigned_abs();
            metrics::counter!("noetl_outbox_purged_total").increment(batch.rows.unsigned_abs());
            match batch.up_to {
                Some(up_to) if batch.rows == BATCH => from = up_to,
                _ => break,
            }
        }
        if rows > 0 {
            tracing::info!(shard, rows, "purged delivered outbox rows");
        }
        Ok(OutboxPurge::Done { rows })
    }
}

impl fmt::Display for OutboxPurge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAskedFor => f.write_str(
                "NoETL's own server made this outbox, so delivered rows are kept until NOETL_OUTBOX_RETENTION_SECS is set",
            ),
            Self::Done { rows } => write!(f, "purged {rows} delivered"),
        }
    }
}
