//! A collector of spans: OTLP over HTTP with protobuf.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use noetl_testkit::eventually;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The token that the collector requires.
pub const TOKEN: &str = "Bearer collector";

pub struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
    _serving: JoinSet<()>,
}

impl Collector {
    pub async fn start() -> Self {
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let routes = Router::new().route("/v1/traces", post(receive)).with_state(Arc::clone(&spans));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, spans, _serving: serving }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until a span that `wanted` accepts is received.
    pub async fn span(&self, what: &str, wanted: impl Fn(&Span) -> bool) -> Span {
        eventually(what, async || self.received().into_iter().find(&wanted)).await
    }

    /// Returns all spans received so far.
    pub fn received(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }
}

async fn receive(State(spans): State<Arc<Mutex<Vec<Span>>>>, headers: HeaderMap, body: Bytes) {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["authorization"], TOKEN);
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    spans.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
}
