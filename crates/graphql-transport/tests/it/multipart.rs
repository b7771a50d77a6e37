//! Subscriptions over multipart/mixed, checked byte by byte.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use graphql_transport::{Admitted, Limits};
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::server::{Server, answer, code, reaches, soon};

/// The Accept header in Apollo's documentation.
const DOCUMENTED: &str = "multipart/mixed;subscriptionSpec=\"1.0\", application/json";
/// The Accept header that Apollo Client sends.
const SENT: &str = "multipart/mixed;boundary=graphql;subscriptionSpec=1.0,application/json";

fn post(server: &Server, query: &str, accept: &str) -> RequestBuilder {
    server.request(&json!({ "query": query })).header(ACCEPT, accept)
}

/// The parts of a response, read as a client of the protocol reads them.
struct Parts {
    response: Response,
    bytes: String,
}

impl Parts {
    async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "multipart/mixed;boundary=\"graphql\";subscriptionSpec=1.0");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        Self { response, bytes: String::new() }
    }

    /// Returns the next part, including heartbeats, or `None` at the end of the stream.
    async fn part(&mut self) -> Option<Value> {
        loop {
            while let Some((part, rest)) = self.bytes.split_once("\r\n--graphql") {
                let (part, rest) = (part.to_owned(), rest.to_owned());
                self.bytes = rest;
                if let Some(json) = part.strip_prefix("\r\ncontent-type: application/json; charset=utf-8\r\n\r\n") {
                    return Some(serde_json::from_str(json).unwrap());
                }
                assert_eq!(part, "", "a part after the preamble has no header");
            }
            let Some(chunk) = soon(self.response.chunk()).await.unwrap() else {
                assert_eq!(self.bytes, "--\r\n", "the stream must end with the last delimiter");
                return None;
            };
            self.bytes.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Returns the next part that is not a heartbeat.
    async fn next(&mut self) -> Option<Value> {
        loop {
            match self.part().await {
                Some(part) if part == json!({}) => {}
                other => return other,
            }
        }
    }
}

#[tokio::test]
async fn a_subscription_is_delivered_in_parts() {
    let server = Server::start().await;
    for accept in [DOCUMENTED, SENT] {
        let response = post(&server, "subscription { count(to: 2) }", accept).send().await.unwrap();
        let expected = "\r\n--graphql\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{}\
            \r\n--graphql\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{\"payload\":{\"data\":{\"count\":1}}}\
            \r\n--graphql\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{\"payload\":{\"data\":{\"count\":2}}}\
            \r\n--graphql--\r\n";
        assert_eq!(soon(response.text()).await.unwrap(), expected, "{accept}");
    }
}

#[tokio::test]
async fn a_part_is_complete_before_the_next_one_exists() {
    let server = Server::start().await;
    let mut parts = Parts::open(post(&server, "subscription { silent }", SENT)).await;
    assert_eq!(parts.next().await.unwrap(), json!({ "payload": { "data": { "silent": 0 } } }));
}

#[tokio::test]
async fn queries_are_returned_as_json_if_the_client_accepts_json() {
    let server = Server::start().await;
    let (status, hello) = answer(post(&server, "{ hello }", SENT)).await;
    assert_eq!((status, hello), (StatusCode::OK, json!({ "data": { "hello": "world" } })));
    let (status, refused) = answer(post(&server, "subscription {", SENT)).await;
    assert_eq!((status, code(&refused)), (StatusCode::OK, "GRAPHQL_PARSE_FAILED"));

    let only = "multipart/mixed;subscriptionSpec=1.0";
    let mut parts = Parts::open(post(&server, "mutation { add(amount: 1) }", only)).await;
    assert_eq!(parts.next().await.unwrap(), json!({ "payload": { "data": { "add": 1 } } }));
    assert_eq!(parts.next().await, None);
}

#[tokio::test]
async fn get_and_other_accept_headers_run_no_subscription() {
    let server = Server::start().await;
    for accept in ["multipart/mixed, application/json", "multipart/mixed;deferSpec=20220824,application/json", "*/*"] {
        let (status, refused) = answer(post(&server, "subscription { count(to: 1) }", accept)).await;
        assert_eq!((status, code(&refused)), (StatusCode::BAD_REQUEST, "BAD_REQUEST"), "{accept}");
    }
    let get = server.get(&[("query", "subscription { count(to: 1) }")]).header(ACCEPT, SENT);
    assert_eq!(answer(get).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn errors_of_the_operation_are_delivered_as_payloads() {
    let server = Server::start().await;
    let mut parts = Parts::open(post(&server, "subscription { unavailable }", SENT)).await;
    assert_eq!(code(&parts.next().await.unwrap()["payload"]), "STREAM_UNAVAILABLE");
    assert_eq!(parts.next().await, None);
    let mut parts = Parts::open(post(&server, "subscription { panicsAfter(items: 1) }", SENT)).await;
    assert_eq!(parts.next().await.unwrap(), json!({ "payload": { "data": { "panicsAfter": 0 } } }));
    assert_eq!(code(&parts.next().await.unwrap()["payload"]), "INTERNAL");
    assert_eq!(parts.next().await, None);
}

#[tokio::test]
async fn a_silent_multipart_stream_has_heartbeats() {
    let server = Server::limited(Limits { keepalive: Duration::from_millis(20), ..Limits::default() }).await;
    let mut parts = Parts::open(post(&server, "subscription { silent }", SENT)).await;
    let mut heartbeats = 0;
    while heartbeats < 5 {
        heartbeats += usize::from(parts.part().await.unwrap() == json!({}));
    }
}

#[tokio::test]
async fn a_shutdown_ends_the_stream_with_a_protocol_error() {
    let server = Server::start().await;
    let mut parts = Parts::open(post(&server, "subscription { silent }", SENT)).await;
    parts.next().await;
    server.closing.cancel();
    let last = parts.next().await.unwrap();
    assert_eq!((&last["payload"], code(&last)), (&Value::Null, "SHUTTING_DOWN"));
    assert_eq!(parts.next().await, None);
    let (status, refused) = answer(post(&server, "subscription { silent }", SENT)).await;
    assert_eq!((status, code(&refused)), (StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"));
    server.connections.close();
    soon(server.connections.wait()).await;
}

#[tokio::test]
async fn the_end_of_the_admission_is_a_protocol_error() {
    let revoked = CancellationToken::new();
    let token = revoked.clone();
    let server = Server::with(|edge| {
        edge.admit = Some(Arc::new(move |_| {
            let anonymous = Admitted::anonymous(Arc::new(|request| request));
            ready(Ok(Admitted { revoked: token.clone(), ..anonymous })).boxed()
        }));
    })
    .await;
    let mut parts = Parts::open(post(&server, "subscription { silent }", SENT)).await;
    parts.next().await;
    revoked.cancel();
    let last = parts.next().await.unwrap();
    assert_eq!((&last["payload"], code(&last)), (&Value::Null, "UNAUTHENTICATED"));
    assert_eq!(parts.next().await, None);
}

#[tokio::test]
async fn an_operation_ends_if_its_client_disconnects_or_does_not_read() {
    const ITEM: usize = 64 << 10;
    let server = Server::limited(Limits { send_timeout: Duration::from_millis(300), ..Limits::default() }).await;
    let mut parts = Parts::open(post(&server, "subscription { silent }", SENT)).await;
    parts.next().await;
    drop(parts);
    reaches(&server.probe.ended, 1).await;

    let endless = format!("subscription {{ endless(bytes: {ITEM}) }}");
    let response = post(&server, &endless, SENT).send().await.unwrap();
    reaches(&server.probe.ended, 2).await;
    let produced = *server.probe.produced.borrow();
    assert!(produced * ITEM < 64 << 20, "{produced} items");
    drop(response);
}

#[tokio::test]
async fn multipart_streams_count_as_live_connections() {
    let server = Server::limited(Limits { live_connections: 1, ..Limits::default() }).await;
    let mut parts = Parts::open(post(&server, "subscription { silent }", SENT)).await;
    parts.next().await;
    let (status, refused) = answer(post(&server, "subscription { silent }", SENT)).await;
    assert_eq!((status, code(&refused)), (StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED"));
}
