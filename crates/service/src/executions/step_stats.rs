//! Statistics of the steps of a path, from the states of its executions.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::Executions;
use noetl_domain::execution::Status;
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::page::{MAX_PAGE, PageRequest};
use noetl_domain::shard::ShardIndex;
use noetl_domain::step_stats::StepSums;
use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::execution_lists::ExecutionFilter;
use noetl_storage::executions::ExecutionRow;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::{PathSteps, PathStepsRequest, ReadExecutions, ReadStepStats};
use noetl_use_cases::listing::Listing;
use noetl_use_cases::projections::ReadProjections;

/// Maximum number of steps in the result.
const MAX_STEPS: usize = 200;

#[async_trait]
impl ReadStepStats for Executions {
    /// Reads the states in pages, and keeps only the sums. The operation's budget bounds the bytes that are read.
    #[tracing::instrument(level = "debug", name = "executions.step_stats", skip_all)]
    async fn step_stats(&self, request: &PathStepsRequest, scope: &Scope) -> Result<PathSteps, ServiceError> {
        let filter = ExecutionFilter {
            statuses: Some(Status::ALL.into_iter().filter(|status| status.is_terminal()).collect()),
            paths: Some(vec![request.path.clone()]),
            ..ExecutionFilter::default()
        };
        let (mut sums, mut missing) = (StepSums::default(), BTreeSet::new());
        let (mut left, mut after) = (request.last, None);
        while left > 0 {
            let page = PageRequest { limit: left.min(MAX_PAGE), backwards: false, after, before: None };
            left -= page.limit;
            let Listing { page, unavailable } = self.list(&filter, ExecutionOrder::Newest, &page, scope).await?;
            missing.extend(unavailable);
            let ids: Vec<Id> = page.items.iter().map(|row| Id::new(row.execution_id)).collect();
            let (states, failed) = self.projections.read(&ids, scope).await;
            for error in failed.into_values() {
                missing.insert(unreachable_shard(error)?);
            }
            for state in ids.iter().filter_map(|id| states.get(id)) {
                sums.add(state.execution_id, &state.projection.state);
            }
            after = page.items.last().map(ExecutionRow::position);
            if !page.has_next {
                break;
            }
        }
        Ok(PathSteps { stats: sums.stats(MAX_STEPS), unavailable: missing.into_iter().collect() })
    }
}

/// Returns the shard that could not be reached, if that is the cause.
fn unreachable_shard(error: ServiceError) -> Result<ShardIndex, ServiceError> {
    match error.unavailable() {
        Some(DatabaseName::Shard(shard)) => Ok(shard),
        Some(DatabaseName::Cluster) | None => Err(error),
    }
}
