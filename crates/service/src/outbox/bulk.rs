//! Retrying and discarding rows by a filter, on all shards, in batches. The statement that changes a row also writes an event to
//! the log of the row's execution.
//!
//! If a fence refuses a batch, rows of a bucket are moving to another shard, perhaps under other ids. So the whole
//! change is repeated with the current ids on the shards that the map then names. A change of rows by their ids is also
//! repeated if the map was outdated, because rows were hidden on the shard that got them, and gone from the other one.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use serde_json::Value;

use super::failures::Failures;
use super::{Outbox, READS};
use crate::moves::Repetition;
use noetl_domain::execution::emitted;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_runtime::clock;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::{self, ChangeRecord, ChangedRows, OutboxFilter};
use noetl_storage::view::View;
use noetl_use_cases::bounds::check_reason;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::outbox::{BulkChange, ChangeRows, RowChange};

/// Number of rows that one statement changes.
const BATCH: u32 = 1000;
/// Maximum number of statements of one request per shard. The caller must repeat the request for the rows that remain.
const BATCHES: usize = 100;

/// Numbers of matching and changed rows of one shard.
#[derive(Debug, Default)]
struct ShardChange {
    matched: u64,
    rows: u64,
    /// Error of a batch that was refused because a bucket is being moved. The rest was not changed.
    refusal: Option<StorageError>,
}

#[async_trait]
impl ChangeRows for Outbox {
    #[tracing::instrument(level = "debug", name = "outbox.retry", skip_all)]
    async fn retry(&self, filter: &OutboxFilter, change: RowChange<'_>) -> Result<BulkChange, ServiceError> {
        check_reason(change.reason)?;
        let (scope, meta) = (&change.caller.scope, &meta_of(change));
        self.change(filter, |shard, view, filter| async move {
            let matched = outbox::retryable(view, scope, &filter).await?.unsigned_abs();
            if change.dry_run {
                return Ok(ShardChange { matched, ..ShardChange::default() });
            }
            let retry = |view, event_ids: Vec<i64>| {
                let filter = Arc::clone(&filter);
                async move {
                    let record = ChangeRecord { event_ids: &event_ids, reason: change.reason, meta };
                    outbox::retry(view, scope, &filter, record).await
                }
            };
            let changed = self.in_batches(shard, matched, retry).await?;
            if changed.rows > 0 {
                self.wake_ups.wake_outbox(shard);
            }
            Ok(changed)
        })
        .await
    }

    #[tracing::instrument(level = "debug", name = "outbox.discard", skip_all)]
    async fn discard(&self, filter: &OutboxFilter, change: RowChange<'_>) -> Result<BulkChange, ServiceError> {
        check_reason(change.reason)?;
        let (scope, meta) = (&change.caller.scope, &meta_of(change));
        self.change(filter, |shard, view, filter| async move {
            let matched = outbox::discardable(view, scope, &filter).await?.unsigned_abs();
            if change.dry_run {
                return Ok(ShardChange { matched, ..ShardChange::default() });
            }
            let discard = |view, event_ids: Vec<i64>| {
                let filter = Arc::clone(&filter);
                async move {
                    let record = ChangeRecord { event_ids: &event_ids, reason: change.reason, meta };
                    outbox::discard(view, scope, &filter, record).await
                }
            };
            let changed = self.in_batches(shard, matched, discard).await?;
            metrics::counter!("noetl_outbox_discarded_total", "shard" => shard.to_string()).increment(changed.rows);
            if changed.rows > 0 {
                tracing::info!(shard, rows = changed.rows, "discarded DEAD outbox rows");
            }
            Ok(changed)
        })
        .await
    }
}

/// Returns the meta of the events about the rows.
fn meta_of(change: RowChange<'_>) -> Value {
    emitted(clock::now(), change.caller.actor.as_ref()).into()
}

impl Outbox {
    /// Changes the matching rows of every shard.
    async fn change<'a, Change: Future<Output = Result<ShardChange, ServiceError>>>(
        &'a self,
        filter: &OutboxFilter,
        change_on: impl Fn(ShardIndex, View<'a>, Arc<OutboxFilter>) -> Change,
    ) -> Result<BulkChange, ServiceError> {
        let (mut outcome, mut repetition) = (BulkChange::default(), Repetition::new(&self.databases));
        let mut reads = 0;
        loop {
            let version = self.databases.map().version();
            let filter = Arc::new(self.with_current_ids(filter).await);
            let answers = join_all(self.views().map(|(shard, view)| change_on(shard, view, Arc::clone(&filter)))).await;
            let (mut unchanged, mut failures, mut answered) = (0, Failures::default(), false);
            let mut refusals: Vec<(ShardIndex, StorageError)> = Vec::new();
            for (shard, answer) in self.shards().zip(answers) {
                match answer {
                    Ok(ShardChange { matched, rows, refusal }) => {
                        answered = true;
                        // Rows can begin to match after they were counted.
                        unchanged += matched.saturating_sub(rows);
                        outcome.changed += rows;
                        refusals.extend(refusal.map(|refusal| (shard, refusal)));
                    }
                    Err(error) => failures.add(shard, error),
                }
            }
            outcome.matched = outcome.changed + unchanged;
            if !refusals.is_empty() && repetition.again().await {
                continue;
            }
            reads += 1;
            if filter.ids.is_some() && reads < READS && self.databases.is_outdated(version).await {
                continue;
            }
            for (shard, refusal) in refusals {
                failures.add(shard, refusal);
            }
            outcome.unavailable = failures.shards(answered)?;
            return Ok(outcome);
        }
    }

    /// Repeats a statement that changes up to [`BATCH`] rows of a shard until all that matched are changed, or it finds fewer,
    /// or is refused because a bucket is being moved. The statement gets ids for the events about as many rows.
    async fn in_batches<'a, Batch: Future<Output = Result<ChangedRows, StorageError>>>(
        &'a self,
        shard: ShardIndex,
        matched: u64,
        statement: impl Fn(View<'a>, Vec<i64>) -> Batch,
    ) -> Result<ShardChange, ServiceError> {
        let mut changed = ShardChange { matched, ..ShardChange::default() };
        for _ in 0..BATCHES {
            let left = matched.saturating_sub(changed.rows);
            let limit = u32::try_from(left).map_or(BATCH, |left| left.min(BATCH));
            if limit == 0 {
                break;
            }
            let event_ids = self.ids.reserve(limit).await?.into_iter().map(Id::get).collect();
            let batch = match statement(self.databases.view(shard), event_ids).await {
                Err(refusal) if refusal.bucket_moves().is_some() => {
                    changed.refusal = Some(refusal);
                    break;
                }
                batch => batch?,
            };
            changed.rows += batch.rows.unsigned_abs();
            if batch.events > 0 {
                self.wake_ups.wake_feed(shard);
            }
            if batch.rows.unsigned_abs() < u64::from(limit) {
                break;
            }
        }
        Ok(changed)
    }
}
