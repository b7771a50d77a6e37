//! Benchmark of the cheapest operation at 16 connections, compared with a bare GraphQL server in the same run: the
//! library on axum, with a schema of two fields and nothing else. The bare server is this program in a separate
//! process. The two servers take turns, so the ratio depends little on the machine.

use std::process::Stdio;
use std::time::{Duration, Instant};

use async_graphql::{EmptyMutation, EmptySubscription, Object, Request, Schema};
use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use futures::future::join_all;
use noetl_testkit::{Deployment, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::report::{self, Limit, Report, Spread};

/// Argument with which this program runs as the bare server.
pub const BARE: &str = "bare-server";
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 41;
const ROUND: Duration = Duration::from_millis(250);

/// Reference ratio: that of a server that does not authenticate its callers (30.5 µs of CPU per request).
const REFERENCE: f64 = 0.65;
/// Token of the caller.
const TOKEN: &str = "a-token-for-the-benchmark";

/// Measures `{ server { version } }`, sent by an authenticated caller.
pub async fn measure(deployment: &Deployment, report: &mut Report) {
    let server = &deployment.replica_with(&[("NOETL_INTERNAL_API_TOKEN", TOKEN)]).await;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--bench", BARE]).stdin(Stdio::null());
    let bare = Server::spawn(command).await;
    let body = r#"{"query":"{ server { version } }"}"#;
    let (mut rates, mut ratios, mut requests, mut bare_requests) = (Vec::new(), Vec::new(), 0.0, 0.0);
    let before = (report::cpu_seconds(server), report::cpu_seconds(&bare));
    for _ in 0..ROUNDS {
        let bare_rate = round(&bare, body, &mut bare_requests).await;
        let rate = round(server, body, &mut requests).await;
        rates.push(rate);
        ratios.push(rate / bare_rate);
    }
    let used = (report::cpu_seconds(server) - before.0, report::cpu_seconds(&bare) - before.1);
    let name = "authenticated { server { version } } at 16 connections";
    report.figure(name, Spread::of(rates).median, "per s", None);
    report.figure(
        &format!("{name}: CPU / bare GraphQL server"),
        (used.0 / requests) / (used.1 / bare_requests),
        "ratio",
        None,
    );
    report.figure(&format!("{name}: CPU"), used.0 / requests * 1e6, "µs each", None);
    report.figure(
        &format!("{name}: rate / bare GraphQL server"),
        Spread::of(ratios).median,
        "ratio",
        Some(Limit::AtLeast(0.9 * REFERENCE)),
    );
}

/// Schema of the bare server.
struct Bare;

#[Object]
impl Bare {
    async fn server(&self) -> BareServer {
        BareServer
    }
}

struct BareServer;

#[Object]
impl BareServer {
    async fn version(&self) -> &'static str {
        "bare"
    }
}

/// Serves on a free port until it is killed.
pub async fn serve_bare() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    let schema = Schema::new(Bare, EmptyMutation, EmptySubscription);
    let graphql = async move |body: Bytes| {
        let response = schema.execute(serde_json::from_slice::<Request>(&body).unwrap()).await;
        ([(CONTENT_TYPE, "application/json")], serde_json::to_vec(&response).unwrap())
    };
    let routes = Router::new().route("/graphql", post(graphql)).route("/readyz", get(async || "ready"));
    axum::serve(listener.tap_io(|stream| stream.set_nodelay(true).unwrap()), routes).await.unwrap();
}

/// Sends requests for one [`ROUND`], adds their number to `requests`, and returns the requests per second.
async fn round(server: &Server, body: &str, requests: &mut f64) -> f64 {
    let address = server.url.strip_prefix("http://").unwrap();
    let request = format!(
        "POST /graphql HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let begun = Instant::now();
    let counts = join_all((0..CONNECTIONS).map(|_| {
        let (address, request) = (address.to_owned(), request.clone());
        async move { tokio::spawn(client(address, request, begun + ROUND)).await.unwrap() }
    }))
    .await;
    let count = f64::from(counts.iter().sum::<u32>());
    *requests += count;
    count / begun.elapsed().as_secs_f64()
}

/// Repeats a request over one connection until `end` and returns the number of responses.
async fn client(address: String, request: String, end: Instant) -> u32 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut buffer, mut count) = (vec![0; 16 << 10], 0);
    while Instant::now() < end {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut filled = 0;
        while !is_whole(&buffer[..filled]) {
            let read = stream.read(&mut buffer[filled..]).await.unwrap();
            assert!(read > 0, "the connection was closed: {}", String::from_utf8_lossy(&buffer[..filled]));
            filled += read;
        }
        let response = String::from_utf8_lossy(&buffer[..filled]);
        assert!(response.starts_with("HTTP/1.1 200") && response.contains(r#"{"version":"#), "{response}");
        count += 1;
    }
    count
}

/// Returns true if a response with its whole body has been received.
fn is_whole(response: &[u8]) -> bool {
    let Some(end) = response.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let head = std::str::from_utf8(&response[..end]).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).expect("a length");
    response.len() >= end + 4 + length.trim().parse::<usize>().unwrap()
}
