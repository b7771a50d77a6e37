//! The server, its shards and its caller.

use async_graphql::{Enum, SimpleObject};
use chrono::{DateTime, Utc};

use super::feed::EventStreamStatus;
use super::outbox::OutboxStats;
use crate::auth::principal;
use crate::domain::page::{DEFAULT_PAGE, MAX_PAGE};
use crate::graphql::inputs::Permission;
use crate::graphql::scalars::BigInt;
use crate::graphql::schema::Replica;
use crate::service::catalog::MAX_CONTENT_BYTES;
use crate::service::executions::{MAX_BATCH, MAX_WORKLOAD_BYTES};
use crate::service::ingest::{MAX_EVENT_BYTES, MAX_EVENTS};

/// One shard as this replica sees it.
#[derive(Debug, Clone, SimpleObject)]
pub struct Shard {
    /// Counted from 0.
    pub index: u16,
    /// Whether it can be reached.
    pub available: bool,
    /// The last probe's round trip in milliseconds.
    pub latency_ms: Option<f64>,
    /// Connections that this replica holds to it.
    pub pool_size: u32,
    /// Those of them that are not in use.
    pub pool_idle: u32,
    /// How many of the 5040 buckets it holds.
    pub buckets: u32,
    /// Why it is not available.
    pub error: Option<String>,
}

/// The health of the whole system, as one replica sees it.
#[derive(Debug, Clone, SimpleObject)]
pub struct SystemStatus {
    /// When it was read.
    pub at: DateTime<Utc>,
    /// Every shard.
    pub shards: Vec<Shard>,
    /// How publishing the committed events goes.
    pub event_stream: EventStreamStatus,
    /// What waits in the outbox; null when it could not be counted.
    pub outbox: Option<OutboxStats>,
}

/// This replica.
#[derive(Debug, Clone, SimpleObject)]
pub struct ServerInfo {
    /// The software's version.
    pub version: String,
    /// When the replica started.
    pub started_at: DateTime<Utc>,
    /// For how long it has run, in seconds.
    pub uptime_seconds: f64,
    /// Its name, unique in the deployment.
    pub replica: String,
    /// The machine id in the ids that it makes.
    pub machine_id: u16,
    /// What one request may ask for.
    pub limits: ServerLimits,
    /// What is turned on.
    pub features: Vec<String>,
}

/// What one request may ask for.
#[derive(Debug, Clone, Copy, SimpleObject)]
pub struct ServerLimits {
    /// Items of a page.
    pub max_page: u32,
    /// Items of a page when no size is given.
    pub default_page: u32,
    /// Requests of an executeBatch.
    pub max_batch: u32,
    /// Events of a projectEvents.
    pub max_events: u32,
    /// Bytes of JSON and texts of one of them.
    pub max_event_bytes: BigInt,
    /// Bytes of a workload as JSON.
    pub max_workload_bytes: BigInt,
    /// Bytes of a catalog entry's content.
    pub max_content_bytes: BigInt,
    /// Bytes of a request.
    pub max_body_bytes: BigInt,
    /// The estimated number of values of an answer.
    pub max_cost: BigInt,
    /// Maximum number of bytes in one response, or in one item of a subscription.
    pub max_response_bytes: BigInt,
    /// Maximum number of bytes that one operation reads from the databases.
    pub max_read_bytes: BigInt,
    /// Maximum number of rows that one operation reads from the databases.
    pub max_read_rows: BigInt,
    /// Fields inside fields.
    pub max_depth: u32,
    /// Seconds that a query or mutation may run.
    pub deadline_seconds: f64,
    /// Operations at once on one WebSocket.
    pub max_operations_per_socket: u32,
}

impl From<&Replica> for ServerLimits {
    fn from(Replica { limits: edge, budget, .. }: &Replica) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            max_page: MAX_PAGE,
            default_page: DEFAULT_PAGE,
            max_batch: count(MAX_BATCH),
            max_events: count(MAX_EVENTS),
            max_event_bytes: (MAX_EVENT_BYTES as u64).into(),
            max_workload_bytes: (MAX_WORKLOAD_BYTES as u64).into(),
            max_content_bytes: (MAX_CONTENT_BYTES as u64).into(),
            max_body_bytes: (edge.body_bytes as u64).into(),
            max_cost: edge.cost.into(),
            max_response_bytes: budget.response_bytes.into(),
            max_read_bytes: budget.read_bytes.into(),
            max_read_rows: budget.read_rows.into(),
            max_depth: count(edge.depth),
            deadline_seconds: edge.deadline.as_secs_f64(),
            max_operations_per_socket: count(edge.operations_per_socket),
        }
    }
}

/// Caller of an operation.
#[derive(Debug, Clone, SimpleObject)]
pub struct Viewer {
    /// Subject of an identified caller; null where the server identifies no callers.
    pub name: Option<String>,
    /// Whether the caller proved its identity.
    pub authenticated: bool,
    /// Summary of the capabilities.
    pub permissions: Vec<Permission>,
    /// Name of the caller, which events that it causes carry as `meta.actor`; `local` where the server identifies no callers,
    /// and events name none.
    pub subject: String,
    /// Roles that the caller's token names.
    pub roles: Vec<Role>,
    /// What the caller may do: the capabilities of all its roles.
    pub capabilities: Vec<Capability>,
    /// Tenant that the caller's token names.
    pub tenant: Option<String>,
    /// End of the caller's token; null if it has none. Live connections are closed at this time.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Preset of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "principal::Role")]
pub enum Role {
    /// Reads data and follows it live.
    Viewer,
    /// Runs executions: a worker, or the runtime of a source subscription.
    Worker,
    /// Watches and controls what runs.
    Operator,
    /// May do everything.
    Admin,
}

/// Permission to use one part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "principal::Capability")]
pub enum Capability {
    /// Queries of stored data, and fields that return payloads or lead to other objects.
    Read,
    /// Live subscriptions.
    Live,
    /// `execute` and `executeBatch`.
    Execute,
    /// Counting, claiming and settling outbox rows.
    Outbox,
    /// `projectEvents`.
    Project,
    /// `advanceProjections`.
    Advance,
    /// Registering source subscriptions, and moving those that the same subject registered.
    OwnLifecycle,
    /// Registering and moving every source subscription.
    Lifecycle,
    /// `cancelExecution`.
    Cancel,
    /// `retryOutbox`.
    Retry,
    /// `registerCatalogEntry`.
    Catalog,
    /// Introspection, where the server restricts it.
    Introspect,
    /// Documents that the manifest does not list, where the server enforces it.
    AnyDocument,
}
