//! The walk over the descendants of executions that are cancelled.
//!
//! The walk goes down level by level: first the children of the given executions, then the children of these. So a child
//! that started before its parent was cancelled is found. It passes through executions that have ended, because they can
//! have descendants that have not ended. Of the children of a level, those that have not ended come first.
//!
//! Only executions that have not ended count against the limit of cancellations. So a repeated request skips what was
//! cancelled before, and continues below it.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;

use futures::future::join_all;

use super::Executions;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::budget::uncharged;
use noetl_storage::execution_lists::{self, Child};
use noetl_use_cases::error::Rejection;
use noetl_use_cases::executions::{CancelledOne, Cancelling, MAX_CANCELLED};

/// Maximum number of executions that one walk visits. It takes a few seconds, and a few megabytes of memory.
const MAX_VISITED: usize = 100_000;
/// Number of parents whose children are read at a time.
const PARENTS: usize = 1000;
/// Number of children that one statement reads on each shard.
const PAGE: usize = 1000;

/// Reason that a walk ended before it visited all descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has cancelled [`MAX_CANCELLED`] executions, and more have not ended.
    Cancelled,
    /// It has visited [`MAX_VISITED`] executions. A repeated request stops here too, once all that it visits have ended.
    Visited,
}

impl Stop {
    /// Returns the reason that a repeated request may not go further; `None`: it continues.
    pub(super) fn refusal(self) -> Option<Rejection> {
        let message = format!(
            "a cascade visits at most {MAX_VISITED} executions, and there are more; cancel those below them by their \
             own ids, or with cancelExecutions and a filter"
        );
        (self == Self::Visited).then(|| Rejection::invalid("cascade", message))
    }
}

/// Walk over descendants.
#[derive(Debug, Default)]
pub(super) struct Walk {
    visited: HashSet<Id>,
    /// Results of the descendants that had not ended, level by level.
    pub(super) descendants: Vec<CancelledOne>,
    /// Shards whose executions could not be read.
    pub(super) unavailable: BTreeSet<ShardIndex>,
    /// Reason that not all descendants on the other shards were visited.
    pub(super) stop: Option<Stop>,
}

/// Children of one level, those that have not ended first.
struct Page {
    children: Vec<Child>,
    has_next: bool,
}

impl Executions {
    /// Cancels the descendants of executions.
    pub(super) async fn cancel_descendants(&self, parents: Vec<Id>, cancelling: &Cancelling<'_>) -> Walk {
        let mut walk = Walk { visited: parents.iter().copied().collect(), ..Walk::default() };
        let mut level = parents;
        while !level.is_empty() && walk.stop.is_none() {
            let mut next = Vec::new();
            for parents in level.chunks(PARENTS) {
                next.extend(self.cancel_children(parents, &mut walk, cancelling).await);
            }
            level = next;
        }
        walk
    }

    /// Cancels the children of executions, unless the walk has stopped. Returns the children that were not visited
    /// before.
    async fn cancel_children(&self, parents: &[Id], walk: &mut Walk, cancelling: &Cancelling<'_>) -> Vec<Id> {
        let (mut found, mut after) = (Vec::new(), Some(Child::FIRST));
        while let (Some(position), None) = (after, walk.stop) {
            let page = self.children_after(position, parents, walk, &cancelling.caller.scope).await;
            after = page.children.last().copied().filter(|_| page.has_next);
            let is_new = |child: &Child| walk.visited.insert(Id::new(child.execution_id));
            let new: Vec<Child> = page.children.into_iter().filter(is_new).collect();
            let open = new.iter().filter(|child| !child.ended).map(|child| Id::new(child.execution_id)).collect();
            self.cancel_open(open, walk, cancelling).await;
            found.extend(new.iter().map(|child| Id::new(child.execution_id)));
            if walk.visited.len() > MAX_VISITED {
                walk.stop.get_or_insert(Stop::Visited);
            }
        }
        found
    }

    /// Cancels executions that had not ended when they were read, until the walk has cancelled [`MAX_CANCELLED`].
    async fn cancel_open(&self, mut open: Vec<Id>, walk: &mut Walk, cancelling: &Cancelling<'_>) {
        while !open.is_empty() {
            let room = MAX_CANCELLED.saturating_sub(walk.descendants.len());
            if room == 0 {
                walk.stop = Some(Stop::Cancelled);
                return;
            }
            let batch = open.drain(..room.min(open.len())).collect();
            let results = self.cancel_each(batch, cancelling).await;
            // An execution that ended or was cancelled meanwhile needs no cancellation.
            let is_result = |one: &CancelledOne| !one.has_ended() && !matches!(one.outcome, Ok(false));
            walk.descendants.extend(results.into_iter().filter(is_result));
        }
    }

    /// Returns a page of the children of executions on all shards that did not fail before.
    async fn children_after(&self, after: Child, parents: &[Id], walk: &mut Walk, scope: &Scope) -> Page {
        let parents: Vec<i64> = parents.iter().map(|id| id.get()).collect();
        let limit = i64::try_from(PAGE + 1).unwrap_or(i64::MAX);
        let shards = (0..).zip(self.databases.views()).filter(|(index, _)| !walk.unavailable.contains(index));
        let reads = shards.map(|(index, shard)| {
            let children = execution_lists::child_ids(shard, scope, &parents, after, limit);
            // The walk has its own limit.
            async move { (index, uncharged(children).await) }
        });
        let mut children = Vec::new();
        for (shard, read) in join_all(reads).await {
            match read {
                Ok(found) => children.extend(found),
                Err(error) => {
                    if !error.is_temporary() {
                        let error: &dyn Error = &error;
                        tracing::error!(shard, error, "could not read the children of executions to cancel");
                    }
                    walk.unavailable.insert(shard);
                }
            }
        }
        children.sort_unstable();
        let has_next = children.len() > PAGE;
        children.truncate(PAGE);
        Page { children, has_next }
    }
}
