//! Information about the replica that executes an operation, and its limits.

use std::sync::Arc;

use async_graphql::{Enum, SimpleObject};

use crate::context::{Replica, Services};
use crate::scalars::{BigInt, Time};
use crate::server::settings::ServerSetting;
use noetl_domain::page::{DEFAULT_PAGE, MAX_PAGE};
use noetl_runtime::clock;
use noetl_use_cases::catalog::MAX_CONTENT_BYTES;
use noetl_use_cases::executions::{MAX_BATCH, MAX_WORKLOAD_BYTES};
use noetl_use_cases::ingest::{MAX_EVENT_BYTES, MAX_EVENTS};

/// Information about the replica that executes the operation.
#[derive(Debug, Clone, SimpleObject)]
pub struct ServerInfo {
    /// Version of the software.
    pub version: String,
    /// Time at which the replica started.
    pub started_at: Time,
    /// Time since the start of the replica, in seconds.
    pub uptime_seconds: f64,
    /// Name of the replica, unique in the deployment.
    pub replica: String,
    /// Machine id in the ids that the replica generates.
    pub machine_id: u16,
    /// Limits on one request.
    pub limits: ServerLimits,
    /// Features that are turned on.
    pub features: Vec<Feature>,
    /// Numbers, flags and choices among the settings, ordered by name. Addresses, files and secrets are left out, and
    /// settings that are not set and have no default.
    pub settings: Arc<[ServerSetting]>,
    /// URL of a page that shows a trace, with `{traceId}` in place of the trace id (the second part of a `traceparent`),
    /// from the setting `NOETL_TRACE_URL`; null if it is not set.
    pub trace_url: Option<String>,
}

/// Feature of a replica that its settings turn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum Feature {
    /// Live subscriptions.
    LiveEvents,
    /// Publishing of events to the event stream.
    EventStream,
    /// Delivery of outbox entries to the broker.
    OutboxRelay,
    /// Projection of executions as their events arrive.
    Projector,
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
    fn from(Replica { limits: transport, budget, .. }: &Replica) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            max_page: MAX_PAGE,
            default_page: DEFAULT_PAGE,
            max_batch: count(MAX_BATCH),
            max_events: count(MAX_EVENTS),
            max_event_bytes: (MAX_EVENT_BYTES as u64).into(),
            max_workload_bytes: (MAX_WORKLOAD_BYTES as u64).into(),
            max_content_bytes: (MAX_CONTENT_BYTES as u64).into(),
            max_body_bytes: (transport.body_bytes as u64).into(),
            max_cost: transport.cost.into(),
            max_response_bytes: budget.response_bytes.into(),
            max_read_bytes: budget.read_bytes.into(),
            max_read_rows: budget.read_rows.into(),
            max_depth: count(transport.depth),
            deadline_seconds: transport.deadline.as_secs_f64(),
            max_operations_per_socket: count(transport.operations_per_socket),
        }
    }
}

/// Returns information about this replica.
pub(super) fn server(services: &Services) -> ServerInfo {
    let replica = &services.replica;
    let up = clock::now() - replica.started_at;
    let feature = |on: bool, feature: Feature| on.then_some(feature);
    let features = [
        feature(services.hub.is_some(), Feature::LiveEvents),
        feature(replica.event_stream_enabled, Feature::EventStream),
        feature(replica.relay_enabled, Feature::OutboxRelay),
        feature(replica.projector_enabled, Feature::Projector),
    ];
    ServerInfo {
        version: replica.version.to_owned(),
        started_at: Time(replica.started_at),
        uptime_seconds: up.as_seconds_f64(),
        replica: replica.name.clone(),
        machine_id: services.ids.machine_id(),
        limits: replica.into(),
        features: features.into_iter().flatten().collect(),
        settings: Arc::clone(&replica.settings),
        trace_url: replica.trace_url.clone(),
    }
}
