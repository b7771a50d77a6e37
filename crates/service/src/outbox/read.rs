//! Backlog, statistics and lists of outbox rows.

use std::cmp::Ordering;
use std::collections::HashMap;

use async_trait::async_trait;
use futures::future::join_all;

use super::failures::Failures;
use super::forward::current_ids;
use super::{Outbox, READS};
use crate::fan_out;
use noetl_domain::list_position::{ListPosition, PositionRange};
use noetl_domain::outbox::{OutboxId, OutboxPosition};
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::error::StorageError;
use noetl_storage::outbox::{self, Backlog, OutboxFilter, OutboxRow, StatusCounts, SubjectCounts};
use noetl_storage::view::View;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::listing::Listing;
use noetl_use_cases::outbox::{ListedRow, MAX_SUBJECTS, ReadOutbox, Stats};

#[async_trait]
impl ReadOutbox for Outbox {
    #[tracing::instrument(level = "debug", name = "outbox.backlog", skip_all)]
    async fn backlog(&self) -> Result<Stats<Backlog>, ServiceError> {
        let stats = self.read_shards(|shard, view| self.backlog_of(shard, view, &Scope::Unrestricted)).await?;
        for (shard, backlog) in &stats.shards {
            show(*shard, backlog);
        }
        Ok(stats)
    }

    #[tracing::instrument(level = "debug", name = "outbox.stats", skip_all)]
    async fn stats(&self, scope: &Scope) -> Result<Stats<(Backlog, StatusCounts)>, ServiceError> {
        self.read_shards(|shard, view| async move {
            let counts = outbox::counts(view.clone(), scope).await?;
            Ok((self.backlog_of(shard, view, scope).await?, counts))
        })
        .await
    }

    #[tracing::instrument(level = "debug", name = "outbox.subjects", skip_all)]
    async fn subjects(&self, scope: &Scope) -> Result<Stats<Vec<SubjectCounts>>, ServiceError> {
        self.read_shards(|_, view| outbox::subjects(view, scope, MAX_SUBJECTS)).await
    }

    #[tracing::instrument(level = "debug", name = "outbox.list", skip_all)]
    async fn list(
        &self,
        filter: &OutboxFilter,
        payloads: bool,
        request: &PageRequest<OutboxPosition>,
        scope: &Scope,
    ) -> Result<Listing<ListedRow>, ServiceError> {
        self.by_current_map(Result::is_err, || self.list_once(filter, payloads, request, scope)).await
    }

    #[tracing::instrument(level = "debug", name = "outbox.by_ids", skip_all, fields(count = ids.len()))]
    async fn by_ids(
        &self,
        ids: &[OutboxId],
        payloads: bool,
        scope: &Scope,
    ) -> HashMap<OutboxId, Result<ListedRow, ServiceError>> {
        let is_complete = |found: &HashMap<_, _>| found.len() == ids.len();
        self.by_current_map(is_complete, || self.by_ids_once(ids, payloads, scope)).await
    }

    async fn unknown_ids(&self, field: &str, ids: &[OutboxId], scope: &Scope) -> Result<Vec<Rejection>, Rejection> {
        for (index, id) in ids.iter().enumerate() {
            self.shard_named(&format!("{field}.{index}"), id.shard.into())?;
        }
        let found = self.by_ids(ids, false, scope).await;
        let unknown = ids.iter().enumerate().filter(|(_, id)| !found.contains_key(id));
        let rejection = |(index, id): (usize, &OutboxId)| {
            Rejection::not_found(&format!("{field}.{index}"), format!("there is no outbox entry {id}"))
        };
        Ok(unknown.map(rejection).collect())
    }

    #[tracing::instrument(level = "debug", name = "outbox.total", skip_all)]
    async fn total(&self, filter: &OutboxFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError> {
        self.by_current_map(Result::is_err, || self.total_once(filter, limit, scope)).await
    }
}

impl Outbox {
    /// Reads up to [`READS`] times, until a result is final or was read by the current bucket map.
    async fn by_current_map<T, Read: Future<Output = T>>(
        &self,
        is_final: impl Fn(&T) -> bool,
        read: impl Fn() -> Read,
    ) -> T {
        for _ in 1..READS {
            let version = self.databases.map().version();
            let result = read().await;
            if is_final(&result) || !self.databases.is_outdated(version).await {
                return result;
            }
        }
        read().await
    }

    async fn list_once(
        &self,
        filter: &OutboxFilter,
        payloads: bool,
        request: &PageRequest<OutboxPosition>,
        scope: &Scope,
    ) -> Result<Listing<ListedRow>, ServiceError> {
        let pages = self
            .views()
            .map(async |(shard, view)| outbox::list(view, scope, filter, payloads, range(shard, request)).await);
        let (mut rows, mut failures, mut answered) = (Vec::new(), Failures::default(), false);
        for (shard, page) in self.shards().zip(join_all(pages).await) {
            match page {
                Ok(page) => {
                    answered = true;
                    let id = |row: &OutboxRow| OutboxId { shard, number: row.outbox_id };
                    rows.extend(page.into_iter().map(|row| ListedRow { id: id(&row), row }));
                }
                Err(error) if error.timed_out().is_some() => return Err(error.into()),
                Err(error) => failures.add(shard, error),
            }
        }
        rows.sort_unstable_by_key(ListedRow::position);
        if !request.backwards {
            rows.reverse();
        }
        Ok(Listing { page: request.cut(rows), unavailable: failures.shards(answered)? })
    }

    async fn by_ids_once(
        &self,
        ids: &[OutboxId],
        payloads: bool,
        scope: &Scope,
    ) -> HashMap<OutboxId, Result<ListedRow, ServiceError>> {
        let current = current_ids(&self.databases, ids.iter().copied()).await;
        let of: Vec<OutboxId> = ids.iter().map(|id| current.of(*id)).collect();
        let limit = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let request = PageRequest { limit, backwards: false, after: None, before: None };
        let filter = OutboxFilter { ids: Some(of.clone()), ..OutboxFilter::default() };
        let views = self.views().filter(|(shard, _)| of.iter().any(|id| id.shard == *shard));
        let reads = views.map(async |(shard, view)| {
            (shard, outbox::list(view, scope, &filter, payloads, range(shard, &request)).await)
        });
        let (mut found, mut unread, failed) = (HashMap::new(), HashMap::new(), current.failed);
        for (shard, rows) in join_all(reads).await {
            match rows {
                Ok(rows) => found.extend(rows.into_iter().map(|row| (OutboxId { shard, number: row.outbox_id }, row))),
                Err(error) => drop(unread.insert(shard, ServiceError::from(error))),
            }
        }
        let row = |(given, id): (&OutboxId, OutboxId)| {
            let error = failed.get(&given.shard).or_else(|| unread.get(&id.shard));
            let row: Result<ListedRow, ServiceError> = match (error, found.get(&id)) {
                (Some(error), _) => Err(error.clone()),
                (None, row) => Ok(ListedRow { id: *given, row: row?.clone() }),
            };
            Some((*given, row))
        };
        ids.iter().zip(of).filter_map(row).collect()
    }

    async fn total_once(&self, filter: &OutboxFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError> {
        fan_out::total(&self.databases, limit, |shard, limit| outbox::count(shard, scope, filter, limit)).await
    }

    /// Counts a shard's claimable rows of all tenants for the alerts, and returns their number.
    #[tracing::instrument(level = "debug", name = "outbox.report_backlog", skip_all, fields(shard))]
    pub async fn report_backlog(&self, shard: ShardIndex) -> Result<i64, ServiceError> {
        let backlog = self.backlog_of(shard, self.databases.view(shard), &Scope::Unrestricted).await?;
        show(shard, &backlog);
        Ok(backlog.pending)
    }

    /// Counts the claimable rows of a shard in the scope. As for claims, the count reads from the start while that is
    /// cheap, else mostly from the low watermarks.
    async fn backlog_of(&self, shard: ShardIndex, view: View<'_>, scope: &Scope) -> Result<Backlog, StorageError> {
        let view = &view;
        let count = |from| async move { outbox::backlog(view.clone(), scope, &from).await };
        self.read_open_rows(shard, view.map_version(), |open_rows| &mut open_rows.full_counts, count).await
    }

    /// Returns a filter whose ids are those that the rows have now. Rows that can't be found have no place in a list.
    pub(super) async fn with_current_ids(&self, filter: &OutboxFilter) -> OutboxFilter {
        let Some(ids) = &filter.ids else { return filter.clone() };
        let current = current_ids(&self.databases, ids.iter().copied()).await;
        let of = ids.iter().filter(|id| !current.failed.contains_key(&id.shard)).map(|id| current.of(*id));
        OutboxFilter { ids: Some(of.collect()), ..filter.clone() }
    }

    /// Reads every shard. Fails only if no shard could be read.
    async fn read_shards<'a, T, Values: Future<Output = Result<T, StorageError>>>(
        &'a self,
        query: impl Fn(ShardIndex, View<'a>) -> Values,
    ) -> Result<Stats<T>, ServiceError> {
        let results = join_all(self.views().map(|(shard, view)| query(shard, view))).await;
        let (mut shards, mut failures) = (Vec::new(), Failures::default());
        for (shard, result) in self.shards().zip(results) {
            match result {
                Ok(value) => shards.push((shard, value)),
                Err(error) => failures.add(shard, error),
            }
        }
        if shards.is_empty() {
            return failures.last().map_or_else(|| Ok(Stats { shards, unavailable: Vec::new() }), Err);
        }
        Ok(Stats { shards, unavailable: failures.shards(true)? })
    }
}

/// Sets the gauges of a shard's rows to deliver.
fn show(shard: ShardIndex, backlog: &Backlog) {
    let shard = shard.to_string();
    #[expect(clippy::cast_precision_loss, reason = "a gauge for people")]
    let (pending, waiting) = (backlog.pending as f64, backlog.waiting as f64);
    metrics::gauge!("noetl_outbox_pending", "shard" => shard.clone()).set(pending);
    metrics::gauge!("noetl_outbox_waiting", "shard" => shard.clone()).set(waiting);
    let oldest = backlog.oldest_seconds.unwrap_or_default();
    metrics::gauge!("noetl_outbox_oldest_pending_seconds", "shard" => shard.clone()).set(oldest);
    let oldest = backlog.oldest_waiting_seconds.unwrap_or_default();
    metrics::gauge!("noetl_outbox_oldest_waiting_seconds", "shard" => shard).set(oldest);
}

/// Returns the range of a page for the rows of one shard. Rows with the same time are ordered by shard index, then by
/// number.
fn range(shard: ShardIndex, request: &PageRequest<OutboxPosition>) -> PositionRange {
    let cut = |position: OutboxPosition| {
        let id = match shard.cmp(&position.id.shard) {
            Ordering::Less => i64::MAX,
            Ordering::Equal => position.id.number,
            Ordering::Greater => -1,
        };
        ListPosition { at: position.created_at, id }
    };
    let PageRequest { limit, backwards, after, before } = request;
    let (after, before) = (after.map(cut), before.map(cut));
    PageRequest { limit: *limit, backwards: *backwards, after, before }.newest_first()
}
