//! Executions that are run again, the origins: what their reruns depend on, read with a few statements for any number of
//! them, and the requests that start the reruns.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Executions;
use super::start::DedupKey;
use noetl_domain::execution::{DEFAULT_WINDOW_SECONDS, dedup_scope, overlay};
use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::lifecycle::REGISTERED;
use noetl_domain::tenant::{NamedTenancy, Scope};
use noetl_storage::budget::uncharged;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::dedup;
use noetl_storage::events::FirstEvent;
use noetl_use_cases::catalog::ReadCatalog;
use noetl_use_cases::error::{ReadFailures, Rejection, ServiceError};
use noetl_use_cases::executions::{EntryKey, ExecuteRequest, ReadExecutions, Rerunning};
use plain_json::Text;

/// Origins of reruns.
#[derive(Debug)]
pub(super) struct Origins {
    heads: HashMap<Id, Arc<FirstEvent>>,
    /// Heads of the logs of their parents.
    parents: HashMap<Id, Arc<FirstEvent>>,
    entries: HashMap<i64, Arc<CatalogEntry>>,
    /// Entries that are retired.
    retired: HashSet<i64>,
    /// Workloads of the origins that were read last.
    workloads: HashMap<Id, Text>,
    /// Errors of the origins and parents that could not be read.
    failed: ReadFailures,
    /// Executions that own dedup keys of the request.
    owners: HashMap<DedupKey, Id>,
}

impl Executions {
    /// Reads what the reruns of these executions depend on, without their workloads.
    pub(super) async fn load_origins(
        &self,
        ids: &[Id],
        rerunning: &Rerunning,
        scope: &Scope,
    ) -> Result<Origins, ServiceError> {
        let (heads, mut failed) = self.heads(ids.iter().copied(), scope).await;
        let parents: BTreeSet<Id> = heads.values().filter_map(|head| head.parent_execution_id.map(Id::new)).collect();
        let (parents, unread) = self.heads(parents, scope).await;
        failed.extend(unread);
        // An operation that has used up its budget can't carry out a part of its work.
        if let Some(error) = failed.values().find(|error| error.exceeded().is_some()) {
            return Err(error.clone());
        }
        let entries: BTreeSet<i64> = heads.values().map(|head| head.catalog_id).collect();
        let entries: Vec<i64> = entries.into_iter().collect();
        let records = self.catalog.records(&entries).await?.into_values();
        let retired = records.filter(|record| record.archived_at.is_some()).map(|record| record.catalog_id).collect();
        let entries = self.catalog.by_ids(&entries).await?;
        let (workloads, owners) = (HashMap::new(), HashMap::new());
        let mut origins = Origins { heads, parents, entries, retired, workloads, failed, owners };
        origins.owners = self.owners(&origins.keys(rerunning), rerunning).await?;
        Ok(origins)
    }

    /// Reads the workloads of some origins, in place of those that were read before. They are not charged to the budget
    /// of the operation: an operation that exceeds it can't return what it has started.
    pub(super) async fn load_workloads(&self, origins: &mut Origins, ids: &[Id], scope: &Scope) {
        let (workloads, unread) = uncharged(self.workloads(ids, scope)).await;
        origins.workloads = workloads;
        origins.failed.extend(unread);
    }

    /// Returns the executions that own these dedup keys.
    async fn owners(
        &self,
        keys: &[(i64, String)],
        rerunning: &Rerunning,
    ) -> Result<HashMap<DedupKey, Id>, ServiceError> {
        let Some(dedup) = rerunning.dedup.as_ref().filter(|_| !keys.is_empty()) else { return Ok(HashMap::new()) };
        let window = dedup.window_seconds().unwrap_or(i64::from(DEFAULT_WINDOW_SECONDS));
        let rows = dedup::owned(self.databases.cluster(), keys, window).await?;
        let owner = |key: dedup::OwnedKey| (DedupKey { scope: key.scope, key: key.key }, Id::new(key.execution_id));
        Ok(rows.into_iter().map(owner).collect())
    }
}

impl Origins {
    /// Returns the request that starts the rerun of an execution, or the reason that it can't be run again.
    pub(super) fn request(&self, id: Id, rerunning: &Rerunning) -> Result<ExecuteRequest, ServiceError> {
        if let Some(error) = self.failed.get(&id) {
            return Err(error.clone());
        }
        let unknown = || Rejection::not_found("executionId", format!("there is no execution {id}"));
        let origin = self.heads.get(&id).filter(|head| head.event_type != REGISTERED).ok_or_else(unknown)?;
        let unknown = || {
            let message = format!("the catalog entry {} of execution {id} does not exist", origin.catalog_id);
            Rejection::not_found("executionId", message)
        };
        let entry = self.entries.get(&origin.catalog_id).ok_or_else(unknown)?;
        let parent = self.subscription_of(origin)?;
        let entry = if rerunning.newest_version {
            EntryKey::Path(entry.path.clone())
        } else {
            // A request whose key has an owner starts nothing.
            if self.owner(id, rerunning).is_none() {
                self.check_not_retired(entry)?;
            }
            EntryKey::CatalogId(Id::new(entry.catalog_id))
        };
        let (workload, changes_workload) = changed(self.workloads.get(&id).map(Text::read), rerunning.workload.clone());
        Ok(ExecuteRequest {
            entry,
            workload,
            changes_workload,
            parent_execution_id: parent,
            execution_pool: rerunning.execution_pool.clone().or_else(|| origin.execution_pool.clone()),
            trace: rerunning.trace.clone(),
            dedup: rerunning.dedup.as_ref().map(|dedup| dedup.of(id)),
            rerun_of: Some(id),
            inherit_labels: false,
            labels_of_origin: if rerunning.labels.is_some() { Labels::default() } else { origin.labels() },
            labels: rerunning.labels.clone().unwrap_or_default(),
            tenancy: NamedTenancy {
                tenant_id: parent.is_none().then(|| origin.tenant_id.clone()),
                organization_id: Some(origin.organization_id.clone()),
            },
        })
    }

    /// Returns the execution that owns the dedup key of the rerun of an execution.
    pub(super) fn owner(&self, id: Id, rerunning: &Rerunning) -> Option<Id> {
        self.owner_of(self.heads.get(&id)?, id, rerunning)
    }

    /// Returns whether an execution is a rerun that a request with the same dedup key has started.
    pub(super) fn is_rerun_of_request(&self, id: Id, rerunning: &Rerunning) -> bool {
        let owner = self.heads.get(&id).and_then(|head| self.owner_of(head, Id::new(head.rerun_of?), rerunning));
        owner == Some(id)
    }

    /// Returns the size in bytes of the workload of an execution as JSON.
    pub(super) fn workload_bytes(&self, id: Id) -> usize {
        self.workloads.get(&id).map_or(0, |workload| workload.as_str().len())
    }

    /// Returns the owner of the dedup key of the rerun of `origin`, in the scope of the execution with this head. A rerun
    /// has the scope of its origin.
    fn owner_of(&self, head: &FirstEvent, origin: Id, rerunning: &Rerunning) -> Option<Id> {
        let key = DedupKey { scope: self.scope_of(head), key: rerunning.dedup.as_ref()?.of(origin).key };
        self.owners.get(&key).copied()
    }

    /// Returns the dedup keys (scope and key) of the reruns, and those of the requests that may have started the origins.
    fn keys(&self, rerunning: &Rerunning) -> Vec<(i64, String)> {
        let Some(dedup) = &rerunning.dedup else { return Vec::new() };
        let keys = self.heads.values().flat_map(|head| {
            let scope = self.scope_of(head);
            let origins = [Some(head.execution_id), head.rerun_of].into_iter().flatten();
            origins.map(move |origin| (scope, dedup.of(Id::new(origin)).key))
        });
        keys.collect::<BTreeSet<(i64, String)>>().into_iter().collect()
    }

    /// Returns the scope of the dedup key of an execution's rerun.
    fn scope_of(&self, head: &FirstEvent) -> i64 {
        dedup_scope(self.subscription_of(head).ok().flatten(), &head.tenant_id)
    }

    /// Returns the source subscription whose message an execution runs.
    fn subscription_of(&self, head: &FirstEvent) -> Result<Option<Id>, ServiceError> {
        let Some(parent) = head.parent_execution_id.map(Id::new) else { return Ok(None) };
        if let Some(error) = self.failed.get(&parent) {
            return Err(error.clone());
        }
        Ok(self.parents.get(&parent).is_some_and(|head| head.event_type == REGISTERED).then_some(parent))
    }

    /// Refuses a retired version. A request that runs one on purpose names its id.
    fn check_not_retired(&self, entry: &CatalogEntry) -> Result<(), Rejection> {
        if !self.retired.contains(&entry.catalog_id) {
            return Ok(());
        }
        let message = format!(
            "version {} of {:?}, which the execution ran, is retired; set newestVersion, or restore it",
            entry.version, entry.path
        );
        Err(Rejection::not_found("executionId", message))
    }
}

/// Returns the workload of an execution with the changes of a request, and whether they change it. Changes that are not a
/// map are returned alone, and refused later.
fn changed(workload: Option<Value>, changes: Option<Value>) -> (Option<Value>, bool) {
    match changes {
        None | Some(Value::Null) => (workload.filter(Value::is_object), false),
        Some(Value::Object(changes)) => {
            let overlaid = Value::from(overlay(workload.as_ref(), changes));
            let differs = overlaid != workload.unwrap_or_else(|| json!({}));
            (Some(overlaid), differs)
        }
        invalid => (invalid, true),
    }
}
