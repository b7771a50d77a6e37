//! Input types, and what they mean to the services.

pub mod outbox;

use async_graphql::{Enum, ID, InputObject, OneofObject};
use chrono::{DateTime, Utc};

use super::scalars::{Json, parse_id, parse_ids};
use super::types::execution::ExecutionStatus;
use super::types::subscription::{SubscriptionAction, SubscriptionState};
use crate::domain::actor::Actor;
use crate::domain::event as domain;
use crate::service::bounds::check_text;
use crate::service::catalog::Registration;
use crate::service::error::Rejection;
use crate::service::executions::{Dedup, ExecuteRequest};
use crate::service::subscriptions::Transition;
use crate::storage::{catalog, executions, subscriptions};
use crate::stream::cursor::StreamCursor;
use crate::stream::reader::{Since, Start};

/// Items that a list of an input may have.
const MAX_LIST: usize = 1000;

/// Which source subscription.
#[derive(Debug, OneofObject)]
pub enum SubscriptionKey {
    /// The one with this id.
    Id(ID),
    /// The path's live one, else the last that was.
    Path(String),
}

/// Which source subscriptions; conditions that are left out hold for all.
#[derive(Debug, Clone, Default, InputObject)]
pub struct SubscriptionFilter {
    /// Only these states.
    states: Option<Vec<SubscriptionState>>,
    /// Only paths that begin so.
    path_prefix: Option<String>,
    /// Only these.
    ids: Option<Vec<ID>>,
}

impl SubscriptionFilter {
    /// The filter, with its ids read.
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

/// Which executions; conditions that are left out hold for all.
#[derive(Debug, Clone, Default, InputObject)]
pub struct ExecutionFilter {
    /// Only these states.
    statuses: Option<Vec<ExecutionStatus>>,
    /// Only catalog paths that begin so.
    path_prefix: Option<String>,
    /// Only those that this execution or subscription started.
    parent_execution_id: Option<ID>,
    /// Only those that began later.
    started_after: Option<DateTime<Utc>>,
    /// Only those that began earlier.
    started_before: Option<DateTime<Utc>>,
}

impl ExecutionFilter {
    /// The filter, with its ids read.
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

/// Which events; conditions that are left out hold for all.
#[derive(Debug, Clone, Default, InputObject)]
pub struct EventFilter {
    /// Only the logs of these executions and subscriptions.
    execution_ids: Option<Vec<ID>>,
    /// Only what this execution or subscription started.
    parent_execution_id: Option<ID>,
    /// Only these types; a trailing `*` stands for any rest, as in `subscription.*`.
    types: Option<Vec<String>>,
    /// Only these nodes.
    node_names: Option<Vec<String>>,
    /// Only these states.
    statuses: Option<Vec<String>>,
}

impl EventFilter {
    /// The filter, with its ids read.
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
    Err(Rejection::invalid(field, format!("a filter lists at most {MAX_LIST} values, not {}", list.len())))
}

fn texts(field: &str, list: &[String]) -> Result<(), Rejection> {
    bounded(field, list)?;
    list.iter().try_for_each(|text| check_text(field, text))
}

fn prefix(prefix: Option<String>) -> Result<Option<String>, Rejection> {
    prefix.map(|prefix| check_text("filter.pathPrefix", &prefix).map(|()| prefix)).transpose()
}

/// Which catalog entries.
#[derive(Debug, Clone, InputObject)]
pub struct CatalogFilter {
    /// Only these kinds, in any case.
    kinds: Option<Vec<String>>,
    /// Only paths that begin so.
    path_prefix: Option<String>,
    /// Only each path's newest version.
    #[graphql(default = true)]
    latest_only: bool,
}

impl Default for CatalogFilter {
    fn default() -> Self {
        Self { kinds: None, path_prefix: None, latest_only: true }
    }
}

impl CatalogFilter {
    /// The filter, in lower case.
    pub fn parse(self) -> Result<catalog::CatalogFilter, Rejection> {
        self.kinds.as_ref().map_or(Ok(()), |kinds| texts("filter.kinds", kinds))?;
        Ok(catalog::CatalogFilter {
            kinds: self.kinds.map(|kinds| kinds.iter().map(|kind| kind.to_lowercase()).collect()),
            path_prefix: prefix(self.path_prefix)?,
            latest_only: self.latest_only,
        })
    }
}

/// What to register in the catalog.
#[derive(Debug, InputObject)]
pub struct RegisterCatalogEntryInput {
    /// What users call it: 1 to 512 bytes.
    pub path: String,
    /// Such as `playbook`, `agent` or `subscription`, in any case; left out: the content's `kind`.
    kind: Option<String>,
    /// YAML or JSON, a map; at most 4 MiB.
    content: String,
    /// What else is to be kept.
    meta: Option<Json>,
}

impl From<RegisterCatalogEntryInput> for Registration {
    fn from(input: RegisterCatalogEntryInput) -> Self {
        let RegisterCatalogEntryInput { path, kind, content, meta } = input;
        Self { path, kind, content, meta: meta.map(|meta| meta.0) }
    }
}

/// Which path to register as a source subscription.
#[derive(Debug, InputObject)]
pub struct RegisterSubscriptionInput {
    /// A catalog path of kind `subscription`.
    pub path: String,
}

/// A transition of one source subscription.
#[derive(Debug, InputObject)]
pub struct TransitionInput {
    /// The subscription.
    pub id: ID,
    /// The `lastEventId` that was read; if something happened since, the transition is refused as `STALE_VERSION`.
    expected_last_event_id: Option<ID>,
    /// Why, for the log; at most 4096 bytes.
    reason: Option<String>,
}

impl TransitionInput {
    /// The transition that a caller asks for, with its ids read.
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

/// A transition of every matching source subscription.
#[derive(Debug, InputObject)]
pub struct BulkTransitionInput {
    /// What to do.
    pub action: SubscriptionAction,
    /// To which; at most 1000 may match.
    pub filter: SubscriptionFilter,
    /// Why, for the logs.
    pub reason: Option<String>,
    /// Only tell what would happen.
    #[graphql(default = false)]
    pub dry_run: bool,
}

/// Executions whose states are to be stored.
#[derive(Debug, InputObject)]
pub struct AdvanceProjectionsInput {
    /// Which ones; 1 to 1000, each once.
    pub execution_ids: Vec<ID>,
}

/// An execution to start.
#[derive(Debug, InputObject)]
pub struct ExecuteInput {
    /// What to run, by its newest version; give this or `catalogId`.
    path: Option<String>,
    /// What to run, exactly; give this or `path`.
    catalog_id: Option<ID>,
    /// A map that overlays the catalog entry's workload key by key; at most 4 MiB.
    workload: Option<Json>,
    /// The source subscription or execution that it belongs to.
    parent_execution_id: Option<ID>,
    /// Whose workers run it; `shared` by default.
    execution_pool: Option<String>,
    /// W3C trace context; the parent's by default.
    trace: Option<Json>,
    /// Run once per key and window.
    dedup: Option<DedupInput>,
}

/// A dedup window: the first request under a key starts the execution, later ones get it back.
#[derive(Debug, InputObject)]
pub struct DedupInput {
    /// What makes two requests the same message, within the parent: 1 to 1024 bytes.
    key: String,
    /// How long the key is remembered, 1 to 2592000; by default the subscription's `dedup.window_secs`, else 300.
    // Wider than GraphQL's Int, so that what is too long is refused in the terms of this field.
    window_seconds: Option<i64>,
}

impl ExecuteInput {
    /// What to run, as the caller names it.
    #[must_use]
    pub fn about(&self) -> Option<&str> {
        self.path.as_deref().or(self.catalog_id.as_ref().map(|id| id.as_str()))
    }

    /// The request, with its ids read.
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

/// Executions to start, each on its own.
#[derive(Debug, InputObject)]
pub struct ExecuteBatchInput {
    /// 1 to 1000; result i belongs to request i.
    pub requests: Vec<ExecuteInput>,
}

/// An execution to end.
#[derive(Debug, InputObject)]
pub struct CancelExecutionInput {
    /// The execution.
    pub id: ID,
    /// Why, for the log; at most 4096 bytes.
    pub reason: Option<String>,
}

/// Where the live events start.
#[derive(Debug, OneofObject)]
pub enum EventStart {
    /// With the oldest event that the stream holds.
    Beginning(bool),
    /// With what is published from now on.
    Latest(bool),
    /// Behind a cursor that this subscription returned, on any replica.
    After(String),
    /// With what was published at this time or later; a time to come counts as now.
    Since(DateTime<Utc>),
}

impl EventStart {
    /// The start, in a deployment with this many shards.
    pub fn parse(self, shards: usize, now: DateTime<Utc>) -> Result<Start, Rejection> {
        match self {
            Self::Beginning(true) => Ok(Start::Beginning),
            Self::Latest(true) => Ok(Start::Latest),
            Self::Beginning(false) => Err(Rejection::invalid("start.beginning", "beginning is true or left out")),
            Self::Latest(false) => Err(Rejection::invalid("start.latest", "latest is true or left out")),
            Self::After(cursor) => {
                let parsed = StreamCursor::parse(&cursor, shards);
                parsed.map(Start::After).map_err(|bad| Rejection::invalid("start.after", bad.to_string()))
            }
            Self::Since(time) => {
                // The years that the broker knows.
                let last = DateTime::from_timestamp(253_402_300_799, 0).unwrap_or(now);
                Ok(Start::Since(Since { time: time.clamp(DateTime::UNIX_EPOCH, last), now }))
            }
        }
    }
}

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum Permission {
    /// Queries and live subscriptions.
    Read,
    /// Mutations.
    Write,
}
