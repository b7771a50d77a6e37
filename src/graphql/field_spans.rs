//! A span for each root field of an operation. Registered only where such spans are wanted, as an extension costs time at
//! every field.

use std::sync::Arc;

use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextResolve, ResolveInfo};
use async_graphql::{ServerResult, Value};
use tracing::{Instrument, debug_span};

/// Makes the spans, named like `Mutation.execute`.
pub struct FieldSpans;

impl FieldSpans {
    /// The extension, if a log or an exporter takes its spans.
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
        let span = debug_span!("field", otel.name = format!("{}.{}", info.parent_type, info.name));
        next.run(ctx, info).instrument(span).await
    }
}
