//! Deleting delivered rows that are older than their retention.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Outbox;
use noetl_domain::outbox::RELAY;
use noetl_domain::shard::ShardIndex;
use noetl_storage::outbox::{self, Forward};
use noetl_use_cases::error::ServiceError;

/// Time for which delivered rows are kept if no retention is set, except in a table that NoETL's own server made.
const DEFAULT_RETENTION: Duration = Duration::from_hours(24);
/// Number of rows that one statement deletes.
const BATCH: i64 = 1000;

impl Outbox {
    /// Deletes a shard's published rows that are older than the retention, in small batches. Returns what was done.
    #[tracing::instrument(level = "debug", name = "outbox.purge", skip_all, fields(shard))]
    pub async fn purge(&self, shard: ShardIndex) -> Result<String, ServiceError> {
        let database = self.database(shard);
        let retention = match self.policy.retention {
            Some(retention) => retention,
            None if outbox::is_adopted(database).await? => {
                let message = "NoETL's own server made this outbox, so delivered rows are kept until \
                               NOETL_OUTBOX_RETENTION_SECS is set";
                return Ok(message.to_owned());
            }
            None => DEFAULT_RETENTION,
        };
        let (mut rows, mut from) = (0, DateTime::<Utc>::UNIX_EPOCH);
        loop {
            let batch = outbox::purge(database, retention.as_secs_f64(), from, BATCH, RELAY).await?;
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
        if self.databases.map().has_moves() {
            self.forget_forwards(shard).await?;
        }
        Ok(format!("purged {rows} delivered"))
    }

    /// Forgets the new ids of rows that left the shard and were deleted on the shard to which they went.
    async fn forget_forwards(&self, shard: ShardIndex) -> Result<(), ServiceError> {
        let (database, mut after) = (self.database(shard), i64::MIN);
        loop {
            let page = outbox::forwards(database, after, BATCH).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.outbox_id;
            let mut copies: BTreeMap<ShardIndex, BTreeMap<i64, Forward>> = BTreeMap::new();
            for forward in page.iter().filter(|forward| self.shards().contains(&forward.copy.shard)) {
                copies.entry(forward.copy.shard).or_default().insert(forward.copy.number, *forward);
            }
            for (to, forwards) in copies {
                let ids: Vec<i64> = forwards.keys().copied().collect();
                let absent = outbox::absent(self.database(to), &ids).await?;
                let unused: Vec<Forward> = absent.iter().filter_map(|number| forwards.get(number).copied()).collect();
                outbox::forget_forwards(database, &unused).await?;
            }
        }
    }
}
