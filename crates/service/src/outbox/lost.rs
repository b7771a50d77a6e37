//! Notifications that the broker has lost, and that no worker has read: they are delivered again.

use chrono::{DateTime, Utc};

use super::Outbox;
use noetl_domain::list_position::ListPosition;
use noetl_domain::shard::ShardIndex;
use noetl_storage::outbox::{self, Untouched, UntouchedPage};
use noetl_use_cases::error::ServiceError;

/// Number of executions that one page reads.
const PAGE: i64 = 500;
/// Error that a row shows until it is delivered again.
const LOST: &str = "the broker has lost the message";

impl Outbox {
    /// Returns the notifications of a page of executions that no worker has touched, if `claimant` delivered them up to a
    /// time. Without a position, it is the first page.
    pub async fn untouched(
        &self,
        shard: ShardIndex,
        after: Option<ListPosition>,
        claimant: &str,
        until: DateTime<Utc>,
    ) -> Result<UntouchedPage, ServiceError> {
        Ok(outbox::untouched(self.databases.view(shard), after, PAGE, claimant, until).await?)
    }

    /// Delivers lost notifications again.
    pub async fn deliver_again(&self, shard: ShardIndex, lost: &[Untouched]) -> Result<(), ServiceError> {
        let rows = outbox::deliver_again(self.database(shard), lost, LOST).await?;
        if let Some(first) = lost.iter().map(|row| row.outbox_id).min() {
            let mut open_rows = self.open_rows(shard);
            open_rows.low_watermarks.pending = open_rows.low_watermarks.pending.min(first);
        }
        metrics::counter!("noetl_outbox_redelivered_total", "shard" => shard.to_string()).increment(rows);
        if rows > 0 {
            tracing::warn!(
                shard,
                rows,
                "the broker has lost notifications that no worker has read; they are delivered again"
            );
            self.wake_ups.wake_outbox(shard);
        }
        Ok(())
    }
}
