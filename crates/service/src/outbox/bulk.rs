//! Retrying and discarding rows by a filter, on all shards, in batches.

use async_trait::async_trait;
use futures::future::join_all;

use super::Outbox;
use super::failures::Failures;
use crate::moves::Repetition;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::{self, OutboxFilter};
use noetl_storage::view::View;
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
        let filter = &self.with_current_ids(filter).await;
        self.change(|shard, view| async move {
            let matched = outbox::retryable(view, scope, filter).await?;
            let changed = if dry_run {
                0
            } else {
                self.in_batches(shard, |view, limit| outbox::retry(view, scope, filter, limit)).await?
            };
            if changed > 0 {
                self.wake_ups.wake_outbox(shard);
            }
            Ok(ShardChange { matched: matched.unsigned_abs(), changed })
        })
        .await
    }

    #[tracing::instrument(level = "debug", name = "outbox.discard", skip_all)]
    async fn discard(&self, filter: &OutboxFilter, dry_run: bool, scope: &Scope) -> Result<BulkChange, ServiceError> {
        let filter = &self.with_current_ids(filter).await;
        self.change(|shard, view| async move {
            let matched = outbox::discardable(view, scope, filter).await?;
            let changed = if dry_run {
                0
            } else {
                self.in_batches(shard, |view, limit| outbox::discard(view, scope, filter, limit)).await?
            };
            metrics::counter!("noetl_outbox_discarded_total", "shard" => shard.to_string()).increment(changed);
            if changed > 0 {
                tracing::info!(shard, rows = changed, "discarded DEAD outbox rows");
            }
            Ok(ShardChange { matched: matched.unsigned_abs(), changed })
        })
        .await
    }
}

impl Outbox {
    /// Changes the matching rows of every shard.
    async fn change<'a, Change: Future<Output = Result<ShardChange, StorageError>>>(
        &'a self,
        change_on: impl Fn(ShardIndex, View<'a>) -> Change,
    ) -> Result<BulkChange, ServiceError> {
        let answers = join_all(self.views().map(|(shard, view)| change_on(shard, view))).await;
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

    /// Repeats a statement that changes up to [`BATCH`] rows of a shard until it finds fewer. Returns the number of changed
    /// rows. A statement that a move of a bucket refuses is tried again.
    async fn in_batches<'a, Batch: Future<Output = Result<u64, StorageError>>>(
        &'a self,
        shard: ShardIndex,
        statement: impl Fn(View<'a>, i64) -> Batch,
    ) -> Result<u64, StorageError> {
        let (mut changed, mut repetition) = (0, Repetition::new(&self.databases));
        for _ in 0..BATCHES {
            let batch = match statement(self.databases.view(shard), BATCH).await {
                Err(error) => match error.bucket_moves() {
                    Some(database) if repetition.again(&StorageError::BucketMoves { database }.into()).await => {
                        continue;
                    }
                    _ => return Err(error),
                },
                Ok(batch) => batch,
            };
            changed += batch;
            if batch < BATCH.unsigned_abs() {
                break;
            }
        }
        Ok(changed)
    }
}
