//! Trace context of the current span, to be stored with the events that the span causes.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use serde_json::Value;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Returns the W3C trace context of the current span, as a map such as `{"traceparent": "00-…"}`. Returns `None` if the
/// span is not sampled.
pub(super) fn current() -> Option<Value> {
    let context = Span::current().context();
    if !context.span().span_context().is_sampled() {
        return None;
    }
    let mut fields = HashMap::new();
    TraceContextPropagator::new().inject_context(&context, &mut fields);
    fields.retain(|_, value| !value.is_empty());
    Some(fields.into_iter().collect())
}
