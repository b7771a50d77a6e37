//! GraphQL over server-sent events: the distinct connections mode of the graphql-sse protocol.
//!
//! A request is one operation of any kind, and its response the stream of its answers: `next` for each, `complete` at the
//! end. Errors of the operation are answers, since a browser's `EventSource` can't read the body of a refusal. GET runs no
//! mutations. At a shutdown the stream breaks off without `complete`, and clients connect again. When the caller's
//! admission ends, the last answer is an error with the code `UNAUTHENTICATED`.

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
/// It has a data field, since a browser's parser drops an event without one.
const COMPLETE: &[u8] = b"event: complete\ndata:\n\n";

/// Answers a request with the stream of its operation.
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
        // A comment; the first one makes browsers report the stream as open.
        opening: Bytes::from_static(b":\n\n"),
        heartbeat: Bytes::from_static(b":\n\n"),
        reply: event,
        complete: Bytes::from_static(COMPLETE),
        // Clients connect again to a stream without its end.
        interrupted: |end| match end {
            End::Closing => None,
            End::Expired => Some([&event(&end.reply())[..], COMPLETE].concat().into()),
        },
    }
}

/// A reply as an event. JSON has no line breaks, so it is one data line.
fn event(reply: &Reply) -> Bytes {
    format!("event: next\ndata: {}\n\n", reply.to_json()).into()
}
