//! Connections that hold resources: silent, slow, unread, or too many connections.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use graphql_transport::Limits;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, RETRY_AFTER};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::server::{Http2, Server, Socket, answer, client, code, reaches, soon};

const SHORT: Duration = Duration::from_millis(100);

/// Connects from another address of this machine.
async fn connect_from(host: [u8; 4], server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((host, 0))).unwrap();
    socket.connect(server.address).await.unwrap()
}

/// Returns a client that uses another address of this machine.
fn client_of(host: [u8; 4]) -> reqwest::Client {
    reqwest::Client::builder().tls_certs_only([]).local_address(IpAddr::from(host)).build().unwrap()
}

fn head(length: usize) -> String {
    format!("POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
}

fn request(query: &str) -> String {
    let body = json!({ "query": query }).to_string();
    head(body.len()) + &body
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // The connection is reset if the server closes it while bytes are unread.
    let _ = soon(stream.read_to_end(&mut bytes)).await;
    String::from_utf8(bytes).unwrap()
}

/// Reads one response on a connection that stays open.
async fn response(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.ends_with('}') {
        let count = soon(stream.read(&mut buffer)).await.unwrap();
        assert!(count > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}

#[tokio::test]
async fn a_request_head_that_does_not_arrive_ends_its_connection() {
    let server = Server::limited(Limits { header_timeout: SHORT, ..Limits::default() }).await;
    for sent in ["", "P", "POST /graphql HTTP/1.1\r\nhost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        assert_eq!(rest(&mut stream).await, "", "{sent:?}");
    }
    // The time limit also applies to the next head on the connection.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request("{ hello }").as_bytes()).await.unwrap();
    assert!(response(&mut stream).await.starts_with("HTTP/1.1 200"));
    stream.write_all(b"POST").await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn a_request_head_that_arrives_too_slowly_ends_its_connection() {
    let server = Server::limited(Limits { header_timeout: SHORT * 3, ..Limits::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // Each byte arrives in time, but the whole head does not.
    let mut trickle = async || {
        for byte in head(0).bytes() {
            stream.write_all(&[byte]).await?;
            tokio::time::sleep(SHORT).await;
        }
        Ok::<_, std::io::Error>(())
    };
    assert!(soon(trickle()).await.is_err(), "the server read the whole head");
}

#[tokio::test]
async fn a_request_head_over_the_limit_is_refused() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!("GET /graphql HTTP/1.1\r\nhost: x\r\nx-long: {}", "x".repeat(128 << 10));
    let _ = stream.write_all(head.as_bytes()).await;
    let refused = rest(&mut stream).await;
    assert!(refused.starts_with("HTTP/1.1 431") || refused.is_empty(), "{refused}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_busy_one_stays_open() {
    let server = Server::limited(Limits { keep_alive: SHORT, header_timeout: SHORT, ..Limits::default() }).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(request("{ hello }").as_bytes()).await.unwrap();
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    busy.write_all(request("{ slow }").as_bytes()).await.unwrap();
    let mut socket = server.socket().await;
    response(&mut idle).await;
    assert_eq!(rest(&mut idle).await, "");
    tokio::time::sleep(SHORT * 5).await;
    socket.subscribe("1", "{ hello }").await;
    assert_eq!(socket.next().await["type"], "next");
    assert_eq!(*server.probe.ended.borrow(), 0, "the slow operation is still running");
}

#[tokio::test]
async fn a_body_that_pauses_too_long_is_refused_and_a_slow_one_is_read() {
    let server = Server::limited(Limits { body_pause: SHORT * 3, ..Limits::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all((head(100) + "{").as_bytes()).await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 408"));

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let text = request("{ hello }");
    let (start, end) = text.split_at(text.len() - 10);
    stream.write_all(start.as_bytes()).await.unwrap();
    for byte in end.bytes() {
        tokio::time::sleep(SHORT / 2).await;
        stream.write_all(&[byte]).await.unwrap();
    }
    assert!(
        response(&mut stream).await.starts_with("HTTP/1.1 200"),
        "a body is refused although no pause was too long"
    );
}

/// Sends queries whose responses are too large for the system's buffers.
async fn unread(server: &Server, host: [u8; 4]) -> TcpStream {
    let mut stream = connect_from(host, server).await;
    let text = "x".repeat(900_000);
    let body = json!({ "query": "query ($text: String!) { echo(text: $text) }", "variables": { "text": text } });
    let body = body.to_string();
    let pipelined = (head(body.len()) + &body).repeat(20);
    // The server stops reading while its response cannot be written.
    let _ = tokio::time::timeout(SHORT * 5, stream.write_all(pipelined.as_bytes())).await;
    stream
}

#[tokio::test]
async fn a_response_that_is_not_read_ends_its_connection_and_frees_its_bytes() {
    let limits = Limits { write_timeout: SHORT * 30, requests: 2, buffered_bytes: 4 << 20, ..Limits::default() };
    let server = Server::limited(limits).await;
    let stream = unread(&server, [127, 0, 0, 1]).await;
    let status = async |padding: usize| {
        let body = json!({ "query": "{ hello }", "variables": { "padding": "x".repeat(padding) } });
        let response = server.request(&body).send().await.unwrap();
        (response.status(), response.headers().get(RETRY_AFTER).cloned())
    };
    // The connection has most of the bytes of its address, but not its only slot.
    let busy = (StatusCode::SERVICE_UNAVAILABLE, Some("1".parse().unwrap()));
    soon(async { while status(900_000).await != busy {} }).await;
    assert_eq!(status(1).await, (StatusCode::OK, None));
    soon(async { while status(900_000).await != (StatusCode::OK, None) {} }).await;
    drop(stream);
}

#[tokio::test]
async fn responses_without_a_window_keep_no_slots_and_end_their_connection() {
    let server = Server::limited(Limits { write_timeout: SHORT * 10, requests: 4, ..Limits::default() }).await;
    let mut client = Http2::connect_without_window(&server).await;
    let mut heads = Vec::new();
    for _ in 0..20 {
        heads.push(client.head(&server, "{ hello }").await);
    }
    assert!(heads.iter().all(|head| head.status() == StatusCode::OK));
    assert!(server.post("{ hello }").await.get("data").is_some());
    soon(client.ended()).await;
}

#[tokio::test]
async fn a_response_that_is_read_slowly_is_delivered() {
    let server = Server::limited(Limits { write_timeout: SHORT * 5, ..Limits::default() }).await;
    let text = "x".repeat(8 << 20);
    let body = json!({ "query": "query ($text: String!) { echo(text: $text) }", "variables": { "text": text } });
    let mut response = client().post(server.url("/graphql")).json(&body).send().await.unwrap();
    let mut received = 0;
    while let Some(chunk) = response.chunk().await.unwrap() {
        received += chunk.len();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(received > text.len());
}

#[tokio::test]
async fn a_caller_over_its_share_is_refused_while_another_is_served() {
    let server = Server::limited(Limits { requests: 4, ..Limits::default() }).await;
    let ask = |query: &'static str| {
        let request = server.request(&json!({ "query": query }));
        tokio::spawn(async move { answer(request).await })
    };
    let running = [ask("{ slow }"), ask("{ slow }")];
    reaches(&server.probe.begun, 2).await;
    let (status, refused) = ask("{ hello }").await.unwrap();
    assert_eq!((status, code(&refused)), (StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED"));
    // The request is refused before its body is read.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head(1_000_000).as_bytes()).await.unwrap();
    let mut status = [0; 12];
    soon(stream.read_exact(&mut status)).await.unwrap();
    assert_eq!(status, *b"HTTP/1.1 503");
    // An operation on a socket is refused too, and the socket stays open.
    let mut socket = server.socket().await;
    socket.subscribe("1", "{ hello }").await;
    let refused = socket.next().await;
    let extensions = &refused["payload"][0]["extensions"];
    assert_eq!(
        (refused["type"].as_str(), &extensions["code"], &extensions["retryable"]),
        (Some("error"), &json!("OVERLOADED"), &json!(true))
    );

    let other = client_of([127, 0, 0, 2]).post(server.url("/graphql")).json(&json!({ "query": "{ hello }" }));
    assert_eq!(answer(other).await.0, StatusCode::OK);

    running.iter().for_each(JoinHandle::abort);
    reaches(&server.probe.ended, 2).await;
    soon(async { while server.post("{ hello }").await.get("data").is_none() {} }).await;
    socket.subscribe("2", "{ hello }").await;
    assert_eq!(socket.next().await["type"], "next");
}

#[tokio::test]
async fn the_total_size_of_buffered_bodies_is_limited() {
    let server = Server::limited(Limits { buffered_bytes: 100_000, ..Limits::default() }).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first.write_all((head(50_000) + &" ".repeat(40_000)).as_bytes()).await.unwrap();
    let padded = |size: usize| json!({ "query": "{ hello }", "extensions": { "padding": " ".repeat(size) } });
    // The first body arrives meanwhile. Both bodies together exceed one caller's share.
    soon(async { while answer(server.request(&padded(20_000))).await.0 == StatusCode::OK {} }).await;
    let (status, refused) = answer(server.request(&padded(20_000))).await;
    assert_eq!((status, code(&refused)), (StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED"));
    let other = client_of([127, 0, 0, 2]).post(server.url("/graphql")).json(&padded(20_000));
    assert_eq!(answer(other).await.0, StatusCode::OK);
    drop(first);
    soon(async { while answer(server.request(&padded(20_000))).await.0 != StatusCode::OK {} }).await;
}

#[tokio::test]
async fn the_number_of_live_connections_per_caller_is_limited() {
    let server = Server::limited(Limits { live_connections: 4, ..Limits::default() }).await;
    let sockets = [server.socket().await, server.socket().await];
    let refused = server.socket_with("graphql-transport-ws", &[]).await;
    assert!(refused.is_err_and(|status| status == StatusCode::SERVICE_UNAVAILABLE));
    let url = server.url_with("/graphql/stream", &[("query", "subscription { silent }")]);
    let stream = client_of([127, 0, 0, 2]).get(url).header(ACCEPT, "text/event-stream").send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    drop(sockets);
    soon(async { while server.socket_with("graphql-transport-ws", &[]).await.is_err() {} }).await;
}

#[tokio::test]
async fn silent_connections_are_closed_for_new_ones_and_busy_ones_stay_open() {
    let server = Server::limited(Limits { connections: 10, caller_share: 100, ..Limits::default() }).await;
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    busy.write_all(request("{ slow }").as_bytes()).await.unwrap();
    let mut socket = server.socket().await;
    reaches(&server.probe.begun, 1).await;
    let mut silent = Vec::new();
    for _ in 0..30 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(server.post("{ hello }").await["data"]["hello"], "world");
    assert_eq!(rest(&mut silent[0]).await, "", "the first silent connection stays open");
    socket.subscribe("1", "{ hello }").await;
    assert_eq!(socket.next().await["type"], "next");
    assert_eq!(*server.probe.ended.borrow(), 0);
}

#[tokio::test]
async fn a_connection_over_the_limit_is_refused_while_all_are_busy() {
    let server = Server::limited(Limits { connections: 4, ..Limits::default() }).await;
    let mut busy = Vec::new();
    for count in 1..=2 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request("{ slow }").as_bytes()).await.unwrap();
        reaches(&server.probe.begun, count).await;
        busy.push(stream);
    }
    let mut refused = TcpStream::connect(server.address).await.unwrap();
    let refused = rest(&mut refused).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 1"), "{refused}");
    let mut other = connect_from([127, 0, 0, 2], &server).await;
    other.write_all(request("{ hello }").as_bytes()).await.unwrap();
    assert!(response(&mut other).await.starts_with("HTTP/1.1 200"));
    drop(busy);
    soon(async { while client().get(server.url("/graphql?query=%7Bhello%7D")).send().await.is_err() {} }).await;
}

#[tokio::test]
async fn http_2_is_served_within_its_limits() {
    let limits = Limits { keep_alive: SHORT, header_timeout: SHORT, deadline: SHORT * 5, ..Limits::default() };
    let server = Server::limited(limits).await;
    let mut client = Http2::connect(&server).await;
    // The connection stays open during a request and ends when it is idle for too long.
    assert_eq!(client.ask(&server, "{ slow }").await.unwrap(), StatusCode::OK);
    assert_eq!(client.ask(&server, "{ hello }").await.unwrap(), StatusCode::OK);
    soon(client.ended()).await;

    let mut client = Http2::connect(&server).await;
    assert_eq!(client.ask(&server, "{ hello }").await.unwrap(), StatusCode::OK);
    server.draining.cancel();
    soon(client.ended()).await;
}

#[tokio::test]
async fn draining_asks_clients_to_close_and_closing_ends_idle_connections() {
    let mut server = Server::start().await;
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    kept.write_all(request("{ hello }").as_bytes()).await.unwrap();
    assert!(!response(&mut kept).await.contains("connection: close"));
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(request("{ hello }").as_bytes()).await.unwrap();
    response(&mut idle).await;
    server.draining.cancel();
    kept.write_all(request("{ hello }").as_bytes()).await.unwrap();
    let last = rest(&mut kept).await;
    assert!(last.starts_with("HTTP/1.1 200") && last.contains("connection: close"), "{last}");
    // Until the listener closes, clients that still connect are served.
    assert_eq!(server.post("{ hello }").await["data"]["hello"], "world");

    let mut running = TcpStream::connect(server.address).await.unwrap();
    running.write_all(request("{ slow }").as_bytes()).await.unwrap();
    reaches(&server.probe.begun, 1).await;
    server.stopping.cancel();
    // A request that arrives during the shutdown gets a response.
    idle.write_all(request("{ hello }").as_bytes()).await.unwrap();
    assert!(rest(&mut idle).await.starts_with("HTTP/1.1 200"));
    assert!(TcpStream::connect(server.address).await.is_err(), "a connection was accepted");
    assert_eq!(*server.probe.ended.borrow(), 0, "the operation ended before its deadline");
    drop(running);
    soon(server.serving.join_next()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_shutdown_ends_subscriptions_of_a_socket_and_lets_its_mutations_finish() {
    let server = Server::limited(Limits { deadline: SHORT * 5, ..Limits::default() }).await;
    let mut socket: Socket = server.socket().await;
    socket.subscribe("1", "subscription { silent }").await;
    socket.next().await;
    socket.subscribe("2", "mutation { addAndHang(amount: 1) }").await;
    reaches(&server.probe.begun, 2).await;
    server.closing.cancel();
    reaches(&server.probe.ended, 1).await;
    socket.subscribe("3", "{ hello }").await;
    let refused = socket.next().await;
    let extensions = &refused["payload"][0]["extensions"];
    assert_eq!((&refused["id"], &extensions["code"]), (&json!("3"), &json!("SHUTTING_DOWN")));
    assert_eq!(extensions["retryable"], true);
    let ended = socket.next().await;
    assert_eq!((&ended["id"], &ended["payload"][0]["extensions"]["outcomeUnknown"]), (&json!("2"), &json!(true)));
    assert_eq!(socket.close().await, (1012, "Service restart".into()));
}
