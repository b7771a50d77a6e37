//! Inputs of executions.

use async_graphql::{ID, InputObject, OneofObject};
use chrono::{DateTime, Utc};

use super::status::ExecutionStatus;
use crate::graphql::filters::{check_owner, check_prefix};
use crate::graphql::scalars::{Json, parse_id};
use crate::service::error::Rejection;
use crate::service::executions::{Dedup, ExecuteRequest, RerunRequest};
use noetl_domain::projection::Moment;
use noetl_domain::tenant::NamedTenancy;
use noetl_storage::execution_lists;

/// Filter for executions. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct ExecutionFilter {
    /// Only executions with one of these statuses.
    statuses: Option<Vec<ExecutionStatus>>,
    /// Only executions whose catalog path begins with this text.
    path_prefix: Option<String>,
    /// Only executions that this execution or source subscription started.
    parent_execution_id: Option<ID>,
    /// Only executions that started after this time.
    started_after: Option<DateTime<Utc>>,
    /// Only executions that started before this time.
    started_before: Option<DateTime<Utc>>,
    /// Only executions of this tenant.
    tenant_id: Option<String>,
    /// Only executions of this organization.
    organization_id: Option<String>,
}

impl ExecutionFilter {
    /// Converts the input to the storage layer's filter and parses its ids.
    pub fn parse(self) -> Result<execution_lists::ExecutionFilter, Rejection> {
        let parent = self.parent_execution_id.map(|id| parse_id("filter.parentExecutionId", &id)).transpose()?;
        Ok(execution_lists::ExecutionFilter {
            statuses: self.statuses.map(|statuses| statuses.into_iter().map(Into::into).collect()),
            path_prefix: check_prefix("filter.pathPrefix", self.path_prefix)?,
            parent_execution_id: parent,
            started_after: self.started_after,
            started_before: self.started_before,
            tenant_id: check_owner("filter.tenantId", self.tenant_id)?,
            organization_id: check_owner("filter.organizationId", self.organization_id)?,
        })
    }
}

/// Moment in the history of an execution.
#[derive(Debug, OneofObject)]
pub enum ExecutionMoment {
    /// After the event with this id and all events of the execution with smaller ids.
    Event(ID),
    /// After all events of the execution whose time is not later than this time.
    Time(DateTime<Utc>),
}

impl ExecutionMoment {
    /// Converts the input and parses its id.
    pub fn parse(self) -> Result<Moment, Rejection> {
        match self {
            Self::Event(id) => Ok(Moment::Event(parse_id("at.event", &id)?)),
            Self::Time(time) => Ok(Moment::Time(time)),
        }
    }
}

/// Executions whose projections are advanced.
#[derive(Debug, InputObject)]
pub struct AdvanceProjectionsInput {
    /// Ids of the executions (1 to 1000). A repeated id counts once.
    pub execution_ids: Vec<ID>,
}

/// Execution to start.
#[derive(Debug, InputObject)]
pub struct ExecuteInput {
    /// Catalog path whose newest version is run. Exactly one of `path` and `catalogId` is required.
    path: Option<String>,
    /// Id of the catalog entry to run. Exactly one of `path` and `catalogId` is required.
    catalog_id: Option<ID>,
    /// Map that overlays the catalog entry's workload, key by key (at most 4 MiB as JSON).
    workload: Option<Json>,
    /// Id of the source subscription or execution that starts this execution.
    parent_execution_id: Option<ID>,
    /// Pool of workers that runs the execution (1 to 64 letters, digits, `-` and `_`; default `shared`).
    execution_pool: Option<String>,
    /// W3C trace context, a map such as `{"traceparent": "00-…"}` (default: the parent's trace context).
    trace: Option<Json>,
    /// Dedup window. Without it, every request starts an execution.
    dedup: Option<DedupInput>,
    /// Tenant of the execution (1 to 256 bytes; default: the tenant of the parent, else that of the caller, else
    /// `default`). A caller with a tenant can't name another one, and an execution has the tenant of its parent.
    tenant_id: Option<String>,
    /// Organization of the execution (1 to 256 bytes; default: the organization of the parent, else `default`).
    organization_id: Option<String>,
}

/// Dedup window. The first request with a key starts an execution. Later requests with the same key return that
/// execution until the window expires, even if their content differs.
#[derive(Debug, InputObject)]
pub struct DedupInput {
    /// Key that identifies a message among the requests with the same parent (1 to 1024 bytes). Requests without a
    /// parent are those of one tenant.
    key: String,
    /// Length of the window in seconds (1 to 2592000; default: `dedup.window_secs` of the parent's catalog entry, else
    /// 300).
    // 64-bit, so that a number beyond GraphQL's `Int` is refused with an error that names this field.
    window_seconds: Option<i64>,
    /// Whether this request is rejected with `IDEMPOTENCY_MISMATCH` if it differs from the request that started the
    /// execution of the key (default false: it returns `DUPLICATE` with `differs: true`). Compared are the path or the
    /// catalog id, the workload and the pool.
    #[graphql(default = false)]
    reject_different: bool,
}

impl ExecuteInput {
    /// Returns the path or the catalog id, as the caller gave it.
    #[must_use]
    pub fn target_name(&self) -> Option<&str> {
        self.path.as_deref().or(self.catalog_id.as_ref().map(|id| id.as_str()))
    }

    /// Converts the input to a request of the service and parses its ids.
    pub fn parse(self) -> Result<ExecuteRequest, Rejection> {
        Ok(ExecuteRequest {
            path: self.path,
            catalog_id: self.catalog_id.map(|id| parse_id("catalogId", &id)).transpose()?,
            workload: self.workload.map(|workload| workload.0),
            parent_execution_id: self.parent_execution_id.map(|id| parse_id("parentExecutionId", &id)).transpose()?,
            execution_pool: self.execution_pool,
            trace: self.trace.map(|trace| trace.0),
            dedup: self.dedup.map(Dedup::from),
            rerun_of: None,
            tenancy: NamedTenancy { tenant_id: self.tenant_id, organization_id: self.organization_id },
        })
    }
}

impl From<DedupInput> for Dedup {
    fn from(DedupInput { key, window_seconds, reject_different }: DedupInput) -> Self {
        Self { key, window_seconds, reject_different }
    }
}

/// Execution to run again.
#[derive(Debug, InputObject)]
pub struct RerunExecutionInput {
    /// Id of the execution, which need not have ended.
    pub id: ID,
    /// Map that overlays the workload of the execution, key by key (at most 4 MiB as JSON; default: no change).
    workload: Option<Json>,
    /// Whether to run the newest version of the catalog path (default false: the version that the execution ran).
    #[graphql(default = false)]
    newest_version: bool,
    /// Pool of workers that runs the new execution (1 to 64 letters, digits, `-` and `_`; default: the pool of the
    /// execution).
    execution_pool: Option<String>,
    /// W3C trace context, a map such as `{"traceparent": "00-…"}` (default: that of this request).
    trace: Option<Json>,
    /// Dedup window. Without it, every request starts an execution.
    dedup: Option<DedupInput>,
}

impl RerunExecutionInput {
    /// Converts the input to a request of the service and parses its id.
    pub fn parse(self) -> Result<RerunRequest, Rejection> {
        Ok(RerunRequest {
            id: parse_id("id", &self.id)?,
            workload: self.workload.map(|workload| workload.0),
            newest_version: self.newest_version,
            execution_pool: self.execution_pool,
            trace: self.trace.map(|trace| trace.0),
            dedup: self.dedup.map(Dedup::from),
        })
    }
}

/// Executions to start. Each request succeeds or fails independently.
#[derive(Debug, InputObject)]
pub struct ExecuteBatchInput {
    /// Requests (1 to 1000). Result i belongs to request i.
    pub requests: Vec<ExecuteInput>,
}

/// Execution to cancel.
#[derive(Debug, InputObject)]
pub struct CancelExecutionInput {
    /// Id of the execution.
    pub id: ID,
    /// Reason, written to the log (at most 4096 bytes).
    pub reason: Option<String>,
}
