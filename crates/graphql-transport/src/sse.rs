//! GraphQL over server-sent events: the distinct connections mode of the graphql-sse protocol.
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
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;

use super::edge::{Gate, Guest};
use super::fault::Fault;
use super::graphql::refuse;
use super::media::Media;
use super::observe::Transport;
use super::reply::Reply;
use super::streaming::{self, End, Framing};
use super::{body, callers};

const TRANSPORT: Transport = Transport::EventStream;
/// End of the stream. It has a data field because a browser's parser drops an event without one.
const COMPLETE: &[u8] = b"event: complete\ndata:\n\n";

/// Serves a request with the stream of its operation's replies.
pub(super) async fn serve<E: Executor>(State(gate): State<Arc<Gate<E>>>, request: Request) -> Response {
    match open(&gate, request).await {
        Ok(response) => response,
        Err(fault) => refuse(&fault, TRANSPORT, Media::Json),
    }
}

async fn open<E: Executor>(gate: &Gate<E>, request: Request) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    if !Media::accepts_event_stream(&parts.headers) {
        return Err(Fault::NotAcceptable { offered: "text/event-stream" });
    }
    let Guest { engine, admitted, key } = gate.admit(&parts).await?;
    let place = gate.connect(TRANSPORT, &key)?;
    let mut slot = gate.slot(&key)?;
    let parameters = if parts.method == Method::POST {
        body::from_body(&parts.headers, body, gate.limits(), &mut slot).await?
    } else {
        body::from_uri(&parts.uri)?
    };
    let replies = match engine.check(parameters, TRANSPORT) {
        Err(invalid) => (OperationType::Query, stream::once(async { Reply::from(invalid) }).boxed()),
        Ok(operation) if operation.kind == OperationType::Mutation && parts.method != Method::POST => {
            return Err(Fault::MutationOverGet);
        }
        Ok(operation) => {
            let kind = operation.kind;
            (kind, callers::keep(slot.unless_live(kind), engine.replies(operation, TRANSPORT)))
        }
    };
    Ok(streaming::respond(gate, framing(), replies, admitted, place))
}

fn framing() -> Framing {
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
    format!("event: next\ndata: {}\n\n", reply.to_json()).into()
}
