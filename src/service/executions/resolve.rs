//! Resolving the references of requests: catalog entries, and parents with their trace and dedup window.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Executions;
use super::request::{Target, ValidRequest};
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use crate::service::shards::rows_by_ids;
use noetl_domain::execution::{DEFAULT_WINDOW_SECONDS, EXECUTABLE_KINDS};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::events::{self, FirstEvent};

/// Catalog entries and parents of a batch of requests.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    by_path: HashMap<String, Arc<CatalogEntry>>,
    by_id: HashMap<i64, Arc<CatalogEntry>>,
    parents: HashMap<Id, Arc<FirstEvent>>,
    failed: BTreeMap<ShardIndex, ServiceError>,
}

/// Catalog entry and parent of one request.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) entry: Arc<CatalogEntry>,
    pub(super) parent: Option<Arc<FirstEvent>>,
    /// Dedup window in seconds if the request sets none.
    pub(super) default_window: i64,
}

impl Executions {
    /// Reads the catalog entries and parents of all requests: one query for paths, one for ids, one per shard for
    /// parents.
    pub(super) async fn resolve(&self, requests: &[&ValidRequest]) -> Result<Resolved, ServiceError> {
        let mut paths = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for request in requests {
            match &request.target {
                Target::Path(path) => drop(paths.insert(path.clone())),
                Target::Catalog(id) => drop(ids.insert(id.get())),
            }
        }
        let parent_ids: BTreeSet<Id> = requests.iter().filter_map(|request| request.parent).collect();
        let (parents, failed) = self.heads(parent_ids).await;
        let with_window = requests.iter().filter(|request| request.dedup.is_some());
        let subscriptions = with_window.filter_map(|request| parents.get(&request.parent?));
        ids.extend(subscriptions.map(|head| head.catalog_id));
        let paths: Vec<String> = paths.into_iter().collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        let by_path = if paths.is_empty() { HashMap::new() } else { self.catalog.newest(&paths).await? };
        let by_id = self.catalog.by_ids(&ids).await?;
        Ok(Resolved { by_path, by_id, parents, failed })
    }

    /// Returns the heads of these logs, and the error of each shard that could not be read. A head never changes, so
    /// heads are cached.
    pub(super) async fn heads(
        &self,
        ids: impl IntoIterator<Item = Id>,
    ) -> (HashMap<Id, Arc<FirstEvent>>, BTreeMap<ShardIndex, ServiceError>) {
        let (mut found, mut missing) = (HashMap::new(), Vec::new());
        for id in ids {
            match self.heads.get(&id).await {
                Some(head) => drop(found.insert(id, head)),
                None => missing.push(id),
            }
        }
        let query = |shard, ids: Vec<i64>| async move { events::heads(shard, &ids).await };
        let (heads, failed) = rows_by_ids(&self.databases, missing, query).await;
        for head in heads {
            let (id, head) = (Id::new(head.execution_id), Arc::new(head));
            self.heads.insert(id, Arc::clone(&head)).await;
            found.insert(id, head);
        }
        (found, failed)
    }

    /// Returns the catalog entry and parent of one request, or the reason that it can't run.
    pub(super) fn named(&self, request: &ValidRequest, resolved: &Resolved) -> Result<Named, ServiceError> {
        let entry = match &request.target {
            Target::Path(path) => resolved
                .by_path
                .get(path)
                .ok_or_else(|| Rejection::not_found("path", format!("the catalog has no path {path:?}"))),
            Target::Catalog(id) => resolved
                .by_id
                .get(&id.get())
                .ok_or_else(|| Rejection::not_found("catalogId", format!("the catalog has no entry {id}"))),
        }?;
        check_executable(entry, &request.target)?;
        let parent = request.parent.map(|id| self.parent(id, resolved)).transpose()?;
        let of_parent = parent.as_ref().and_then(|head| resolved.by_id.get(&head.catalog_id));
        Ok(Named { entry: Arc::clone(entry), default_window: default_window(of_parent), parent })
    }

    fn parent(&self, id: Id, resolved: &Resolved) -> Result<Arc<FirstEvent>, ServiceError> {
        if let Some(head) = resolved.parents.get(&id) {
            return Ok(Arc::clone(head));
        }
        match resolved.failed.get(&self.databases.index_of(id)) {
            Some(error) => Err(error.clone()),
            None => {
                Err(Rejection::not_found("parentExecutionId", format!("there is no subscription or execution {id}"))
                    .into())
            }
        }
    }
}

fn check_executable(entry: &CatalogEntry, target: &Target) -> Result<(), Rejection> {
    let kind = entry.kind.to_lowercase();
    if EXECUTABLE_KINDS.contains(&kind.as_str()) {
        return Ok(());
    }
    let field = if matches!(target, Target::Path(_)) { "path" } else { "catalogId" };
    let message = format!("catalog path {:?} is of kind {kind}, which can't be executed", entry.path);
    Err(Rejection::new(RejectionCode::WrongKind, field, message))
}

/// Returns `dedup.window_secs` of the parent's catalog entry, else 300 seconds.
fn default_window(parent: Option<&Arc<CatalogEntry>>) -> i64 {
    let named = parent.and_then(|entry| entry.payload.as_ref()?.value().get("dedup")?.get("window_secs")?.as_i64());
    named.filter(|seconds| *seconds > 0).unwrap_or(i64::from(DEFAULT_WINDOW_SECONDS))
}
