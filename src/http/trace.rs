//! Request ids and spans: each HTTP response carries the id of its request, and what is logged on the way to it is in a
//! span with that id. A span continues the caller's trace where the caller sends one (W3C Trace Context).
//!
//! One small span of level info puts the id into log lines. The spans of a trace have the level debug, so that they cost
//! nothing unless they are exported or logged. An operation on a socket has no request around it, so it brings both.

use async_graphql::Value;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Instrument, Span, debug_span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::observe::{self, Transport};
use super::operation::Operation;
use super::request_id::{HEADER, RequestId};

/// The header, and the entry of an operation's `extensions`, that names the caller's trace.
const TRACEPARENT: &str = "traceparent";
/// The header with what other tracers of the same trace need.
const TRACESTATE: &str = "tracestate";
/// Bytes of a trace state that is kept (W3C Trace Context, section 3.3.1.5).
const MAX_STATE: usize = 512;
/// Bytes of a path that a span shows.
const MAX_PATH: usize = 200;
/// Bytes of an operation's name that a span or a log line shows.
const MAX_NAME: usize = 100;

/// Gives a request its id and its span, and the response the same id. Belongs around everything that responds.
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

/// The span of one operation, and the one that puts its id into log lines.
pub(super) struct OperationSpans {
    trace: Span,
    log: Span,
}

impl OperationSpans {
    /// Runs `work` inside them.
    pub(super) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        self.log.in_scope(|| self.trace.in_scope(work))
    }

    /// A future that runs inside them.
    pub(super) fn around<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        work.instrument(self.trace).instrument(self.log)
    }
}

/// The spans of one operation.
pub(super) fn operation(operation: &mut Operation, id: &RequestId, transport: Transport) -> OperationSpans {
    let kind = observe::kind(operation.kind);
    if transport != Transport::WebSocket {
        // The request's spans are around it.
        let trace = debug_span!("operation", kind, name = name(operation));
        return OperationSpans { trace, log: Span::none() };
    }
    let request_id = id.as_str();
    let trace = debug_span!("operation", request_id, kind, name = name(operation), otel.kind = "server");
    if let Some(Value::String(traceparent)) = operation.request.extensions.get(TRACEPARENT) {
        follow(&trace, &Parent { traceparent: Some(traceparent), tracestate: None });
    }
    OperationSpans { trace, log: id.log_span() }
}

/// The beginning of the name of the operation that runs, if it has one.
pub(super) fn name(operation: &mut Operation) -> Option<String> {
    let mut name = match &operation.request.operation_name {
        Some(name) => name.clone(),
        None => operation.request.parsed_query().ok()?.operations.iter().next()?.0?.to_string(),
    };
    name.truncate(name.floor_char_boundary(MAX_NAME));
    Some(name)
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
    // Fails where nothing is exported, and then there is no trace to continue.
    drop(span.set_parent(TraceContextPropagator::new().extract(parent)));
}

/// The caller's place in a trace.
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
