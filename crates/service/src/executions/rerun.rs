//! Running an execution again.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use serde_json::Value;

use super::Executions;
use noetl_domain::execution::{DEFAULT_WINDOW_SECONDS, dedup_scope, overlay};
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::REGISTERED;
use noetl_domain::tenant::{Caller, NamedTenancy, Scope};
use noetl_runtime::clock;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::dedup::{self, ClaimRow};
use noetl_storage::events::FirstEvent;
use noetl_use_cases::catalog::ReadCatalog;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::executions::{
    Dedup, EntryKey, Execute, ExecuteRequest, Executed, ReadExecutions, Rerun, RerunRequest,
};

#[async_trait]
impl Rerun for Executions {
    #[tracing::instrument(level = "debug", name = "executions.rerun", skip_all, fields(origin = %request.id))]
    async fn rerun(&self, request: RerunRequest, caller: &Caller) -> Result<Executed, ServiceError> {
        let scope = &caller.scope;
        let RerunRequest { id, workload, newest_version, execution_pool, trace, dedup } = request;
        let unknown = || Rejection::not_found("executionId", format!("there is no execution {id}"));
        let origin = self.head(id, scope).await?.filter(|head| head.event_type != REGISTERED).ok_or_else(unknown)?;
        let unknown = || {
            let message = format!("the catalog entry {} of execution {id} does not exist", origin.catalog_id);
            Rejection::not_found("executionId", message)
        };
        let entry = self.catalog.get(Id::new(origin.catalog_id)).await?.ok_or_else(unknown)?;
        let parent = self.subscription_of(&origin, scope).await?;
        let tenancy = NamedTenancy {
            tenant_id: parent.is_none().then(|| origin.tenant_id.clone()),
            organization_id: Some(origin.organization_id.clone()),
        };
        let request = ExecuteRequest {
            entry: if newest_version {
                EntryKey::Path(entry.path.clone())
            } else {
                if !self.is_claimed(dedup.as_ref(), parent, &origin.tenant_id).await? {
                    self.check_not_retired(&entry).await?;
                }
                EntryKey::CatalogId(Id::new(entry.catalog_id))
            },
            workload: changed(self.workload(id, scope).await?, workload),
            parent_execution_id: parent,
            execution_pool: execution_pool.or_else(|| origin.execution_pool.clone()),
            trace,
            dedup,
            rerun_of: Some(id),
            tenancy,
        };
        self.execute(request, caller).await.map_err(of_origin)
    }
}

/// Returns an error with the field that stands for the catalog entry in a request to run an execution again.
fn of_origin(error: ServiceError) -> ServiceError {
    match error {
        ServiceError::Rejected(rejection) if rejection.field.first().is_some_and(|field| field == "entry") => {
            Rejection::new(rejection.code, "executionId", rejection.message).into()
        }
        other => other,
    }
}

impl Executions {
    /// Refuses a retired version. A request that runs one on purpose names its id.
    async fn check_not_retired(&self, entry: &CatalogEntry) -> Result<(), ServiceError> {
        if self.catalog.archived_at(&[entry.catalog_id]).await?.is_empty() {
            return Ok(());
        }
        let message = format!(
            "version {} of {:?}, which the execution ran, is retired; set newestVersion, or restore it",
            entry.version, entry.path
        );
        Err(Rejection::not_found("executionId", message).into())
    }

    /// Returns whether a dedup key is claimed, so that a request with it starts nothing. A claim that NoETL's server made has
    /// the window of the request.
    async fn is_claimed(&self, dedup: Option<&Dedup>, parent: Option<Id>, tenant: &str) -> Result<bool, ServiceError> {
        let Some(Dedup { key, window_seconds, .. }) = dedup else { return Ok(false) };
        let claim = dedup::find(self.databases.cluster(), dedup_scope(parent, tenant), key).await?;
        let window = TimeDelta::seconds(window_seconds.unwrap_or(i64::from(DEFAULT_WINDOW_SECONDS)));
        let end = |claim: ClaimRow| claim.expires_at.or_else(|| claim.first_seen_at.checked_add_signed(window));
        Ok(claim.is_some_and(|claim| end(claim).is_some_and(|end| end > clock::now())))
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
