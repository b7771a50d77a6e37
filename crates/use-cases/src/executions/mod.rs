//! Executions: start (with an opt-in dedup window), run again, select, cancel, read.

mod cancel;
mod history;
pub mod logs;
mod request;
mod rerun;
mod start;
mod stats;
mod step_stats;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{ReadFailures, Rejection, ServiceError};
use crate::listing::Listing;
use logs::{EventListing, LogPage, LogQuery};
use noetl_domain::event::{Event, EventKey};
use noetl_domain::event_list::{EventPosition, LogFilter};
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{Caller, Scope};
use noetl_storage::dedup::ClaimRow;
use noetl_storage::events::{FirstEvent, LargeColumns};
use noetl_storage::execution_lists::{ExecutionFilter, OwnerKind};
use noetl_storage::executions::ExecutionRow;
use plain_json::Text;

pub use cancel::{CancelledOne, CancelledTree, Cancelling};
pub use history::{ExecutionHistory, HistoryRequest, HistorySpan, MAX_SPANS};
pub use request::{
    Dedup, EntryKey, ExecuteRequest, MAX_BATCH, MAX_WINDOW_SECONDS, MAX_WORKLOAD_BYTES, check_key, check_label_name,
    check_label_value,
};
pub use rerun::{RerunDedup, RerunOne, Rerunning};
pub use start::{Executed, Outcome};
pub use stats::{ExecutionStats, PathCount};
pub use step_stats::{PathSteps, PathStepsRequest};

/// Maximum number of executions that one request selects.
pub const MAX_SELECTED: usize = 1000;
/// Maximum number of descendants that one request cancels.
pub const MAX_CANCELLED: usize = 1000;

/// A page for each parent or other owner, and the shards whose rows may be missing from the pages.
pub type PagesByOwner = (HashMap<i64, Page<ExecutionRow>>, Vec<ShardIndex>);

/// Starting executions.
#[async_trait]
pub trait Execute: Debug + Send + Sync {
    /// Starts one execution.
    async fn execute(&self, request: ExecuteRequest, caller: &Caller) -> Result<Executed, ServiceError>;

    /// Starts a batch of 1 to 1000 executions. Each request succeeds or fails independently. An `Err` in the input is
    /// returned at its position.
    async fn execute_batch(
        &self,
        requests: Vec<Result<ExecuteRequest, Rejection>>,
        caller: &Caller,
    ) -> Result<Vec<Result<Executed, ServiceError>>, ServiceError>;
}

/// Running executions again.
#[async_trait]
pub trait Rerun: Debug + Send + Sync {
    /// Starts an execution with the catalog entry, the workload and the tenant of another one, which its started event
    /// names. The new execution belongs to the source subscription of the origin. It is not a child of the execution
    /// that started the origin, because this would take it for a call of its own.
    async fn rerun(&self, origin: Id, rerunning: Rerunning, caller: &Caller) -> Result<Executed, ServiceError>;

    /// Starts a rerun of each of these executions, or in a dry run says which would be started. Each succeeds or fails
    /// independently. Result i belongs to execution i; a repeated execution is run again once, and has the same result
    /// each time. An execution that an earlier request with the same dedup key started is its own duplicate, so that a
    /// repeated request that selects by a filter does not run it again.
    async fn rerun_all(
        &self,
        origins: Vec<Id>,
        rerunning: Rerunning,
        dry_run: bool,
        caller: &Caller,
    ) -> Result<Vec<RerunOne>, ServiceError>;
}

/// Selecting the executions of a bulk operation.
#[async_trait]
pub trait Select: Debug + Send + Sync {
    /// Returns the executions in the scope that match a filter, newest first, and the shards that could not be read. With
    /// `only_open`, executions that have ended do not match. Refuses a filter that more than [`MAX_SELECTED`] executions
    /// match.
    async fn matching(
        &self,
        filter: &ExecutionFilter,
        only_open: bool,
        scope: &Scope,
    ) -> Result<(Vec<Id>, Vec<ShardIndex>), ServiceError>;
}

/// Cancelling executions.
#[async_trait]
pub trait Cancel: Debug + Send + Sync {
    /// Cancels executions, and with `cascade` their descendants. With `cascade`, an execution that has ended is not
    /// refused.
    async fn cancel_all(&self, ids: Vec<Id>, cancelling: &Cancelling<'_>) -> Result<CancelledTree, ServiceError>;
}

/// Reading executions.
#[async_trait]
pub trait ReadExecutions: Debug + Send + Sync {
    /// Returns the executions in the scope with these ids as the list has them, and the errors of those that could not
    /// be read. An execution that the list lacks is read from its log.
    async fn by_ids(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, ExecutionRow>, ReadFailures);

    /// Returns a page in the scope over all shards. Refuses a filter with which no index has the order.
    async fn list(
        &self,
        filter: &ExecutionFilter,
        order: ExecutionOrder,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<Listing<ExecutionRow>, ServiceError>;

    /// Refuses the first digits of ids that too many executions have. A list reads and sorts all of them.
    async fn check_id_prefix(&self, field: &str, digits: &str) -> Result<(), ServiceError>;

    /// Counts executions in the scope over all shards, up to `limit`.
    async fn total(&self, filter: &ExecutionFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError>;

    /// Counts executions in the scope by status and by path, over all shards.
    async fn stats(&self, filter: &ExecutionFilter, scope: &Scope) -> Result<ExecutionStats, ServiceError>;

    /// Counts the child executions of each parent in the scope over all shards, up to `limit` for each parent.
    async fn children_totals(
        &self,
        parents: &[Id],
        filter: &ExecutionFilter,
        limit: i64,
        scope: &Scope,
    ) -> Result<HashMap<Id, Total>, ServiceError>;

    /// Returns a page of the child executions of each parent in the scope, newest first, and the shards whose rows may
    /// be missing.
    async fn children(
        &self,
        parents: &[Id],
        filter: &ExecutionFilter,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<PagesByOwner, ServiceError>;

    /// Returns the heads of these logs in the scope, and the errors of those that could not be read.
    async fn log_heads(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, Arc<FirstEvent>>, ReadFailures);

    /// Returns the workloads of these executions in the scope, and the errors of those that could not be read.
    async fn workloads(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, Text>, ReadFailures);

    /// Returns the results of these events (execution and event) in the scope that have one, and the errors of the
    /// executions that could not be read.
    async fn results(&self, events: &[(Id, Id)], scope: &Scope) -> (HashMap<(Id, Id), Text>, ReadFailures);
}

/// Reading the executions of catalog entries, and the reruns of executions.
#[async_trait]
pub trait ReadExecutionsOfOwners: Debug + Send + Sync {
    /// Returns a page of the executions of each owner in the scope, newest first, and the shards whose rows may be missing.
    async fn of_owners(
        &self,
        kind: OwnerKind,
        owners: &[i64],
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<PagesByOwner, ServiceError>;

    /// Counts the executions of each owner in the scope over all shards, up to `limit` for each.
    async fn owner_totals(
        &self,
        kind: OwnerKind,
        owners: &[i64],
        limit: i64,
        scope: &Scope,
    ) -> Result<HashMap<i64, Total>, ServiceError>;
}

/// Reading the history of executions.
#[async_trait]
pub trait ReadHistory: Debug + Send + Sync {
    /// Counts executions in the scope for each span, over all shards.
    async fn history(&self, request: &HistoryRequest, scope: &Scope) -> Result<ExecutionHistory, ServiceError>;
}

/// Reading statistics of the steps of executions.
#[async_trait]
pub trait ReadStepStats: Debug + Send + Sync {
    /// Returns statistics of the steps of the newest executions of a path in the scope that have ended, over all shards.
    /// Fails if their states are too large for the budget of the operation.
    async fn step_stats(&self, request: &PathStepsRequest, scope: &Scope) -> Result<PathSteps, ServiceError>;
}

/// Reading the events of logs.
#[async_trait]
pub trait ReadLogs: Debug + Send + Sync {
    /// Returns one event. `Ok(None)`: it does not exist in the scope.
    async fn event(&self, execution: Id, event: Id, scope: &Scope) -> Result<Option<Event<Text>>, ServiceError>;

    /// Returns the events in the scope with these keys, and the errors of those that could not be read.
    async fn events_by_keys(
        &self,
        keys: &[EventKey],
        columns: &LargeColumns,
        scope: &Scope,
    ) -> (HashMap<EventKey, Event<Text>>, ReadFailures);

    /// Returns a page of events in the scope of each log, with these large columns. A log that could not be read has an
    /// error.
    async fn logs(
        &self,
        executions: &[Id],
        query: &LogQuery,
        scope: &Scope,
    ) -> HashMap<Id, Result<LogPage, ServiceError>>;

    /// Returns a page of events in the scope over all shards, newest first: by time, then by id, then by execution.
    async fn newest_events(
        &self,
        filter: &LogFilter,
        columns: &LargeColumns,
        request: &PageRequest<EventPosition>,
        joined: bool,
        scope: &Scope,
    ) -> Result<EventListing, ServiceError>;

    /// Counts the events of each log in the scope, up to `limit` for each. A log that could not be read has an error.
    async fn log_totals(
        &self,
        executions: &[Id],
        filter: &LogFilter,
        limit: i64,
        scope: &Scope,
    ) -> HashMap<Id, Result<Total, ServiceError>>;

    /// Counts the events in the scope over all shards, up to `limit`.
    async fn event_total(&self, filter: &LogFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError>;
}

/// Reading the claims of dedup keys.
#[async_trait]
pub trait ReadDedupClaims: Debug + Send + Sync {
    /// Returns the claim of a dedup key, expired or not. `Ok(None)`: there is none in the scope. Without a parent, the
    /// key is one of the scope's tenant, or of the tenant `default` if the scope is not restricted. An invalid key is
    /// reported under `field`.
    async fn dedup_claim(
        &self,
        field: &str,
        parent: Option<Id>,
        key: &str,
        scope: &Scope,
    ) -> Result<Option<ClaimRow>, ServiceError>;
}

/// All use cases of executions.
pub trait Executions:
    Execute
    + Rerun
    + Select
    + Cancel
    + ReadExecutions
    + ReadExecutionsOfOwners
    + ReadHistory
    + ReadStepStats
    + ReadLogs
    + ReadDedupClaims
{
}

impl<
    T: Execute
        + Rerun
        + Select
        + Cancel
        + ReadExecutions
        + ReadExecutionsOfOwners
        + ReadHistory
        + ReadStepStats
        + ReadLogs
        + ReadDedupClaims,
> Executions for T
{
}
