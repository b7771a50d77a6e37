//! Operations on a WebSocket, from start to end.

use graphql_transport::Limits;
use serde_json::{Value, json};

use super::server::{Server, reaches};

fn next(id: &str, data: Value) -> Value {
    json!({ "type": "next", "id": id, "payload": { "data": data } })
}

fn complete(id: &str) -> Value {
    json!({ "type": "complete", "id": id })
}

#[tokio::test]
async fn a_subscription_delivers_its_items_and_completes() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("a", "subscription { count(to: 3) }").await;
    for item in 1..=3 {
        assert_eq!(socket.next().await, next("a", json!({ "count": item })));
    }
    assert_eq!(socket.next().await, complete("a"));
}

#[tokio::test]
async fn queries_and_mutations_run_on_a_socket() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("q", "{ hello }").await;
    assert_eq!(socket.next().await, next("q", json!({ "hello": "world" })));
    assert_eq!(socket.next().await, complete("q"));
    let payload =
        json!({ "query": "mutation M($n: Int!) { add(amount: $n) }", "operationName": "M", "variables": { "n": 5 } });
    socket.send(json!({ "type": "subscribe", "id": "m", "payload": payload })).await;
    assert_eq!(socket.next().await, next("m", json!({ "add": 5 })));
    assert_eq!(socket.next().await, complete("m"));
    assert_eq!(*server.probe.prepared.borrow(), 2);
}

#[tokio::test]
async fn a_request_error_ends_only_its_own_operation() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("live", "subscription { silent }").await;
    assert_eq!(socket.next().await, next("live", json!({ "silent": 0 })));
    for (query, code) in [
        ("subscription {", "GRAPHQL_PARSE_FAILED"),
        ("subscription { nothing }", "GRAPHQL_VALIDATION_FAILED"),
        ("subscription { count(to: \"x\") }", "GRAPHQL_VALIDATION_FAILED"),
        (&format!("subscription {{ {} }}", "count(to: 1) ".repeat(3_000)), "LIMIT_EXCEEDED"),
    ] {
        socket.subscribe("x", query).await;
        let error = socket.next().await;
        assert_eq!((&error["type"], &error["id"]), (&json!("error"), &json!("x")), "{error}");
        let extensions = &error["payload"][0]["extensions"];
        assert_eq!((&extensions["code"], &extensions["retryable"]), (&json!(code), &json!(false)), "{query}");
    }
    // The id is free again, and the other operation still runs.
    socket.subscribe("x", "{ hello }").await;
    assert_eq!(socket.next().await["type"], "next");
    assert_eq!(socket.next().await, complete("x"));
    assert_eq!(*server.probe.ended.borrow(), 0);
}

#[tokio::test]
async fn errors_of_resolvers_are_delivered_as_results() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("a", "subscription { unavailable }").await;
    let result = socket.next().await;
    assert_eq!(result["type"], "next", "{result}");
    assert_eq!(result["payload"]["errors"][0]["extensions"]["code"], "STREAM_UNAVAILABLE");
    assert_eq!(socket.next().await, complete("a"));
}

#[tokio::test]
async fn a_panic_ends_only_its_own_operation() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("a", "subscription { panicsAfter(items: 1) }").await;
    assert_eq!(socket.next().await, next("a", json!({ "panicsAfter": 0 })));
    let error = socket.next().await;
    assert_eq!((&error["type"], &error["payload"][0]["extensions"]["code"]), (&json!("error"), &json!("INTERNAL")));
    assert!(!error.to_string().contains("swordfish"));
    socket.subscribe("a", "{ hello }").await;
    assert_eq!(socket.next().await, next("a", json!({ "hello": "world" })));
}

#[tokio::test]
async fn complete_stops_an_operation_and_frees_its_id() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    for round in 1..=50 {
        socket.subscribe("a", "subscription { silent }").await;
        assert_eq!(socket.next().await, next("a", json!({ "silent": 0 })));
        socket.send(complete("a")).await;
        // The same id is used again immediately. No message of the old operation may arrive.
        socket.subscribe("a", "{ hello }").await;
        assert_eq!(socket.next().await, next("a", json!({ "hello": "world" })));
        assert_eq!(socket.next().await, complete("a"));
        reaches(&server.probe.ended, round).await;
    }
    socket.send(complete("never started")).await;
    socket.subscribe("b", "{ hello }").await;
    assert_eq!(socket.next().await["id"], "b");
}

#[tokio::test]
async fn operations_end_with_their_socket() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    for id in ["a", "b", "c"] {
        socket.subscribe(id, "subscription { silent }").await;
        socket.next().await;
    }
    drop(socket);
    reaches(&server.probe.ended, 3).await;
}

#[tokio::test]
async fn the_number_of_operations_per_socket_is_limited() {
    let server = Server::limited(Limits { operations_per_socket: 2, ..Limits::default() }).await;
    let mut socket = server.socket().await;
    for id in ["a", "b"] {
        socket.subscribe(id, "subscription { silent }").await;
        assert_eq!(socket.next().await["id"], id);
    }
    socket.subscribe("c", "{ hello }").await;
    let error = socket.next().await;
    assert_eq!(error["payload"][0]["extensions"]["limit"], "operations_per_socket");
    socket.send(complete("a")).await;
    socket.subscribe("c", "{ hello }").await;
    assert_eq!(socket.next().await, next("c", json!({ "hello": "world" })));
}

#[tokio::test]
async fn pings_get_pongs_before_and_after_the_acknowledgement() {
    let server = Server::start().await;
    let mut socket = server.raw_socket().await;
    socket.send(json!({ "type": "ping" })).await;
    assert_eq!(socket.next().await, json!({ "type": "pong" }));
    socket.send(json!({ "type": "connection_init", "payload": null })).await;
    assert_eq!(socket.next().await, json!({ "type": "connection_ack" }));
    socket.send(json!({ "type": "ping", "payload": { "a": 1 } })).await;
    assert_eq!(socket.next().await, json!({ "type": "pong" }));
    socket.send(json!({ "type": "pong" })).await;
    socket.subscribe("a", "{ hello }").await;
    assert_eq!(socket.next().await["type"], "next");
}

#[tokio::test]
async fn a_fast_stream_does_not_block_other_operations() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.subscribe("fast", "subscription { endless(bytes: 10) }").await;
    socket.subscribe("q", "{ hello }").await;
    while socket.next().await["id"] != "q" {}
    socket.send(complete("fast")).await;
    reaches(&server.probe.ended, 1).await;
}
