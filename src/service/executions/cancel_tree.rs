//! Cancelling several executions, and the executions that they started.
//!
//! The executions are cancelled level by level: first the given ones, then their children, then the children of these.
//! So a child that started before its parent was cancelled is found. A repeated request skips what is cancelled, and
//! continues below it.

use std::collections::{BTreeSet, HashSet};

use futures::{StreamExt, stream};

use super::Executions;
use crate::service::bounds::check_reason;
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use crate::service::fan_out::{self, Listing};
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::list_position::CursorPosition;
use noetl_domain::page::{MAX_PAGE, PageRequest};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{Caller, Scope};
use noetl_storage::execution_lists::{self, ExecutionFilter};

/// Maximum number of executions that one request selects, and maximum number of their descendants that it visits.
pub const MAX_CANCELLED: usize = 1000;
/// Number of executions that are cancelled at the same time.
const CONCURRENCY: usize = 8;
/// Number of parents whose children are read at a time.
const PARENTS: usize = 100;

/// Manner of a cancellation.
#[derive(Debug)]
pub struct Cancelling<'a> {
    /// Reason for the logs.
    pub reason: Option<&'a str>,
    /// Whether the descendants are cancelled too.
    pub cascade: bool,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// Caller of the request.
    pub caller: &'a Caller,
}

/// Result for one execution.
#[derive(Debug)]
pub struct CancelledOne {
    /// The execution.
    pub id: Id,
    /// Whether this request cancelled it, or would; false: it was cancelled before. Or the reason it was not cancelled.
    pub outcome: Result<bool, ServiceError>,
}

/// Result of a cancellation.
#[derive(Debug, Default)]
pub struct CancelledTree {
    /// Results of the given executions, in their order.
    pub roots: Vec<CancelledOne>,
    /// Results of the descendants that had not ended, level by level.
    pub descendants: Vec<CancelledOne>,
    /// Whether all descendants were visited.
    pub complete: bool,
    /// Shards whose executions were not visited.
    pub unavailable: Vec<ShardIndex>,
}

impl Executions {
    /// Returns the executions in the scope that match a filter, newest first, and the shards that could not be read.
    /// Refuses a filter that more than [`MAX_CANCELLED`] match.
    pub async fn matching(
        &self,
        filter: &ExecutionFilter,
        scope: &Scope,
    ) -> Result<(Vec<Id>, Vec<ShardIndex>), ServiceError> {
        let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        let (mut matched, mut missing) = (Vec::new(), BTreeSet::new());
        loop {
            let Listing { page, unavailable } = self.list(filter, &request, scope).await?;
            missing.extend(unavailable);
            matched.extend(page.items.iter().map(|row| Id::new(row.execution_id)));
            if matched.len() > MAX_CANCELLED || (page.has_next && matched.len() == MAX_CANCELLED) {
                let message = format!("the selector matches more than {MAX_CANCELLED} executions; narrow it");
                return Err(Rejection::invalid("select", message).into());
            }
            if !page.has_next {
                return Ok((matched, missing.into_iter().collect()));
            }
            request.after = page.items.last().map(|row| CursorPosition::Exact(row.position()));
        }
    }

    /// Cancels executions, and with `cascade` their descendants.
    #[tracing::instrument(
        level = "debug", name = "executions.cancel_all", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display), cascade = cancelling.cascade)
    )]
    pub async fn cancel_all(&self, ids: Vec<Id>, cancelling: &Cancelling<'_>) -> Result<CancelledTree, ServiceError> {
        check_reason(cancelling.reason)?;
        let mut visited: HashSet<Id> = ids.iter().copied().collect();
        let roots = self.cancel_each(ids, cancelling).await;
        // The children of an execution that does not exist in the scope of the caller are not visited.
        let exists = |one: &&CancelledOne| !matches!(&one.outcome, Err(error) if !has_ended(error));
        let mut level: Vec<Id> = roots.iter().filter(exists).map(|one| one.id).collect();
        let mut tree = CancelledTree { roots, complete: true, ..CancelledTree::default() };
        let (mut missing, most) = (BTreeSet::new(), visited.len() + MAX_CANCELLED);
        while cancelling.cascade && !level.is_empty() {
            let (children, unavailable) = self.children_of(&level, &cancelling.caller.scope).await?;
            missing.extend(unavailable);
            let mut new: Vec<_> = children.into_iter().filter(|child| visited.insert(child.id)).collect();
            let excess = visited.len().saturating_sub(most);
            new.truncate(new.len().saturating_sub(excess));
            tree.complete &= excess == 0;
            level = if excess == 0 { new.iter().map(|child| child.id).collect() } else { Vec::new() };
            let open = new.into_iter().filter(|child| !child.status.is_terminal()).map(|child| child.id).collect();
            let cancelled = self.cancel_each(open, cancelling).await;
            // A child that ended meanwhile needs no cancellation.
            let is_result = |one: &CancelledOne| !matches!(&one.outcome, Err(error) if has_ended(error));
            tree.descendants.extend(cancelled.into_iter().filter(is_result));
        }
        tree.complete &= missing.is_empty();
        tree.unavailable = missing.into_iter().collect();
        Ok(tree)
    }

    /// Cancels executions concurrently. The results have the order of the ids.
    async fn cancel_each(&self, ids: Vec<Id>, cancelling: &Cancelling<'_>) -> Vec<CancelledOne> {
        let results = stream::iter(ids).map(async |id| {
            let outcome = if cancelling.dry_run {
                self.may_cancel(id, &cancelling.caller.scope).await
            } else {
                self.cancel(id, cancelling.reason.map(str::to_owned), cancelling.caller).await
            };
            CancelledOne { id, outcome }
        });
        results.buffered(CONCURRENCY).collect().await
    }

    /// Returns the children of executions over all shards, and the shards that could not be read. If there are more than
    /// can be visited, at least one more is returned.
    async fn children_of(
        &self,
        parents: &[Id],
        scope: &Scope,
    ) -> Result<(Vec<ChildExecution>, Vec<ShardIndex>), ServiceError> {
        let limit = i64::try_from(MAX_CANCELLED).unwrap_or(i64::MAX) + 1;
        let (mut children, mut missing) = (Vec::new(), Vec::new());
        for parents in parents.chunks(PARENTS) {
            let parents: Vec<i64> = parents.iter().map(|id| id.get()).collect();
            let query = |shard| execution_lists::child_ids(shard, scope, &parents, limit);
            let (found, unavailable) = fan_out::answers(&self.databases, query).await?;
            let child = |row: execution_lists::Child| ChildExecution {
                id: Id::new(row.execution_id),
                status: Status::from_stored(&row.status),
            };
            children.extend(found.into_iter().flatten().map(child));
            missing.extend(unavailable);
        }
        Ok((children, missing))
    }
}

/// A child of an execution.
struct ChildExecution {
    id: Id,
    status: Status,
}

/// Returns whether an execution was not cancelled because it has ended.
fn has_ended(error: &ServiceError) -> bool {
    matches!(error, ServiceError::Rejected(rejection) if rejection.code == RejectionCode::InvalidTransition)
}
