//! Responses whose body is the stream of one operation's replies, framed by a protocol: server-sent events or
//! multipart/mixed.
//!
//! Replies are taken from the operation one by one as the client reads; a client that leaves one unread for
//! [`send_timeout`](super::Limits::send_timeout) loses its operation. The operation runs in a task of
//! [`Edge::connections`](super::Edge::connections), which ends with the response.

use std::convert::Infallible;

use async_graphql::Executor;
use async_graphql::parser::types::OperationType;
use axum::body::Body;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::admission::Admitted;
use super::callers;
use super::edge::{Gate, Place};
use super::fault::Fault;
use super::limits::Limits;
use super::reply::Reply;

/// The bytes of a protocol.
pub(super) struct Framing {
    pub(super) content_type: &'static str,
    /// The start of the body, sent at once, so that clients see that the stream is open.
    pub(super) opening: Bytes,
    /// Sent whenever the stream was silent for [`Limits::keepalive`].
    pub(super) heartbeat: Bytes,
    /// One reply.
    pub(super) reply: fn(&Reply) -> Bytes,
    /// The end of an operation.
    pub(super) complete: Bytes,
    /// The end of a stream that the server ends before the operation; none where a stream just breaks off.
    pub(super) interrupted: fn(End) -> Option<Bytes>,
}

/// A reason to end a stream before its operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// The server shuts down.
    Closing,
    /// The caller's admission has ended.
    Expired,
}

impl End {
    /// The reason as a reply.
    pub(super) fn reply(self) -> Reply {
        match self {
            Self::Closing => Fault::Closing.reply(),
            Self::Expired => Reply::expired(),
        }
    }
}

/// A response that streams the replies of an operation of this kind; `place` is held as long as they flow. A shutdown ends
/// subscriptions only: other operations have their full deadline.
pub(super) fn respond<E: Executor>(
    gate: &Gate<E>,
    framing: Framing,
    (kind, replies): (OperationType, BoxStream<'static, Reply>),
    admitted: Admitted,
    place: Place,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, framing.content_type),
        // Proxies that collect a response before they pass it on are asked not to.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let (sender, receiver) = mpsc::channel(1);
    let closing = if kind == OperationType::Subscription { gate.closing.clone() } else { CancellationToken::new() };
    let streaming = Streaming { sender, framing, limits: *gate.limits(), closing, admitted, place };
    gate.connections.spawn(async move {
        // A client that is gone or does not read is told nothing more.
        let _: Result<(), Unread> = streaming.run(replies).await;
    });
    let chunks = stream::unfold(receiver, |mut receiver| async {
        Some((Ok::<_, Infallible>(receiver.recv().await?), receiver))
    });
    (headers, Body::from_stream(chunks)).into_response()
}

/// The sending half of a response's body.
struct Streaming {
    sender: mpsc::Sender<Bytes>,
    framing: Framing,
    limits: Limits,
    closing: CancellationToken,
    admitted: Admitted,
    place: Place,
}

/// The client has gone, or does not read.
struct Unread;

impl Streaming {
    async fn run(self, mut replies: BoxStream<'static, Reply>) -> Result<(), Unread> {
        self.send(self.framing.opening.clone()).await?;
        let mut heartbeat = interval_at(Instant::now() + self.limits.keepalive, self.limits.keepalive);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let bytes = tokio::select! {
                () = self.closing.cancelled() => return self.interrupt(End::Closing).await,
                () = self.admitted.ended() => return self.interrupt(End::Expired).await,
                () = self.sender.closed() => return Err(Unread),
                _ = heartbeat.tick() => self.framing.heartbeat.clone(),
                reply = replies.next() => match reply {
                    Some(reply) => (self.framing.reply)(&reply),
                    None => return self.send(self.framing.complete.clone()).await,
                },
            };
            self.send(bytes).await?;
        }
    }

    async fn interrupt(&self, end: End) -> Result<(), Unread> {
        match (self.framing.interrupted)(end) {
            Some(bytes) => self.send(bytes).await,
            None => Ok(()),
        }
    }

    async fn send(&self, bytes: Bytes) -> Result<(), Unread> {
        let buffered = self.place.buffer(bytes.len()).map_err(|_| Unread)?;
        let bytes = callers::holding(bytes, buffered);
        let sent = timeout(self.limits.send_timeout, self.sender.send(bytes)).await;
        sent.map_err(|_| Unread)?.map_err(|_| Unread)
    }
}
