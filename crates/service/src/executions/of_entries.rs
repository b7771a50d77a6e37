//! Executions of catalog entries.

use std::collections::HashMap;

use async_trait::async_trait;

use super::Executions;
use crate::fan_out;
use noetl_domain::list_position::CursorPosition;
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::tenant::Scope;
use noetl_storage::execution_lists::{self, OwnerCount};
use noetl_storage::executions::ExecutionRow;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::{PagesByOwner, ReadExecutionsOfEntries};

#[async_trait]
impl ReadExecutionsOfEntries for Executions {
    #[tracing::instrument(
        level = "debug", name = "executions.of_entries", skip_all,
        fields(count = entries.len(), first = entries.first())
    )]
    async fn of_entries(
        &self,
        entries: &[i64],
        request: &PageRequest<CursorPosition>,
        scope: &Scope,
    ) -> Result<PagesByOwner, ServiceError> {
        let request = self.positioned(request, scope).await?;
        let query = |shard, range| execution_lists::of_entries(shard, scope, entries, range);
        let entry = |row: &ExecutionRow| row.catalog_id;
        fan_out::newest_first_grouped(&self.databases, &request, ExecutionRow::position, entry, query).await
    }

    #[tracing::instrument(
        level = "debug", name = "executions.entry_totals", skip_all,
        fields(count = entries.len(), first = entries.first())
    )]
    async fn entry_totals(
        &self,
        entries: &[i64],
        limit: i64,
        scope: &Scope,
    ) -> Result<HashMap<i64, Total>, ServiceError> {
        let query = |shard| execution_lists::count_of_entries(shard, scope, entries, limit + 1);
        let (counts, _) = fan_out::answers(&self.databases, query).await?;
        let mut sums: HashMap<i64, i64> = HashMap::new();
        for OwnerCount { owner, count } in counts.into_iter().flatten() {
            *sums.entry(owner).or_default() += count;
        }
        Ok(sums.into_iter().map(|(entry, sum)| (entry, Total::of(sum, limit))).collect())
    }
}
