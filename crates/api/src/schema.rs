//! The schema, assembled from the objects of the aggregates.

use async_graphql::{MergedObject, MergedSubscription, Schema, SchemaBuilder, ValidationMode};

use super::batching::BatchingExecutor;
use super::catalog::mutation::CatalogMutation;
use super::catalog::query::CatalogQuery;
use super::context::Services;
use super::event::live::EventSubscription;
use super::event::mutation::EventMutation;
use super::event::query::EventQuery;
use super::event::render_cache::RenderCache;
use super::execution::live::ExecutionSubscription;
use super::execution::mutation::ExecutionMutation;
use super::execution::query::ExecutionQuery;
use super::execution::updates::{ExecutionPages, ExecutionReads};
use super::field_spans::FieldSpans;
use super::live_item::AnyLiveItem;
use super::node::query::NodeQuery;
use super::outbox::mutation::OutboxMutation;
use super::outbox::query::OutboxQuery;
use super::response_budget::ResponseBudget;
use super::server::live::ServerSubscription;
use super::server::query::ServerQuery;
use super::server::status::StatusCache;
use super::shared_item::SharedTexts;
use super::subscription::live::SourceSubscriptionSubscription;
use super::subscription::mutation::SourceSubscriptionMutation;
use super::subscription::query::SourceSubscriptionQuery;
use super::subscription::updates::{SubscriptionPages, SubscriptionReads};

/// The executable schema.
pub type ControlPlane = BatchingExecutor<Schema<Query, Mutation, Subscription>>;

/// The root of all queries.
#[derive(Debug, Default, MergedObject)]
pub struct Query(
    CatalogQuery,
    EventQuery,
    SourceSubscriptionQuery,
    ExecutionQuery,
    OutboxQuery,
    ServerQuery,
    NodeQuery,
);

/// The root of all mutations.
#[derive(Debug, Default, MergedObject)]
pub struct Mutation(CatalogMutation, EventMutation, SourceSubscriptionMutation, ExecutionMutation, OutboxMutation);

/// The root of all live subscriptions.
#[derive(Debug, Default, MergedSubscription)]
pub struct Subscription(EventSubscription, SourceSubscriptionSubscription, ExecutionSubscription, ServerSubscription);

/// Builds the executable schema over the services. It accepts only validated operations: the transport validates each
/// document at a bounded cost, and the cost of the executor's own validation is not bounded. `placeholder` is a random
/// text that no event contains (see [`RenderCache`]).
#[must_use]
pub fn build(services: Services, placeholder: &str) -> ControlPlane {
    let mut schema = definition().data(services.clone()).data(RenderCache::new(placeholder));
    schema = schema.data(StatusCache::default()).data(SharedTexts::default()).data(ExecutionReads::default());
    schema = schema.data(ExecutionPages::default());
    schema = schema.data(SubscriptionReads::default()).data(SubscriptionPages::default());
    schema = schema.validation_mode(ValidationMode::Fast).disable_suggestions().extension(ResponseBudget);
    if let Some(spans) = FieldSpans::if_wanted() {
        schema = schema.extension(spans);
    }
    BatchingExecutor::new(schema.finish(), services)
}

/// Returns the schema in the schema definition language.
#[must_use]
pub fn sdl() -> String {
    let options = async_graphql::SDLExportOptions::new().sorted_fields().sorted_enum_items();
    definition().finish().sdl_with_options(options)
}

fn definition() -> SchemaBuilder<Query, Mutation, Subscription> {
    Schema::build(Query::default(), Mutation::default(), Subscription::default()).register_output_type::<AnyLiveItem>()
}
