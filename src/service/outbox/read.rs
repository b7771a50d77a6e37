//! Backlog, statistics and lists of outbox rows.

use std::cmp::Ordering;

use chrono::{DateTime, Utc};
use futures::future::join_all;

use super::Outbox;
use super::failures::Failures;
use crate::service::error::ServiceError;
use crate::service::fan_out::Listing;
use noetl_domain::outbox::{OutboxId, OutboxPosition};
use noetl_domain::page::PageRequest;
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::{self, Backlog, Bounds, OutboxFilter, OutboxRow, StatusCounts};

/// Statistics of the shards that could be read.
#[derive(Debug, Default)]
pub struct Stats<T> {
    /// Values by shard.
    pub shards: Vec<(ShardIndex, T)>,
    /// Shards that could not be read.
    pub unavailable: Vec<ShardIndex>,
}

impl Outbox {
    /// Returns the number of rows that are claimable now. Fails only if no shard could be read.
    #[tracing::instrument(level = "debug", name = "outbox.backlog", skip_all)]
    pub async fn backlog(&self) -> Result<Stats<Backlog>, ServiceError> {
        let stats = self.ask(|shard| self.backlog_of(shard)).await?;
        for (shard, backlog) in &stats.shards {
            #[expect(clippy::cast_precision_loss, reason = "a gauge for people")]
            metrics::gauge!("noetl_outbox_pending", "shard" => shard.to_string()).set(backlog.pending as f64);
        }
        Ok(stats)
    }

    /// Returns the backlog, and the numbers of rows in flight and failed. Fails only if no shard could be read.
    #[tracing::instrument(level = "debug", name = "outbox.stats", skip_all)]
    pub async fn stats(&self) -> Result<Stats<(Backlog, StatusCounts)>, ServiceError> {
        let both = |shard: ShardIndex| async move {
            let counts = outbox::counts(&self.databases.shards()[usize::from(shard)]).await?;
            Ok((self.backlog_of(shard).await?, counts))
        };
        self.ask(both).await
    }

    /// Counts the claimable rows of a shard. As for claims, the count reads from the start while that is cheap, else
    /// mostly from the low watermarks.
    async fn backlog_of(&self, shard: ShardIndex) -> Result<Backlog, StorageError> {
        let database = &self.databases.shards()[usize::from(shard)];
        let count = |from| async move { outbox::backlog(database, &from).await };
        self.read_paced(shard, |seen| &mut seen.counts, count).await
    }

    async fn ask<T, Answer: Future<Output = Result<T, StorageError>>>(
        &self,
        question: impl Fn(ShardIndex) -> Answer,
    ) -> Result<Stats<T>, ServiceError> {
        let answers = join_all(self.shards().map(question)).await;
        let (mut shards, mut failures) = (Vec::new(), Failures::default());
        for (shard, answer) in self.shards().zip(answers) {
            match answer {
                Ok(answer) => shards.push((shard, answer)),
                Err(error) => failures.add(shard, error),
            }
        }
        if shards.is_empty() {
            return failures
                .last()
                .map_or_else(|| Ok(Stats { shards, unavailable: Vec::new() }), |error| Err(error.into()));
        }
        Ok(Stats { shards, unavailable: failures.shards(true)? })
    }

    /// Returns a page over all shards, newest first: by time, then shard, then number. Reads payloads only if
    /// `payloads` is set.
    #[tracing::instrument(level = "debug", name = "outbox.list", skip_all)]
    pub async fn list(
        &self,
        filter: &OutboxFilter,
        payloads: bool,
        request: &PageRequest<OutboxPosition>,
    ) -> Result<Listing<(OutboxId, OutboxRow)>, ServiceError> {
        let pages = self.shards().map(async |shard| {
            outbox::list(&self.databases.shards()[usize::from(shard)], filter, payloads, bounds(shard, request)).await
        });
        let (mut rows, mut failures, mut answered) = (Vec::new(), Failures::default(), false);
        for (shard, page) in self.shards().zip(join_all(pages).await) {
            match page {
                Ok(page) => {
                    answered = true;
                    rows.extend(page.into_iter().map(|row| (OutboxId { shard, number: row.outbox_id }, row)));
                }
                Err(error) => failures.add(shard, error),
            }
        }
        rows.sort_unstable_by_key(place);
        if !request.backwards {
            rows.reverse();
        }
        Ok(Listing { page: request.cut(rows), unavailable: failures.shards(answered)? })
    }
}

/// Returns a row's position in the list.
#[must_use]
pub fn place((id, row): &(OutboxId, OutboxRow)) -> OutboxPosition {
    OutboxPosition { created_at: row.created_at, id: *id }
}

/// Returns the bounds of a page for the rows of one shard. Rows with the same time are ordered by shard index, then by
/// number.
fn bounds(shard: ShardIndex, request: &PageRequest<OutboxPosition>) -> Bounds {
    let cut = |place: &OutboxPosition| {
        let number = match shard.cmp(&place.id.shard) {
            Ordering::Less => i64::MAX,
            Ordering::Equal => place.id.number,
            Ordering::Greater => -1,
        };
        (place.created_at, number)
    };
    // Bounds outside the times of all rows. Both PostgreSQL and this program can represent them.
    let year = |first: i64| DateTime::<Utc>::from_timestamp(first, 0).unwrap_or(DateTime::UNIX_EPOCH);
    Bounds {
        above: request.before.as_ref().map_or((year(-62_135_596_800), -1), cut),
        below: request.after.as_ref().map_or((year(253_402_300_799), i64::MAX), cut),
        descending: !request.backwards,
        limit: request.probe(),
    }
}
