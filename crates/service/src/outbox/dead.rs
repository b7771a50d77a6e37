//! DEAD rows: rows that are no longer tried. They are counted for the alert, and logged when they become DEAD.

use super::Outbox;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::outbox;
use noetl_use_cases::error::ServiceError;

/// Rows of one shard that became DEAD at once.
#[derive(Debug, Default)]
pub(super) struct NewlyDead {
    rows: u64,
    first: Option<(i64, String)>,
}

impl NewlyDead {
    /// Adds a row with the error of its last attempt.
    pub(super) fn add(&mut self, outbox_id: i64, error: &str) {
        self.rows += 1;
        self.first.get_or_insert_with(|| (outbox_id, error.to_owned()));
    }

    /// Counts and logs the rows.
    pub(super) fn report(self, shard: ShardIndex) {
        metrics::counter!("noetl_outbox_dead_total", "shard" => shard.to_string()).increment(self.rows);
        if let Some((outbox_id, error)) = self.first {
            tracing::warn!(
                shard,
                rows = self.rows,
                first = outbox_id,
                error,
                "outbox rows are DEAD and no longer tried; see retryOutbox and discardOutbox"
            );
        }
    }
}

impl Outbox {
    /// Counts a shard's DEAD rows for the alert, and logs a warning if there are more than at the last count of this
    /// process.
    #[tracing::instrument(level = "debug", name = "outbox.report_dead", skip_all, fields(shard))]
    pub async fn report_dead(&self, shard: ShardIndex) -> Result<i64, ServiceError> {
        let dead = outbox::counts(self.databases.view(shard), &Scope::Unrestricted).await?.dead;
        #[expect(clippy::cast_precision_loss, reason = "a gauge for people")]
        metrics::gauge!("noetl_outbox_dead", "shard" => shard.to_string()).set(dead as f64);
        let known = std::mem::replace(&mut self.open_rows(shard).known_dead, dead);
        if dead > known {
            tracing::warn!(shard, dead, "the outbox has DEAD rows; see retryOutbox and discardOutbox");
        }
        Ok(dead)
    }
}
