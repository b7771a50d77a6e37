//! Running an execution again.

use std::sync::Arc;

use serde_json::Value;

use super::Executions;
use super::request::{Dedup, ExecuteRequest};
use super::start::Executed;
use crate::service::error::{Rejection, ServiceError};
use noetl_domain::execution::overlay;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::REGISTERED;
use noetl_domain::tenant::{Caller, NamedTenancy, Scope};
use noetl_domain::trace_context::TraceContext;
use noetl_storage::events::FirstEvent;

/// A request to run an execution again.
#[derive(Debug, Clone)]
pub struct RerunRequest {
    /// The origin: the execution to run again.
    pub id: Id,
    /// Map that overlays the workload of the origin, key by key.
    pub workload: Option<Value>,
    /// Whether to run the newest version of the origin's catalog path, and not the version that the origin ran.
    pub newest_version: bool,
    /// Pool of the workers; absent: that of the origin.
    pub execution_pool: Option<String>,
    /// Trace context; absent: that of the current span.
    pub trace: Option<TraceContext>,
    /// Dedup key and window; absent: no deduplication.
    pub dedup: Option<Dedup>,
}

impl Executions {
    /// Starts an execution with the catalog entry, the workload and the tenant of another one, which its started event
    /// names. The new execution belongs to the source subscription of the origin. It is not a child of the execution
    /// that started the origin, because this would take it for a call of its own.
    #[tracing::instrument(level = "debug", name = "executions.rerun", skip_all, fields(origin = %request.id))]
    pub async fn rerun(&self, request: RerunRequest, caller: &Caller) -> Result<Executed, ServiceError> {
        let scope = &caller.scope;
        let RerunRequest { id, workload, newest_version, execution_pool, trace, dedup } = request;
        let unknown = || Rejection::not_found("id", format!("there is no execution {id}"));
        let origin = self.head(id, scope).await?.filter(|head| head.event_type != REGISTERED).ok_or_else(unknown)?;
        let unknown = || {
            let message = format!("the catalog entry {} of execution {id} does not exist", origin.catalog_id);
            Rejection::not_found("id", message)
        };
        let entry = self.catalog.get(Id::new(origin.catalog_id)).await?.ok_or_else(unknown)?;
        let parent = self.subscription_of(&origin, scope).await?;
        let tenancy = NamedTenancy {
            tenant_id: parent.is_none().then(|| origin.tenant_id.clone()),
            organization_id: Some(origin.organization_id.clone()),
        };
        let request = ExecuteRequest {
            path: newest_version.then(|| entry.path.clone()),
            catalog_id: (!newest_version).then(|| Id::new(entry.catalog_id)),
            workload: changed(self.workload(id, scope).await?, workload),
            parent_execution_id: parent,
            execution_pool: execution_pool.or_else(|| origin.execution_pool.clone()),
            trace,
            dedup,
            rerun_of: Some(id),
            tenancy,
        };
        self.execute(request, caller).await
    }

    /// Returns the source subscription whose message an execution runs.
    async fn subscription_of(&self, execution: &FirstEvent, scope: &Scope) -> Result<Option<Id>, ServiceError> {
        let Some(parent) = execution.parent_execution_id.map(Id::new) else { return Ok(None) };
        let head = self.head(parent, scope).await?;
        Ok(head.is_some_and(|head| head.event_type == REGISTERED).then_some(parent))
    }

    async fn head(&self, id: Id, scope: &Scope) -> Result<Option<Arc<FirstEvent>>, ServiceError> {
        let (mut heads, failed) = self.heads([id], scope).await;
        failed.into_values().next().map_or(Ok(()), Err)?;
        Ok(heads.remove(&id))
    }

    async fn workload(&self, id: Id, scope: &Scope) -> Result<Option<Value>, ServiceError> {
        let (mut workloads, failed) = self.workloads(&[id], scope).await;
        failed.into_values().next().map_or(Ok(()), Err)?;
        Ok(workloads.remove(&id).map(|workload| workload.read()))
    }
}

/// Returns the workload of an execution with the changes of a request. Changes that are not a map are returned alone,
/// and refused later.
fn changed(workload: Option<Value>, changes: Option<Value>) -> Option<Value> {
    match changes {
        None | Some(Value::Null) => workload.filter(Value::is_object),
        Some(Value::Object(changes)) => Some(overlay(workload.as_ref(), changes).into()),
        invalid => invalid,
    }
}
