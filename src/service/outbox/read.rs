//! How much is waiting, and the rows themselves.

use std::cmp::Ordering;

use chrono::{DateTime, Utc};
use futures::future::join_all;

use super::Outbox;
use super::failures::Failures;
use crate::domain::outbox::{OutboxId, OutboxPlace};
use crate::domain::page::PageRequest;
use crate::domain::shard::ShardIndex;
use crate::service::error::ServiceError;
use crate::service::fan_out::Listing;
use crate::storage::error::StorageError;
use crate::storage::outbox::{self, Backlog, Bounds, Counts, OutboxFilter, OutboxRow};

/// What waits on the shards that could be asked.
#[derive(Debug, Default)]
pub struct Stats<T> {
    /// By shard.
    pub shards: Vec<(ShardIndex, T)>,
    /// Shards that could not be asked.
    pub unavailable: Vec<ShardIndex>,
}

impl Outbox {
    /// How many rows are claimable now. Fails only where no shard could be asked.
    #[tracing::instrument(level = "debug", name = "outbox.backlog", skip_all)]
    pub async fn backlog(&self) -> Result<Stats<Backlog>, ServiceError> {
        let stats = self.ask(|shard| self.backlog_of(shard)).await?;
        for (shard, backlog) in &stats.shards {
            #[expect(clippy::cast_precision_loss, reason = "a gauge for people")]
            metrics::gauge!("noetl_outbox_pending", "shard" => shard.to_string()).set(backlog.pending as f64);
        }
        Ok(stats)
    }

    /// The same with what is in flight and what failed.
    #[tracing::instrument(level = "debug", name = "outbox.stats", skip_all)]
    pub async fn stats(&self) -> Result<Stats<(Backlog, Counts)>, ServiceError> {
        let both = |shard: ShardIndex| async move {
            let counts = outbox::counts(&self.databases.shards()[usize::from(shard)]).await?;
            Ok((self.backlog_of(shard).await?, counts))
        };
        self.ask(both).await
    }

    /// Counting is paced as claiming is: from the start as long as that is cheap, else mostly from where the first open
    /// row was seen.
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

    /// A page over all shards, newest first: by time, then shard, then number; with payloads only if they are wanted.
    #[tracing::instrument(level = "debug", name = "outbox.list", skip_all)]
    pub async fn list(
        &self,
        filter: &OutboxFilter,
        payloads: bool,
        request: &PageRequest<OutboxPlace>,
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

/// A row's place in the list.
#[must_use]
pub fn place((id, row): &(OutboxId, OutboxRow)) -> OutboxPlace {
    OutboxPlace { created_at: row.created_at, id: *id }
}

/// The part of a page that a shard's rows can be in. Among rows of one time, those of a shard with a smaller index come
/// below all of a larger one.
fn bounds(shard: ShardIndex, request: &PageRequest<OutboxPlace>) -> Bounds {
    let cut = |place: &OutboxPlace| {
        let number = match shard.cmp(&place.id.shard) {
            Ordering::Less => i64::MAX,
            Ordering::Equal => place.id.number,
            Ordering::Greater => -1,
        };
        (place.created_at, number)
    };
    // Within what a row's time can be; both databases and this program can hold it.
    let year = |first: i64| DateTime::<Utc>::from_timestamp(first, 0).unwrap_or(DateTime::UNIX_EPOCH);
    Bounds {
        above: request.before.as_ref().map_or((year(-62_135_596_800), -1), cut),
        below: request.after.as_ref().map_or((year(253_402_300_799), i64::MAX), cut),
        descending: !request.backwards,
        limit: request.probe(),
    }
}
