//! Batch loaders of executions.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_graphql::dataloader::Loader;
use serde_json::Value;

use crate::loaders::{Loaders, group_by_kind, load_by_id};
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::workflow::End;
use noetl_storage::execution_lists::{ExecutionFilter, OwnerKind};
use noetl_storage::executions::ExecutionRow;
use noetl_storage::snapshots::{LoopOfState, Projected};
use noetl_use_cases::error::ServiceError;
use plain_json::Text;

load_by_id! {
    /// Key of the workload of an execution.
    WorkloadKey => Text, executions.workloads
}

/// Key of the result of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResultKey {
    /// Id of the execution.
    pub id: Id,
    /// Id of the event that ended it.
    pub event: Id,
}

load_by_id! {
    /// Key of an execution.
    ExecutionKey => ExecutionRow, executions.by_ids
}

load_by_id! {
    /// Key of the end of an execution, with its reason.
    EndKey => End, projections.ends
}

load_by_id! {
    /// Key of the state of an execution.
    StateKey => Arc<Projected>, projections.read
}

/// Key of whether the row of an execution, as it was read, lacks events of its log.
#[derive(Debug, Clone)]
pub struct OutdatedKey(pub Arc<ExecutionRow>);

impl PartialEq for OutdatedKey {
    fn eq(&self, other: &Self) -> bool {
        self.version() == other.version()
    }
}

impl Eq for OutdatedKey {}

impl OutdatedKey {
    /// Returns the columns by which a row is compared with its log.
    fn version(&self) -> (i64, &str, Option<i64>, Option<i32>) {
        (self.0.execution_id, &self.0.status, self.0.last_event_id, self.0.failed_steps)
    }
}

impl Hash for OutdatedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.version().hash(state);
    }
}

/// Key of the results of the iterations of a loop.
#[derive(Debug, Clone)]
pub struct LoopResultKey {
    /// State of the execution.
    pub state: Arc<Projected>,
    /// Name of the step.
    pub step: String,
}

impl PartialEq for LoopResultKey {
    fn eq(&self, other: &Self) -> bool {
        self.step == other.step && self.state.is_same_state(&other.state)
    }
}

impl Eq for LoopResultKey {}

impl Hash for LoopResultKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.state.execution_id, &self.step).hash(state);
    }
}

/// Key of a page of the executions that a source subscription or execution started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChildrenKey {
    /// Id of the parent.
    pub parent: Id,
    /// Filter for the executions.
    pub filter: ExecutionFilter,
    /// Requested page.
    pub request: PageRequest<ListPosition>,
}

/// Key of the number of executions that a source subscription or execution started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChildrenTotalKey {
    /// Id of the parent.
    pub parent: Id,
    /// Filter for the executions.
    pub filter: ExecutionFilter,
    /// Number up to which executions are counted.
    pub limit: i64,
}

/// Catalog entry that executions run, or execution of which they are reruns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Kind of the owner.
    pub kind: OwnerKind,
    /// Id of the owner.
    pub id: i64,
}

/// Key of a page of the executions of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    /// The owner.
    pub owner: Owner,
    /// Requested page.
    pub request: PageRequest<ListPosition>,
}

/// Key of the number of executions of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnedTotalKey {
    /// The owner.
    pub owner: Owner,
    /// Number up to which executions are counted.
    pub limit: i64,
}

/// Page of the executions of a parent or another owner.
#[derive(Debug, Clone, Default)]
pub struct ExecutionsPage {
    /// Executions of the reachable shards.
    pub page: Arc<Page<ExecutionRow>>,
    /// Shards that could not be reached.
    pub unavailable: Vec<ShardIndex>,
}

impl Loader<ResultKey> for Loaders {
    type Value = Result<Text, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[ResultKey]) -> Result<HashMap<ResultKey, Self::Value>, ServiceError> {
        let events: Vec<(Id, Id)> = keys.iter().map(|key| (key.id, key.event)).collect();
        let (results, failed) = self.services.executions.results(&events, &self.scope).await;
        let results = results.into_iter().map(|((id, event), result)| (ResultKey { id, event }, Ok(result)));
        let failures = keys.iter().filter_map(|key| Some((*key, Err(failed.get(&key.id)?.clone()))));
        Ok(results.chain(failures).collect())
    }
}

impl Loader<OutdatedKey> for Loaders {
    type Value = Result<bool, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[OutdatedKey]) -> Result<HashMap<OutdatedKey, Self::Value>, ServiceError> {
        let rows: Vec<&ExecutionRow> = keys.iter().map(|key| key.0.as_ref()).collect();
        let (outdated, failed) = self.services.projections.outdated(&rows).await;
        let answer = |key: &OutdatedKey| {
            let id = Id::new(key.0.execution_id);
            (key.clone(), failed.get(&id).map_or_else(|| Ok(outdated.contains(&id)), |error| Err(error.clone())))
        };
        Ok(keys.iter().map(answer).collect())
    }
}

impl Loader<LoopResultKey> for Loaders {
    type Value = Result<Option<Value>, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[LoopResultKey]) -> Result<HashMap<LoopResultKey, Self::Value>, ServiceError> {
        let loops: Vec<LoopOfState<'_>> =
            keys.iter().map(|key| LoopOfState { projected: &key.state, step: &key.step }).collect();
        let results = self.services.projections.loop_results(&loops).await;
        Ok(keys.iter().cloned().zip(results).collect())
    }
}

impl Loader<ChildrenKey> for Loaders {
    type Value = ExecutionsPage;
    type Error = ServiceError;

    async fn load(&self, keys: &[ChildrenKey]) -> Result<HashMap<ChildrenKey, Self::Value>, ServiceError> {
        let mut pages = HashMap::new();
        for ((filter, request), group) in group_by_kind(keys, |key| (key.filter.clone(), key.request.clone())) {
            let parents: Vec<Id> = group.iter().map(|key| key.parent).collect();
            let (mut found, unavailable) =
                self.services.executions.children(&parents, &filter, &request, &self.scope).await?;
            for key in group {
                let page = found.remove(&key.parent.get()).unwrap_or_else(|| request.cut(Vec::new()));
                pages.insert(key.clone(), ExecutionsPage { page: Arc::new(page), unavailable: unavailable.clone() });
            }
        }
        Ok(pages)
    }
}

impl Loader<ChildrenTotalKey> for Loaders {
    type Value = Total;
    type Error = ServiceError;

    async fn load(&self, keys: &[ChildrenTotalKey]) -> Result<HashMap<ChildrenTotalKey, Self::Value>, ServiceError> {
        let mut totals = HashMap::new();
        for ((filter, limit), group) in group_by_kind(keys, |key| (key.filter.clone(), key.limit)) {
            let parents: Vec<Id> = group.iter().map(|key| key.parent).collect();
            let found = self.services.executions.children_totals(&parents, &filter, limit, &self.scope).await?;
            totals.extend(group.into_iter().filter_map(|key| Some((key.clone(), *found.get(&key.parent)?))));
        }
        Ok(totals)
    }
}

impl Loader<OwnedKey> for Loaders {
    type Value = ExecutionsPage;
    type Error = ServiceError;

    async fn load(&self, keys: &[OwnedKey]) -> Result<HashMap<OwnedKey, Self::Value>, ServiceError> {
        let mut pages = HashMap::new();
        for ((kind, request), group) in group_by_kind(keys, |key| (key.owner.kind, key.request.clone())) {
            let owners: Vec<i64> = group.iter().map(|key| key.owner.id).collect();
            let (mut found, unavailable) =
                self.services.executions.of_owners(kind, &owners, &request, &self.scope).await?;
            for key in group {
                let page = found.remove(&key.owner.id).unwrap_or_else(|| request.cut(Vec::new()));
                pages.insert(key.clone(), ExecutionsPage { page: Arc::new(page), unavailable: unavailable.clone() });
            }
        }
        Ok(pages)
    }
}

impl Loader<OwnedTotalKey> for Loaders {
    type Value = Total;
    type Error = ServiceError;

    async fn load(&self, keys: &[OwnedTotalKey]) -> Result<HashMap<OwnedTotalKey, Self::Value>, ServiceError> {
        let mut totals = HashMap::new();
        for ((kind, limit), group) in group_by_kind(keys, |key| (key.owner.kind, key.limit)) {
            let owners: Vec<i64> = group.iter().map(|key| key.owner.id).collect();
            let found = self.services.executions.owner_totals(kind, &owners, limit, &self.scope).await?;
            totals.extend(group.into_iter().filter_map(|key| Some((*key, *found.get(&key.owner.id)?))));
        }
        Ok(totals)
    }
}
