//! Trace context of an execution.

use async_graphql::{InputObject, SimpleObject};

use noetl_domain::trace_context as domain;
use noetl_use_cases::error::Rejection;

/// Trace context in the form of W3C Trace Context.
#[derive(Debug, SimpleObject)]
pub struct TraceContext {
    /// Ids of the trace and of the calling span, and flags, such as
    /// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
    traceparent: String,
    /// Data of tracing systems, such as `a=1,b=2`.
    tracestate: Option<String>,
}

impl From<domain::TraceContext> for TraceContext {
    fn from(context: domain::TraceContext) -> Self {
        Self { traceparent: context.traceparent().to_owned(), tracestate: context.tracestate().map(str::to_owned) }
    }
}

/// Trace context in the form of W3C Trace Context.
#[derive(Debug, InputObject)]
pub struct TraceContextInput {
    /// Ids of the trace and of the calling span, and flags, such as
    /// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
    traceparent: String,
    /// Data of tracing systems: 1 to 32 members such as `a=1,b=2`.
    tracestate: Option<String>,
}

impl TraceContextInput {
    /// Checks the trace context in the field `trace` of an input.
    pub fn parse(self) -> Result<domain::TraceContext, Rejection> {
        domain::TraceContext::new(self.traceparent, self.tracestate)
            .map_err(|invalid| Rejection::invalid(&format!("trace.{}", invalid.field()), invalid.to_string()))
    }
}
