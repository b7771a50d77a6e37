//! Reading the events of logs: by id, in the order of arrival, and over several logs.
//!
//! A page can be joined with the live events. Then it has only events that the feed has published, and the positions of
//! the feeds from which a reader receives exactly the others. The positions are read first. What they cover never
//! changes, so a page that is read later and limited to it is exact.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;

use super::Executions;
use crate::fan_out;
use crate::shards::rows_by_ids;
use noetl_domain::event::{Event, EventKey};
use noetl_domain::event_list::{Arrival, EventPosition, EventRange, LogFilter};
use noetl_domain::ids::Id;
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_domain::shard::ShardMap;
use noetl_domain::tenant::Scope;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_storage::error::StorageError;
use noetl_storage::event_arrivals::{self, Arrived};
use noetl_storage::event_lists;
use noetl_storage::events::{self, LargeColumns};
use noetl_storage::pools::Database;
use noetl_storage::tail_covered::{self};
use noetl_use_cases::error::{ReadFailures, Rejection, ServiceError};
use noetl_use_cases::executions::ReadLogs;
use noetl_use_cases::executions::logs::{EventListing, FeedPositions, Listed, LogPage, LogQuery, LogRequest};
use noetl_use_cases::listing::Listing;
use plain_json::Text;

/// Maximum number of events of a log, within the times of the filter, in which a text is searched for.
const MAX_SEARCHED: i64 = 10_000;
/// Maximum number of open transactions that a position in the order of arrival contains.
const MAX_OPEN: usize = 500;

/// Pages of logs, or the reasons they were refused, of one shard.
type Pages = Vec<(Id, Result<Page<Listed>, Rejection>)>;

#[async_trait]
impl ReadLogs for Executions {
    #[tracing::instrument(
        level = "debug", name = "executions.event", skip_all,
        fields(execution = %execution, event = %event)
    )]
    async fn event(&self, execution: Id, event: Id, scope: &Scope) -> Result<Option<Event<Text>>, ServiceError> {
        Ok(events::get(self.databases.shard_of(execution), scope, execution, event).await?)
    }

    #[tracing::instrument(level = "debug", name = "executions.events_by_keys", skip_all, fields(count = keys.len()))]
    async fn events_by_keys(
        &self,
        keys: &[EventKey],
        columns: &LargeColumns,
        scope: &Scope,
    ) -> (HashMap<EventKey, Event<Text>>, ReadFailures) {
        let logs: HashSet<Id> = keys.iter().map(|key| Id::new(key.execution_id)).collect();
        let query = |shard, ids: Vec<i64>| async move {
            let ids: HashSet<i64> = ids.into_iter().collect();
            let keys: Vec<EventKey> = keys.iter().filter(|key| ids.contains(&key.execution_id)).copied().collect();
            events::by_keys(shard, scope, &keys, columns).await
        };
        let (found, failed) = rows_by_ids(&self.databases, logs, query).await;
        let key =
            |event: &Event<Text>| EventKey { event_id: event.event_id.get(), execution_id: event.execution_id.get() };
        (found.into_iter().map(|event| (key(&event), event)).collect(), failed)
    }

    #[tracing::instrument(
        level = "debug", name = "executions.logs", skip_all,
        fields(count = executions.len(), first = executions.first().map(tracing::field::display))
    )]
    async fn logs(
        &self,
        executions: &[Id],
        query: &LogQuery,
        scope: &Scope,
    ) -> HashMap<Id, Result<LogPage, ServiceError>> {
        let (mut found, mut failed, mut feeds);
        loop {
            let version;
            (feeds, version) = self.feed_positions(query.joined).await;
            let (feeds_read, map) = (&feeds, &self.databases.map());
            let read = |shard, ids: Vec<i64>| async move {
                pages(shard, &ids, query, scope, published(feeds_read.as_ref(), shard), map).await
            };
            (found, failed) = rows_by_ids(&self.databases, executions.iter().copied(), read).await;
            if feeds.is_none() || self.databases.map().version() == version {
                break;
            }
        }
        let mut found: HashMap<Id, Result<Page<Listed>, Rejection>> = found.into_iter().collect();
        let page = |id: &Id| match failed.get(id) {
            Some(error) => Err(error.clone()),
            None => match found.remove(id) {
                Some(page) => Ok(LogPage { page: page?, feeds: feeds.clone() }),
                None => Ok(LogPage { page: query.request.empty(), feeds: feeds.clone() }),
            },
        };
        executions.iter().map(page).zip(executions).map(|(page, id)| (*id, page)).collect()
    }

    #[tracing::instrument(level = "debug", name = "executions.newest_events", skip_all)]
    async fn newest_events(
        &self,
        filter: &LogFilter,
        columns: &LargeColumns,
        request: &PageRequest<EventPosition>,
        joined: bool,
        scope: &Scope,
    ) -> Result<EventListing, ServiceError> {
        let (views, feeds) = loop {
            let (feeds, version) = self.feed_positions(joined).await;
            let views = self.databases.views();
            if feeds.is_none() || views.iter().all(|view| view.map_version() == version) {
                break (views, feeds);
            }
        };
        let range = request.newest_events_first(filter);
        let feeds_read = feeds.as_ref();
        let reads = views.into_iter().map(|shard| async move {
            let published = published(feeds_read, &shard);
            event_lists::list(shard, scope, filter, columns, range, published).await
        });
        let (mut rows, mut unavailable) = (Vec::new(), Vec::new());
        for (index, read) in (0..).zip(join_all(reads).await) {
            match read {
                Ok(found) => rows.extend(found),
                Err(error) if error.unavailable().is_some() => unavailable.push(index),
                Err(error) => return Err(error.into()),
            }
        }
        rows.sort_unstable_by_key(EventPosition::of);
        if range.descending {
            rows.reverse();
        }
        Ok(EventListing { listing: Listing { page: request.cut(rows), unavailable }, feeds })
    }

    #[tracing::instrument(
        level = "debug", name = "executions.log_totals", skip_all,
        fields(count = executions.len(), first = executions.first().map(tracing::field::display))
    )]
    async fn log_totals(
        &self,
        executions: &[Id],
        filter: &LogFilter,
        limit: i64,
        scope: &Scope,
    ) -> HashMap<Id, Result<Total, ServiceError>> {
        let count = |shard, ids: Vec<i64>| async move { events::count(shard, scope, &ids, filter, limit + 1).await };
        let (counts, failed) = rows_by_ids(&self.databases, executions.iter().copied(), count).await;
        let counts: HashMap<Id, i64> = counts.into_iter().map(|log| (Id::new(log.execution_id), log.count)).collect();
        let total = |id: &Id| match failed.get(id) {
            Some(error) => Err(error.clone()),
            None => Ok(Total::of(counts.get(id).copied().unwrap_or(0), limit)),
        };
        executions.iter().map(|id| (*id, total(id))).collect()
    }

    #[tracing::instrument(level = "debug", name = "executions.event_total", skip_all)]
    async fn event_total(&self, filter: &LogFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError> {
        let count = |shard, limit| event_lists::count(shard, scope, filter, EventRange::all(filter, limit));
        fan_out::total(&self.databases, limit, count).await
    }
}

impl Executions {
    /// Returns the positions of all feeds if a page is to be joined with them, and the version of the bucket map at that
    /// time. A page that is read by another version would not fit: an event of a bucket that has moved would be in both,
    /// or in none of them.
    async fn feed_positions(&self, joined: bool) -> (Option<FeedPositions>, u64) {
        loop {
            let version = self.databases.map().version();
            let positions = self.feed_positions_now(joined).await;
            // A switch that this replica does not know yet may be older than the positions.
            if !joined || !self.databases.is_outdated(version).await {
                return (positions, version);
            }
        }
    }

    async fn feed_positions_now(&self, joined: bool) -> Option<FeedPositions> {
        if !joined {
            return None;
        }
        let position = |shard| async move {
            let read = tail_covered::read(shard).await;
            read.inspect_err(|error| tracing::debug!(%error, "the position of a feed can't be read")).ok().flatten()
        };
        Some(Arc::new(join_all(self.databases.shards().iter().map(|shard| position(shard))).await))
    }
}

/// Returns the snapshot of a shard that sees what its feed has published, if its position is known.
fn published<'a>(feeds: Option<&'a FeedPositions>, shard: &Database) -> Option<&'a TxSnapshot> {
    feeds?.get(usize::from(shard.shard_index()))?.as_ref().map(|covered| &covered.done)
}

/// Reads pages of the logs of one shard. With `within`, they have only events that this snapshot sees. `map` is the
/// bucket map.
async fn pages(
    shard: &Database,
    logs: &[i64],
    query: &LogQuery,
    scope: &Scope,
    within: Option<&TxSnapshot>,
    map: &ShardMap,
) -> Result<Pages, StorageError> {
    let mut refused: HashSet<i64> = HashSet::new();
    if query.filter.text.is_some() {
        refused.extend(events::longer_than(shard, scope, logs, &query.filter, MAX_SEARCHED).await?);
    }
    let searched: Vec<i64> = logs.iter().filter(|log| !refused.contains(log)).copied().collect();
    let mut pages: Pages = refused.into_iter().map(|log| (Id::new(log), Err(too_long()))).collect();
    match &query.request {
        LogRequest::ById(request) => {
            let LogQuery { filter, columns, .. } = query;
            let range = request.oldest_first();
            let rows = events::list(shard, scope, &searched, filter, columns, range, within).await?;
            let listed = rows.into_iter().map(|event| Listed { event, arrival: None });
            pages.extend(by_log(listed).into_iter().map(|(log, events)| (log, Ok(request.cut(events)))));
        }
        LogRequest::ByArrival(request) => {
            pages.extend(arrivals(shard, &searched, query, request, scope, within, map).await?);
        }
    }
    Ok(pages)
}

async fn arrivals(
    shard: &Database,
    logs: &[i64],
    query: &LogQuery,
    request: &PageRequest<Arrival>,
    scope: &Scope,
    within: Option<&TxSnapshot>,
    map: &ShardMap,
) -> Result<Pages, StorageError> {
    let moment = event_arrivals::moment(shard).await?;
    let now = within.unwrap_or(&moment.snapshot);
    if now.in_progress().len() > MAX_OPEN {
        return Ok(logs.iter().map(|log| (Id::new(*log), Err(too_many_open()))).collect());
    }
    let server_of = |log: Id| moment.server_after(map.departures_of(log).len());
    let is_readable = |log: &&i64| request.after.as_ref().is_none_or(|after| after.server == server_of(Id::new(**log)));
    let (logs, elsewhere): (Vec<i64>, Vec<i64>) = logs.iter().partition(is_readable);
    let beginning = Arrival::beginning(moment.server);
    let after = request.after.as_ref().unwrap_or(&beginning);
    let LogQuery { filter, columns, .. } = query;
    let rows = event_arrivals::list(shard, scope, &logs, filter, columns, after, now, request.rows_to_read()).await?;
    let listed = |Arrived { event, tx_id, is_in_next_batch }: Arrived| {
        let (done, target) = if is_in_next_batch { (&after.target, now) } else { (&after.done, &after.target) };
        let (done, target, event_id) = (done.clone(), target.clone(), event.event_id.get());
        let server = server_of(event.execution_id);
        Listed { event, arrival: Some(Arrival { server, done, target, tx_id, event_id }) }
    };
    let pages = by_log(rows.into_iter().map(listed)).into_iter().map(|(log, events)| (log, Ok(request.cut(events))));
    Ok(pages.chain(elsewhere.into_iter().map(|log| (Id::new(log), Err(other_server())))).collect())
}

fn by_log(events: impl Iterator<Item = Listed>) -> HashMap<Id, Vec<Listed>> {
    let mut logs: HashMap<Id, Vec<Listed>> = HashMap::new();
    for listed in events {
        logs.entry(listed.event.execution_id).or_default().push(listed);
    }
    logs
}

fn too_long() -> Rejection {
    let message = format!(
        "a text is searched for in at most {MAX_SEARCHED} events of a log; set createdAfter and createdBefore so that \
         fewer are left"
    );
    Rejection::invalid("filter.text", message)
}

fn other_server() -> Rejection {
    let message = "the cursor is of another database server: the shard was moved, promoted or restored; read the log \
                   from its start";
    Rejection::invalid("after", message)
}

fn too_many_open() -> Rejection {
    let message =
        format!("the database has more than {MAX_OPEN} open transactions; use the order ID, or try again later");
    Rejection::invalid("order", message)
}
