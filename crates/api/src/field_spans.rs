//! A span for each root field of an operation. The extension is registered only if the spans are recorded, because an
//! extension costs time at every field.

use std::sync::Arc;

use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextResolve, ResolveInfo};
use async_graphql::{ServerResult, Value};
use tracing::{Instrument, debug_span};

/// Creates the spans, with names such as `Mutation.execute`.
pub struct FieldSpans;

impl FieldSpans {
    /// Returns the extension if a log or an exporter records its spans.
    #[must_use]
    pub fn if_wanted() -> Option<Self> {
        tracing::span_enabled!(tracing::Level::DEBUG).then_some(Self)
    }
}

impl ExtensionFactory for FieldSpans {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_graphql::async_trait::async_trait]
impl Extension for FieldSpans {
    async fn resolve(
        &self,
        ctx: &ExtensionContext<'_>,
        info: ResolveInfo<'_>,
        next: NextResolve<'_>,
    ) -> ServerResult<Option<Value>> {
        if info.path_node.parent.is_some() {
            return next.run(ctx, info).await;
        }
        // The parent type of a live field is the object of its aggregate, such as `EventSubscription`.
        let parent = if info.parent_type.ends_with("Subscription") { "Subscription" } else { info.parent_type };
        let span = debug_span!("field", otel.name = format!("{parent}.{}", info.name));
        next.run(ctx, info).instrument(span).await
    }
}
