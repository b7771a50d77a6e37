//! The service of async-graphql-axum with the same executor. The tests show the differences that are the reasons for
//! this server's own transport.

use async_graphql_axum::GraphQL;
use axum::body::{Body, to_bytes};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{Request, StatusCode};
use futures::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::schema::{Probe, TestSchema, schema};
use super::server::{Server, answer, code, soon};

fn service() -> GraphQL<TestSchema> {
    GraphQL::new(schema(Probe::new()))
}

async fn call(request: Request<Body>) -> (StatusCode, String) {
    let response = service().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

fn post(content_type: &str, body: &Value) -> Request<Body> {
    Request::post("/graphql").header(CONTENT_TYPE, content_type).body(body.to_string().into()).unwrap()
}

#[tokio::test]
async fn the_async_graphql_service_runs_the_executor() {
    let (status, body) = call(post("application/json", &json!({ "query": "{ hello }" }))).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"data":{"hello":"world"}}"#));
}

#[tokio::test]
async fn the_async_graphql_service_ignores_statuses_content_types_and_methods() {
    let server = Server::start().await;
    // This server's transport returns 400 for a request error. The service returns 200.
    let (status, body) = call(post("application/json", &json!({ "query": "{" }))).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(server.post_strict("{").await.0, StatusCode::BAD_REQUEST);
    // A page of another site may send text/plain without a preflight. The service runs the mutation.
    let (_, body) = call(post("text/plain", &json!({ "query": "mutation { add(amount: 1) }" }))).await;
    assert_eq!(body, r#"{"data":{"add":1}}"#);
    // The service runs mutations over GET.
    let get = Request::get("/graphql?query=mutation%7Badd(amount:1)%7D").body(Body::empty()).unwrap();
    assert_eq!(call(get).await.1, r#"{"data":{"add":1}}"#);
    // The service ignores operationName over GET.
    let get = "/graphql?query=query%20A%7Bhello%7D%20query%20B%7Blate%7D&operationName=B";
    let (_, body) = call(Request::get(get).body(Body::empty()).unwrap()).await;
    assert!(body.contains("errors"), "{body}");
}

#[tokio::test]
async fn the_async_graphql_service_delays_parts_and_omits_the_payload_field() {
    let mut request = post("application/json", &json!({ "query": "subscription { silent }" }));
    let accept = "multipart/mixed;boundary=graphql;subscriptionSpec=1.0,application/json";
    request.headers_mut().insert(ACCEPT, accept.parse().unwrap());
    let mut chunks = service().oneshot(request).await.unwrap().into_body().into_data_stream();
    let mut text = String::new();
    while !text.ends_with("{\"data\":{\"silent\":0}}\r\n") {
        text.push_str(std::str::from_utf8(&soon(chunks.next()).await.unwrap().unwrap()).unwrap());
    }
    assert!(!text.contains("payload"));
    // No delimiter follows the item. Apollo's clients show it only when the next item or a heartbeat arrives (30 s).
    assert_eq!(text.matches("--graphql").count(), 1, "{text}");

    let mut documented = post("application/json", &json!({ "query": "subscription { count(to: 1) }" }));
    let accept = "multipart/mixed;subscriptionSpec=\"1.0\", application/json";
    documented.headers_mut().insert(ACCEPT, accept.parse().unwrap());
    let (_, body) = call(documented).await;
    assert!(!body.contains("--graphql"), "the service recognises the header of Apollo's documentation: {body}");
}

#[tokio::test]
async fn bodies_are_read_and_errors_give_the_reason_of_a_refusal() {
    let server = Server::start().await;
    let key = "$serde_json::private::RawValue";
    let body = json!({ "query": "query ($o: Any) { hello }", "variables": { "o": { key: "1" } } });
    let (_, refused) = answer(server.request(&body)).await;
    assert_eq!(code(&refused), "GRAPHQL_VALIDATION_FAILED", "the key has a special meaning: {refused}");
    let (status, refused) = answer(server.request(&json!([{ "query": "{ hello }" }]))).await;
    assert_eq!((status, code(&refused)), (StatusCode::BAD_REQUEST, "BAD_REQUEST"));
    let (status, refused) = answer(server.request(&json!({ "query": 7 }))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let message = refused["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("expected a string at line 1 column 10"), "{message}");
}
