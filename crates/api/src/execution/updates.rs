//! Updates of one execution, and of a list of executions.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::Result;
use async_stream::try_stream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tokio::time::sleep;

use super::current::{self, CurrentExecution};
use crate::context::Services;
use crate::deadline::with_deadline;
use crate::errors::field_error;
use crate::live::{read_error, wait_until_caught_up};
use crate::shared_reads::{Read, Wanted};
use crate::updates::list::{Followed, ObjectReads, PageReads, Row};
use crate::updates::{Found, Update, UpdateKind};
use noetl_domain::event::EventFilter;
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_feed::read::hub::Hub;
use noetl_feed::read::reader::{self, Interest, Item, ReadError, Shards, Since, Start};
use noetl_feed::wire::cursor::Position;
use noetl_runtime::clock;
use noetl_storage::execution_lists::ExecutionFilter;
use noetl_storage::snapshots::Projected;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::listing::Listing;

/// Reads of executions that their readers share.
pub type ExecutionReads = ObjectReads<CurrentExecution>;
/// Reads of pages of executions that readers share.
pub type ExecutionPages = PageReads<FollowedExecutions>;

/// Time between two attempts to read an execution whose shard can't be read.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum time for which the list of executions may lack an event. A reader of a list receives the events of this time
/// again.
const LIST_DELAY: Duration = Duration::from_secs(10);

/// Data that a reader of one execution needs.
pub(super) struct Watch {
    pub(super) hub: Hub,
    pub(super) services: Services,
    pub(super) reads: ExecutionReads,
    pub(super) scope: Scope,
    /// The execution.
    pub(super) id: Id,
    /// Shard of the execution.
    pub(super) shard: ShardIndex,
    /// Maximum time of a read.
    pub(super) deadline: Duration,
}

/// Changes of an execution.
#[derive(Debug, Clone, Copy)]
struct Changes {
    /// Shard of the last change. It changes when the bucket of the execution moves.
    shard: ShardIndex,
    /// Position of the last change in the feed of the shard.
    position: Position,
    /// Whether events are missing.
    gap: bool,
}

/// Returns the execution in its current state, and again after each change until it has ended. Only the execution must
/// be in the scope: an event of its log that another program wrote can have another tenant. The feed is joined before
/// the execution is read, so no change is missed. Changes that arrive during a read are combined.
pub(super) fn updates(watch: Watch) -> impl Stream<Item = Result<Update<CurrentExecution>>> + Send {
    let filter = EventFilter { execution_ids: Some(vec![watch.id]), ..EventFilter::default() };
    let own = Interest { filter, scope: Scope::Unrestricted };
    try_stream! {
        let mut feed = reader::read(watch.hub.clone(), Start::Latest, own, Shards::Of(watch.id)).boxed();
        let joined = wait_until_caught_up(&mut feed).await?;
        let position = joined.positions.get(usize::from(watch.shard)).copied().unwrap_or_default();
        let mut changes = Changes { shard: watch.shard, position, gap: false };
        let (mut kind, mut reported) = (UpdateKind::Current, false);
        loop {
            let Read { number, value } = watch.read(changes).await?;
            match value {
                Found::Row(row) => {
                    let ended = row.has_ended();
                    let shown = if ended { UpdateKind::Ended } else { kind };
                    yield Update { read: Some(number), ..Update::of(shown, watch.id, Some(row)) };
                    if ended {
                        return;
                    }
                    reported = false;
                    changes = next_changes(&mut feed, changes).await?;
                    kind = if changes.gap { UpdateKind::Current } else { UpdateKind::Changed };
                    if changes.gap {
                        yield Update::gap(changes.shard);
                    }
                }
                Found::Missing => Err(watch.not_found())?,
                Found::Unavailable => {
                    if !reported {
                        yield Update::gap(changes.shard);
                    }
                    (kind, reported) = (UpdateKind::Current, true);
                    sleep(RETRY).await;
                }
            }
        }
    }
}

/// Waits for the next changes.
async fn next_changes(
    feed: &mut (impl Stream<Item = Result<Item, ReadError>> + Unpin),
    before: Changes,
) -> Result<Changes> {
    let mut changes = Changes { gap: false, ..before };
    loop {
        let item = feed.try_next().await.map_err(read_error)?;
        let mut is_change = item.is_some_and(|item| changes.add(item));
        while let Some(Some(item)) = feed.next().now_or_never() {
            is_change |= changes.add(item.map_err(read_error)?);
        }
        if is_change {
            return Ok(changes);
        }
    }
}

impl Changes {
    fn reach(&mut self, shard: ShardIndex, position: Position) {
        let before = if shard == self.shard { self.position } else { Position::default() };
        (self.shard, self.position) = (shard, before.max(position));
    }

    /// Adds an item. Returns whether it is a change.
    fn add(&mut self, item: Item) -> bool {
        match item {
            Item::Event { shard, position, .. } => {
                self.reach(shard, position);
                true
            }
            Item::Gap { shard, gap, .. } => {
                self.reach(shard, gap.position);
                self.gap = true;
                true
            }
            Item::CaughtUp { .. } | Item::Heartbeat { .. } => false,
        }
    }
}

impl Watch {
    /// Reads the execution with these changes.
    async fn read(&self, changes: Changes) -> Result<Read<Found<CurrentExecution>>> {
        let (id, services, scope) = (self.id, self.services.clone(), self.scope.clone());
        let read = move |_: Vec<usize>| async move { current::read(&services, &[id], &scope).await };
        let wanted = Wanted { key: (self.id, changes.shard, self.scope.clone()), position: changes.position };
        let found = with_deadline(self.deadline, self.reads.read_all(vec![wanted], read)).await?;
        found.into_iter().next().ok_or_else(|| self.not_found())
    }

    fn not_found(&self) -> async_graphql::Error {
        field_error(Rejection::not_found("executionId", format!("there is no execution {}", self.id)))
    }
}

/// The list of executions, for readers that follow it.
#[derive(Debug)]
pub enum FollowedExecutions {}

impl Followed for FollowedExecutions {
    type Row = CurrentExecution;
    type Filter = ExecutionFilter;
    const EACH_EVENT: bool = false;

    fn interest() -> Interest {
        Interest { filter: EventFilter::default(), scope: Scope::Unrestricted }
    }

    fn start() -> Start {
        let now = clock::now();
        Start::Since(Since { time: now - LIST_DELAY, now })
    }

    fn can_leave(filter: &ExecutionFilter) -> bool {
        filter.can_stop_matching()
    }

    fn matches(filter: &ExecutionFilter, row: &CurrentExecution) -> bool {
        // An execution without its state is shown as the list has it, which has compared the error.
        let has_error = |state: &Arc<Projected>| filter.matches_error(|| state.projection.state.end()?.error);
        filter.matches(&row.row) && row.state.as_ref().is_none_or(has_error)
    }

    async fn page(
        services: &Services,
        filter: &ExecutionFilter,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<Listing<CurrentExecution>, ServiceError> {
        let Listing { page, unavailable } =
            services.executions.list(filter, ExecutionOrder::Newest, request, scope).await?;
        let items = current::of_list(services, page.items, scope).await;
        Ok(Listing { page: Page { items, has_next: page.has_next, has_previous: page.has_previous }, unavailable })
    }

    async fn count(
        services: &Services,
        filter: &ExecutionFilter,
        scope: &Scope,
        limit: i64,
    ) -> Result<Total, ServiceError> {
        services.executions.total(filter, limit, scope).await
    }

    async fn read(services: &Services, ids: &[Id], scope: &Scope) -> Result<Vec<Found<CurrentExecution>>> {
        current::read(services, ids, scope).await
    }
}
