//! GraphQL over WebSocket: the subprotocol `graphql-transport-ws`, on the path and method of a GET.
//!
//! A socket is one task, and its operations run inside it. So all events of a socket are in one order: no message of an
//! operation follows its `complete` or `error`, and its id is free again when that message is sent.
//!
//! The socket applies back-pressure. It takes more replies from the operations only after the operating system has
//! taken the previous ones. While a client does not read, the server reads nothing from it. If that lasts for
//! [`send_timeout`](super::Limits::send_timeout), the socket is closed with 1013.

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

use super::admission::Caller;
use super::edge::TransportState;
use super::graphql;
use super::listener::Peer;
use super::media::Media;
use super::rejection::RequestRejection;
use super::resources::CallerKey;
use super::transport::Transport;
use session::Session;

/// The only supported subprotocol.
const PROTOCOL: &str = "graphql-transport-ws";
/// Size in bytes of the read buffer of an open socket. It is small because clients send little.
const READ_BUFFER: usize = 2 << 10;
/// Size in bytes of the write buffer of an open socket.
const WRITE_BUFFER: usize = 16 << 10;

/// Opens a WebSocket for a handshake, and serves any other GET as a GraphQL request.
pub(super) async fn upgrade_or_get<E: Executor>(state: State<Arc<TransportState<E>>>, request: Request) -> Response {
    let handshake = request.headers().get(header::UPGRADE);
    if handshake.is_none_or(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(b"websocket")) {
        return graphql::serve(state, request).await;
    }
    let State(state) = state;
    upgrade(state, request).await.unwrap_or_else(|rejection| rejection.refuse(Transport::WebSocket, Media::Json))
}

async fn upgrade<E: Executor>(state: Arc<TransportState<E>>, request: Request) -> Result<Response, RequestRejection> {
    let (mut parts, _) = request.into_parts();
    let upgrade: Result<_, WebSocketUpgradeRejection> = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|_| RequestRejection::Handshake)?;
    let peer = parts.extensions.get::<Peer>().cloned();
    // The socket is counted when its caller is admitted. If the address may open no further connection, the handshake
    // already fails with an HTTP status.
    drop(state.connect(Transport::WebSocket, &CallerKey::of(peer.as_ref()))?);
    let caller = Caller { headers: parts.headers, extensions: parts.extensions, init: None };
    let (tracker, token) = (state.connections.clone(), state.connections.token());
    // Twice the limit on messages: a message slightly over the limit can then be read and refused with a clear reason.
    let largest = state.limits().message_bytes.saturating_mul(2);
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(largest)
        .max_frame_size(largest);
    Ok(upgrade.on_upgrade(move |socket| {
        let session = Session::new(state, socket, caller, peer);
        let session = tracker.track_future(session.run().boxed());
        drop(token);
        session
    }))
}
