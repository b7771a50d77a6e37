//! GraphQL over server-sent events: the distinct connections mode of the graphql-sse protocol.
//!
//! A request is one operation of any kind, and its response the stream of its answers: `next` for each, `complete` at the
//! end. Errors of the operation are answers, since a browser's `EventSource` can't read the body of a refusal. GET runs no
//! mutations. At a shutdown the stream breaks off without `complete`, and clients connect again. When the caller's
//! admission ends, the last answer is an error with the code `UNAUTHENTICATED`.
//!
//! Answers are taken from the operation one by one as the client reads; a client that leaves one unread for
//! [`send_timeout`](super::Limits::send_timeout) loses its operation. The operation runs in a task of
//! [`Edge::connections`](super::Edge::connections), which ends with the response.

use std::convert::Infallible;
use std::sync::Arc;

use async_graphql::Executor;
use async_graphql::parser::types::OperationType;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::admission::Admitted;
use super::body;
use super::edge::{Gate, Guest};
use super::fault::Fault;
use super::graphql::refuse;
use super::limits::Limits;
use super::media::Media;
use super::observe::Transport;
use super::reply::Reply;

const TRANSPORT: Transport = Transport::EventStream;
/// A comment; the first one makes browsers report the stream as open.
const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");
/// The last event. It has a data field, since a browser's parser drops an event without one.
const COMPLETE: Bytes = Bytes::from_static(b"event: complete\ndata:\n\n");

/// Answers a request with the stream of its operation.
pub(super) async fn serve<E: Executor>(State(gate): State<Arc<Gate<E>>>, request: Request) -> Response {
    match open(&gate, request).await {
        Ok(response) => response,
        Err(fault) => refuse(&fault, TRANSPORT, Media::Json),
    }
}

async fn open<E: Executor>(gate: &Gate<E>, request: Request) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    gate.check_site(&parts)?;
    if !Media::accepts_event_stream(&parts.headers) {
        return Err(Fault::NotAcceptable { offered: "text/event-stream" });
    }
    let place = gate.connect(TRANSPORT)?;
    let Guest { engine, admitted } = gate.admit(&parts).await?;
    let parameters = if parts.method == Method::POST {
        body::from_body(&parts.headers, body, gate.limits()).await?
    } else {
        body::from_uri(&parts.uri)?
    };
    let replies = match engine.check(parameters, TRANSPORT) {
        Err(invalid) => stream::once(async { Reply::from(invalid) }).boxed(),
        Ok(operation) if operation.kind == OperationType::Mutation && parts.method != Method::POST => {
            return Err(Fault::MutationOverGet);
        }
        Ok(operation) => engine.replies(operation, TRANSPORT),
    };
    let (sender, receiver) = mpsc::channel(1);
    let stream = EventStream { sender, limits: *gate.limits(), closing: gate.closing.clone(), admitted };
    gate.connections.spawn(async move {
        stream.run(replies).await;
        drop(place);
    });
    Ok(respond(receiver))
}

fn respond(receiver: mpsc::Receiver<Bytes>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that collect a response before they pass it on are asked not to.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let events = stream::unfold(receiver, |mut receiver| async {
        Some((Ok::<_, Infallible>(receiver.recv().await?), receiver))
    });
    (headers, Body::from_stream(events)).into_response()
}

/// The sending half of a response's body.
struct EventStream {
    sender: mpsc::Sender<Bytes>,
    limits: Limits,
    closing: CancellationToken,
    admitted: Admitted,
}

/// An answer as an event. JSON has no line breaks, so it is one data line.
fn next(reply: &Reply) -> Bytes {
    format!("event: next\ndata: {}\n\n", reply.to_json()).into()
}

/// The client has gone, or does not read.
struct Unread;

impl EventStream {
    async fn run(self, mut replies: BoxStream<'static, Reply>) {
        let mut heartbeat = interval_at(Instant::now(), self.limits.keepalive);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (event, last) = tokio::select! {
                () = self.closing.cancelled() => return,
                () = self.sender.closed() => return,
                _ = heartbeat.tick() => (HEARTBEAT, false),
                () = self.admitted.ended() => {
                    // The last answer, and the end of the stream with it.
                    (Bytes::from([&next(&Reply::expired())[..], &COMPLETE[..]].concat()), true)
                }
                reply = replies.next() => match reply {
                    Some(reply) => (next(&reply), false),
                    None => (COMPLETE, true),
                },
            };
            if self.send(event).await.is_err() || last {
                return;
            }
        }
    }

    async fn send(&self, event: Bytes) -> Result<(), Unread> {
        let sent = timeout(self.limits.send_timeout, self.sender.send(event)).await;
        sent.map_err(|_| Unread)?.map_err(|_| Unread)
    }
}
