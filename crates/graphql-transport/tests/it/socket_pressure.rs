//! Clients that do not read.

use std::time::Duration;

use futures::SinkExt;
use graphql_transport::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use super::server::{Server, reaches, soon};

const ITEM: usize = 64 << 10;
/// Maximum number of bytes that the operating system buffers for one connection, at both ends together.
const SYSTEM_BUFFERS: usize = 64 << 20;

#[tokio::test]
async fn a_client_that_does_not_read_pauses_its_subscription_and_is_then_closed() {
    let server = Server::limited(Limits { send_timeout: Duration::from_millis(300), ..Limits::default() }).await;
    let mut socket = server.socket().await;
    socket.subscribe("1", &format!("subscription {{ endless(bytes: {ITEM}) }}")).await;
    reaches(&server.probe.produced, 1).await;

    // The client does not read. The server has produced no more than the system buffers when it gives up.
    reaches(&server.probe.ended, 1).await;
    let produced = *server.probe.produced.borrow();
    assert!(produced * ITEM < SYSTEM_BUFFERS, "{produced} items");

    // A client that reads again in time gets the close code.
    assert_eq!(socket.close().await.0, 1013);
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_every_item() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("1", "subscription { count(to: 20000) }").await;
    reaches(&server.probe.prepared, 1).await;
    for item in 1..=20_000 {
        assert_eq!(socket.next().await["payload"]["data"]["count"], item);
    }
    assert_eq!(socket.next().await, json!({ "type": "complete", "id": "1" }));
}

#[tokio::test]
async fn pongs_for_a_client_that_does_not_read_are_not_queued() {
    let limits = Limits {
        send_timeout: Duration::from_millis(300),
        close_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Server::limited(limits).await;
    let mut socket = server.socket().await;
    // Each ping requires a pong, but the client reads none. When the pongs cannot be written, the server stops reading
    // and then gives up.
    let flood = async {
        for _ in 0..SYSTEM_BUFFERS / 125 {
            if socket.0.send(Message::Ping(vec![0; 125].into())).await.is_err() {
                return;
            }
        }
        panic!("the server read all pings and keeps their pongs in memory");
    };
    soon(flood).await;
    server.connections.close();
    soon(server.connections.wait()).await;
}

#[tokio::test]
async fn a_client_that_disconnects_without_a_close_frame_frees_all_resources() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("1", &format!("subscription {{ endless(bytes: {ITEM}) }}")).await;
    reaches(&server.probe.produced, 10).await;
    drop(socket);
    reaches(&server.probe.ended, 1).await;
    server.connections.close();
    soon(server.connections.wait()).await;
}

#[tokio::test]
async fn the_total_size_of_unread_large_messages_is_limited() {
    // The send timeout is far longer than the test, so the server closes clients because of the size of their unsent
    // messages.
    let limits = Limits { send_timeout: Duration::from_mins(10), buffered_bytes: 4 * ITEM, ..Limits::default() };
    let server = Server::limited(limits).await;
    let mut sockets = Vec::new();
    for _ in 0..4 {
        let mut socket = server.socket().await;
        socket.subscribe("1", &format!("subscription {{ endless(bytes: {}) }}", ITEM + 1)).await;
        sockets.push(socket);
    }
    // One message fits into a caller's share.
    reaches(&server.probe.ended, 3).await;
    assert_eq!(*server.probe.ended.borrow(), 3);
}

#[tokio::test]
async fn the_total_size_of_unfinished_messages_is_limited() {
    let server = Server::limited(Limits { buffered_bytes: 500_000, ..Limits::default() }).await;
    let mut healthy = server.socket().await;
    // Complete messages do not count, whatever their sum.
    for _ in 0..10 {
        healthy.send(json!({ "type": "ping", "payload": { "text": " ".repeat(100_000) } })).await;
        assert_eq!(healthy.next().await["type"], "pong");
    }
    // Part of a frame of one megabyte is sent.
    let header = [&[0x81, 0x80 | 0x7f], &1_000_000_u64.to_be_bytes()[..], &[0; 4]].concat();
    let mut sockets = Vec::new();
    for _ in 0..4 {
        let mut socket = server.socket().await.0.into_inner();
        socket.write_all(&[&header[..], " ".repeat(200_000).as_bytes()].concat()).await.unwrap();
        sockets.push(socket);
    }
    let mut closed = 0;
    for socket in &mut sockets {
        let mut received = [0; 4];
        let ended = tokio::time::timeout(Duration::from_secs(2), socket.read_exact(&mut received)).await.is_ok();
        closed += usize::from(ended && received[2..] == 1013_u16.to_be_bytes());
    }
    assert!((2..4).contains(&closed), "{closed} sockets were closed; two unfinished messages are within the limit");
    healthy.subscribe("1", "{ hello }").await;
    assert_eq!(healthy.next().await["type"], "next");
}
