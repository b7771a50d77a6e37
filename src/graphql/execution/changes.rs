//! Live changes of an execution.

use std::time::Duration;

use async_graphql::Result;
use async_stream::try_stream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};

use crate::feed::read::hub::Hub;
use crate::feed::read::reader::{self, Item, Start};
use crate::graphql::deadline::with_deadline;
use crate::graphql::errors::field_error;
use crate::graphql::live::{read_error, wait_until_caught_up};
use crate::service::error::Rejection;
use crate::service::executions::Executions;
use noetl_domain::event::EventFilter;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;
use noetl_storage::executions::ExecutionRow;

/// Returns the execution in its current state, and again after each change. Only the execution must be in the scope: an
/// event of its log that another program wrote can have another tenant. The feed is joined before the execution is
/// read, so no change is missed. Changes that arrive during a read are combined.
pub(super) fn changes(
    hub: Hub,
    executions: Executions,
    scope: Scope,
    id: Id,
    deadline: Duration,
) -> impl Stream<Item = Result<ExecutionRow>> + Send {
    let own = EventFilter { execution_ids: Some(vec![id]), ..EventFilter::default() };
    try_stream! {
        let mut feed = reader::read(hub, Start::Latest, Scope::Unrestricted, own).boxed();
        wait_until_caught_up(&mut feed).await?;
        yield with_deadline(deadline, row(&executions, id, &scope)).await?;
        while let Some(item) = feed.try_next().await.map_err(read_error)? {
            let mut changed = may_change_execution(&item);
            while let Some(Some(item)) = feed.next().now_or_never() {
                changed |= may_change_execution(&item.map_err(read_error)?);
            }
            if changed {
                yield with_deadline(deadline, row(&executions, id, &scope)).await?;
            }
        }
    }
}

/// Returns whether an item means that the execution may have changed. A gap may hide a change.
fn may_change_execution(item: &Item) -> bool {
    matches!(item, Item::Event { .. } | Item::Gap { .. })
}

async fn row(executions: &Executions, id: Id, scope: &Scope) -> Result<ExecutionRow> {
    let (mut rows, failed) = executions.by_ids(&[id], scope).await;
    if let Some(error) = failed.into_values().next() {
        return Err(field_error(error));
    }
    rows.remove(&id).ok_or_else(|| field_error(Rejection::not_found("id", format!("there is no execution {id}"))))
}
