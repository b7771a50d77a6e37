//! The schema, and the services that its resolvers call.

use std::time::Duration;

use async_graphql::{Schema, ValidationMode};
use chrono::{DateTime, Utc};

use super::batching::Batching;
use super::counted::Counted;
use super::field_spans::FieldSpans;
use super::live::Subscription;
use super::live::rendered::Rendered;
use super::live::status::LatestStatus;
use super::mutation::Mutation;
use super::query::Query;
use crate::feed::read::hub::Hub;
use crate::service::catalog::Catalog;
use crate::service::executions::Executions;
use crate::service::ids::Ids;
use crate::service::ingest::Ingest;
use crate::service::outbox::Outbox;
use crate::service::projections::Projections;
use crate::service::subscriptions::Subscriptions;
use noetl_storage::budget::BudgetLimits;
use noetl_storage::pools::Databases;

/// The executable schema.
pub type ControlPlane = Schema<Query, Mutation, Subscription>;

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
    pub ids: std::sync::Arc<Ids>,
    /// Description of this replica.
    pub replica: Replica,
}

/// Description of a replica.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Name, unique in the deployment.
    pub name: String,
    /// Start time.
    pub started_at: DateTime<Utc>,
    /// Whether it takes part in publishing events.
    pub publishes: bool,
    /// Whether it takes part in delivering outbox rows.
    pub relays: bool,
    /// Limits of the transport.
    pub limits: EdgeLimits,
    /// Limits on what one operation reads and returns.
    pub budget: BudgetLimits,
}

/// Limits of the transport that the API shows to clients.
#[derive(Debug, Clone, Copy)]
pub struct EdgeLimits {
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

/// Builds the executable schema over the services. It accepts only validated operations: the transport validates each
/// document at a bounded cost, and the cost of the executor's own validation is not bounded.
#[must_use]
pub fn build(services: Services) -> Batching {
    let schema = Schema::build(Query, Mutation, Subscription).data(services.clone());
    let mut schema = schema.validation_mode(ValidationMode::Fast).disable_suggestions().extension(Counted);
    if let Some(spans) = FieldSpans::if_wanted() {
        schema = schema.extension(spans);
    }
    Batching::new(schema.data(Rendered::default()).data(LatestStatus::default()).finish(), services)
}

/// Returns the schema in the schema definition language.
#[must_use]
pub fn sdl() -> String {
    let schema = Schema::build(Query, Mutation, Subscription).finish();
    schema.sdl_with_options(async_graphql::SDLExportOptions::new().sorted_fields().sorted_enum_items())
}
