//! Loaders: the objects that the rows of a response refer to are fetched with one query per database. A shard that
//! can't be read fails only the rows that it stores.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use async_graphql::dataloader::{DataLoader, Loader};

use super::schema::Services;
use crate::service::error::ServiceError;
use noetl_domain::event::{Event, EventFilter};
use noetl_domain::ids::Id;
use noetl_domain::page::{Page, PageRequest};
use noetl_domain::shard::ShardIndex;
use noetl_domain::workflow::End;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::events::{FirstEvent, LargeColumns};
use noetl_storage::executions::{ExecutionFilter, ExecutionRow};
use noetl_storage::snapshots::Projected;
use noetl_storage::subscriptions::SubscriptionRow;
use plain_json::Text;

/// Fetches the objects that rows refer to.
#[derive(Debug)]
pub struct Loaders(pub Services);

/// Loader of one operation.
pub type BatchLoader = DataLoader<Loaders>;

/// Key of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CatalogKey {
    /// Id of the entry.
    pub id: Id,
    /// Whether to read content, payload and meta.
    pub whole: bool,
}

/// Key of the workload of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkloadKey(pub Id);

/// Key of the error of an execution in its list row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorKey(pub Id);

/// Key of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExecutionKey(pub Id);

/// Key of a source subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriptionKey(pub Id);

/// Key of the head of a log: its registered or started event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadKey(pub Id);

/// Key of the end of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EndKey {
    /// Id of the execution.
    pub id: Id,
    /// Whether to read the reason.
    pub reason: bool,
}

/// Key of the state of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateKey(pub Id);

/// Key of a page of the executions that a source subscription or execution started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChildrenKey {
    /// Id of the parent.
    pub parent: Id,
    /// Filter for the executions.
    pub filter: ExecutionFilter,
    /// Requested page.
    pub request: PageRequest<i64>,
}

/// Key of a page of a log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogKey {
    /// Id of the execution or source subscription that the log belongs to.
    pub execution: Id,
    /// Filter for the events.
    pub filter: EventFilter,
    /// Large columns to read.
    pub columns: LargeColumns,
    /// Requested page.
    pub request: PageRequest<i64>,
}

impl Loader<CatalogKey> for Loaders {
    type Value = Arc<CatalogEntry>;
    type Error = ServiceError;

    async fn load(&self, keys: &[CatalogKey]) -> Result<HashMap<CatalogKey, Self::Value>, ServiceError> {
        let mut found = HashMap::new();
        for (whole, group) in alike(keys, |key| key.whole) {
            let ids: Vec<i64> = group.iter().map(|key| key.id.get()).collect();
            let catalog = &self.0.catalog;
            let entries = if whole { catalog.by_ids(&ids).await? } else { catalog.outlines(&ids).await? };
            found.extend(entries.into_iter().map(|(id, entry)| (CatalogKey { id: Id::new(id), whole }, entry)));
        }
        Ok(found)
    }
}

impl Loader<WorkloadKey> for Loaders {
    type Value = Result<Text, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[WorkloadKey]) -> Result<HashMap<WorkloadKey, Self::Value>, ServiceError> {
        let ids: Vec<Id> = keys.iter().map(|key| key.0).collect();
        let (workloads, failed) = self.0.executions.workloads(&ids).await;
        Ok(self.with_failures(keys, |key| key.0, workloads, &failed))
    }
}

impl Loader<ErrorKey> for Loaders {
    type Value = Result<String, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[ErrorKey]) -> Result<HashMap<ErrorKey, Self::Value>, ServiceError> {
        let ids: Vec<Id> = keys.iter().map(|key| key.0).collect();
        let (errors, failed) = self.0.executions.errors(&ids).await;
        Ok(self.with_failures(keys, |key| key.0, errors, &failed))
    }
}

impl Loader<ExecutionKey> for Loaders {
    type Value = Result<ExecutionRow, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[ExecutionKey]) -> Result<HashMap<ExecutionKey, Self::Value>, ServiceError> {
        let ids: Vec<Id> = keys.iter().map(|key| key.0).collect();
        let (rows, failed) = self.0.executions.by_ids(&ids).await;
        Ok(self.with_failures(keys, |key| key.0, rows, &failed))
    }
}

impl Loader<SubscriptionKey> for Loaders {
    type Value = Result<SubscriptionRow, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[SubscriptionKey]) -> Result<HashMap<SubscriptionKey, Self::Value>, ServiceError> {
        let ids: Vec<Id> = keys.iter().map(|key| key.0).collect();
        let (rows, failed) = self.0.subscriptions.by_ids(&ids).await;
        let rows = rows.into_iter().map(|row| (row.id, row)).collect();
        Ok(self.with_failures(keys, |key| key.0, rows, &failed))
    }
}

impl Loader<HeadKey> for Loaders {
    type Value = Result<Arc<FirstEvent>, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[HeadKey]) -> Result<HashMap<HeadKey, Self::Value>, ServiceError> {
        let ids: Vec<Id> = keys.iter().map(|key| key.0).collect();
        let (heads, failed) = self.0.executions.log_heads(&ids).await;
        Ok(self.with_failures(keys, |key| key.0, heads, &failed))
    }
}

impl Loader<EndKey> for Loaders {
    type Value = Result<End, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[EndKey]) -> Result<HashMap<EndKey, Self::Value>, ServiceError> {
        let mut found = HashMap::new();
        for (reason, group) in alike(keys, |key| key.reason) {
            let group: Vec<EndKey> = group.into_iter().copied().collect();
            let ids: Vec<Id> = group.iter().map(|key| key.id).collect();
            let (ends, failed) = self.0.projections.ends(&ids, reason).await;
            found.extend(self.with_failures(&group, |key| key.id, ends, &failed));
        }
        Ok(found)
    }
}

impl Loader<StateKey> for Loaders {
    type Value = Result<Arc<Projected>, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[StateKey]) -> Result<HashMap<StateKey, Self::Value>, ServiceError> {
        let ids: Vec<Id> = keys.iter().map(|key| key.0).collect();
        let (states, failed) = self.0.projections.read(&ids).await;
        let states = states.into_iter().map(|(id, state)| (id, Arc::new(state))).collect();
        Ok(self.with_failures(keys, |key| key.0, states, &failed))
    }
}

impl Loader<ChildrenKey> for Loaders {
    type Value = (Arc<Page<ExecutionRow>>, Vec<ShardIndex>);
    type Error = ServiceError;

    async fn load(&self, keys: &[ChildrenKey]) -> Result<HashMap<ChildrenKey, Self::Value>, ServiceError> {
        let mut pages = HashMap::new();
        for ((filter, request), group) in alike(keys, |key| (key.filter.clone(), key.request.clone())) {
            let parents: Vec<Id> = group.iter().map(|key| key.parent).collect();
            let (mut found, unavailable) = self.0.executions.children(&parents, &filter, &request).await?;
            for key in group {
                let page = found.remove(&key.parent.get()).unwrap_or_else(|| request.cut(Vec::new()));
                pages.insert(key.clone(), (Arc::new(page), unavailable.clone()));
            }
        }
        Ok(pages)
    }
}

impl Loader<LogKey> for Loaders {
    type Value = Result<Arc<Page<Event<Text>>>, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[LogKey]) -> Result<HashMap<LogKey, Self::Value>, ServiceError> {
        let mut pages = HashMap::new();
        let kind = |key: &LogKey| (key.filter.clone(), key.columns.clone(), key.request.clone());
        for ((filter, columns, request), group) in alike(keys, kind) {
            let executions: Vec<Id> = group.iter().map(|key| key.execution).collect();
            let (mut found, failed) = self.0.executions.events(&executions, &filter, &columns, &request).await;
            for key in group {
                let page = match failed.get(&self.0.databases.index_of(key.execution)) {
                    Some(error) => Err(error.clone()),
                    None => Ok(found.remove(&key.execution).unwrap_or_else(|| request.cut(Vec::new()))),
                };
                pages.insert(key.clone(), page.map(Arc::new));
            }
        }
        Ok(pages)
    }
}

impl Loaders {
    /// Returns the rows, and an error for each key whose shard could not be read.
    fn with_failures<K: Copy + Eq + Hash, R>(
        &self,
        keys: &[K],
        id: impl Fn(&K) -> Id,
        mut rows: HashMap<Id, R>,
        failed: &BTreeMap<ShardIndex, ServiceError>,
    ) -> HashMap<K, Result<R, ServiceError>> {
        let answer = |key: &K| {
            let id = id(key);
            let error = failed.get(&self.0.databases.index_of(id)).cloned();
            Some((*key, error.map_or_else(|| rows.remove(&id).map(Ok), |error| Some(Err(error)))?))
        };
        keys.iter().filter_map(answer).collect()
    }
}

/// Groups the keys by `kind`, so that one query can serve each group.
fn alike<K, G: Eq + Hash>(keys: &[K], kind: impl Fn(&K) -> G) -> HashMap<G, Vec<&K>> {
    let mut groups: HashMap<G, Vec<&K>> = HashMap::new();
    for key in keys {
        groups.entry(kind(key)).or_default().push(key);
    }
    groups
}
