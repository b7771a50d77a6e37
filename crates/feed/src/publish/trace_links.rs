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
/// Header of the trace context (W3C Trace Context, section 3.2).
const TRACEPARENT: &str = "traceparent";

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
    pub(super) fn add(&mut self, traceparent: Option<&str>) {
        let Some(parent) = traceparent.filter(|_| self.left > 0) else { return };
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Parent(parent));
        let linked = context.span().span_context().clone();
        if linked.is_valid() && linked.trace_id() != self.last {
            self.last = linked.trace_id();
            self.left -= 1;
            self.span.add_link(linked);
        }
    }
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
