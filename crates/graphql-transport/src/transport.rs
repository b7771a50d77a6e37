//! The transports of operations, and the names of transports and kinds of operations in metrics and spans.

use async_graphql::parser::types::OperationType;
use axum::http::request::Parts;
use axum::http::{Method, header};

use super::media::Media;

/// Transport of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Post,
    Get,
    WebSocket,
    EventStream,
    Multipart,
}

impl Transport {
    pub(super) const COUNT: usize = 5;

    /// Returns the transport of a request that was refused before a handler received it.
    pub(super) fn of(parts: &Parts) -> Self {
        let path = parts.uri.path().trim_end_matches('/');
        let streams = path == "/graphql/stream" || (path == "/graphql" && Media::prefers_event_stream(&parts.headers));
        match &parts.method {
            _ if parts.headers.contains_key(header::UPGRADE) => Self::WebSocket,
            _ if streams => Self::EventStream,
            &Method::POST => Self::Post,
            _ => Self::Get,
        }
    }

    /// Returns the label in metrics and logs.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Get => "get",
            Self::WebSocket => "websocket",
            Self::EventStream => "sse",
            Self::Multipart => "multipart",
        }
    }
}

/// Returns the name of an operation's kind.
pub(super) fn kind_label(kind: OperationType) -> &'static str {
    match kind {
        OperationType::Query => "query",
        OperationType::Mutation => "mutation",
        OperationType::Subscription => "subscription",
    }
}
