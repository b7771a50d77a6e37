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
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};

use super::callers::Slot;
use super::edge::{Gate, Guest};
use super::fault::Fault;
use super::media::Media;
use super::observe::{self, Transport};
use super::reply::Reply;
use super::{body, callers, multipart, streaming};

/// Serves a POST, or a GET that is not a WebSocket handshake.
pub(super) async fn serve<E: Executor>(State(gate): State<Arc<Gate<E>>>, request: Request) -> Response {
    let transport = if request.method() == Method::POST { Transport::Post } else { Transport::Get };
    let accepted = Accepted::of(request.headers(), transport);
    let answer = match accepted {
        Accepted { media: None, multipart: false } => Err(Fault::NotAcceptable { offered: OFFERED }),
        accepted => answer(&gate, request, transport, accepted).await,
    };
    answer.unwrap_or_else(|fault| refuse(&fault, transport, accepted.media()))
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
    refuse(&Fault::Method, Transport::Post, media)
}

/// Counts a refusal and returns its response.
pub(super) fn refuse(fault: &Fault, transport: Transport, media: Media) -> Response {
    observe::fault(transport, fault);
    fault.respond(media)
}

async fn answer<E: Executor>(
    gate: &Gate<E>,
    request: Request,
    transport: Transport,
    accepted: Accepted,
) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let Guest { engine, admitted, key } = gate.admit(&parts).await?;
    let mut slot = gate.slot(&key)?;
    let parameters = match transport {
        Transport::Get => body::from_uri(&parts.uri)?,
        _ => body::from_body(&parts.headers, body, gate.limits(), &mut slot).await?,
    };
    let operation = match engine.check(parameters, transport) {
        Ok(operation) => operation,
        Err(invalid) => return respond(invalid.into(), accepted.media(), slot, false),
    };
    let in_parts = accepted.multipart && (operation.kind == OperationType::Subscription || accepted.media.is_none());
    match operation.kind {
        _ if in_parts => {
            let place = gate.connect(Transport::Multipart, &key)?;
            let kind = operation.kind;
            let replies = callers::keep(slot.unless_live(kind), engine.replies(operation, Transport::Multipart));
            Ok(streaming::respond(gate, multipart::framing(), (kind, replies), admitted, place))
        }
        OperationType::Subscription => Err(Fault::SubscriptionOverHttp),
        OperationType::Mutation if transport == Transport::Get => Err(Fault::MutationOverGet),
        kind => {
            respond(engine.run(operation, transport).await, accepted.media(), slot, kind == OperationType::Mutation)
        }
    }
}

/// Returns the response with a reply. The result of a mutation is sent even if the buffered bytes are at their limit.
fn respond(reply: Reply, media: Media, slot: Slot, of_mutation: bool) -> Result<Response, Fault> {
    let status = media.status(&reply);
    let body = slot.send(reply.to_json(), of_mutation)?;
    let mut response = (reply.headers, Body::from(body)).into_response();
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, media.content_type());
    Ok(response)
}
