//! GraphQL over WebSocket: the subprotocol `graphql-transport-ws`, on the path and method of a GET.
//!
//! A socket is one task and its operations run inside it, so what happens on a socket happens in one order: no message of
//! an operation follows the `complete` or `error` that ended it, and an id is free again when its end is sent.
//!
//! Back-pressure is the socket's own: the next answer is taken from an operation only when the one before it has gone to
//! the operating system, and while a client does not read, nothing is read from it. A client that stays so for
//! [`send_timeout`](super::Limits::send_timeout) is closed with 1013.

mod close;
mod message;
mod operations;
mod session;

use std::sync::Arc;

use async_graphql::Executor;
use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header;
use axum::response::Response;
use futures::FutureExt;

use super::callers::CallerKey;
use super::edge::Gate;
use super::fault::Fault;
use super::graphql;
use super::listener::Peer;
use super::media::Media;
use super::observe::Transport;
use session::Session;

/// The one subprotocol that is spoken.
const PROTOCOL: &str = "graphql-transport-ws";
/// Bytes that a socket takes for reading as long as it is open; clients send little.
const READ_BUFFER: usize = 2 << 10;
/// Bytes that are collected before they are sent.
const WRITE_BUFFER: usize = 16 << 10;

/// Opens a WebSocket for a handshake, and answers any other GET.
pub(super) async fn upgrade_or_get<E: Executor>(state: State<Arc<Gate<E>>>, request: Request) -> Response {
    let handshake = request.headers().get(header::UPGRADE);
    if handshake.is_none_or(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(b"websocket")) {
        return graphql::serve(state, request).await;
    }
    let State(gate) = state;
    upgrade(gate, request).await.unwrap_or_else(|fault| graphql::refuse(&fault, Transport::WebSocket, Media::Json))
}

async fn upgrade<E: Executor>(gate: Arc<Gate<E>>, request: Request) -> Result<Response, Fault> {
    let (mut parts, _) = request.into_parts();
    let upgrade: Result<_, WebSocketUpgradeRejection> = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|_| Fault::Handshake)?;
    let peer = parts.extensions.get::<Peer>().cloned();
    // The socket takes its place when its caller is admitted. Where there is none for the address, the client is told by a
    // status rather than by a close code.
    drop(gate.connect(Transport::WebSocket, &CallerKey::of(peer.as_ref()))?);
    let caller = (&parts).into();
    let (tracker, token) = (gate.connections.clone(), gate.connections.token());
    // Twice the limit on messages: one that is too long should be read, and told so, where that is cheap.
    let largest = gate.limits().message_bytes.saturating_mul(2);
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(largest)
        .max_frame_size(largest);
    Ok(upgrade.on_upgrade(move |socket| {
        let session = Session::new(gate, socket, caller, peer);
        let session = tracker.track_future(session.run().boxed());
        drop(token);
        session
    }))
}
