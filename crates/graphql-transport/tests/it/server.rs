//! A server of the test schema on its own port, with clients. The clients of `noetl-testkit` are not used here, because
//! that crate depends on the NoETL server, and this crate works without it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use futures::{SinkExt, StreamExt};
use graphql_transport::listener::Listener;
use graphql_transport::{Edge, Limits, TypeSystem, router};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::schema::{Probe, TestSchema, schema};

/// Time limit of every wait. It only ends a test that would otherwise hang.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) const GRAPHQL_RESPONSE: &str = "application/graphql-response+json";

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) probe: Probe,
    pub(crate) closing: CancellationToken,
    pub(crate) connections: TaskTracker,
    pub(crate) draining: CancellationToken,
    pub(crate) stopping: CancellationToken,
    pub(crate) serving: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    #[expect(clippy::large_types_passed_by_value, reason = "a test writes the limits where it starts the server")]
    pub(crate) async fn limited(limits: Limits) -> Self {
        Self::with(|edge| edge.limits = limits).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Edge<TestSchema>)) -> Self {
        let probe = Probe::new();
        let schema = schema(probe.clone());
        let types = TypeSystem::from_sdl(&schema.sdl()).unwrap();
        let mut edge = Edge::new(schema, types);
        let prepared = Arc::clone(&probe.prepared);
        edge.prepare = Arc::new(move |request| {
            prepared.send_modify(|count| *count += 1);
            request
        });
        change(&mut edge);
        let (closing, connections) = (edge.closing.clone(), edge.connections.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        let (draining, stopping) = (CancellationToken::new(), CancellationToken::new());
        let served = Listener { limits: edge.limits, tls: None, draining: draining.clone(), closing: stopping.clone() };
        serving.spawn(async move { served.serve(listener, router(edge)).await.unwrap() });
        Self { address, probe, closing, connections, draining, stopping, serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn url_with(&self, path: &str, parameters: &[(&str, &str)]) -> Url {
        Url::parse_with_params(&self.url(path), parameters).unwrap()
    }

    /// Returns the numbers of runs of `counted` and `inner`.
    pub(crate) fn counted(&self) -> (usize, usize) {
        (*self.probe.counted.borrow(), *self.probe.inner.borrow())
    }

    /// Returns a POST request of an operation.
    pub(crate) fn request(&self, body: &Value) -> RequestBuilder {
        client().post(self.url("/graphql")).json(body)
    }

    /// Returns a GET request of a query.
    pub(crate) fn get(&self, parameters: &[(&str, &str)]) -> RequestBuilder {
        client().get(self.url_with("/graphql", parameters))
    }

    /// Sends an operation and returns the response, as `application/json`.
    pub(crate) async fn post(&self, query: &str) -> Value {
        self.request(&json!({ "query": query })).send().await.unwrap().json().await.unwrap()
    }

    /// Sends an operation and returns the status and the response, as `application/graphql-response+json`.
    pub(crate) async fn post_strict(&self, query: &str) -> (StatusCode, Value) {
        answer(self.request(&json!({ "query": query })).header(ACCEPT, GRAPHQL_RESPONSE)).await
    }

    /// Opens a socket and waits for its acknowledgement.
    pub(crate) async fn socket(&self) -> Socket {
        let mut socket = self.raw_socket().await;
        socket.send(json!({ "type": "connection_init" })).await;
        assert_eq!(socket.next().await, json!({ "type": "connection_ack" }));
        socket
    }

    /// Opens a socket without sending a message.
    pub(crate) async fn raw_socket(&self) -> Socket {
        self.socket_with("graphql-transport-ws", &[]).await.unwrap()
    }

    /// Opens a socket with a subprotocol and headers. Returns the HTTP status if the server refuses it.
    pub(crate) async fn socket_with(
        &self,
        protocol: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Socket, StatusCode> {
        let mut request = format!("ws://{}/graphql", self.address).into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((stream, _)) => Ok(Socket(stream)),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => Err(response.status()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns a client with its own connections, for servers without TLS. It trusts no certificate: reading those of the
/// system takes longer than most requests.
pub(crate) fn client() -> Client {
    Client::builder().tls_certs_only([]).timeout(TIMEOUT).build().unwrap()
}

pub(crate) async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    assert!(content_type.ends_with("; charset=utf-8"), "{content_type}");
    (response.status(), response.json().await.unwrap())
}

/// Returns the code of a response's first error.
pub(crate) fn code(answer: &Value) -> &str {
    answer["errors"][0]["extensions"]["code"].as_str().unwrap_or("none")
}

/// Waits until a counter of the probe is at least `least`.
pub(crate) async fn reaches(counter: &watch::Sender<usize>, least: usize) {
    timeout(TIMEOUT, counter.subscribe().wait_for(|count| *count >= least)).await.unwrap().unwrap();
}

/// Waits for a future and panics after the time limit.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, future).await.expect("timed out")
}

pub(crate) struct Socket(pub(crate) WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub(crate) async fn send(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    pub(crate) async fn subscribe(&mut self, id: &str, query: &str) {
        self.send(json!({ "type": "subscribe", "id": id, "payload": { "query": query } })).await;
    }

    /// Returns the next message of the subprotocol.
    pub(crate) async fn next(&mut self) -> Value {
        soon(async {
            loop {
                match self.0.next().await.unwrap().unwrap() {
                    Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                    Message::Ping(_) | Message::Pong(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        })
        .await
    }

    /// Reads until the socket is closed and returns the close code and reason.
    pub(crate) async fn close(&mut self) -> (u16, String) {
        soon(async {
            loop {
                if let Message::Close(frame) = self.0.next().await.unwrap().unwrap() {
                    let frame = frame.unwrap();
                    return (frame.code.into(), frame.reason.to_string());
                }
            }
        })
        .await
    }
}

fn post(server: &Server, query: &str) -> Request<Body> {
    let body = Body::from(json!({ "query": query }).to_string());
    Request::post(server.url("/graphql")).header(CONTENT_TYPE, "application/json").body(body).unwrap()
}

/// An HTTP/2 connection to a [`Server`].
pub(crate) struct Http2 {
    sender: SendRequest<Body>,
    connection: JoinHandle<()>,
}

impl Http2 {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::connect_with(server, &http2::Builder::new(TokioExecutor::new())).await
    }

    /// Connects without a window, so that the server can't send the body of a response.
    pub(crate) async fn connect_without_window(server: &Server) -> Self {
        Self::connect_with(server, http2::Builder::new(TokioExecutor::new()).initial_stream_window_size(0)).await
    }

    async fn connect_with(server: &Server, builder: &http2::Builder<TokioExecutor>) -> Self {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        Self { sender, connection: tokio::spawn(async move { drop(connection.await) }) }
    }

    pub(crate) async fn ask(&mut self, server: &Server, query: &str) -> hyper::Result<StatusCode> {
        self.send(post(server, query)).await
    }

    /// Sends a query, and returns its response without its body.
    pub(crate) async fn head(&mut self, server: &Server, query: &str) -> Response<Incoming> {
        self.sender.send_request(post(server, query)).await.unwrap()
    }

    /// Sends a request and returns the status of its response.
    pub(crate) async fn send(&mut self, request: Request<Body>) -> hyper::Result<StatusCode> {
        Ok(self.sender.send_request(request).await?.status())
    }

    /// Waits until the server has ended the connection.
    pub(crate) async fn ended(&mut self) {
        (&mut self.connection).await.unwrap();
    }
}
