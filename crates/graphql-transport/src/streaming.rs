//! Responses with a stream of one operation's replies as body, framed by a protocol: server-sent events or
//! multipart/mixed.
//!
//! Replies are taken from the operation one by one as the client reads. If the client leaves a reply unread for
//! [`send_timeout`](super::Limits::send_timeout), the operation is cancelled. The operation runs in a task of
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
use super::edge::{LiveConnection, TransportState};
use super::limits::Limits;
use super::rejection::RequestRejection;
use super::reply::Reply;
use super::resources;

/// The framing of a protocol.
pub(super) struct Framing {
    pub(super) content_type: &'static str,
    /// Start of the body. It is sent at once, so that clients see that the stream is open.
    pub(super) opening: Bytes,
    /// Heartbeat, sent every [`Limits::keepalive`].
    pub(super) heartbeat: Bytes,
    /// Returns the frame of a reply.
    pub(super) reply: fn(&Reply) -> Bytes,
    /// End of a stream whose operation has ended.
    pub(super) complete: Bytes,
    /// Returns the end of a stream that the server ends before the operation has ended; `None` if nothing is sent.
    pub(super) interrupted: fn(End) -> Option<Bytes>,
}

/// Reason to end a stream before its operation has ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// The server is shutting down.
    Closing,
    /// The caller's admission has ended.
    Expired,
}

impl End {
    /// Returns the reason as a reply.
    pub(super) fn reply(self) -> Reply {
        match self {
            Self::Closing => RequestRejection::Closing.reply(),
            Self::Expired => Reply::expired(),
        }
    }
}

/// The replies of an operation.
pub(super) struct Replies {
    pub(super) kind: OperationType,
    pub(super) stream: BoxStream<'static, Reply>,
}

/// Returns a response that streams the replies of an operation. `connection` is held until the stream ends. A shutdown ends
/// only subscriptions; other operations continue until their deadline.
pub(super) fn respond<E: Executor>(
    state: &TransportState<E>,
    framing: Framing,
    replies: Replies,
    admitted: Admitted,
    connection: LiveConnection,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, framing.content_type),
        // Asks proxies not to buffer the response.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let (sender, receiver) = mpsc::channel(1);
    let closing =
        if replies.kind == OperationType::Subscription { state.closing.clone() } else { CancellationToken::new() };
    let streaming = Streaming { sender, framing, limits: *state.limits(), closing, admitted, connection };
    state.connections.spawn(async move {
        // A client that is gone, or does not read, gets nothing more.
        let _: Result<(), Unread> = streaming.run(replies.stream).await;
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
    connection: LiveConnection,
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
        let buffered = self.connection.buffer(bytes.len()).map_err(|_| Unread)?;
        let bytes = resources::holding(bytes, buffered);
        let sent = timeout(self.limits.send_timeout, self.sender.send(bytes)).await;
        sent.map_err(|_| Unread)?.map_err(|_| Unread)
    }
}
