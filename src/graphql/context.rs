//! Values that every resolver can use: the use cases, and the description of this replica.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::feed::read::hub::Hub;
use crate::feed::wire::names::StreamNames;
use crate::graphql::server::settings::ServerSetting;
use crate::service::catalog::Catalog;
use crate::service::executions::Executions;
use crate::service::ids::Ids;
use crate::service::ingest::Ingest;
use crate::service::outbox::Outbox;
use crate::service::projections::Projections;
use crate::service::subscriptions::Subscriptions;
use noetl_storage::budget::BudgetLimits;
use noetl_storage::pools::Databases;

/// All use cases. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Services {
    /// All databases.
    pub databases: Databases,
    /// The catalog.
    pub catalog: Catalog,
    /// Source subscriptions.
    pub subscriptions: Subscriptions,
    /// Executions.
    pub executions: Executions,
    /// States of executions.
    pub projections: Projections,
    /// Events of workers.
    pub ingest: Ingest,
    /// The outbox.
    pub outbox: Outbox,
    /// Live events; `None` without a broker.
    pub hub: Option<Hub>,
    /// Generator of ids.
    pub ids: Arc<Ids>,
    /// Description of this replica.
    pub replica: Replica,
}

/// Description of a replica.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Name, unique in the deployment.
    pub name: String,
    /// Version of the software.
    pub version: &'static str,
    /// Start time.
    pub started_at: DateTime<Utc>,
    /// Whether it takes part in publishing events.
    pub event_stream_enabled: bool,
    /// Names of the streams of events.
    pub stream_names: StreamNames,
    /// Whether it takes part in delivering outbox rows.
    pub relay_enabled: bool,
    /// Whether it keeps executions' snapshots current.
    pub projector_enabled: bool,
    /// Values of the settings that are no secrets.
    pub settings: Vec<ServerSetting>,
    /// Limits of the transport.
    pub limits: TransportLimits,
    /// Limits on what one operation reads and returns.
    pub budget: BudgetLimits,
}

/// Limits of the transport that the API shows to clients.
#[derive(Debug, Clone, Copy)]
pub struct TransportLimits {
    /// Maximum size of a request, in bytes.
    pub body_bytes: usize,
    /// Maximum cost of an operation: the estimated number of values in its response.
    pub cost: u64,
    /// Maximum nesting depth of fields.
    pub depth: usize,
    /// Maximum run time of a query, a mutation or one item of a live subscription.
    pub deadline: Duration,
    /// Maximum number of concurrent operations on one WebSocket.
    pub operations_per_socket: usize,
}
