//! The schema and what its resolvers work with.

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
use crate::service::catalog::Catalog;
use crate::service::executions::Executions;
use crate::service::ids::Ids;
use crate::service::ingest::Ingest;
use crate::service::outbox::Outbox;
use crate::service::projections::Projections;
use crate::service::subscriptions::Subscriptions;
use crate::storage::budget::BudgetLimits;
use crate::stream::hub::Hub;

/// The executable schema.
pub type ControlPlane = Schema<Query, Mutation, Subscription>;

/// Every use case. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Services {
    /// The catalog.
    pub catalog: Catalog,
    /// Source subscriptions.
    pub subscriptions: Subscriptions,
    /// Executions.
    pub executions: Executions,
    /// Executions' states.
    pub projections: Projections,
    /// Events that workers made.
    pub ingest: Ingest,
    /// The outbox.
    pub outbox: Outbox,
    /// The live events; `None` without a broker.
    pub hub: Option<Hub>,
    /// Makes ids.
    pub ids: std::sync::Arc<Ids>,
    /// What the replica says of itself.
    pub replica: Replica,
}

/// What a replica says of itself.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Unique in the deployment.
    pub name: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// Whether it takes part in publishing events.
    pub publishes: bool,
    /// Whether it takes part in delivering outbox rows.
    pub relays: bool,
    /// What the transport allows.
    pub limits: EdgeLimits,
    /// Limits on what one operation reads and returns.
    pub budget: BudgetLimits,
}

/// The transport's limits that clients are told.
#[derive(Debug, Clone, Copy)]
pub struct EdgeLimits {
    /// Bytes of a request.
    pub body_bytes: usize,
    /// The estimated number of values of an answer.
    pub cost: u64,
    /// Fields inside fields.
    pub depth: usize,
    /// How long a query or mutation may run.
    pub deadline: Duration,
    /// Operations at once on one WebSocket.
    pub operations_per_socket: usize,
}

/// The schema over the services, ready to run. It takes validated operations only: the transport validates each document
/// at a bounded cost, which the executor's own validation does not have.
#[must_use]
pub fn build(services: Services) -> Batching {
    let schema = Schema::build(Query, Mutation, Subscription).data(services.clone());
    let mut schema = schema.validation_mode(ValidationMode::Fast).disable_suggestions().extension(Counted);
    if let Some(spans) = FieldSpans::if_wanted() {
        schema = schema.extension(spans);
    }
    Batching::new(schema.data(Rendered::default()).data(LatestStatus::default()).finish(), services)
}

/// The schema in the schema definition language.
#[must_use]
pub fn sdl() -> String {
    let schema = Schema::build(Query, Mutation, Subscription).finish();
    schema.sdl_with_options(async_graphql::SDLExportOptions::new().sorted_fields().sorted_enum_items())
}
