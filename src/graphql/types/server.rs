//! The server, its shards and its caller.

use async_graphql::{Enum, SimpleObject};
use chrono::{DateTime, Utc};

use super::feed::EventStreamStatus;
use super::outbox::OutboxStats;
use crate::auth::principal;
use crate::graphql::inputs::Permission;
use crate::graphql::scalars::BigInt;
use crate::graphql::schema::Replica;
use crate::service::catalog::MAX_CONTENT_BYTES;
use crate::service::executions::{MAX_BATCH, MAX_WORKLOAD_BYTES};
use crate::service::ingest::{MAX_EVENT_BYTES, MAX_EVENTS};
use noetl_domain::page::{DEFAULT_PAGE, MAX_PAGE};

/// Health of one shard, as this replica sees it.
#[derive(Debug, Clone, SimpleObject)]
pub struct Shard {
    /// Index of the shard, counted from 0.
    pub index: u16,
    /// Whether the shard can be reached.
    pub available: bool,
    /// Round-trip time of the last successful probe in milliseconds; null before the first one.
    pub latency_ms: Option<f64>,
    /// Number of connections from this replica to the shard.
    pub pool_size: u32,
    /// Number of these connections that are idle.
    pub pool_idle: u32,
    /// Number of buckets on the shard, out of 5040.
    pub buckets: u32,
    /// Error message; null if the shard is available.
    pub error: Option<String>,
}

/// The health of the whole system, as one replica sees it.
#[derive(Debug, Clone, SimpleObject)]
pub struct SystemStatus {
    /// Time at which the status was read.
    pub at: DateTime<Utc>,
    /// Health of every shard.
    pub shards: Vec<Shard>,
    /// Status of the event stream.
    pub event_stream: EventStreamStatus,
    /// Numbers of outbox rows; null if they could not be counted.
    pub outbox: Option<OutboxStats>,
}

/// Information about the replica that executes the operation.
#[derive(Debug, Clone, SimpleObject)]
pub struct ServerInfo {
    /// Version of the software.
    pub version: String,
    /// Time at which the replica started.
    pub started_at: DateTime<Utc>,
    /// Time since the start of the replica, in seconds.
    pub uptime_seconds: f64,
    /// Name of the replica, unique in the deployment.
    pub replica: String,
    /// Machine id in the ids that the replica generates.
    pub machine_id: u16,
    /// Limits on one request.
    pub limits: ServerLimits,
    /// Features that are turned on: `live-events`, `event-stream`, `outbox-relay`.
    pub features: Vec<String>,
}

/// Limits on one request.
#[derive(Debug, Clone, Copy, SimpleObject)]
pub struct ServerLimits {
    /// Maximum number of items on a page.
    pub max_page: u32,
    /// Number of items on a page if the request gives no size.
    pub default_page: u32,
    /// Maximum number of requests in one `executeBatch`.
    pub max_batch: u32,
    /// Maximum number of events in one `projectEvents`.
    pub max_events: u32,
    /// Maximum size of one event in bytes: its JSON and texts together.
    pub max_event_bytes: BigInt,
    /// Maximum size of a workload as JSON, in bytes.
    pub max_workload_bytes: BigInt,
    /// Maximum size of a catalog entry's content, in bytes.
    pub max_content_bytes: BigInt,
    /// Maximum size of a request, in bytes.
    pub max_body_bytes: BigInt,
    /// Maximum cost of an operation: the estimated number of values in its response.
    pub max_cost: BigInt,
    /// Maximum size of one response, or of one item of a live subscription, in bytes.
    pub max_response_bytes: BigInt,
    /// Maximum number of bytes that one operation reads from the databases.
    pub max_read_bytes: BigInt,
    /// Maximum number of rows that one operation reads from the databases.
    pub max_read_rows: BigInt,
    /// Maximum nesting depth of fields.
    pub max_depth: u32,
    /// Maximum run time of a query, a mutation or one item of a live subscription, in seconds.
    pub deadline_seconds: f64,
    /// Maximum number of concurrent operations on one WebSocket.
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
    /// Subject of the caller; null if the server does not identify callers.
    pub name: Option<String>,
    /// Whether the caller is authenticated.
    pub authenticated: bool,
    /// Summary of the capabilities.
    pub permissions: Vec<Permission>,
    /// Name of the caller. The events that the caller causes contain it as `meta.actor`. If the server does not
    /// identify callers, the name is `local` and events contain no actor.
    pub subject: String,
    /// Roles in the caller's token.
    pub roles: Vec<Role>,
    /// Capabilities of the caller: those of all its roles.
    pub capabilities: Vec<Capability>,
    /// Tenant in the caller's token.
    pub tenant: Option<String>,
    /// Expiry time of the caller's token; null if it does not expire. Live connections are closed at this time.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Predefined set of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "principal::Role")]
pub enum Role {
    /// Reads stored data and uses live subscriptions.
    Viewer,
    /// Runs executions, as a worker or as the runtime of a source subscription.
    Worker,
    /// Reads data and controls source subscriptions, executions, the catalog and the outbox.
    Operator,
    /// Has every capability.
    Admin,
}

/// Permission to use one part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "principal::Capability")]
pub enum Capability {
    /// Queries of stored data, and fields that return payloads or other objects.
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
    /// Registering source subscriptions, and changing the state of those that the same subject registered.
    OwnLifecycle,
    /// Registering source subscriptions, and changing the state of all of them.
    Lifecycle,
    /// `cancelExecution`.
    Cancel,
    /// `retryOutbox`.
    Retry,
    /// `registerCatalogEntry`.
    Catalog,
    /// Introspection, if the server restricts it.
    Introspect,
    /// Documents that are not in the manifest, if the server enforces the manifest.
    AnyDocument,
}
