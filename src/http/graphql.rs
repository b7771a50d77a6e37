//! GraphQL over HTTP: one request, one answer.
//!
//! Follows the GraphQL-over-HTTP specification. POST takes `application/json` and runs queries and mutations; GET runs
//! queries only. Refusals come in the media type that the client prefers.

use std::sync::Arc;

use async_graphql::Executor;
use async_graphql::parser::types::OperationType;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};

use super::body;
use super::edge::Gate;
use super::fault::Fault;
use super::media::Media;
use super::observe::{self, Transport};
use super::reply::Reply;

/// Answers a POST, and a GET that is no WebSocket handshake.
pub(super) async fn serve<E: Executor>(State(gate): State<Arc<Gate<E>>>, request: Request) -> Response {
    let transport = if request.method() == Method::POST { Transport::Post } else { Transport::Get };
    let media = Media::negotiate(request.headers());
    let answer = match media {
        Some(media) => answer(&gate, request, transport).await.map(|reply| respond(reply, media)),
        None => Err(Fault::NotAcceptable { offered: "application/graphql-response+json or application/json" }),
    };
    let mut response = answer.unwrap_or_else(|fault| refuse(&fault, transport, media.unwrap_or(Media::Json)));
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Refuses every other method.
pub(super) async fn refuse_method(headers: HeaderMap) -> Response {
    let media = Media::negotiate(&headers).unwrap_or(Media::Json);
    refuse(&Fault::Method, Transport::Post, media)
}

/// Counts a refusal and answers with it.
pub(super) fn refuse(fault: &Fault, transport: Transport, media: Media) -> Response {
    observe::fault(transport, fault);
    fault.respond(media)
}

async fn answer<E: Executor>(gate: &Gate<E>, request: Request, transport: Transport) -> Result<Reply, Fault> {
    let (parts, body) = request.into_parts();
    gate.check_site(&parts)?;
    let engine = gate.admit(&parts).await?.engine;
    let parameters = match transport {
        Transport::Get => body::from_uri(&parts.uri)?,
        _ => body::from_body(&parts.headers, body, gate.limits()).await?,
    };
    let operation = match engine.check(parameters, transport) {
        Ok(operation) => operation,
        Err(invalid) => return Ok(invalid.into()),
    };
    match operation.kind {
        OperationType::Subscription => Err(Fault::SubscriptionOverHttp),
        OperationType::Mutation if transport == Transport::Get => Err(Fault::MutationOverGet),
        _ => Ok(engine.run(operation, transport).await),
    }
}

fn respond(reply: Reply, media: Media) -> Response {
    let (status, body) = (media.status(&reply), reply.to_json());
    let mut response = (reply.headers, body).into_response();
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, media.content_type());
    response
}
