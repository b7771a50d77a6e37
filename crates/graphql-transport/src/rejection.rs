//! Reasons an HTTP request is refused before its operation is checked, with the response to the client.
//!
//! Each has its own HTTP status, under either media type. An error in the operation itself is an
//! [`OperationError`](super::OperationError) and is part of the GraphQL response.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::admission::Refusal;
use super::media::Media;
use super::observe;
use super::operation_error::OperationError;
use super::reply::Reply;
use super::resources::Resource;
use super::transport::Transport;
use plain_json::Unrepresentable;

/// A refused HTTP request.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestRejection {
    #[error("The body is limited to {limit} bytes; split the request.")]
    BodyTooLarge { limit: usize },
    #[error("The body is limited to {limit} JSON values; split the request.")]
    TooManyJsonValues { limit: usize },
    #[error("The body took too long to arrive.")]
    BodyTooSlow,
    #[error("The request took too long; try again later.")]
    TooSlow,
    #[error("The body ended before it was complete.")]
    BodyIncomplete,
    #[error("Send the operation as content-type application/json, in UTF-8 and without content-encoding.")]
    ContentType,
    #[error("Accept {offered}.")]
    NotAcceptable { offered: &'static str },
    #[error("The request could not be read: {0}")]
    Malformed(String),
    #[error("{0}.")]
    Unrepresentable(#[from] Unrepresentable),
    #[error("Batches are not supported; send one operation per request.")]
    Batch,
    #[error("Only queries run over GET; send mutations by POST.")]
    MutationOverGet,
    #[error("This endpoint takes GET and POST.")]
    Method,
    #[error(
        "Subscriptions run over WebSocket (graphql-transport-ws), as server-sent events with the header \
         Accept: text/event-stream, or with the header Accept: multipart/mixed;subscriptionSpec=1.0"
    )]
    SubscriptionOverHttp,
    #[error("Pages of this origin may not use this server; add it to the allowed origins.")]
    CrossSite,
    #[error("The server is not addressed by this host name; add it to the allowed hosts, or use another name.")]
    Host,
    #[error("{0}")]
    NotAdmitted(#[from] Refusal),
    #[error("This server is shutting down; connect to another replica.")]
    Closing,
    #[error("The server is at its limit of {}, in total or for this caller; try again later.", .0.limit())]
    Overloaded(Resource),
    #[error("This is not a valid WebSocket handshake.")]
    Handshake,
}

/// Code of a request that is refused because a resource of the server, or the caller's share of it, is used up.
const OVERLOADED: &str = "OVERLOADED";

impl From<Resource> for RequestRejection {
    fn from(resource: Resource) -> Self {
        Self::Overloaded(resource)
    }
}

impl RequestRejection {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::BodyTooLarge { .. } | Self::TooManyJsonValues { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NotAcceptable { .. } => StatusCode::NOT_ACCEPTABLE,
            Self::MutationOverGet | Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::CrossSite | Self::Host | Self::NotAdmitted(Refusal::Forbidden) => StatusCode::FORBIDDEN,
            Self::NotAdmitted(Refusal::Unauthenticated) => StatusCode::UNAUTHORIZED,
            Self::Closing | Self::Overloaded(_) | Self::TooSlow => StatusCode::SERVICE_UNAVAILABLE,
            Self::BodyIncomplete
            | Self::Malformed(_)
            | Self::Unrepresentable(_)
            | Self::Batch
            | Self::SubscriptionOverHttp
            | Self::Handshake => StatusCode::BAD_REQUEST,
        }
    }

    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::BodyTooLarge { .. } | Self::TooManyJsonValues { .. } => "LIMIT_EXCEEDED",
            Self::Overloaded(_) => OVERLOADED,
            Self::BodyTooSlow | Self::TooSlow => "TIMEOUT",
            Self::CrossSite | Self::Host => "FORBIDDEN",
            Self::NotAdmitted(refusal) => refusal.code(),
            Self::Closing => "SHUTTING_DOWN",
            Self::Unrepresentable(_) => "INVALID_INPUT",
            _ => "BAD_REQUEST",
        }
    }

    /// Returns the name of the exceeded limit, which is the name of its field in [`super::Limits`].
    pub(super) fn limit(&self) -> Option<&'static str> {
        match self {
            Self::BodyTooLarge { .. } => Some("body_bytes"),
            Self::TooManyJsonValues { .. } => Some("json_values"),
            Self::Overloaded(resource) => Some(resource.limit()),
            _ => None,
        }
    }

    /// Returns a GraphQL response with this error.
    pub(super) fn reply(&self) -> Reply {
        match self {
            Self::Unrepresentable(value) => OperationError::Unrepresentable(value.clone()).into(),
            _ => Reply::error(self.code(), self.to_string()),
        }
    }

    /// Counts the refusal.
    pub(super) fn count(&self, transport: Transport) {
        observe::refusal(transport, self.code(), self.limit());
    }

    /// Counts the refusal and returns its response.
    pub(super) fn refuse(&self, transport: Transport, media: Media) -> Response {
        self.count(transport);
        self.respond(media)
    }

    /// Returns the HTTP response in a media type.
    fn respond(&self, media: Media) -> Response {
        let body = self.reply().to_json();
        let mut response = (self.status(), [(header::CONTENT_TYPE, media.content_type())], body).into_response();
        if let Some((name, value)) = self.header() {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn header(&self) -> Option<(header::HeaderName, &'static str)> {
        match self {
            Self::MutationOverGet => Some((header::ALLOW, "POST")),
            Self::Method => Some((header::ALLOW, "GET, POST")),
            Self::NotAdmitted(Refusal::Unauthenticated) => Some((header::WWW_AUTHENTICATE, "Bearer")),
            Self::Closing | Self::Overloaded(_) | Self::TooSlow => Some((header::RETRY_AFTER, "1")),
            // The rest of the body is not read.
            Self::BodyTooLarge { .. } | Self::BodyTooSlow | Self::BodyIncomplete => Some((header::CONNECTION, "close")),
            _ => None,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        RequestRejection::from(self).into_response()
    }
}

impl IntoResponse for RequestRejection {
    fn into_response(self) -> Response {
        self.respond(Media::Json)
    }
}
