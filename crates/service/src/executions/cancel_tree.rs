//! Cancelling several executions, and the executions that they started.
//!
//! The given executions are cancelled first, then their descendants (see [`super::cancel_walk`]). A failure to read or to
//! cancel one execution does not hide the results of the others.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;

use super::Executions;
use super::cancel_walk::{Stop, Walk};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_use_cases::bounds::check_reason;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::{Cancel, CancelledOne, CancelledTree, Cancelling};

#[async_trait]
impl Cancel for Executions {
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

/// Returns the result of a cancellation. `roots` are the results of the distinct `ids`.
fn tree(ids: &[Id], roots: Vec<CancelledOne>, walk: Walk, cascade: bool) -> CancelledTree {
    let results = || roots.iter().chain(&walk.descendants);
    let unavailable: BTreeSet<ShardIndex> = results()
        .filter_map(|one| one.outcome.as_ref().err()?.failed_shard())
        .chain(walk.unavailable.iter().copied())
        .collect();
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
