//! Live changes of an execution.

use std::time::Duration;

use async_graphql::Result;
use async_stream::try_stream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};

use crate::feed::read::hub::Hub;
use crate::feed::read::reader::{self, Interest, Item, Shards, Start};
use crate::feed::wire::cursor::Position;
use crate::graphql::deadline::with_deadline;
use crate::graphql::errors::field_error;
use crate::graphql::live::{read_error, wait_until_caught_up};
use crate::graphql::shared_reads::{Read, SharedReads};
use crate::service::error::Rejection;
use crate::service::executions::Executions;
use noetl_domain::event::EventFilter;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::executions::ExecutionRow;

/// Reads of executions that their readers share.
pub type ExecutionReads = SharedReads<(Id, Scope), ExecutionRow>;

/// What a reader of an execution needs.
pub(super) struct Watch {
    pub(super) hub: Hub,
    pub(super) executions: Executions,
    pub(super) reads: ExecutionReads,
    pub(super) scope: Scope,
    /// The execution.
    pub(super) id: Id,
    /// Shard of the execution; the reader reads only its feed.
    pub(super) shard: ShardIndex,
    /// Maximum time of a read.
    pub(super) deadline: Duration,
}

/// Returns the execution in its current state, and again after each change. Only the execution must be in the scope: an
/// event of its log that another program wrote can have another tenant. The feed is joined before the execution is
/// read, so no change is missed. Changes that arrive during a read are combined.
pub(super) fn changes(watch: Watch) -> impl Stream<Item = Result<Read<ExecutionRow>>> + Send {
    let filter = EventFilter { execution_ids: Some(vec![watch.id]), ..EventFilter::default() };
    let own = Interest { filter, scope: Scope::Unrestricted };
    try_stream! {
        let mut feed = reader::read(watch.hub.clone(), Start::Latest, own, Shards::One(watch.shard)).boxed();
        let joined = wait_until_caught_up(&mut feed).await?;
        let mut position = joined.positions.get(usize::from(watch.shard)).copied().unwrap_or_default();
        yield watch.read(position).await?;
        while let Some(item) = feed.try_next().await.map_err(read_error)? {
            let mut changed = change(&item);
            while let Some(Some(item)) = feed.next().now_or_never() {
                changed = changed.max(change(&item.map_err(read_error)?));
            }
            if let Some(changed) = changed {
                position = position.max(changed);
                yield watch.read(position).await?;
            }
        }
    }
}

/// Returns the position after a change of the execution; `None` for an item that is none. A gap may hide a change.
fn change(item: &Item) -> Option<Position> {
    match item {
        Item::Event { position, .. } => Some(*position),
        Item::Gap { gap, .. } => Some(gap.position),
        Item::CaughtUp { .. } | Item::Heartbeat { .. } => None,
    }
}

impl Watch {
    /// Reads the execution with all changes up to a position of its shard.
    async fn read(&self, position: Position) -> Result<Read<ExecutionRow>> {
        let (executions, id, scope) = (self.executions.clone(), self.id, self.scope.clone());
        let read = move || async move { row(&executions, id, &scope).await };
        with_deadline(self.deadline, self.reads.read((self.id, self.scope.clone()), position, read)).await
    }
}

async fn row(executions: &Executions, id: Id, scope: &Scope) -> Result<ExecutionRow> {
    let (mut rows, failed) = executions.by_ids(&[id], scope).await;
    if let Some(error) = failed.into_values().next() {
        return Err(field_error(error));
    }
    rows.remove(&id).ok_or_else(|| field_error(Rejection::not_found("id", format!("there is no execution {id}"))))
}
