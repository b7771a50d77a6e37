//! GraphQL over server-sent events.

use std::time::Duration;

use graphql_transport::Limits;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::server::{Server, answer, client, code, reaches, soon};

fn post(server: &Server, query: &str) -> RequestBuilder {
    let request = client().post(server.url("/graphql/stream")).header(ACCEPT, "text/event-stream");
    request.json(&json!({ "query": query }))
}

fn get(server: &Server, query: &str) -> RequestBuilder {
    let request = client().get(server.url_with("/graphql/stream", &[("query", query)]));
    request.header(ACCEPT, "text/event-stream")
}

/// The events of a stream, without comments.
struct Events {
    response: Response,
    text: String,
}

impl Events {
    async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream; charset=utf-8");
        Self { response, text: String::new() }
    }

    /// Returns the text of the next event, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<String> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if !event.starts_with(':') {
                    return Some(event);
                }
            }
            let chunk = soon(self.response.chunk()).await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn result(&mut self) -> Value {
        let event = self.next().await.unwrap();
        serde_json::from_str(event.strip_prefix("event: next\ndata: ").unwrap()).unwrap()
    }

    async fn expect_end(&mut self) {
        // The data field is present and empty.
        assert_eq!(self.next().await.unwrap(), "event: complete\ndata:");
        assert_eq!(self.next().await, None);
    }
}

#[tokio::test]
async fn a_subscription_delivers_its_items_and_completes() {
    let server = Server::start().await;
    for request in [post, get] {
        let mut events = Events::open(request(&server, "subscription { count(to: 3) }")).await;
        for item in 1..=3 {
            assert_eq!(events.result().await, json!({ "data": { "count": item } }));
        }
        events.expect_end().await;
    }
}

#[tokio::test]
async fn the_graphql_endpoint_streams_subscriptions_to_clients_that_name_event_streams() {
    let server = Server::start().await;
    let subscription = "subscription { count(to: 1) }";
    for accept in [
        "text/event-stream",
        "text/event-stream, multipart/mixed",
        "application/json;q=0.5, text/event-stream",
        "application/json, text/event-stream",
        "text/event-stream;q=0.5, */*",
        "application/json, text/event-stream;q=0.6, multipart/mixed;subscriptionSpec=1.0;q=0.5",
    ] {
        let posted = server.request(&json!({ "query": subscription }));
        for request in [posted, server.get(&[("query", subscription)])] {
            let mut events = Events::open(request.header(ACCEPT, accept)).await;
            assert_eq!(events.result().await, json!({ "data": { "count": 1 } }), "{accept}");
            events.expect_end().await;
        }
    }
    for accept in ["*/*", "application/json, text/*", "application/json, text/event-stream;q=0"] {
        let (status, refused) = answer(server.request(&json!({ "query": subscription })).header(ACCEPT, accept)).await;
        assert_eq!((status, code(&refused)), (StatusCode::BAD_REQUEST, "BAD_REQUEST"), "{accept}");
    }
}

#[tokio::test]
async fn the_graphql_endpoint_streams_queries_only_to_clients_that_prefer_event_streams() {
    let server = Server::start().await;
    let hello = json!({ "data": { "hello": "world" } });
    let post = |accept: &str| server.request(&json!({ "query": "{ hello }" })).header(ACCEPT, accept);
    let mut events = Events::open(post("application/json;q=0.5, text/event-stream")).await;
    assert_eq!(events.result().await, hello);
    for accept in ["application/json, text/event-stream", "text/event-stream;q=0.5, application/json", "*/*"] {
        assert_eq!(answer(post(accept)).await, (StatusCode::OK, hello.clone()), "{accept}");
    }
}

#[tokio::test]
async fn a_client_that_prefers_multipart_to_event_streams_gets_event_streams_over_get() {
    const BOTH: &str = "multipart/mixed;subscriptionSpec=1.0, text/event-stream";
    let server = Server::start().await;
    let subscription = "subscription { count(to: 1) }";
    let posted = server.request(&json!({ "query": subscription })).header(ACCEPT, BOTH).send().await.unwrap();
    assert!(posted.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("multipart/mixed"));
    let get = |query: &str| server.get(&[("query", query)]).header(ACCEPT, BOTH);
    for (query, data) in [(subscription, json!({ "count": 1 })), ("{ hello }", json!({ "hello": "world" }))] {
        let mut events = Events::open(get(query)).await;
        assert_eq!(events.result().await, json!({ "data": data }), "{query}");
        events.expect_end().await;
    }
    let (status, _) = answer(get("mutation { add(amount: 2) }")).await;
    assert_eq!((status, *server.probe.sum.borrow()), (StatusCode::METHOD_NOT_ALLOWED, 0));
}

#[tokio::test]
async fn queries_and_posted_mutations_are_streams_with_one_result() {
    let server = Server::start().await;
    for (request, data) in [
        (get(&server, "{ hello }"), json!({ "hello": "world" })),
        (post(&server, "mutation { add(amount: 2) }"), json!({ "add": 2 })),
    ] {
        let mut events = Events::open(request).await;
        assert_eq!(events.result().await, json!({ "data": data }));
        events.expect_end().await;
    }
    let (status, _) = answer(get(&server, "mutation { add(amount: 2) }")).await;
    assert_eq!((status, *server.probe.sum.borrow()), (StatusCode::METHOD_NOT_ALLOWED, 2));
}

#[tokio::test]
async fn errors_of_the_operation_are_delivered_in_the_event_stream() {
    let server = Server::start().await;
    for (query, expected) in [
        ("subscription {", "GRAPHQL_PARSE_FAILED"),
        ("subscription { nothing }", "GRAPHQL_VALIDATION_FAILED"),
        ("subscription { unavailable }", "STREAM_UNAVAILABLE"),
        ("{ panics }", "INTERNAL"),
    ] {
        let mut events = Events::open(post(&server, query)).await;
        assert_eq!(code(&events.result().await), expected);
        events.expect_end().await;
    }
}

#[tokio::test]
async fn a_request_for_another_media_type_is_not_acceptable() {
    let server = Server::start().await;
    for accept in ["application/json", "*/*"] {
        let request = client().get(server.url_with("/graphql/stream", &[("query", "{ hello }")]));
        let (status, refused) = answer(request.header(ACCEPT, accept)).await;
        assert_eq!((status, code(&refused)), (StatusCode::NOT_ACCEPTABLE, "BAD_REQUEST"));
    }
}

#[tokio::test]
async fn an_operation_ends_with_its_client() {
    let server = Server::start().await;
    let mut events = Events::open(get(&server, "subscription { silent }")).await;
    events.result().await;
    drop(events);
    reaches(&server.probe.ended, 1).await;
    server.connections.close();
    soon(server.connections.wait()).await;
}

#[tokio::test]
async fn a_silent_event_stream_has_heartbeats() {
    let server = Server::limited(Limits { keepalive: Duration::from_millis(20), ..Limits::default() }).await;
    let mut response = get(&server, "subscription { silent }").send().await.unwrap();
    let mut text = String::new();
    while text.matches("\n\n").count() < 6 {
        text.push_str(std::str::from_utf8(&soon(response.chunk()).await.unwrap().unwrap()).unwrap());
    }
    assert!(text.lines().filter(|line| line.starts_with(':')).count() >= 5, "{text}");
}

#[tokio::test]
async fn a_shutdown_ends_event_streams_and_refuses_new_ones() {
    let server = Server::start().await;
    let mut events = Events::open(get(&server, "subscription { silent }")).await;
    events.result().await;
    server.closing.cancel();
    assert_eq!(events.next().await, None);
    let (status, refused) = answer(get(&server, "subscription { silent }")).await;
    assert_eq!((status, code(&refused)), (StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"));
    server.connections.close();
    soon(server.connections.wait()).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_pauses_its_subscription_and_is_then_closed() {
    const ITEM: usize = 64 << 10;
    let server = Server::limited(Limits { send_timeout: Duration::from_millis(300), ..Limits::default() }).await;
    let response = get(&server, &format!("subscription {{ endless(bytes: {ITEM}) }}")).send().await.unwrap();
    reaches(&server.probe.ended, 1).await;
    let produced = *server.probe.produced.borrow();
    assert!(produced * ITEM < 64 << 20, "{produced} items");
    drop(response);
}

#[tokio::test]
async fn the_number_of_event_streams_is_limited() {
    let server = Server::limited(Limits { live_connections: 1, ..Limits::default() }).await;
    let mut events = Events::open(get(&server, "subscription { silent }")).await;
    events.result().await;
    let (status, refused) = answer(get(&server, "subscription { silent }")).await;
    assert_eq!((status, code(&refused)), (StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED"));
}
