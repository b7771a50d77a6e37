//! Fields with equal response keys run once on every transport, a subscription has one root field, and variables that
//! are not declared never reach the executor.

use reqwest::header::ACCEPT;
use serde_json::{Value, json};

use super::server::{Server, answer, client, code, soon};

/// An operation that selects each of its fields several times.
const TWICE: &str = "query ($yes: Boolean!, $no: Boolean!) {
    counted { a: number } ...again
    counted { inner { number } inner { again: number } ... on Counted { inner { number } } }
    counted @include(if: $yes) { b: number }
    counted @skip(if: $yes) { never: number }
    ... @include(if: $no) { counted { neither: number } }
} fragment again on Query { counted { inner { number } } ... { counted { c: number } } }";

fn twice() -> Value {
    json!({ "query": TWICE, "variables": { "yes": true, "no": false } })
}

fn merged(data: &Value) {
    let expected = json!({ "a": 1, "inner": { "number": 1, "again": 1 }, "b": 1, "c": 1 });
    assert_eq!(data["counted"], expected);
}

#[tokio::test]
async fn equal_fields_run_once_over_post() {
    let server = Server::start().await;
    merged(&answer(server.request(&twice())).await.1["data"]);
    assert_eq!(server.counted(), (1, 1));
}

#[tokio::test]
async fn equal_fields_run_once_over_get() {
    let server = Server::start().await;
    let variables = twice()["variables"].to_string();
    merged(&answer(server.get(&[("query", TWICE), ("variables", &variables)])).await.1["data"]);
    assert_eq!(server.counted(), (1, 1));
}

#[tokio::test]
async fn equal_fields_run_once_over_websocket() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    socket.send(json!({ "type": "subscribe", "id": "1", "payload": twice() })).await;
    merged(&socket.next().await["payload"]["data"]);
    assert_eq!(server.counted(), (1, 1));
}

#[tokio::test]
async fn equal_fields_run_once_over_server_sent_events() {
    let server = Server::start().await;
    let request = client().post(server.url("/graphql/stream")).json(&twice()).header(ACCEPT, "text/event-stream");
    let text = soon(async { request.send().await.unwrap().text().await.unwrap() }).await;
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    merged(&serde_json::from_str::<Value>(data).unwrap()["data"]);
    assert_eq!(server.counted(), (1, 1));
}

#[tokio::test]
async fn equal_mutations_run_once_and_different_ones_are_refused() {
    let server = Server::start().await;
    let document = "mutation ($n: Int!) { add(amount: $n) ... on Mutation { add(amount: $n) } ...f }
        fragment f on Mutation { add(amount: $n) }";
    let body = json!({ "query": document, "variables": { "n": 2 } });
    assert_eq!(answer(server.request(&body)).await.1["data"], json!({ "add": 2 }));
    assert_eq!(*server.probe.sum.borrow(), 2);
    assert_eq!(
        server.post("mutation { a: add(amount: 1) b: add(amount: 1) }").await["data"],
        json!({ "a": 3, "b": 4 })
    );
    for different in ["add(amount: 1) add(amount: 2)", "total(of: [1]) total(of: [1, 2])", "add: total add(amount: 1)"]
    {
        let refused = server.post(&format!("mutation {{ {different} }}")).await;
        assert_eq!(
            (code(&refused), refused.get("data")),
            ("GRAPHQL_VALIDATION_FAILED", None),
            "{different}: {refused}"
        );
    }
    // The order of an object's fields makes no difference.
    let answer = server.post("mutation { total(of: [], at: { x: 1, y: 2 }) total(of: [], at: { y: 2, x: 1 }) }").await;
    assert_eq!(answer["data"], json!({ "total": 0 }), "{answer}");
}

#[tokio::test]
async fn fields_below_a_union_run_once_for_each_type() {
    let server = Server::start().await;
    let query =
        "{ either { __typename ... on Counted { number } ... on Node { name } ...f ... on Counted { number } } }
        fragment f on Either { ... on Counted { number inner { number } } __typename }";
    let answer = server.post(query).await;
    assert_eq!(answer["data"]["either"], json!({ "__typename": "Counted", "number": 1, "inner": { "number": 1 } }));
    assert_eq!(server.counted(), (1, 1));
    assert_eq!(server.post("{ either { __typename } }").await["data"]["either"], json!({ "__typename": "Counted" }));
}

#[tokio::test]
async fn a_subscription_has_one_root_field() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    for (index, several) in [
        "subscription { count(to: 1) silent }",
        "subscription { a: count(to: 1) b: count(to: 1) }",
        "subscription { ...f silent } fragment f on Live { count(to: 1) }",
        "subscription { ... on Live { silent } ... on Live { other: silent } }",
        "subscription { __typename }",
        "subscription { count(to: 1) __typename }",
        "subscription { count(to: 1) @skip(if: false) }",
    ]
    .into_iter()
    .enumerate()
    {
        socket.subscribe(&index.to_string(), several).await;
        let message = socket.next().await;
        assert_eq!(message["type"], "error", "{several}");
        assert_eq!(message["payload"][0]["extensions"]["code"], "GRAPHQL_VALIDATION_FAILED", "{several}");
    }
    assert_eq!(*server.probe.begun.borrow(), 0);
    // Two selections of the same field with equal arguments are one root field.
    socket.subscribe("same", "subscription { count(to: 1) ...f } fragment f on Live { count(to: 1) }").await;
    assert_eq!(socket.next().await["payload"], json!({ "data": { "count": 1 } }));
    assert_eq!(socket.next().await["type"], "complete");
}

#[tokio::test]
async fn variables_that_are_not_declared_are_dropped_and_wrong_ones_refused() {
    let server = Server::start().await;
    let mut socket = server.socket().await;
    let payload = |query: &str, variables: Value| json!({ "type": "subscribe", "id": "1", "payload": { "query": query, "variables": variables } });
    socket.send(payload("query ($a: Int) { variables(a: $a) }", json!({ "a": 1, "b": "x".repeat(100_000) }))).await;
    assert_eq!(socket.next().await["payload"]["data"], json!({ "variables": ["a"] }));
    assert_eq!(socket.next().await["type"], "complete");
    let refused = |variables| json!({ "query": "query ($a: Int!, $p: [Point!]) { variables(a: $a, p: $p) }", "variables": variables });
    for (variables, message) in [
        (json!({}), "Variable \"$a\" of type \"Int!\" needs a value."),
        (json!({ "a": null }), "Variable \"$a\" of type \"Int!\" needs a value."),
        (json!({ "a": "1" }), "Variable \"$a\" is not a value of type \"Int\"."),
        (json!({ "a": 2_147_483_648_u32 }), "Variable \"$a\" is not a value of type \"Int\"."),
        (
            json!({ "a": 1, "p": [{ "x": 1, "y": 2 }, { "x": 1 }] }),
            "Variable \"$p[1].y\" of type \"Int!\" needs a value.",
        ),
        (
            json!({ "a": 1, "p": [{ "x": 1, "y": 2, "z": 3 }] }),
            "Variable \"$p[0].z\" is not defined by type \"Point\".",
        ),
        (json!({ "a": 1, "p": [7] }), "Variable \"$p[0]\" is not a value of type \"Point\"."),
    ] {
        let (_, answer) = answer(server.request(&refused(variables))).await;
        assert_eq!(
            (code(&answer), answer["errors"][0]["message"].as_str()),
            ("GRAPHQL_VALIDATION_FAILED", Some(message))
        );
        assert_eq!(answer["errors"][0]["locations"][0]["line"], 1);
    }
    // Defaults, absent variables, and single values for lists follow the GraphQL specification.
    let absent = json!({ "query": "query ($a: Int, $x: Int = 5) { variables(a: $a, p: { x: $x, y: 1 }) }" });
    assert_eq!(answer(server.request(&absent)).await.1["data"], json!({ "variables": ["x"] }));
}
