//! Starting executions, one or a batch. Result i belongs to request i.
//!
//! The steps of [`Executions::execute_batch`]: check the requests, load what they name, decide what each starts, claim
//! the dedup keys, create the executions, settle the claims. An invalid request never uses up a key. From the fourth
//! step on, a batch is carried out in groups, so that the workloads in memory are bounded: a small request can start an
//! execution with a large default workload.
//!
//! A claim is reserved in the cluster database under the future execution's id, the execution is created idempotently
//! on its shard under that id, and then the claim is settled. If the process dies between two steps, the next duplicate
//! or [`Executions::sweep`] finishes the reserved claim. So the response does not wait for the settlement.
//!
//! Concurrent requests share the statements of these steps ([`noetl_runtime::coalesce`]). The newest version of a path
//! is cached, and the claim confirms it: if a newer version exists, or this one is retired, nothing is claimed, and the
//! request is carried out again with the newest version.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Executions;
use super::create::Creations;
use super::dedup::ClaimedExecution;
use super::defaults::{SubscriptionDefaults, default_workload, labels};
use super::start::{DedupKey, Results, Start};
use crate::catalog::{Newest, NewestEntry};
use crate::tenancy::resolve;
use crate::trace;
use noetl_domain::execution::{ClaimedKey, Creation, DEFAULT_WINDOW_SECONDS, EXECUTABLE_KINDS, dedup_scope, overlay};
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::REGISTERED;
use noetl_domain::tenant::{Caller, Scope};
use noetl_domain::trace_context::TraceContext;
use noetl_runtime::clock;
use noetl_runtime::crash_point;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::events::FirstEvent;
use noetl_storage::executions::ExecutionRow;
use noetl_use_cases::bounds::check_json;
use noetl_use_cases::catalog::ReadCatalog;
use noetl_use_cases::error::{ReadFailures, Rejection, RejectionCode, ServiceError};
use noetl_use_cases::executions::{
    EntryKey, Execute, ExecuteRequest, Executed, MAX_BATCH, MAX_WORKLOAD_BYTES, Outcome,
};
use plain_json::Text;

/// Memory in bytes of the workloads of a group, from which the group is carried out.
const GROUP_BYTES: usize = 16 << 20;
/// Number of ids that are drawn again because their shard is down. With half of the buckets available, one of a thousand
/// draws finds none.
const MAX_OTHER_SHARDS: usize = 10;

/// Catalog entries and parents that a batch of requests names.
#[derive(Debug)]
struct References {
    by_path: HashMap<String, NewestEntry>,
    /// Newest versions of the paths that have only retired ones.
    retired: HashMap<String, Arc<CatalogEntry>>,
    /// Source of the newest versions.
    newest: Newest,
    by_id: HashMap<i64, Arc<CatalogEntry>>,
    parents: HashMap<Id, Arc<FirstEvent>>,
    /// Errors of the parents that could not be read.
    failed: ReadFailures,
}

#[async_trait]
impl Execute for Executions {
    #[tracing::instrument(
        level = "debug", name = "executions.execute", skip_all,
        fields(path = request.entry.path(), parent = request.parent_execution_id.map(tracing::field::display))
    )]
    async fn execute(&self, request: ExecuteRequest, caller: &Caller) -> Result<Executed, ServiceError> {
        let mut results = self.execute_batch(vec![Ok(request)], caller).await?;
        results.pop().unwrap_or_else(|| Err(Rejection::invalid("", "there is no request").into()))
    }

    #[tracing::instrument(
        level = "debug", name = "executions.execute_batch", skip_all,
        fields(count = requests.len())
    )]
    async fn execute_batch(
        &self,
        requests: Vec<Result<ExecuteRequest, Rejection>>,
        caller: &Caller,
    ) -> Result<Vec<Result<Executed, ServiceError>>, ServiceError> {
        if requests.is_empty() || requests.len() > MAX_BATCH {
            let message = format!("a batch has 1 to {MAX_BATCH} requests, not {}", requests.len());
            return Err(Rejection::invalid("requests", message).into());
        }
        let (mut results, mut valid) = (Results::new(), BTreeMap::new());
        for (position, request) in requests.into_iter().enumerate() {
            match request.and_then(|request| request.check().map(|()| request)) {
                Ok(request) => drop(valid.insert(position, request)),
                Err(rejection) => drop(results.insert(position, Err(rejection.into()))),
            }
        }
        let references = self.load_references(valid.values(), &caller.scope, Newest::Cached).await?;
        let (mut group, mut weight) = (Group::default(), 0);
        for (position, request) in valid {
            match self.start(position, &request, &references, caller).await {
                Ok(start) => {
                    weight += start.creation.weight();
                    group.add(start, request);
                }
                Err(error) => drop(results.insert(position, Err(error))),
            }
            if weight >= GROUP_BYTES {
                self.carry_out(std::mem::take(&mut group), &mut results, caller).await;
                weight = 0;
            }
        }
        self.carry_out(group, &mut results, caller).await;
        Ok(results.into_values().collect())
    }
}

impl Executions {
    /// Returns for each of these requests whether it can run: the steps of [`Self::execute_batch`] that write nothing.
    pub(super) async fn check_batch(
        &self,
        requests: &[ExecuteRequest],
        caller: &Caller,
    ) -> Result<Vec<Result<(), ServiceError>>, ServiceError> {
        let references = self.load_references(requests.iter(), &caller.scope, Newest::Read).await?;
        let mut checked = Vec::new();
        for (position, request) in requests.iter().enumerate() {
            checked.push(match request.check() {
                Ok(()) => self.start(position, request, &references, caller).await.map(drop),
                Err(rejection) => Err(rejection.into()),
            });
        }
        Ok(checked)
    }

    /// Carries out a group. Requests whose catalog entry turns out to be outdated are carried out again with the newest.
    async fn carry_out(&self, group: Group, results: &mut Results, caller: &Caller) {
        crash_point::reach("execute.validated");
        let Group { starts, requests } = group;
        let outdated = self.run_starts(starts, results, caller).await;
        if outdated.is_empty() {
            return;
        }
        let requests: Vec<_> = requests.into_iter().filter(|(position, _)| outdated.contains(position)).collect();
        let of_requests = requests.iter().map(|(_, request)| request);
        let references = match self.load_references(of_requests, &caller.scope, Newest::Read).await {
            Ok(references) => references,
            Err(error) => {
                results.extend(outdated.into_iter().map(|position| (position, Err(error.clone()))));
                return;
            }
        };
        let mut starts = Vec::new();
        for (position, request) in requests {
            match self.start(position, &request, &references, caller).await {
                Ok(start) => starts.push(start),
                Err(error) => drop(results.insert(position, Err(error))),
            }
        }
        // No catalog entry is from the cache, so none is outdated.
        self.run_starts(starts, results, caller).await;
    }

    /// Claims the keys of these requests, creates the executions, and has the claims settled. Returns the positions of
    /// requests whose catalog entry is outdated; nothing was done for them.
    async fn run_starts(&self, starts: Vec<Start>, results: &mut Results, caller: &Caller) -> BTreeSet<usize> {
        let mut outdated = BTreeSet::new();
        let mut claimed = self.claim(starts, results, &mut outdated, caller).await;
        self.recreate_lost(&mut claimed).await;
        crash_point::reach("execute.claimed");
        let creations = claimed.iter().filter_map(|one| one.creation.clone()).collect();
        let Creations { started, mut failed } = self.create(creations, caller.actor.as_ref()).await;
        self.free_taken(&failed).await;
        let reserved = claimed.iter().filter(|one| one.reserved).map(|one| one.execution_id);
        failed.extend(self.finish(&reserved.collect::<Vec<Id>>()).await);
        crash_point::reach("execute.created");
        self.settle(&claimed, &failed);
        for one in &mut claimed {
            one.created = one.row(&started);
            results.extend(one.results(failed.get(&one.execution_id)));
        }
        self.audit_duplicates(&claimed, caller);
        outdated
    }

    /// Reads the catalog entries and parents of all requests, and the entries of parents that are source subscriptions:
    /// one query for paths, one for ids, one per shard for parents. Entries by id and parents are cached. With
    /// [`Newest::Cached`], a path is read only if it is not cached, or if one of its requests has no dedup key, so that
    /// no claim confirms the entry.
    async fn load_references(
        &self,
        requests: impl Iterator<Item = &ExecuteRequest> + Clone,
        scope: &Scope,
        newest: Newest,
    ) -> Result<References, ServiceError> {
        let mut paths: BTreeMap<&str, Newest> = BTreeMap::new();
        for request in requests.clone() {
            if let Some(path) = request.entry.path() {
                let needed = if request.dedup.is_some() { newest } else { Newest::Read };
                let wanted = paths.entry(path).or_insert(needed);
                *wanted = (*wanted).max(needed);
            }
        }
        let parents: BTreeSet<Id> = requests.clone().filter_map(|request| request.parent_execution_id).collect();
        let (parents, failed) = self.heads(parents, scope).await;
        let mut ids: BTreeSet<i64> = requests.filter_map(|request| request.entry.catalog_id()).map(Id::get).collect();
        let subscriptions = parents.values().filter(|head| head.event_type == REGISTERED);
        ids.extend(subscriptions.map(|head| head.catalog_id));
        let ids: Vec<i64> = ids.into_iter().collect();
        let by_path = self.catalog.newest_or_cached(&paths).await?;
        let missing: Vec<String> =
            paths.into_keys().filter(|path| !by_path.contains_key(*path)).map(str::to_owned).collect();
        let retired = self.catalog.newest_retired(&missing).await?;
        let by_id = self.catalog.by_ids(&ids).await?;
        Ok(References { by_path, retired, newest, by_id, parents, failed })
    }

    /// Returns what a request starts, under new ids, or the reason that it can't run.
    async fn start(
        &self,
        position: usize,
        request: &ExecuteRequest,
        references: &References,
        caller: &Caller,
    ) -> Result<Start, ServiceError> {
        let request_hash = request.hash();
        let (entry, must_be_newest) = references.entry(request)?;
        let parent = request.parent_execution_id.map(|id| references.parent(id)).transpose()?;
        let tenancy_of_parent = parent.as_ref().map(|parent| parent.tenancy());
        let tenancy = resolve(&request.tenancy, tenancy_of_parent.as_ref(), &caller.scope)?;
        let defaults = references.subscription_defaults(parent.as_deref());
        let window = defaults.window(request).unwrap_or(i64::from(DEFAULT_WINDOW_SECONDS));
        let window_seconds = i32::try_from(window).unwrap_or(i32::MAX);
        let (pool, default_workload) = (defaults.pool(request)?, default_workload(entry, request)?);
        let scope = dedup_scope(request.parent_execution_id, &tenancy.tenant_id);
        let workload = request.workload.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        let workload = overlay(default_workload, workload);
        let of_parent = || trace_of_parent(parent.as_ref()?.trace.as_ref()?);
        let [execution_id, event_id] = self.new_ids().await?;
        let creation = Creation {
            execution_id,
            event_id,
            parent_execution_id: request.parent_execution_id,
            catalog_id: Id::new(entry.catalog_id),
            path: entry.path.clone(),
            labels: labels(entry, request, &workload, &defaults, parent.as_deref()),
            workload,
            pool,
            trace: request.trace.as_ref().map(TraceContext::to_stored).or_else(of_parent).or_else(trace::current),
            emitted_at: clock::now(),
            actor: caller.actor.clone(),
            tenancy,
            rerun_of: request.rerun_of,
            dedup: request.dedup.as_ref().map(|dedup| ClaimedKey::new(&dedup.key, window_seconds, request_hash)),
        };
        Ok(Start {
            position,
            creation: Arc::new(creation),
            must_be_newest,
            rejects_different: request.dedup.as_ref().is_some_and(|dedup| dedup.reject_different),
            key: request.dedup.as_ref().map(|dedup| DedupKey { scope, key: dedup.key.clone() }),
            window_seconds,
            request_hash,
        })
    }

    /// Returns the ids of a new execution and its first event. Their shard is not known to be down, if there is another one.
    async fn new_ids(&self) -> Result<[Id; 2], ServiceError> {
        let mut ids = self.ids.next_two().await?;
        for _ in 0..MAX_OTHER_SHARDS {
            if self.databases.shard_of(ids[0]).health().down.is_none() {
                break;
            }
            ids = self.ids.next_two().await?;
        }
        Ok(ids)
    }
}

impl References {
    /// Returns the head of a parent's log.
    fn parent(&self, id: Id) -> Result<Arc<FirstEvent>, ServiceError> {
        if let Some(head) = self.parents.get(&id) {
            return Ok(Arc::clone(head));
        }
        let unknown = || {
            let message = format!("there is no subscription or execution {id}");
            Rejection::not_found("parentExecutionId", message).into()
        };
        Err(self.failed.get(&id).cloned().unwrap_or_else(unknown))
    }

    /// Returns the defaults of a parent, if it is a source subscription.
    fn subscription_defaults(&self, parent: Option<&FirstEvent>) -> SubscriptionDefaults {
        let subscription = parent.filter(|parent| parent.event_type == REGISTERED);
        let entry = subscription.and_then(|parent| self.by_id.get(&parent.catalog_id));
        entry.map(|entry| SubscriptionDefaults::of(entry)).unwrap_or_default()
    }

    /// Returns the message of a path without a newest version.
    fn absent(&self, path: &str) -> String {
        if self.retired.contains_key(path) {
            return format!("all versions of the catalog path {path:?} are retired; restore one, or register another");
        }
        format!("the catalog has no path {path:?}")
    }

    /// Returns the catalog entry that a request runs, and whether the claim must confirm that it is the newest. A request
    /// with a dedup key may have started an execution before its path was retired, so the claim decides first.
    fn entry(&self, request: &ExecuteRequest) -> Result<(&CatalogEntry, bool), Rejection> {
        let field = request.entry.field();
        let found = match &request.entry {
            EntryKey::Path(path) => {
                let found = self.by_path.get(path).map(|newest| (newest.entry.as_ref(), newest.cached));
                let may_be_claimed = request.dedup.is_some() && self.newest == Newest::Cached;
                let retired = || self.retired.get(path).filter(|_| may_be_claimed).map(|entry| (entry.as_ref(), true));
                found.or_else(retired).ok_or_else(|| self.absent(path))
            }
            EntryKey::CatalogId(id) => {
                let found = self.by_id.get(&id.get()).ok_or_else(|| format!("the catalog has no entry {id}"));
                found.map(|entry| (entry.as_ref(), false))
            }
        };
        let (entry, cached) = found.map_err(|message| Rejection::not_found(field, message))?;
        let kind = entry.kind.to_lowercase();
        if EXECUTABLE_KINDS.contains(&kind.as_str()) {
            return Ok((entry, cached));
        }
        let message = format!("catalog path {:?} is of kind {kind}, which can't be executed", entry.path);
        Err(Rejection::new(RejectionCode::WrongKind, field, message))
    }
}

/// Returns the stored trace of a parent, if it is a map within the bounds. It is passed on unchanged: NoETL's server also
/// stores a baggage in it.
fn trace_of_parent(trace: &Text) -> Option<Value> {
    let trace = trace.read();
    (trace.is_object() && check_json("trace", &trace, MAX_WORKLOAD_BYTES).is_ok()).then_some(trace)
}

/// Requests that are carried out together.
#[derive(Default)]
struct Group {
    starts: Vec<Start>,
    /// The requests by position, in case that they must be carried out again.
    requests: Vec<(usize, ExecuteRequest)>,
}

impl Group {
    fn add(&mut self, start: Start, request: ExecuteRequest) {
        if start.must_be_newest {
            self.requests.push((start.position, request));
        }
        self.starts.push(start);
    }
}

impl ClaimedExecution {
    /// Returns the row of the execution, if it was created by this call.
    fn row(&self, started: &HashMap<Id, DateTime<Utc>>) -> Option<ExecutionRow> {
        let at = started.get(&self.execution_id)?;
        Some(ExecutionRow::created(self.creation.as_ref()?, *at))
    }

    /// Returns the results of all requests for this execution.
    fn results(&self, failed: Option<&ServiceError>) -> Results {
        let started = self.starter.map(|position| (position, Outcome::Started, None));
        let duplicates = self.duplicates.iter().map(|one| (one.position, Outcome::Duplicate, one.differs));
        let executed = |outcome, differs| match failed {
            Some(error) => Err(error.clone()),
            None => Ok(Executed { execution_id: self.execution_id, outcome, differs, created: self.created.clone() }),
        };
        let result = |(position, outcome, differs)| (position, executed(outcome, differs));
        started.into_iter().chain(duplicates).map(result).collect()
    }
}
