//! Cancelling one execution, and each of several.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use serde_json::json;

use super::Executions;
use crate::moves::repeated;
use noetl_domain::actor::Actor;
use noetl_domain::event::Event;
use noetl_domain::execution::{CANCELLED, Status, emitted, ended_by};
use noetl_domain::ids::Id;
use noetl_domain::tenant::{Caller, Scope};
use noetl_runtime::clock;
use noetl_storage::executions::{self, ExecutionRow};
use noetl_storage::log::LockedLog;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};
use noetl_use_cases::executions::{CancelledOne, Cancelling, ReadExecutions};
use noetl_use_cases::projections::{AdvanceProjections, ReadProjections};

/// Number of executions that are cancelled at the same time.
const CONCURRENCY: usize = 8;

impl Executions {
    /// Cancels executions concurrently. The results have the order of the ids. A failure to cancel one does not hide the
    /// results of the others.
    pub(super) async fn cancel_each(&self, ids: Vec<Id>, cancelling: &Cancelling<'_>) -> Vec<CancelledOne> {
        let results = stream::iter(ids).map(async |id| {
            let outcome = if cancelling.dry_run {
                self.may_cancel(id, &cancelling.caller.scope).await
            } else {
                self.cancel(id, cancelling.reason, cancelling.caller).await
            };
            CancelledOne { id, outcome }
        });
        results.buffered(CONCURRENCY).collect().await
    }

    /// Cancels an execution that has not ended. If it has only a log, it gets its row in the list first. Returns false
    /// if it was cancelled before; then nothing is written.
    #[tracing::instrument(level = "debug", name = "executions.cancel", skip_all, fields(id = %id))]
    async fn cancel(&self, id: Id, reason: Option<&str>, caller: &Caller) -> Result<bool, ServiceError> {
        repeated(&self.databases, || self.cancel_once(id, reason, caller)).await
    }

    async fn cancel_once(&self, id: Id, reason: Option<&str>, caller: &Caller) -> Result<bool, ServiceError> {
        let shard = self.databases.shard_of(id);
        let row = match executions::by_ids(shard, &caller.scope, &[id.get()]).await?.pop() {
            Some(row) => row,
            None => self.list_from_log(id, &caller.scope).await?,
        };
        let mut log = LockedLog::lock(shard, id).await?;
        let status = log.execution_status().await?.ok_or_else(|| unknown(id))?;
        if !is_open(id, status)? {
            log.confirm().await?;
            return Ok(false);
        }
        let last = log.last_event_id().await?.unwrap_or(id);
        let event_id = self.ids.next_after(last).await?;
        log.append(&[cancellation(&row, event_id, reason, caller.actor.as_ref())]).await?;
        log.mark_cancelled(event_id, reason).await?;
        log.commit().await?;
        self.wake_ups.wake_feed(self.databases.index_of(id));
        Ok(true)
    }

    /// Returns whether a cancellation would change an execution. Refuses one that has ended otherwise.
    async fn may_cancel(&self, id: Id, scope: &Scope) -> Result<bool, ServiceError> {
        let ids = [id];
        let ((mut rows, failed), (mut ends, unread)) =
            tokio::join!(self.by_ids(&ids, scope), self.projections.ends(&ids, scope));
        if let Some(error) = failed.into_values().chain(unread.into_values()).next() {
            return Err(error);
        }
        let row = rows.remove(&id).ok_or_else(|| unknown(id))?;
        // As under the lock of the log: a cancellation is the end, also of an execution with failed events.
        let ended = ends.remove(&id).and_then(|end| ended_by(&end.event_type));
        Ok(is_open(id, ended.unwrap_or_else(|| Status::from_stored(&row.status)))?)
    }

    /// Gives an execution that has only a log its row in the list, and returns the row.
    async fn list_from_log(&self, id: Id, scope: &Scope) -> Result<ExecutionRow, ServiceError> {
        for advanced in self.projections.advance(BTreeSet::from([id]), scope).await.into_values() {
            advanced.map_err(|error| if error.is_rejection() { unknown(id).into() } else { error })?;
        }
        let row = executions::by_ids(self.databases.shard_of(id), scope, &[id.get()]).await?.pop();
        row.ok_or_else(|| unknown(id).into())
    }
}

fn cancellation(row: &ExecutionRow, event_id: Id, reason: Option<&str>, by: Option<&Actor>) -> Event {
    let at = clock::now();
    Event {
        parent_execution_id: row.parent_execution_id.map(Id::new),
        node_id: Some("playbook".to_owned()),
        node_name: row.path.clone(),
        node_type: Some("execution".to_owned()),
        status: Some(Status::Cancelled.as_str().to_owned()),
        context: reason.map(|reason| json!({ "reason": reason })),
        meta: Some(emitted(at, by).into()),
        tenant_id: row.tenant_id.clone(),
        organization_id: row.organization_id.clone(),
        ..Event::bare(Id::new(row.execution_id), event_id, Id::new(row.catalog_id), CANCELLED, at)
    }
}

/// Returns whether an execution can be cancelled; false: it is cancelled.
fn is_open(id: Id, status: Status) -> Result<bool, Rejection> {
    if status.is_terminal() && status != Status::Cancelled {
        let message = format!("execution {id} has ended and can't be cancelled any more");
        return Err(Rejection::new(RejectionCode::InvalidTransition, "executionId", message));
    }
    Ok(status != Status::Cancelled)
}

fn unknown(id: Id) -> Rejection {
    Rejection::not_found("executionId", format!("there is no execution {id}"))
}
