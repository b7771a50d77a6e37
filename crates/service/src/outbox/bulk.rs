//! Retrying and discarding rows by a filter, on all shards, in batches.

use async_trait::async_trait;
use futures::future::join_all;

use super::Outbox;
use super::failures::Failures;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::{self, OutboxFilter};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::outbox::{BulkChange, ChangeRows};

/// Number of rows that one statement changes.
const BATCH: i64 = 1000;
/// Maximum number of statements of one request per shard. The caller must repeat the request for the rows that remain.
const BATCHES: usize = 100;

/// Numbers of matching and changed rows of one shard.
#[derive(Debug, Clone, Copy)]
struct ShardChange {
    matched: u64,
    changed: u64,
}

#[async_trait]
impl ChangeRows for Outbox {
    #[tracing::instrument(level = "debug", name = "outbox.retry", skip_all)]
    async fn retry(&self, filter: &OutboxFilter, dry_run: bool, scope: &Scope) -> Result<BulkChange, ServiceError> {
        let retry = |shard: ShardIndex| async move {
            let database = self.database(shard);
            let matched = outbox::retryable(database, scope, filter).await?;
            let changed =
                if dry_run { 0 } else { in_batches(|limit| outbox::retry(database, scope, filter, limit)).await? };
            if changed > 0 {
                self.wake_ups.wake_outbox(shard);
            }
            Ok(ShardChange { matched: matched.unsigned_abs(), changed })
        };
        self.change(retry).await
    }

    #[tracing::instrument(level = "debug", name = "outbox.discard", skip_all)]
    async fn discard(&self, filter: &OutboxFilter, dry_run: bool, scope: &Scope) -> Result<BulkChange, ServiceError> {
        let discard = |shard: ShardIndex| async move {
            let database = self.database(shard);
            let matched = outbox::discardable(database, scope, filter).await?;
            let changed =
                if dry_run { 0 } else { in_batches(|limit| outbox::discard(database, scope, filter, limit)).await? };
            metrics::counter!("noetl_outbox_discarded_total", "shard" => shard.to_string()).increment(changed);
            if changed > 0 {
                tracing::info!(shard, rows = changed, "discarded DEAD outbox rows");
            }
            Ok(ShardChange { matched: matched.unsigned_abs(), changed })
        };
        self.change(discard).await
    }
}

impl Outbox {
    /// Changes the matching rows of every shard.
    async fn change<Change: Future<Output = Result<ShardChange, StorageError>>>(
        &self,
        change_on: impl Fn(ShardIndex) -> Change,
    ) -> Result<BulkChange, ServiceError> {
        let answers = join_all(self.shards().map(change_on)).await;
        let (mut outcome, mut failures, mut answered) = (BulkChange::default(), Failures::default(), false);
        for (shard, answer) in self.shards().zip(answers) {
            match answer {
                Ok(ShardChange { matched, changed }) => {
                    answered = true;
                    // Rows can begin to match after they were counted.
                    outcome.matched += matched.max(changed);
                    outcome.changed += changed;
                }
                Err(error) => failures.add(shard, error),
            }
        }
        outcome.unavailable = failures.shards(answered)?;
        Ok(outcome)
    }
}

/// Repeats a statement that changes up to [`BATCH`] rows until it finds fewer. Returns the number of changed rows.
async fn in_batches<Batch: Future<Output = Result<u64, StorageError>>>(
    statement: impl Fn(i64) -> Batch,
) -> Result<u64, StorageError> {
    let mut changed = 0;
    for _ in 0..BATCHES {
        let batch = statement(BATCH).await?;
        changed += batch;
        if batch < BATCH.unsigned_abs() {
            break;
        }
    }
    Ok(changed)
}
