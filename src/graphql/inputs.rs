//! Input types, and their conversion to requests of the services.

pub mod outbox;

use async_graphql::{Enum, ID, InputObject, OneofObject};
use chrono::{DateTime, Utc};

use super::scalars::{Json, parse_id, parse_ids};
use super::types::execution::ExecutionStatus;
use super::types::subscription::{SubscriptionAction, SubscriptionState};
use crate::feed::read::reader::{Since, Start};
use crate::feed::wire::cursor::StreamCursor;
use crate::service::bounds::check_text;
use crate::service::catalog::Registration;
use crate::service::error::Rejection;
use crate::service::executions::{Dedup, ExecuteRequest};
use crate::service::subscriptions::Transition;
use noetl_domain::actor::Actor;
use noetl_domain::event as domain;
use noetl_storage::{catalog, executions, subscriptions};

/// Maximum number of values in a list of a filter.
const MAX_LIST: usize = 1000;

/// Key of a source subscription.
#[derive(Debug, OneofObject)]
pub enum SubscriptionKey {
    /// Id of the subscription.
    Id(ID),
    /// Catalog path. Selects the subscription of the path that is not deactivated, or else the last one.
    Path(String),
}

/// Filter for source subscriptions. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct SubscriptionFilter {
    /// Only subscriptions in one of these states.
    states: Option<Vec<SubscriptionState>>,
    /// Only subscriptions whose path begins with this text.
    path_prefix: Option<String>,
    /// Only subscriptions with one of these ids (at most 1000).
    ids: Option<Vec<ID>>,
}

impl SubscriptionFilter {
    /// Converts the input to the storage layer's filter and parses its ids.
    pub fn parse(self) -> Result<subscriptions::SubscriptionFilter, Rejection> {
        Ok(subscriptions::SubscriptionFilter {
            states: self.states.map(|states| states.into_iter().map(Into::into).collect()),
            path_prefix: prefix(self.path_prefix)?,
            ids: self
                .ids
                .map(|ids| bounded("filter.ids", &ids).and_then(|()| parse_ids("filter.ids", &ids)))
                .transpose()?,
        })
    }
}

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
}

impl ExecutionFilter {
    /// Converts the input to the storage layer's filter and parses its ids.
    pub fn parse(self) -> Result<executions::ExecutionFilter, Rejection> {
        let parent = self.parent_execution_id.map(|id| parse_id("filter.parentExecutionId", &id)).transpose()?;
        Ok(executions::ExecutionFilter {
            statuses: self.statuses.map(|statuses| statuses.into_iter().map(Into::into).collect()),
            path_prefix: prefix(self.path_prefix)?,
            parent_execution_id: parent,
            started_after: self.started_after,
            started_before: self.started_before,
        })
    }
}

/// Filter for events. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct EventFilter {
    /// Only events in the logs of these executions and source subscriptions (at most 1000 ids).
    execution_ids: Option<Vec<ID>>,
    /// Only events of executions that this execution or source subscription started.
    parent_execution_id: Option<ID>,
    /// Only events of these types (at most 1000). A trailing `*` matches any ending, as in `subscription.*`.
    types: Option<Vec<String>>,
    /// Only events of nodes with these names (at most 1000).
    node_names: Option<Vec<String>>,
    /// Only events with one of these statuses (at most 1000).
    statuses: Option<Vec<String>>,
}

impl EventFilter {
    /// Converts the input to a filter of the domain and parses its ids.
    pub fn parse(self) -> Result<domain::EventFilter, Rejection> {
        let lists = [("types", &self.types), ("nodeNames", &self.node_names), ("statuses", &self.statuses)];
        for (field, list) in lists {
            list.as_ref().map_or(Ok(()), |list| texts(&format!("filter.{field}"), list))?;
        }
        let ids = self
            .execution_ids
            .map(|ids| bounded("filter.executionIds", &ids).and_then(|()| parse_ids("filter.executionIds", &ids)));
        let parent = self.parent_execution_id.map(|id| parse_id("filter.parentExecutionId", &id)).transpose()?;
        Ok(domain::EventFilter {
            execution_ids: ids.transpose()?,
            parent_execution_id: parent,
            types: self.types,
            node_names: self.node_names,
            statuses: self.statuses,
        })
    }
}

fn bounded<T>(field: &str, list: &[T]) -> Result<(), Rejection> {
    if list.len() <= MAX_LIST {
        return Ok(());
    }
    Err(Rejection::invalid(field, format!("a list in a filter has at most {MAX_LIST} values, not {}", list.len())))
}

fn texts(field: &str, list: &[String]) -> Result<(), Rejection> {
    bounded(field, list)?;
    list.iter().try_for_each(|text| check_text(field, text))
}

fn prefix(prefix: Option<String>) -> Result<Option<String>, Rejection> {
    prefix.map(|prefix| check_text("filter.pathPrefix", &prefix).map(|()| prefix)).transpose()
}

/// Filter for catalog entries. An omitted list or prefix matches everything.
#[derive(Debug, Clone, InputObject)]
pub struct CatalogFilter {
    /// Only entries of these kinds, in upper or lower case (at most 1000).
    kinds: Option<Vec<String>>,
    /// Only entries whose path begins with this text.
    path_prefix: Option<String>,
    /// Whether to return only the newest version of each path (default true).
    #[graphql(default = true)]
    latest_only: bool,
}

impl Default for CatalogFilter {
    fn default() -> Self {
        Self { kinds: None, path_prefix: None, latest_only: true }
    }
}

impl CatalogFilter {
    /// Converts the input to the storage layer's filter, with the kinds in lower case.
    pub fn parse(self) -> Result<catalog::CatalogFilter, Rejection> {
        self.kinds.as_ref().map_or(Ok(()), |kinds| texts("filter.kinds", kinds))?;
        Ok(catalog::CatalogFilter {
            kinds: self.kinds.map(|kinds| kinds.iter().map(|kind| kind.to_lowercase()).collect()),
            path_prefix: prefix(self.path_prefix)?,
            latest_only: self.latest_only,
        })
    }
}

/// Catalog entry to register.
#[derive(Debug, InputObject)]
pub struct RegisterCatalogEntryInput {
    /// Catalog path (1 to 512 bytes).
    pub path: String,
    /// Kind, such as `playbook`, `agent` or `subscription`, in upper or lower case (default: the `kind` in the
    /// content).
    kind: Option<String>,
    /// Document, a map in YAML or JSON (at most 4 MiB).
    content: String,
    /// Additional data to store with the entry (at most 1 MiB as JSON).
    meta: Option<Json>,
}

impl From<RegisterCatalogEntryInput> for Registration {
    fn from(input: RegisterCatalogEntryInput) -> Self {
        let RegisterCatalogEntryInput { path, kind, content, meta } = input;
        Self { path, kind, content, meta: meta.map(|meta| meta.0) }
    }
}

/// Source subscription to register.
#[derive(Debug, InputObject)]
pub struct RegisterSubscriptionInput {
    /// Catalog path whose newest entry is of kind `subscription`.
    pub path: String,
}

/// Transition of one source subscription.
#[derive(Debug, InputObject)]
pub struct TransitionInput {
    /// Id of the subscription.
    pub id: ID,
    /// `lastEventId` that the caller has read. If a later lifecycle event exists, the transition is refused with
    /// `STALE_VERSION`. By default, the version is not checked.
    expected_last_event_id: Option<ID>,
    /// Reason, written to the log (at most 4096 bytes).
    reason: Option<String>,
}

impl TransitionInput {
    /// Converts the input to the transition that the caller requests, and parses its ids.
    pub fn parse(self, action: SubscriptionAction, by: Option<Actor>, only_own: bool) -> Result<Transition, Rejection> {
        let expected = self.expected_last_event_id.map(|id| parse_id("expectedLastEventId", &id)).transpose()?;
        Ok(Transition {
            id: parse_id("id", &self.id)?,
            action: action.into(),
            expected_last_event_id: expected,
            reason: self.reason,
            by,
            only_own,
        })
    }
}

/// Transition of all source subscriptions that match a filter.
#[derive(Debug, InputObject)]
pub struct BulkTransitionInput {
    /// Action to carry out.
    pub action: SubscriptionAction,
    /// Filter for the subscriptions; at most 1000 may match.
    pub filter: SubscriptionFilter,
    /// Reason, written to the logs (at most 4096 bytes).
    pub reason: Option<String>,
    /// Whether to change nothing and only return the result that is expected (default false).
    #[graphql(default = false)]
    pub dry_run: bool,
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
}

/// Dedup window. The first request with a key starts an execution. Later requests with the same key return that
/// execution until the window expires.
#[derive(Debug, InputObject)]
pub struct DedupInput {
    /// Key that identifies a message among the requests with the same parent (1 to 1024 bytes).
    key: String,
    /// Length of the window in seconds (1 to 2592000; default: `dedup.window_secs` of the parent's catalog entry, else
    /// 300).
    // 64-bit, so that a number beyond GraphQL's `Int` is refused with an error that names this field.
    window_seconds: Option<i64>,
}

impl ExecuteInput {
    /// Returns the path or the catalog id, as the caller gave it.
    #[must_use]
    pub fn about(&self) -> Option<&str> {
        self.path.as_deref().or(self.catalog_id.as_ref().map(|id| id.as_str()))
    }

    /// Converts the input to a request of the service and parses its ids.
    pub fn parse(self) -> Result<ExecuteRequest, Rejection> {
        let dedup = self.dedup.map(|dedup| Dedup { key: dedup.key, window_seconds: dedup.window_seconds });
        Ok(ExecuteRequest {
            path: self.path,
            catalog_id: self.catalog_id.map(|id| parse_id("catalogId", &id)).transpose()?,
            workload: self.workload.map(|workload| workload.0),
            parent_execution_id: self.parent_execution_id.map(|id| parse_id("parentExecutionId", &id)).transpose()?,
            execution_pool: self.execution_pool,
            trace: self.trace.map(|trace| trace.0),
            dedup,
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

/// Start position of the live events.
#[derive(Debug, OneofObject)]
pub enum EventStart {
    /// Starts with the oldest event in the stream. The value must be true.
    Beginning(bool),
    /// Starts with the events that are published from now on. The value must be true.
    Latest(bool),
    /// Starts after a cursor that this subscription returned on any replica.
    After(String),
    /// Starts with the events that were published at or after this time. A future time counts as now.
    Since(DateTime<Utc>),
}

impl EventStart {
    /// Converts the input to a start position in a deployment with this many shards.
    pub fn parse(self, shards: usize, now: DateTime<Utc>) -> Result<Start, Rejection> {
        match self {
            Self::Beginning(true) => Ok(Start::Beginning),
            Self::Latest(true) => Ok(Start::Latest),
            Self::Beginning(false) => Err(Rejection::invalid("start.beginning", "beginning must be true or omitted")),
            Self::Latest(false) => Err(Rejection::invalid("start.latest", "latest must be true or omitted")),
            Self::After(cursor) => {
                let parsed = StreamCursor::parse(&cursor, shards);
                parsed.map(Start::After).map_err(|bad| Rejection::invalid("start.after", bad.to_string()))
            }
            Self::Since(time) => {
                // The broker accepts years up to 9999.
                let last = DateTime::from_timestamp(253_402_300_799, 0).unwrap_or(now);
                Ok(Start::Since(Since { time: time.clamp(DateTime::UNIX_EPOCH, last), now }))
            }
        }
    }
}

/// Summary of a caller's capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum Permission {
    /// Queries and live subscriptions.
    Read,
    /// Mutations.
    Write,
}
