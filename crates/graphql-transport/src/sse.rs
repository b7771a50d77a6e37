//! GraphQL over server-sent events: the distinct connections mode of the graphql-sse protocol, at a path of its own, and at
//! that of the other transports for clients that prefer it ([`Media::prefers_event_stream`]). There, clients that only
//! accept it by its name get it for subscriptions ([`super::graphql`]).
//!
//! A request is one operation of any kind. Its response is the stream of its replies: an event `next` for each reply,
//! and `complete` at the end. Errors of the operation are sent as replies, because a browser's `EventSource` can't read
//! the body of an error response. GET does not run mutations. At a shutdown a subscription's stream ends without
//! `complete`, and clients reconnect. When the caller's admission ends, the last reply is an error with the code
//! `UNAUTHENTICATED`.

use std::sync::Arc;

use async_graphql::Executor;
use async_graphql::parser::types::OperationType;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;

use super::admission::Caller;
use super::body::{self, BodyHead};
use super::edge::{AdmittedCaller, TransportState};
use super::media::Media;
use super::rejection::RequestRejection;
use super::reply::Reply;
use super::streaming::{self, End, Framing, Replies};
use super::transport::Transport;

const TRANSPORT: Transport = Transport::EventStream;
/// End of the stream. It has a data field because a browser's parser drops an event without one.
const COMPLETE: &[u8] = b"event: complete\ndata:\n\n";

/// Serves a request with the stream of its operation's replies.
pub(super) async fn serve<E: Executor>(State(state): State<Arc<TransportState<E>>>, request: Request) -> Response {
    match open(&state, request).await {
        Ok(response) => response,
        Err(rejection) => rejection.refuse(TRANSPORT, Media::Json),
    }
}

async fn open<E: Executor>(state: &TransportState<E>, request: Request) -> Result<Response, RequestRejection> {
    let (Parts { method, uri, headers, extensions, .. }, body) = request.into_parts();
    if !Media::accepts_event_stream(&headers) {
        return Err(RequestRejection::NotAcceptable { offered: "text/event-stream" });
    }
    let head = BodyHead::from(&headers);
    let caller = Caller { headers, extensions, init: None };
    let AdmittedCaller { engine, admitted, key } = state.admit(caller).await?;
    let connection = state.connect(TRANSPORT, &key)?;
    let mut slot = state.slot(&key)?;
    let parameters = if method == Method::POST {
        body::from_body(head, body, state.limits(), &mut slot).await?
    } else {
        body::from_uri(&uri)?
    };
    let replies = match engine.check(parameters, TRANSPORT) {
        Err(error) => {
            let stream = stream::once(async { Reply::from(error) }).boxed();
            Replies { kind: OperationType::Query, stream }
        }
        Ok(operation) if operation.kind == OperationType::Mutation && method != Method::POST => {
            return Err(RequestRejection::MutationOverGet);
        }
        Ok(operation) => {
            let kind = operation.kind;
            let taken = slot.until_end(kind, operation.text_bytes)?;
            let stream = taken.with(engine.replies(operation, TRANSPORT));
            Replies { kind, stream }
        }
    };
    Ok(streaming::respond(state, framing(), replies, admitted, connection))
}

/// Returns the framing of an event stream.
pub(super) fn framing() -> Framing {
    Framing {
        content_type: "text/event-stream; charset=utf-8",
        // A comment line. The first one makes browsers report the stream as open.
        opening: Bytes::from_static(b":\n\n"),
        heartbeat: Bytes::from_static(b":\n\n"),
        reply: event,
        complete: Bytes::from_static(COMPLETE),
        // Clients reconnect if a stream ends without `complete`.
        interrupted: |end| match end {
            End::Closing => None,
            End::Expired => Some([&event(&end.reply())[..], COMPLETE].concat().into()),
        },
    }
}

/// Returns a reply as an event. Its JSON has no line breaks, so it fits in one data line.
fn event(reply: &Reply) -> Bytes {
    reply.framed(b"event: next\ndata: ", b"\n\n").into()
}
