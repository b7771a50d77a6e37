//! Close codes of a WebSocket: every code of the protocol with its reason.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use graphql_transport::Limits;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use super::server::{Server, Socket, reaches, soon};

const SHORT: Duration = Duration::from_millis(50);

fn subscribe(payload: Value) -> Value {
    json!({ "type": "subscribe", "id": "1", "payload": payload })
}

#[tokio::test]
async fn invalid_messages_close_with_4400() {
    let server = Server::start().await;
    let messages = [
        Message::text("{"),
        Message::text("\"ping\""),
        Message::text(r#"["ping"]"#),
        Message::text("{}"),
        Message::text(r#"{"type":"start"}"#),
        Message::text(r#"{"type":"subscribe","payload":{"query":"{hello}"}}"#),
        Message::text(r#"{"type":"subscribe","id":"","payload":{"query":"{hello}"}}"#),
        Message::text(r#"{"type":"subscribe","id":7,"payload":{"query":"{hello}"}}"#),
        Message::text(subscribe(json!({})).to_string()),
        Message::text(subscribe(json!(["{ hello }"])).to_string()),
        Message::text(subscribe(json!({ "query": "{ hello }", "variables": 7 })).to_string()),
        Message::text(json!({ "type": "complete" }).to_string()),
        Message::binary(json!({ "type": "ping" }).to_string()),
        Message::text(
            json!({ "type": "subscribe", "id": "x".repeat(257), "payload": { "query": "{ hello }" } }).to_string(),
        ),
    ];
    for message in messages {
        let mut socket = server.socket().await;
        socket.0.send(message.clone()).await.unwrap();
        let (code, reason) = socket.close().await;
        assert_eq!(code, 4400, "{message}: {reason}");
        assert!(!reason.is_empty() && reason.len() <= 123);
    }
}

#[tokio::test]
async fn a_client_that_is_still_sending_receives_the_close_code() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.0.send(Message::text("{")).await.unwrap();
    // These messages exceed the system's buffers. The server reads and drops them until the client has received the
    // close frame.
    let message = Message::text(json!({ "type": "ping", "payload": { "x": "x".repeat(64 << 10) } }).to_string());
    for _ in 0..512 {
        soon(socket.0.send(message.clone())).await.unwrap();
    }
    assert_eq!(socket.close().await.0, 4400);
}

#[tokio::test]
async fn subscribing_before_the_acknowledgement_closes_with_4401() {
    let server = Server::start().await;
    let mut socket = server.raw_socket().await;
    socket.subscribe("1", "{ hello }").await;
    assert_eq!(socket.close().await, (4401, "Unauthorized".into()));
    assert_eq!(*server.probe.prepared.borrow(), 0);
}

#[tokio::test]
async fn another_subprotocol_closes_with_4406() {
    let server = Server::start().await;
    // A client without a subprotocol is treated as one that offers only other subprotocols.
    let request = format!("ws://{}/graphql", server.address);
    let mut socket = Socket(tokio_tungstenite::connect_async(request).await.unwrap().0);
    assert_eq!(socket.close().await, (4406, "Subprotocol not acceptable".into()));
}

#[tokio::test]
async fn silence_before_the_acknowledgement_closes_with_4408() {
    let server = Server::limited(Limits { init_timeout: SHORT, ..Limits::default() }).await;
    let mut socket = server.raw_socket().await;
    assert_eq!(socket.close().await, (4408, "Connection initialisation timeout".into()));
    let mut socket = server.raw_socket().await;
    socket.send(json!({ "type": "ping" })).await;
    assert_eq!(socket.close().await.0, 4408);
}

#[tokio::test]
async fn the_initialisation_timeout_ends_with_the_acknowledgement() {
    let limits =
        Limits { init_timeout: Duration::from_millis(300), keepalive: Duration::from_millis(400), ..Limits::default() };
    let server = Server::limited(limits).await;
    let mut socket = server.socket().await;
    // The first keepalive is sent after the initialisation timeout would have ended.
    assert!(matches!(soon(socket.0.next()).await.unwrap().unwrap(), Message::Ping(_)));
    socket.subscribe("1", "{ hello }").await;
    assert_eq!(socket.next().await["type"], "next");
}

#[tokio::test]
async fn an_operation_id_in_use_closes_with_4409() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("1", "subscription { silent }").await;
    socket.next().await;
    socket.subscribe("1", "{ hello }").await;
    assert_eq!(socket.close().await, (4409, "Subscriber for 1 already exists".into()));
    reaches(&server.probe.ended, 1).await;
}

#[tokio::test]
async fn a_second_initialisation_closes_with_4429() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.send(json!({ "type": "connection_init" })).await;
    assert_eq!(socket.close().await, (4429, "Too many initialisation requests".into()));
}

#[tokio::test]
async fn a_message_over_the_limit_closes_with_1009() {
    let server = Server::limited(Limits { message_bytes: 10_000, ..Limits::default() }).await;
    // A message of the maximum size is read; it is not JSON.
    for (size, code) in [(10_000, 4400), (10_001, 1009), (30_000, 1009)] {
        let mut socket = server.socket().await;
        socket.0.send(Message::text("x".repeat(size))).await.unwrap();
        assert_eq!(socket.close().await.0, code, "{size}");
    }
}

/// Returns a frame with a mask of zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    [&[first, 0x80 | u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0], payload].concat()
}

#[tokio::test]
async fn broken_frames_close_with_1002_and_broken_text_with_1007() {
    let server = Server::start().await;
    for (bytes, expected) in [
        (vec![0x81, 1, b'x'], 1002_u16),
        (frame(0x80 | 0x41, b"reserved bit"), 1002),
        (frame(0x83, b"unknown kind"), 1002),
        (frame(0x80, b"continues nothing"), 1002),
        (frame(0x09, b"a ping in parts"), 1002),
        (frame(0x81, b"\xff\xfe"), 1007),
        (frame(0x81, b"\xed\xa0\x80"), 1007),
    ] {
        let mut stream = server.socket().await.0.into_inner();
        stream.write_all(&bytes).await.unwrap();
        let mut received = Vec::new();
        let mut buffer = [0; 256];
        let closed = async {
            while !received.windows(2).any(|pair| pair == expected.to_be_bytes()) {
                let count = stream.read(&mut buffer).await.unwrap();
                assert!(count > 0, "{bytes:x?}: {received:x?}");
                received.extend_from_slice(&buffer[..count]);
            }
        };
        soon(closed).await;
        assert_eq!(received[0], 0x88, "the first frame is not a close frame");
    }
}

#[tokio::test]
async fn a_shutdown_closes_with_1012_and_refuses_new_sockets() {
    let server = Server::start().await;
    let mut sockets: Vec<Socket> = vec![server.raw_socket().await, server.socket().await, server.socket().await];
    sockets[1].subscribe("1", "subscription { silent }").await;
    sockets[1].next().await;
    sockets[2].subscribe("1", "subscription { endless(bytes: 100) }").await;
    sockets[2].next().await;

    server.closing.cancel();
    for socket in &mut sockets {
        assert_eq!(socket.close().await, (1012, "Service restart".into()));
    }
    reaches(&server.probe.ended, 2).await;
    let refused = server.socket_with("graphql-transport-ws", &[]).await;
    assert!(refused.is_err_and(|status| status == StatusCode::SERVICE_UNAVAILABLE));

    drop(sockets);
    server.connections.close();
    soon(server.connections.wait()).await;
}

#[tokio::test]
async fn the_number_of_sockets_is_limited() {
    let server = Server::limited(Limits { live_connections: 2, caller_share: 100, ..Limits::default() }).await;
    let _first = server.socket().await;
    let second = server.socket().await;
    let refused = server.socket_with("graphql-transport-ws", &[]).await;
    assert!(refused.is_err_and(|status| status == StatusCode::SERVICE_UNAVAILABLE));
    drop(second);
    while server.socket_with("graphql-transport-ws", &[]).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_silent_peer_is_closed_after_the_idle_timeout() {
    let limits = Limits { keepalive: SHORT, idle_timeout: SHORT * 20, ..Limits::default() };
    let server = Server::limited(limits).await;
    let mut bytes = server.socket().await.0.into_inner();
    // The connection is open, but the client does not respond to pings. It receives pings and then the close frame.
    let mut received = Vec::new();
    let mut buffer = [0; 256];
    let told = async {
        while !received.windows(2).any(|pair| pair == 1001_u16.to_be_bytes()) {
            let count = bytes.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the connection ended without a close frame");
            received.extend_from_slice(&buffer[..count]);
        }
    };
    soon(told).await;
    assert_eq!(received[0], 0x89, "the first frame is not a ping");
}

#[tokio::test]
async fn a_peer_that_responds_to_pings_stays_connected() {
    let limits = Limits { keepalive: SHORT, idle_timeout: SHORT * 60, ..Limits::default() };
    let server = Server::limited(limits).await;
    let mut socket = server.socket().await;
    for _ in 0..70 {
        assert!(matches!(soon(socket.0.next()).await.unwrap().unwrap(), Message::Ping(_)));
    }
    socket.subscribe("1", "{ hello }").await;
    assert_eq!(socket.next().await["type"], "next");
}
