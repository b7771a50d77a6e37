//! Reading executions.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::Executions;
use super::of_owners::totals;
use crate::fan_out;
use crate::shards::rows_by_ids;
use noetl_domain::event::{Event, EventKey};
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::tenant::Scope;
use noetl_storage::events::{self, FirstEvent, LargeColumns};
use noetl_storage::execution_lists::{self, ExecutionFilter, OwnerKind};
use noetl_storage::executions::{self, ExecutionRow};
use noetl_use_cases::error::{ReadFailures, Rejection, ServiceError};
use noetl_use_cases::executions::{ExecutionStats, PagesByOwner, ReadExecutions, ReadLogs};
use noetl_use_cases::listing::Listing;
use plain_json::Text;

/// Maximum number of executions of a shard whose ids begin with the digits of a filter.
const MAX_WITH_PREFIX: i64 = 5000;

#[async_trait]
impl ReadExecutions for Executions {
    #[tracing::instrument(
        level = "debug", name = "executions.by_ids", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    async fn by_ids(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, ExecutionRow>, ReadFailures) {
        let query = |shard, ids: Vec<i64>| async move { executions::by_ids(shard, scope, &ids).await };
        let (rows, mut failed) = rows_by_ids(&self.databases, ids.iter().copied(), query).await;
        let mut found: HashMap<Id, ExecutionRow> =
            rows.into_iter().map(|row| (Id::new(row.execution_id), row)).collect();
        let is_missing = |id: &Id| !found.contains_key(id) && !failed.contains_key(id);
        let unlisted: Vec<Id> = ids.iter().copied().filter(is_missing).collect();
        if !unlisted.is_empty() {
            let (from_logs, failures) = self.projections.unlisted(&unlisted, scope).await;
            found.extend(from_logs);
            failed.extend(failures);
        }
        (found, failed)
    }

    #[tracing::instrument(level = "debug", name = "executions.list", skip_all)]
    async fn list(
        &self,
        filter: &ExecutionFilter,
        order: ExecutionOrder,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<Listing<ExecutionRow>, ServiceError> {
        if let Some(condition) = filter.refused_by(order) {
            let message = format!(
                "{} is not offered with the condition {condition}; leave it out, or use NEWEST or OLDEST",
                order.as_str()
            );
            return Err(Rejection::invalid("order", message).into());
        }
        let query = |shard, range| execution_lists::list(shard, scope, filter, order, range);
        let position = |row: &ExecutionRow| row.position_in(order);
        fan_out::in_range(&self.databases, request, order.range(request), position, query).await
    }

    async fn check_id_prefix(&self, field: &str, digits: &str) -> Result<(), ServiceError> {
        let more = |shard| execution_lists::more_ids_than(shard, MAX_WITH_PREFIX, digits);
        let (more, _) = fan_out::answers(&self.databases, more).await?;
        if more.contains(&true) {
            let message = format!("idPrefix must have more digits: more than {MAX_WITH_PREFIX} executions have these");
            return Err(Rejection::invalid(field, message).into());
        }
        Ok(())
    }

    #[tracing::instrument(level = "debug", name = "executions.total", skip_all)]
    async fn total(&self, filter: &ExecutionFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError> {
        fan_out::total(&self.databases, limit, |shard, limit| execution_lists::count(shard, scope, filter, limit)).await
    }

    #[tracing::instrument(level = "debug", name = "executions.stats", skip_all)]
    async fn stats(&self, filter: &ExecutionFilter, scope: &Scope) -> Result<ExecutionStats, ServiceError> {
        let (executions, paths) = (ExecutionStats::MAX_COUNTED + 1, ExecutionStats::MAX_PATHS + 1);
        let query = |shard| execution_lists::stats(shard, scope, filter, executions, paths);
        let (groups, unavailable) = fan_out::answers(&self.databases, query).await?;
        Ok(ExecutionStats::of_shards(groups, unavailable))
    }

    #[tracing::instrument(
        level = "debug", name = "executions.children_totals", skip_all,
        fields(count = parents.len(), first = parents.first().map(tracing::field::display))
    )]
    async fn children_totals(
        &self,
        parents: &[Id],
        filter: &ExecutionFilter,
        limit: i64,
        scope: &Scope,
    ) -> Result<HashMap<Id, Total>, ServiceError> {
        let parents: Vec<i64> = parents.iter().map(|id| id.get()).collect();
        let kind = OwnerKind::Parent;
        let query = |shard| execution_lists::count_of_owners(shard, scope, kind, &parents, filter, limit + 1);
        let (counts, _) = fan_out::answers(&self.databases, query).await?;
        let totals = totals(counts.into_iter().flatten(), limit);
        Ok(totals.into_iter().map(|(parent, total)| (Id::new(parent), total)).collect())
    }

    #[tracing::instrument(
        level = "debug", name = "executions.children", skip_all,
        fields(count = parents.len(), first = parents.first().map(tracing::field::display))
    )]
    async fn children(
        &self,
        parents: &[Id],
        filter: &ExecutionFilter,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<PagesByOwner, ServiceError> {
        let parents: Vec<i64> = parents.iter().map(|id| id.get()).collect();
        let kind = OwnerKind::Parent;
        let query = |shard, range| execution_lists::of_owners(shard, scope, kind, &parents, filter, range);
        let parent = |row: &ExecutionRow| kind.owner_of(row);
        fan_out::newest_first_grouped(&self.databases, request, ExecutionRow::position, parent, query).await
    }

    #[tracing::instrument(
        level = "debug", name = "executions.log_heads", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    async fn log_heads(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, Arc<FirstEvent>>, ReadFailures) {
        self.heads(ids.iter().copied(), scope).await
    }

    async fn workloads(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, Text>, ReadFailures) {
        let query = |shard, ids: Vec<i64>| async move { events::workloads(shard, scope, &ids).await };
        let (found, failed) = rows_by_ids(&self.databases, ids.iter().copied(), query).await;
        (found.into_iter().map(|(id, workload)| (Id::new(id), workload)).collect(), failed)
    }

    async fn results(&self, events: &[(Id, Id)], scope: &Scope) -> (HashMap<(Id, Id), Text>, ReadFailures) {
        let columns = LargeColumns::wanted(|column| column == "result");
        let key = |(execution, event): &(Id, Id)| EventKey { execution_id: execution.get(), event_id: event.get() };
        let keys: Vec<EventKey> = events.iter().map(key).collect();
        let (found, failed) = self.events_by_keys(&keys, &columns, scope).await;
        let result = |event: Event<Text>| Some(((event.execution_id, event.event_id), event.result?));
        (found.into_values().filter_map(result).collect(), failed)
    }
}

impl Executions {
    /// Returns the heads of these logs in the scope, and the errors of those that could not be read. A head never
    /// changes, so heads are cached.
    pub(super) async fn heads(
        &self,
        ids: impl IntoIterator<Item = Id>,
        scope: &Scope,
    ) -> (HashMap<Id, Arc<FirstEvent>>, ReadFailures) {
        let (mut found, mut missing) = (HashMap::new(), Vec::new());
        for id in ids {
            match self.heads.get(&id).await {
                Some(head) if scope.admits(&head.tenant_id) => drop(found.insert(id, head)),
                Some(_) => {}
                None => missing.push(id),
            }
        }
        let query = |shard, ids: Vec<i64>| async move { events::heads(shard, scope, &ids).await };
        let (heads, failed) = rows_by_ids(&self.databases, missing, query).await;
        for head in heads {
            let (id, head) = (Id::new(head.execution_id), Arc::new(head));
            self.heads.insert(id, Arc::clone(&head)).await;
            found.insert(id, head);
        }
        (found, failed)
    }
}
