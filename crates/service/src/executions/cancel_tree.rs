//! Cancelling several executions, and the executions that they started.
//!
//! The given executions are cancelled first, then their descendants (see [`super::cancel_walk`]). A failure to read or to
//! cancel one execution does not hide the results of the others.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;

use super::Executions;
use super::cancel_walk::{Stop, Walk};
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::page::{MAX_PAGE, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::execution_lists::ExecutionFilter;
use noetl_storage::executions::ExecutionRow;
use noetl_use_cases::bounds::check_reason;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::executions::{Cancel, CancelledOne, CancelledTree, Cancelling, MAX_CANCELLED, ReadExecutions};
use noetl_use_cases::listing::Listing;

/// Maximum number of executions that are counted for the refusal of a selection.
const MAX_COUNTED: i64 = 100_000;

#[async_trait]
impl Cancel for Executions {
    async fn matching(
        &self,
        filter: &ExecutionFilter,
        scope: &Scope,
    ) -> Result<(Vec<Id>, Vec<ShardIndex>), ServiceError> {
        let mut statuses = filter.statuses.clone().unwrap_or_else(|| Status::ALL.to_vec());
        statuses.retain(|status| !status.is_terminal());
        let filter = &ExecutionFilter { statuses: Some(statuses), ..filter.clone() };
        let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        let (mut matched, mut missing) = (Vec::new(), BTreeSet::new());
        loop {
            let listed = self.list(filter, &request, scope).await;
            let Listing { page, unavailable } = listed.map_err(|error| error.within("select"))?;
            missing.extend(unavailable);
            matched.extend(page.items.iter().map(|row| Id::new(row.execution_id)));
            if matched.len() > MAX_CANCELLED || (page.has_next && matched.len() == MAX_CANCELLED) {
                let total = match self.total(filter, MAX_COUNTED, scope).await {
                    // They can't be counted, but are certainly too many.
                    Err(ServiceError::Rejected(_)) => {
                        Total { value: i64::try_from(MAX_CANCELLED).unwrap_or(i64::MAX), capped: true }
                    }
                    counted => counted?,
                };
                return Err(too_many(total).into());
            }
            if !page.has_next {
                return Ok((matched, missing.into_iter().collect()));
            }
            request.after = page.items.last().map(ExecutionRow::position);
        }
    }

    #[tracing::instrument(
        level = "debug", name = "executions.cancel_all", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display), cascade = cancelling.cascade)
    )]
    async fn cancel_all(&self, ids: Vec<Id>, cancelling: &Cancelling<'_>) -> Result<CancelledTree, ServiceError> {
        check_reason(cancelling.reason)?;
        let mut distinct = ids.clone();
        let mut seen = BTreeSet::new();
        distinct.retain(|id| seen.insert(*id));
        let mut roots = self.cancel_each(distinct, cancelling).await;
        for root in roots.iter_mut().filter(|root| cancelling.cascade && root.has_ended()) {
            root.outcome = Ok(false);
        }
        let walk = if cancelling.cascade {
            // The children of an execution that does not exist in the scope of the caller are not visited.
            let parents = roots.iter().filter(|root| root.outcome.is_ok()).map(|root| root.id).collect();
            self.cancel_descendants(parents, cancelling).await
        } else {
            Walk::default()
        };
        Ok(tree(&ids, roots, walk, cancelling.cascade))
    }
}

fn too_many(total: Total) -> Rejection {
    let more = if total.capped { "more than " } else { "" };
    let message = format!(
        "the selection has {more}{} executions that have not ended; at most {MAX_CANCELLED} are allowed, so narrow it",
        total.value
    );
    Rejection::invalid("select", message)
}

/// Returns the result of a cancellation. `roots` are the results of the distinct `ids`.
fn tree(ids: &[Id], roots: Vec<CancelledOne>, walk: Walk, cascade: bool) -> CancelledTree {
    let results = || roots.iter().chain(&walk.descendants);
    let unavailable: BTreeSet<ShardIndex> =
        results().filter_map(failed_shard).chain(walk.unavailable.iter().copied()).collect();
    let complete = walk.stop.is_none() && unavailable.is_empty() && !results().any(is_unfinished);
    let remains = |root: &&CancelledOne| !complete && (is_unfinished(root) || cascade && root.outcome.is_ok());
    let unfinished = roots.iter().filter(remains).map(|root| root.id).collect();
    let by_id: HashMap<Id, &CancelledOne> = roots.iter().map(|root| (root.id, root)).collect();
    CancelledTree {
        roots: ids.iter().filter_map(|id| by_id.get(id).copied().cloned()).collect(),
        complete,
        unfinished,
        unavailable: unavailable.into_iter().collect(),
        refusal: walk.stop.and_then(Stop::refusal),
        descendants: walk.descendants,
    }
}

/// Returns whether a repeated request may cancel the execution.
fn is_unfinished(one: &CancelledOne) -> bool {
    one.outcome.as_ref().is_err_and(|error| !error.is_rejection())
}

/// Returns the shard that could not be reached in time, if that is the reason it was not cancelled.
fn failed_shard(one: &CancelledOne) -> Option<ShardIndex> {
    let error = one.outcome.as_ref().err()?;
    match error.unavailable().or_else(|| error.timed_out())? {
        DatabaseName::Shard(shard) => Some(shard),
        DatabaseName::Cluster => None,
    }
}
