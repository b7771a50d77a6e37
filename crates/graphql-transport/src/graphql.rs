//! GraphQL over HTTP: one request, one response.
//!
//! Follows the GraphQL-over-HTTP specification. POST takes `application/json` and runs queries and mutations; GET runs
//! only queries. Error responses have the media type that the client prefers. A subscription by POST gets a multipart
//! response if the client accepts that ([`super::multipart`]). A client that prefers an event stream gets one
//! ([`super::sse`]).

use std::mem;
use std::sync::Arc;

use async_graphql::Executor;
use async_graphql::parser::types::OperationType;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};

use super::admission::Caller;
use super::body::{self, BodyHead};
use super::compression;
use super::edge::{AdmittedCaller, TransportState};
use super::media::Media;
use super::multipart;
use super::rejection::RequestRejection;
use super::reply::Reply;
use super::resources::RequestSlot;
use super::sse;
use super::streaming::{self, Replies};
use super::transport::Transport;

/// Serves a POST, or a GET that is not a WebSocket handshake.
pub(super) async fn serve<E: Executor>(state: State<Arc<TransportState<E>>>, request: Request) -> Response {
    if Media::prefers_event_stream(request.headers()) {
        return sse::serve(state, request).await;
    }
    let State(state) = state;
    let transport = if request.method() == Method::POST { Transport::Post } else { Transport::Get };
    let accepted = Accepted::of(request.headers(), transport);
    let response = match accepted {
        Accepted { media: None, multipart: false, .. } => Err(RequestRejection::NotAcceptable { offered: OFFERED }),
        accepted => handle(&state, request, transport, accepted).await,
    };
    response.unwrap_or_else(|rejection| rejection.refuse(transport, accepted.media()))
}

const OFFERED: &str = "application/graphql-response+json or application/json, for subscriptions text/event-stream or \
     multipart/mixed;subscriptionSpec=1.0";

/// Forms of response that a client accepts.
#[derive(Debug, Clone, Copy)]
struct Accepted {
    media: Option<Media>,
    /// Whether subscriptions get a multipart response. Any operation gets one if `media` is `None`.
    multipart: bool,
    gzip: bool,
}

impl Accepted {
    fn of(headers: &HeaderMap, transport: Transport) -> Self {
        let multipart = transport == Transport::Post && Media::accepts_multipart(headers);
        Self { media: Media::negotiate(headers), multipart, gzip: compression::accepts_gzip(headers) }
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
        Err(error) => return respond(error.into(), accepted, slot, false).await,
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
            let reply = engine.run(operation, transport).await;
            respond(reply, accepted, slot, kind == OperationType::Mutation).await
        }
    }
}

/// Returns the response with a reply. The result of a mutation is sent even if the buffered bytes are at their limit.
async fn respond(
    mut reply: Reply,
    accepted: Accepted,
    mut slot: RequestSlot,
    of_mutation: bool,
) -> Result<Response, RequestRejection> {
    let (status, text) = (accepted.media().status(&reply), reply.to_json());
    let headers = mem::take(&mut reply.headers);
    drop(reply);
    slot.buffer_response(text.len(), of_mutation)?;
    let large = compression::applies_to(text.len());
    let compressed = if large && accepted.gzip { compression::gzip(text.as_bytes()).await.ok() } else { None };
    let encoded = compressed.is_some();
    let body = slot.send(compressed.unwrap_or_else(|| text.into_bytes()));
    let mut response = (headers, Body::from(body)).into_response();
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, accepted.media().content_type());
    if large {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
    if encoded {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}
