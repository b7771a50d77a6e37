//! GraphQL over HTTP: methods, media types, statuses.

use reqwest::header::{ACCEPT, ALLOW, CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::server::{GRAPHQL_RESPONSE, Server, answer, client, code};

const MUTATION: &str = "mutation { add(amount: 1) }";
const EVENTS: &str = "text/event-stream; charset=utf-8";

#[tokio::test]
async fn a_post_runs_queries_and_mutations() {
    let server = Server::start().await;
    assert_eq!(server.post("{ hello }").await, json!({ "data": { "hello": "world" } }));
    assert_eq!(server.post(MUTATION).await, json!({ "data": { "add": 1 } }));
    let body = json!({
        "query": "query A { hello } query B($text: String!) { echo(text: $text) }",
        "operationName": "B",
        "variables": { "text": "héllo" },
    });
    assert_eq!(answer(server.request(&body)).await, (StatusCode::OK, json!({ "data": { "echo": "héllo" } })));
}

#[tokio::test]
async fn a_get_runs_queries_and_never_a_mutation() {
    let server = Server::start().await;
    let parameters = [
        ("query", "query A { hello } query B($text: String!) { echo(text: $text) }"),
        ("operationName", "B"),
        ("variables", r#"{ "text": "x" }"#),
    ];
    assert_eq!(answer(server.get(&parameters)).await, (StatusCode::OK, json!({ "data": { "echo": "x" } })));

    let refused = server.get(&[("query", MUTATION)]).send().await.unwrap();
    assert_eq!(
        (refused.status(), &refused.headers()[ALLOW]),
        (StatusCode::METHOD_NOT_ALLOWED, &"POST".parse().unwrap())
    );
    let both = "query A { hello } mutation B { add(amount: 1) }";
    let (status, _) = answer(server.get(&[("query", both), ("operationName", "B")])).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(*server.probe.sum.borrow(), 0);
}

#[tokio::test]
async fn a_post_accepts_only_json() {
    let server = Server::start().await;
    let body = json!({ "query": MUTATION }).to_string();
    let simple =
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/graphql"];
    for content_type in simple {
        let request = client().post(server.url("/graphql")).header(CONTENT_TYPE, content_type).body(body.clone());
        let (status, answer) = answer(request).await;
        assert_eq!((status, code(&answer)), (StatusCode::UNSUPPORTED_MEDIA_TYPE, "BAD_REQUEST"), "{content_type}");
    }
    let (status, _) = answer(client().post(server.url("/graphql")).body(body)).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let (status, _) = answer(server.request(&json!({ "query": MUTATION })).header(CONTENT_ENCODING, "gzip")).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(*server.probe.sum.borrow(), 0);
}

#[tokio::test]
async fn the_response_has_the_preferred_media_type() {
    let server = Server::start().await;
    for (accept, expected) in [
        (GRAPHQL_RESPONSE, "application/graphql-response+json; charset=utf-8"),
        (
            "application/graphql-response+json, application/json;q=0.9",
            "application/graphql-response+json; charset=utf-8",
        ),
        ("application/graphql-response+json;q=0.1, application/json", "application/json; charset=utf-8"),
        ("*/*", "application/json; charset=utf-8"),
    ] {
        let response = server.request(&json!({ "query": "{ hello }" })).header(ACCEPT, accept).send().await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], expected, "{accept}");
    }
    let (status, refused) = answer(server.request(&json!({ "query": MUTATION })).header(ACCEPT, "text/html")).await;
    assert_eq!((status, code(&refused)), (StatusCode::NOT_ACCEPTABLE, "BAD_REQUEST"));
    assert_eq!(*server.probe.sum.borrow(), 0);
}

#[tokio::test]
async fn a_request_error_has_a_code_and_no_data() {
    let server = Server::start().await;
    for (query, expected) in [
        ("{", "GRAPHQL_PARSE_FAILED"),
        ("{ nothing }", "GRAPHQL_VALIDATION_FAILED"),
        ("query ($text: String!) { echo(text: $text) }", "GRAPHQL_VALIDATION_FAILED"),
        ("query ($a: Int!) { echo(text: $a) }", "GRAPHQL_VALIDATION_FAILED"),
        ("{ echo(text: 7) }", "GRAPHQL_VALIDATION_FAILED"),
        ("query A { hello } query B { hello }", "GRAPHQL_VALIDATION_FAILED"),
        ("", "GRAPHQL_PARSE_FAILED"),
        ("# nothing", "GRAPHQL_PARSE_FAILED"),
        ("fragment a on Query { hello }", "GRAPHQL_VALIDATION_FAILED"),
        ("{ ...a } fragment a on Query { ...a }", "GRAPHQL_VALIDATION_FAILED"),
        (r#"{ echo(text: "\uD800") }"#, "GRAPHQL_PARSE_FAILED"),
    ] {
        let (status, strict) = server.post_strict(query).await;
        assert_eq!((status, code(&strict)), (StatusCode::BAD_REQUEST, expected), "{query}: {strict}");
        assert_eq!(strict.get("data"), None, "{query}");
        let (status, lenient) = answer(server.request(&json!({ "query": query }))).await;
        assert_eq!((status, lenient), (StatusCode::OK, strict), "{query}");
    }
}

#[tokio::test]
async fn an_invalid_request_body_is_a_bad_request_in_any_media_type() {
    let server = Server::start().await;
    let hello = json!({ "query": "{ hello }" });
    for body in [
        String::new(),
        "{".to_owned(),
        "null".to_owned(),
        "\"{ hello }\"".to_owned(),
        json!({ "query": 7 }).to_string(),
        json!({ "query": "{ hello }", "variables": [] }).to_string(),
        json!([hello, hello]).to_string(),
        json!(["{ hello }"]).to_string(),
    ] {
        let request = client().post(server.url("/graphql")).header(CONTENT_TYPE, "application/json");
        let (status, answer) = answer(request.body(body.clone())).await;
        assert_eq!((status, code(&answer)), (StatusCode::BAD_REQUEST, "BAD_REQUEST"), "{body}");
    }
    let (status, _) = answer(server.get(&[])).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, _) = answer(server.get(&[("query", "{ hello }"), ("variables", "{")])).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_subscription_over_plain_http_is_refused_with_a_pointer_to_streaming() {
    let server = Server::start().await;
    let (status, refused) = answer(server.request(&json!({ "query": "subscription { count(to: 3) }" }))).await;
    assert_eq!((status, code(&refused)), (StatusCode::BAD_REQUEST, "BAD_REQUEST"));
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("text/event-stream"));
    let (status, _) = answer(server.get(&[("query", "subscription { count(to: 3) }")])).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_endpoint_with_a_slash_at_the_end_is_the_same_endpoint() {
    let server = Server::start().await;
    let hello = json!({ "query": "{ hello }" });
    let expected = (StatusCode::OK, json!({ "data": { "hello": "world" } }));
    assert_eq!(answer(client().post(server.url("/graphql/")).json(&hello)).await, expected);
    assert_eq!(answer(client().get(server.url_with("/graphql/", &[("query", "{ hello }")]))).await, expected);
    let events = client().post(server.url("/graphql/stream/")).json(&hello).header(ACCEPT, "text/event-stream");
    let events = events.send().await.unwrap();
    assert_eq!((events.status(), &events.headers()[CONTENT_TYPE]), (StatusCode::OK, &EVENTS.parse().unwrap()));
}

#[tokio::test]
async fn a_refused_method_gets_the_list_of_allowed_methods() {
    let server = Server::start().await;
    for (method, path) in [(Method::PUT, "/graphql"), (Method::DELETE, "/graphql"), (Method::PATCH, "/graphql/stream")]
    {
        let response = client().request(method, server.url(path)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        let allowed: Vec<_> = response.headers().get_all(ALLOW).iter().collect();
        assert_eq!(allowed, ["GET, POST"]);
    }
}

#[tokio::test]
async fn each_operation_is_prepared_once() {
    let server = Server::start().await;
    server.post("{ hello }").await;
    server.post(MUTATION).await;
    assert_eq!(*server.probe.prepared.borrow(), 2);
    server.post("{ nothing").await;
    assert_eq!(*server.probe.prepared.borrow(), 2);
}
