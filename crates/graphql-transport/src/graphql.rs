//! GraphQL over HTTP: one request, one response.
//!
//! Follows the GraphQL-over-HTTP specification. POST takes `application/json` and runs queries and mutations; GET runs
//! only queries. Error responses have the media type that the client prefers. A subscription gets a stream if the client
//! names one in `Accept`: an event stream ([`super::sse`]) or, by POST, a multipart response ([`super::multipart`]). A
//! client that prefers an event stream to all other types gets one for operations of every kind.

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
use super::media::{Media, StreamMedia};
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
        Accepted { media: None, stream: None, .. } => Err(RequestRejection::NotAcceptable { offered: OFFERED }),
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
    /// Stream that subscriptions get. Any operation gets it if `media` is `None`.
    stream: Option<StreamMedia>,
    gzip: bool,
}

impl Accepted {
    fn of(headers: &HeaderMap, transport: Transport) -> Self {
        let offers: &[StreamMedia] = match transport {
            Transport::Post => &[StreamMedia::EventStream, StreamMedia::Multipart],
            _ => &[StreamMedia::EventStream],
        };
        let stream = StreamMedia::negotiate(headers, offers);
        Self { media: Media::negotiate(headers), stream, gzip: compression::accepts_gzip(headers) }
    }

    /// Returns the media type of a response that is not a stream.
    fn media(self) -> Media {
        self.media.unwrap_or(Media::Json)
    }

    /// Returns the stream that an operation of this kind gets.
    fn stream(self, kind: OperationType) -> Option<StreamMedia> {
        self.stream.filter(|_| kind == OperationType::Subscription || self.media.is_none())
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
    let kind = operation.kind;
    match accepted.stream(kind) {
        _ if kind == OperationType::Mutation && transport == Transport::Get => Err(RequestRejection::MutationOverGet),
        Some(media) => {
            let (transport, framing) = match media {
                StreamMedia::EventStream => (Transport::EventStream, sse::framing()),
                StreamMedia::Multipart => (Transport::Multipart, multipart::framing()),
            };
            let connection = state.connect(transport, &key)?;
            let taken = slot.until_end(kind, operation.text_bytes)?;
            let stream = taken.with(engine.replies(operation, transport));
            Ok(streaming::respond(state, framing, Replies { kind, stream }, admitted, connection))
        }
        None if kind == OperationType::Subscription => Err(RequestRejection::SubscriptionOverHttp),
        None => {
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
    let compressed = if large && accepted.gzip { compress(&text, &slot).await } else { None };
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

/// Returns a text as gzip. `None` if no encoder is free, or if that is larger than the text.
async fn compress(text: &str, slot: &RequestSlot) -> Option<Vec<u8>> {
    let _encoder = slot.encoder(compression::ENCODER_BYTES + text.len())?;
    compression::gzip(text.as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::super::limits::Limits;
    use super::super::resources::{CallerKey, Resource, ResourceUsage};
    use super::*;

    #[tokio::test]
    async fn response_is_sent_uncompressed_while_all_encoders_are_in_use() {
        let limits = Limits { caller_share: 100, ..Limits::default() };
        let usage = ResourceUsage::new(&limits);
        let slot = || RequestSlot::take(&usage, &CallerKey::Unknown).unwrap_or_else(|_| panic!("a slot is free"));
        let accepted = Accepted { media: Some(Media::Json), stream: None, gzip: true };
        let send = || respond(Reply::error("INTERNAL", "a".repeat(2_000)), accepted, slot(), false);
        let compressed = |response: &Response| response.headers().contains_key(CONTENT_ENCODING);

        let other = slot();
        let encoders: Vec<_> = (0..10_000).map_while(|_| other.encoder(0)).collect();
        let plain = send().await.unwrap();
        assert!(!compressed(&plain) && plain.headers().contains_key(VARY));
        drop(encoders);
        let encoded = send().await.unwrap();
        assert!(compressed(&encoded));

        let all = || usage.take(&CallerKey::Unknown, Resource::BufferedBytes, limits.buffered_bytes).map(drop);
        assert_eq!(all(), Err(Resource::BufferedBytes));
        drop((plain, encoded));
        assert_eq!(all(), Ok(()));
    }
}
