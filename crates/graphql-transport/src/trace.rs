//! Request ids and spans. Each HTTP response carries the id of its request, and all log lines of a request are in a
//! span with that id. A span continues the caller's trace if the caller sends one (W3C Trace Context).
//!
//! A small span of level info adds the id to log lines. The spans of a trace have the level debug, so that they cost
//! nothing unless they are exported or logged. An operation on a socket runs outside any HTTP request, so it gets both
//! spans of its own.

use async_graphql::Value;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Instrument, Span, debug_span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::extensions::TRACEPARENT;
use super::operation::Operation;
use super::request_id::{HEADER, RequestId};
use super::transport::{Transport, kind_label};

/// Name of the header with the vendor-specific data of a trace.
const TRACESTATE: &str = "tracestate";
/// Maximum number of bytes in a trace state (W3C Trace Context, section 3.3.1.5). A longer one is dropped.
const MAX_STATE: usize = 512;
/// Maximum number of bytes of a path in a span.
const MAX_PATH: usize = 200;

/// Gives a request its id and its span, and the response the same id. This middleware must be the outermost layer.
pub async fn identify(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    let path = request.uri().path();
    let span = debug_span!(
        "request",
        request_id = id.as_str(),
        http.request.method = request.method().as_str(),
        url.path = &path[..path.floor_char_boundary(MAX_PATH)],
        http.response.status_code = field::Empty,
        otel.kind = "server",
    );
    follow_headers(&span, request.headers());
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).instrument(span.clone()).instrument(id.log_span()).await;
    span.record("http.response.status_code", response.status().as_u16());
    if let Some(value) = id.header() {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// The trace span of one operation, and the span that adds its id to log lines.
pub(super) struct OperationSpans {
    trace: Span,
    log: Span,
}

impl OperationSpans {
    /// Runs `work` inside the spans.
    pub(super) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        self.log.in_scope(|| self.trace.in_scope(work))
    }

    /// Returns a future that runs `work` inside the spans.
    pub(super) fn around<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        work.instrument(self.trace).instrument(self.log)
    }
}

/// Returns the spans of one operation.
pub(super) fn operation(operation: &mut Operation, id: &RequestId, transport: Transport) -> OperationSpans {
    let kind = kind_label(operation.kind);
    if transport != Transport::WebSocket {
        // The request's log span is already the current one.
        let trace = debug_span!("operation", kind, name = operation.name());
        return OperationSpans { trace, log: Span::none() };
    }
    let request_id = id.as_str();
    let trace = debug_span!("operation", request_id, kind, name = operation.name(), otel.kind = "server");
    if let Some(Value::String(traceparent)) = operation.request.extensions.get(TRACEPARENT) {
        follow(&trace, &Parent { traceparent: Some(traceparent), tracestate: None });
    }
    OperationSpans { trace, log: id.log_span() }
}

fn follow_headers(span: &Span, headers: &HeaderMap) {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(traceparent) = text(TRACEPARENT) {
        let tracestate = text(TRACESTATE).filter(|state| state.len() <= MAX_STATE);
        follow(span, &Parent { traceparent: Some(traceparent), tracestate });
    }
}

fn follow(span: &Span, parent: &Parent<'_>) {
    if span.is_disabled() {
        return;
    }
    // Fails if no exporter is configured. There is no trace to continue then.
    drop(span.set_parent(TraceContextPropagator::new().extract(parent)));
}

/// The caller's trace context.
struct Parent<'a> {
    traceparent: Option<&'a str>,
    tracestate: Option<&'a str>,
}

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => self.traceparent,
            TRACESTATE => self.tracestate,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}
