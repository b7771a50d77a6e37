//! GraphQL over HTTP: one request, one response.
//!
//! Follows the GraphQL-over-HTTP specification. POST takes `application/json` and runs queries and mutations; GET runs
//! only queries. Error responses have the media type that the client prefers. A subscription by POST gets a multipart
//! response if the client accepts that ([`super::multipart`]).

use std::sync::Arc;

use async_graphql::Executor;
use async_graphql::parser::types::OperationType;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};

use super::admission::Caller;
use super::body::{self, BodyHead};
use super::edge::{AdmittedCaller, TransportState};
use super::media::Media;
use super::multipart;
use super::rejection::RequestRejection;
use super::reply::Reply;
use super::resources::RequestSlot;
use super::streaming::{self, Replies};
use super::transport::Transport;

/// Serves a POST, or a GET that is not a WebSocket handshake.
pub(super) async fn serve<E: Executor>(State(state): State<Arc<TransportState<E>>>, request: Request) -> Response {
    let transport = if request.method() == Method::POST { Transport::Post } else { Transport::Get };
    let accepted = Accepted::of(request.headers(), transport);
    let response = match accepted {
        Accepted { media: None, multipart: false } => Err(RequestRejection::NotAcceptable { offered: OFFERED }),
        accepted => handle(&state, request, transport, accepted).await,
    };
    response.unwrap_or_else(|rejection| rejection.refuse(transport, accepted.media()))
}

const OFFERED: &str =
    "application/graphql-response+json or application/json, for subscriptions multipart/mixed;subscriptionSpec=1.0";

/// Forms of response that a client accepts.
#[derive(Debug, Clone, Copy)]
struct Accepted {
    media: Option<Media>,
    /// Whether subscriptions get a multipart response. Any operation gets one if `media` is `None`.
    multipart: bool,
}

impl Accepted {
    fn of(headers: &HeaderMap, transport: Transport) -> Self {
        let multipart = transport == Transport::Post && Media::accepts_multipart(headers);
        Self { media: Media::negotiate(headers), multipart }
    }

    /// Returns the media type of a response that is not multipart.
    fn media(self) -> Media {
        self.media.unwrap_or(Media::Json)
    }
}

/// Refuses every other method.
pub(super) async fn refuse_method(headers: HeaderMap) -> Response {
    let media = Media::negotiate(&headers).unwrap_or(Media::Json);
    RequestRejection::Method.refuse(Transport::Post, media)
}

async fn handle<E: Executor>(
    state: &TransportState<E>,
    request: Request,
    transport: Transport,
    accepted: Accepted,
) -> Result<Response, RequestRejection> {
    let (Parts { uri, headers, extensions, .. }, body) = request.into_parts();
    let head = BodyHead::from(&headers);
    let caller = Caller { headers, extensions, init: None };
    let AdmittedCaller { engine, admitted, key } = state.admit(caller).await?;
    let mut slot = state.slot(&key)?;
    let parameters = match transport {
        Transport::Get => body::from_uri(&uri)?,
        _ => body::from_body(head, body, state.limits(), &mut slot).await?,
    };
    let operation = match engine.check(parameters, transport) {
        Ok(operation) => operation,
        Err(error) => return respond(error.into(), accepted.media(), slot, false),
    };
    let in_parts = accepted.multipart && (operation.kind == OperationType::Subscription || accepted.media.is_none());
    match operation.kind {
        _ if in_parts => {
            let connection = state.connect(Transport::Multipart, &key)?;
            let kind = operation.kind;
            let taken = slot.until_end(kind, operation.text_bytes)?;
            let stream = taken.with(engine.replies(operation, Transport::Multipart));
            Ok(streaming::respond(state, multipart::framing(), Replies { kind, stream }, admitted, connection))
        }
        OperationType::Subscription => Err(RequestRejection::SubscriptionOverHttp),
        OperationType::Mutation if transport == Transport::Get => Err(RequestRejection::MutationOverGet),
        kind => {
            respond(engine.run(operation, transport).await, accepted.media(), slot, kind == OperationType::Mutation)
        }
    }
}

/// Returns the response with a reply. The result of a mutation is sent even if the buffered bytes are at their limit.
fn respond(reply: Reply, media: Media, slot: RequestSlot, of_mutation: bool) -> Result<Response, RequestRejection> {
    let status = media.status(&reply);
    let body = slot.send(reply.to_json(), of_mutation)?;
    let mut response = (reply.headers, Body::from(body)).into_response();
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, media.content_type());
    Ok(response)
}
