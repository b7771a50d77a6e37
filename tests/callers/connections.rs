//! Idle and slow connections: memory stays within its limit, and other clients are served.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use noetl_testkit::worker::{event, event_with};
use noetl_testkit::{Deployment, QUIET, Server, WAIT_TIMEOUT, eventually, http_client};
use reqwest::Url;
use serde_json::{Value, json};
use sqlx::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const SILENT: usize = 2_000;
/// Limit of the memory growth for 2,000 silent connections. The measured growth is about 8 MiB.
const SILENT_MIB: f64 = 30.0;
/// Limit of the additional memory growth for clients that send slowly or do not read.
const STUCK_MIB: f64 = 200.0;
/// Maximum number of requests in flight. A caller may have half of them.
const REQUESTS: usize = 256;
/// Number of clients of each transport that do not read.
const NOT_READING: usize = 6;
/// Size of each of two large events.
const LARGE_MIB: u32 = 7;

fn address(server: &Server) -> SocketAddr {
    server.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Connects from an address of this machine. The receive buffer is small, so that it fills immediately.
async fn connect(server: SocketAddr, host: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
    socket.connect(server).await.unwrap()
}

/// Opens connections and sends the same bytes on each. Gives up a write that does not finish within a second.
async fn hold(server: SocketAddr, count: usize, host: u8, bytes: &str) -> Vec<TcpStream> {
    let mut connections = Vec::with_capacity(count);
    let mut writing = JoinSet::new();
    for _ in 0..count {
        let mut stream = connect(server, host).await;
        if bytes.is_empty() {
            connections.push(stream);
            continue;
        }
        let bytes = bytes.to_owned();
        writing.spawn(async move {
            let _ = timeout(Duration::from_secs(1), stream.write_all(bytes.as_bytes())).await;
            stream
        });
    }
    connections.extend(writing.join_all().await);
    connections
}

fn post(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST /graphql HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Panics unless a client with the given address gets a response.
async fn is_served(server: &Server, host: u8) {
    let client =
        reqwest::Client::builder().tls_certs_only([]).local_address(IpAddr::from([127, 0, 0, host])).build().unwrap();
    let request = client.post(format!("{}/graphql", server.url)).json(&json!({ "query": "{ server { version } }" }));
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    assert!(answer["data"]["server"]["version"].is_string(), "{answer}");
}

fn stream_url(server: &Server, query: &str) -> Url {
    Url::parse_with_params(&format!("{}/graphql/stream", server.url), [("query", query)]).unwrap()
}

/// Opens a WebSocket, starts operations with large responses, and does not read.
async fn unread_socket(server: SocketAddr, host: u8) -> TcpStream {
    let mut stream = connect(server, host).await;
    let handshake = "GET /graphql HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                     sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                     sec-websocket-protocol: graphql-transport-ws\r\n\r\n";
    stream.write_all(handshake.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(status, *b"HTTP/1.1 101");
    let mut frames = frame(&json!({ "type": "connection_init" }));
    for id in 0..5 {
        let payload = json!({ "query": include_str!("../../crates/graphql-transport/tests/it/introspection.graphql") });
        frames.extend(frame(&json!({ "type": "subscribe", "id": id.to_string(), "payload": payload })));
    }
    let _ = timeout(Duration::from_secs(1), stream.write_all(&frames)).await;
    stream
}

/// Returns a text frame with a mask of zeros.
fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let length = u16::try_from(text.len()).unwrap();
    let mut frame = vec![0x81];
    match length {
        0..=125 => frame.push(0x80 | length.to_be_bytes()[1]),
        _ => frame.extend([&[0x80 | 0x7e], &length.to_be_bytes()[..]].concat()),
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_need_little_memory_and_do_not_block_other_clients() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let silent = SILENT.min(usize::try_from(most).unwrap().saturating_sub(4_000));
    let deployment = Deployment::start(1).await;
    // On a busy machine it takes long to open so many connections.
    let requests = REQUESTS.to_string();
    let settings = [("NOETL_HEADER_TIMEOUT_SECS", "300"), ("NOETL_MAX_REQUESTS", requests.as_str())];
    let server = deployment.replica_with(&settings).await;
    let at = address(&server);
    is_served(&server, 2).await;

    let before = server.resident_mib();
    let mut held = Vec::new();
    for host in 11..15 {
        held.extend(hold(at, silent / 4, host, "").await);
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of connections")]
    let expected = (silent / 4 * 4) as f64;
    eventually("all connections are accepted", async || {
        (server.metric("http_connections").await >= expected).then_some(())
    })
    .await;
    let grown = server.resident_mib() - before;
    println!("{silent} silent connections: {grown:.1} MiB, {:.1} KiB each", grown * 1024.0 / expected);
    assert!(grown < SILENT_MIB, "{grown} MiB for {silent} silent connections");
    is_served(&server, 2).await;
    is_served(&server, 11).await;

    let introspection =
        post(&json!({ "query": include_str!("../../crates/graphql-transport/tests/it/introspection.graphql") }))
            .repeat(3);
    let slow_body = post(&json!({ "query": "{ server { version } }", "variables": { "x": "y".repeat(200_000) } }));
    held.extend(hold(at, 300, 15, "POST /graphql HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ").await);
    held.extend(hold(at, REQUESTS / 2 + 30, 16, &slow_body[..150_000]).await);
    held.extend(hold(at, NOT_READING, 17, &introspection).await);
    for _ in 0..NOT_READING {
        held.push(unread_socket(at, 18).await);
    }
    let grown = server.resident_mib() - before;
    println!("with slow heads, slow bodies and clients that never read: {grown:.1} MiB");
    assert!(grown < SILENT_MIB + STUCK_MIB, "{grown} MiB");
    is_served(&server, 2).await;
    let shed = r#"graphql_limit_rejections_total{limit="requests"}"#;
    assert!(server.metric(shed).await >= 1.0, "the caller with the slow bodies must exceed its share");

    drop(held);
    eventually("all connections are closed", async || (server.metric("http_connections").await <= 10.0).then_some(()))
        .await;
    eventually("all request slots are free", async || (server.metric("graphql_requests").await == 0.0).then_some(()))
        .await;
    is_served(&server, 16).await;
    server.stop().await;
}

#[tokio::test]
async fn connections_give_memory_back_and_have_limits() {
    let deployment = Deployment::start(0).await;
    let limits = [("NOETL_MAX_LIVE_CONNECTIONS", "2"), ("NOETL_CALLER_SHARE_PERCENT", "50")];
    let server = deployment.replica_with(&[&QUIET[..], &limits].concat()).await;
    // First, because it measures a process that has done little.
    memory_of_a_large_statement_is_freed_while_its_connection_is_idle(&server).await;
    the_connection_limits_are_settings(&deployment, &server).await;
}

/// After a statement of 14 MiB, the server has about the memory of before.
async fn memory_of_a_large_statement_is_freed_while_its_connection_is_idle(server: &Server) {
    server.register_entry("p", &json!({ "kind": "playbook" })).await;
    let execution: i64 = server.execute(json!({ "path": "p" })).await["executionId"].as_str().unwrap().parse().unwrap();
    server.project(&[event(execution, 1)]).await;
    let before = server.resident_mib();
    let large =
        |id| event_with(execution, id, &json!({ "context": { "text": "x".repeat((LARGE_MIB as usize) << 20) } }));
    assert_eq!(server.project(&[large(2), large(3)]).await["projected"], 2);
    eventually("the server gives the memory back", async || {
        // The rest is that of parts of the server that ran for the first time.
        (server.resident_mib() - before < f64::from(LARGE_MIB)).then_some(())
    })
    .await;
}

/// A caller may have half of two live connections: its second one is refused. Wrong limits are reported together.
async fn the_connection_limits_are_settings(deployment: &Deployment, server: &Server) {
    let first = server.live("subscription { systemStatus { at } }", Value::Null).await;
    let client = http_client();
    let stream = client.get(stream_url(server, "subscription { systemStatus { at } }"));
    let refused = stream.header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["errors"][0]["extensions"], json!({ "code": "OVERLOADED", "retryable": true }));
    drop(first);

    let mut wrong = deployment.command("check-config");
    wrong.envs([("NOETL_CALLER_SHARE_PERCENT", "0"), ("NOETL_TLS_CERT", "/only/one.pem"), ("NOETL_MAX_REQUESTS", "x")]);
    let output = wrong.output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let problems = String::from_utf8(output.stderr).unwrap();
    for name in ["NOETL_CALLER_SHARE_PERCENT", "NOETL_TLS_KEY", "NOETL_MAX_REQUESTS"] {
        assert!(problems.contains(name), "{problems}");
    }
}

#[tokio::test]
async fn mutations_and_items_of_subscriptions_have_a_deadline() {
    let deployment = Deployment::start(0).await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.env("NOETL_OPERATION_DEADLINE_SECS", "3").env("NOETL_LOG_FORMAT", "json").stderr(log.reopen().unwrap());
    let server = Server::spawn(command).await;
    server.register_entry("p", &json!({ "kind": "playbook" })).await;
    a_mutation_over_its_deadline_says_how_to_find_its_outcome(&deployment, &server, log.path()).await;
    an_item_of_a_subscription_has_a_deadline(&deployment, &server).await;
}

/// A table lock is held longer than the deadline of the mutation.
async fn a_mutation_over_its_deadline_says_how_to_find_its_outcome(
    deployment: &Deployment,
    server: &Server,
    log: &Path,
) {
    let mut locked = deployment.cluster().await;
    let mut locked = locked.begin().await.unwrap();
    sqlx::query("LOCK TABLE noetl.execution IN ACCESS EXCLUSIVE MODE").execute(&mut *locked).await.unwrap();
    let query = "mutation { execute(input: { entry: { path: \"p\" } }) { outcome } }";
    let response = server.send(query, Value::Null).await.unwrap();
    let error = &response["errors"][0];
    assert_eq!(error["extensions"], json!({ "code": "TIMEOUT", "outcomeUnknown": true, "retryable": true }));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("outcome is unknown") && message.contains("query executions"), "{response}");
    let line = eventually("the mutation is in the audit log", async || {
        let text = std::fs::read_to_string(log).unwrap();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["target"] == "audit" && line["fields"]["operation"] == "execute")
    })
    .await;
    assert_eq!(line["fields"]["outcome"], "UNKNOWN");
    locked.rollback().await.unwrap();
}

/// An item whose fields cannot be resolved in time fails. The subscription continues.
async fn an_item_of_a_subscription_has_a_deadline(deployment: &Deployment, server: &Server) {
    deployment.feeds_begun().await;
    let started = server.execute(json!({ "path": "p" })).await;
    let id = started["execution"]["id"].as_str().unwrap();
    let query = format!(
        "subscription {{ executionUpdates(executionId: \"{id}\") {{ execution {{ status snapshot {{ version }} }} }} }}"
    );
    let stream = http_client().get(stream_url(server, &query)).header("accept", "text/event-stream");
    let mut stream = stream.send().await.unwrap();
    let mut text = String::new();
    let mut until = async |what: &str, from: usize| -> usize {
        loop {
            if let Some(at) = text[from..].find(what) {
                return from + at + what.len();
            }
            let chunk = timeout(WAIT_TIMEOUT, stream.chunk()).await.expect(what).unwrap().expect(what);
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    };
    let changed = async |event: i64| {
        let insert =
            "INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ($1::bigint, $2, 'call.done')";
        let insert = sqlx::query(insert).bind(id.parse::<i64>().unwrap()).bind(event);
        insert.execute(&mut deployment.cluster().await).await.unwrap();
    };
    let first = until("\"status\"", 0).await;
    let mut locked = deployment.cluster().await;
    let mut locked = locked.begin().await.unwrap();
    let lock = "LOCK TABLE noetl.projection_snapshot IN ACCESS EXCLUSIVE MODE";
    sqlx::query(lock).execute(&mut *locked).await.unwrap();
    changed(1).await;
    let late = until("TIMEOUT", first).await;
    locked.rollback().await.unwrap();
    changed(2).await;
    until("\"status\"", late).await;
}
