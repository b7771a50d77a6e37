//! Executions of catalog entries, and reruns of executions.

use std::collections::HashMap;

use async_trait::async_trait;

use super::Executions;
use crate::fan_out;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::tenant::Scope;
use noetl_storage::execution_lists::{self, ExecutionFilter, OwnerCount, OwnerKind};
use noetl_storage::executions::ExecutionRow;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::{PagesByOwner, ReadExecutionsOfOwners};

#[async_trait]
impl ReadExecutionsOfOwners for Executions {
    #[tracing::instrument(
        level = "debug", name = "executions.of_owners", skip_all,
        fields(?kind, count = owners.len(), first = owners.first())
    )]
    async fn of_owners(
        &self,
        kind: OwnerKind,
        owners: &[i64],
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<PagesByOwner, ServiceError> {
        let all = ExecutionFilter::default();
        let query = |shard, range| execution_lists::of_owners(shard, scope, kind, owners, &all, range);
        let owner = |row: &ExecutionRow| kind.owner_of(row);
        fan_out::newest_first_grouped(&self.databases, request, ExecutionRow::position, owner, query).await
    }

    #[tracing::instrument(
        level = "debug", name = "executions.owner_totals", skip_all,
        fields(?kind, count = owners.len(), first = owners.first())
    )]
    async fn owner_totals(
        &self,
        kind: OwnerKind,
        owners: &[i64],
        limit: i64,
        scope: &Scope,
    ) -> Result<HashMap<i64, Total>, ServiceError> {
        let all = ExecutionFilter::default();
        let query = |shard| execution_lists::count_of_owners(shard, scope, kind, owners, &all, limit + 1);
        let (counts, _) = fan_out::answers(&self.databases, query).await?;
        Ok(totals(counts.into_iter().flatten(), limit))
    }
}

/// Returns the sum over all shards for each owner.
pub(super) fn totals(counts: impl IntoIterator<Item = OwnerCount>, limit: i64) -> HashMap<i64, Total> {
    let mut sums: HashMap<i64, i64> = HashMap::new();
    for OwnerCount { owner, count } in counts {
        *sums.entry(owner).or_default() += count;
    }
    sums.into_iter().map(|(owner, sum)| (owner, Total::of(sum, limit))).collect()
}
