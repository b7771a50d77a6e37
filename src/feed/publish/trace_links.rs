//! Links from the span of a publish to the traces of the requests whose events it publishes.
//!
//! An event names its trace in its meta, because another replica may have written it. A batch can have millions of
//! events but a span only [`MAX_LINKS`] links, so the search ends when the span has them.

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Context, trace::TraceId};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Maximum number of links of one span.
const MAX_LINKS: usize = 64;
/// Key of the trace context in an event's meta.
const TRACEPARENT: &str = "traceparent";
/// Length in bytes of a trace context of version 00 (W3C Trace Context, section 3.2).
const LENGTH: usize = 55;

/// Links of one span.
pub(super) struct TraceLinks {
    span: Span,
    left: usize,
    last: TraceId,
}

impl TraceLinks {
    /// Returns the links of the current span. They stay empty if the span is not exported.
    pub(super) fn of_current_span() -> Self {
        let span = Span::current();
        let sampled = !span.is_disabled() && span.context().span().span_context().is_sampled();
        Self { span, left: if sampled { MAX_LINKS } else { 0 }, last: TraceId::INVALID }
    }

    /// Adds the trace of an event, unless it is the trace that was added last.
    pub(super) fn add(&mut self, meta: Option<&str>) {
        if self.left == 0 {
            return;
        }
        let Some(parent) = meta.and_then(traceparent) else { return };
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Parent(parent));
        let linked = context.span().span_context().clone();
        if linked.is_valid() && linked.trace_id() != self.last {
            self.last = linked.trace_id();
            self.left -= 1;
            self.span.add_link(linked);
        }
    }
}

/// Returns the trace context after the first key `traceparent` of an event's meta.
fn traceparent(meta: &str) -> Option<&str> {
    let (_, rest) = meta.split_once("\"traceparent\"")?;
    rest.trim_start_matches([':', ' ']).strip_prefix('"')?.get(..LENGTH)
}

struct Parent<'a>(&'a str);

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == TRACEPARENT).then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_is_found_in_an_event_s_meta() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let meta = format!(r#"{{"emitter": "control_plane", "trace": {{"traceparent": "{parent}"}}}}"#);
        assert_eq!(traceparent(&meta), Some(parent));
        for other in ["{}", r#"{"traceparent": 1}"#, r#"{"traceparent": "00-4b"}"#, r#"{"traceparent"#] {
            assert_eq!(traceparent(other), None, "{other}");
        }
    }
}
