//! Deadlines, panics, and errors that say too much.

use std::time::Duration;

use noetl_graphql::http::Limits;
use reqwest::StatusCode;
use serde_json::json;

use super::server::{Server, code, reaches};

#[tokio::test]
async fn an_operation_ends_by_its_deadline() {
    let server = Server::limited(Limits { deadline: Duration::from_millis(50), ..Limits::default() }).await;
    let (status, answer) = server.post_strict("{ slow }").await;
    assert_eq!((status, code(&answer)), (StatusCode::GATEWAY_TIMEOUT, "TIMEOUT"));
    reaches(&server.probe.ended, 1).await;
    assert_eq!(code(&server.post("{ slow }").await), "TIMEOUT");
}

#[tokio::test]
async fn a_mutation_that_reaches_its_deadline_says_that_its_outcome_is_unknown() {
    let server = Server::with(|edge| {
        edge.limits.deadline = Duration::from_millis(50);
        edge.advice = |field| (field == "addAndHang").then_some("Query the sum.");
    })
    .await;
    let (status, answer) = server.post_strict("mutation { a: addAndHang(amount: 3) }").await;
    assert_eq!((status, code(&answer)), (StatusCode::GATEWAY_TIMEOUT, "TIMEOUT"));
    assert_eq!(*server.probe.sum.borrow(), 3, "it had its effect");
    let error = &answer["errors"][0];
    assert_eq!(error["extensions"]["outcomeUnknown"], true, "{answer}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("its outcome is unknown") && message.ends_with("Query the sum."), "{message}");
    let (_, answer) = server.post_strict("{ slow }").await;
    assert_eq!(answer["errors"][0]["extensions"].get("outcomeUnknown"), None, "a query has no outcome");
}

#[tokio::test]
async fn an_operation_ends_with_its_client() {
    let server = Server::start().await;
    tokio::select! {
        _ = server.post("{ slow }") => unreachable!("it never ends"),
        () = reaches(&server.probe.begun, 1) => {}
    }
    reaches(&server.probe.ended, 1).await;
}

#[tokio::test]
async fn a_panic_is_an_answer_and_tells_nothing() {
    let server = Server::start().await;
    let (status, answer) = server.post_strict("{ panics }").await;
    assert_eq!((status, code(&answer)), (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"));
    assert!(!answer.to_string().contains("swordfish"));
    assert_eq!(server.post("{ hello }").await["data"]["hello"], "world");
}

#[tokio::test]
async fn an_error_without_a_code_is_internal_and_tells_nothing() {
    let server = Server::start().await;
    let answer = server.post("{ hello leaks }").await;
    assert_eq!(code(&answer), "INTERNAL");
    assert_eq!(answer["errors"][0]["path"], json!(["leaks"]));
    assert_eq!(answer["data"], json!({ "hello": "world", "leaks": null }));
    assert!(!answer.to_string().contains("swordfish"));
}

#[tokio::test]
async fn a_resolvers_own_code_and_message_are_kept() {
    let server = Server::start().await;
    let (status, answer) = server.post_strict("{ coded }").await;
    assert_eq!((status, code(&answer)), (StatusCode::OK, "SHARD_UNAVAILABLE"));
    assert_eq!(answer["errors"][0]["message"], "No shard answers.");
}

#[tokio::test]
async fn errors_are_bounded_in_number_and_length() {
    let server = Server::start().await;
    let answer = server.post(&format!("{{ {} }}", "nothing ".repeat(1_500))).await;
    assert_eq!(answer["errors"].as_array().map(Vec::len), Some(20));
    let answer = server.post(&format!("{{ {} ! }}", "hello ".repeat(1_500))).await;
    assert!(answer["errors"][0]["message"].as_str().unwrap().len() < 1_100);
}

#[tokio::test]
async fn a_failed_field_is_null_and_takes_along_what_may_not_be_null() {
    let server = Server::start().await;
    let query = |fails: &str| format!("{{ pages {{ nodes {{ name note }} }} hello {fails} }}");
    let answer = server.post(&query("coded")).await;
    let page = json!({ "nodes": [{ "name": "node", "note": null }] });
    assert_eq!(answer["data"], json!({ "pages": page, "hello": "world", "coded": null }));
    assert_eq!(answer["errors"][0]["path"], json!(["pages", "nodes", 0, "note"]));

    let (status, answer) = server.post_strict("{ hello pages { nodes { must } } }").await;
    assert_eq!((status, &answer["data"]), (StatusCode::OK, &json!(null)));
    assert_eq!(answer["errors"][0]["path"], json!(["pages", "nodes", 0, "must"]));
}

#[tokio::test]
async fn fields_are_in_the_documents_order() {
    let server = Server::start().await;
    let text =
        server.request(&json!({ "query": "{ late hello a: hello }" })).send().await.unwrap().text().await.unwrap();
    assert_eq!(text, r#"{"data":{"late":true,"hello":"world","a":"world"}}"#);
}

#[tokio::test]
async fn a_guarded_field_is_null() {
    let server = Server::start().await;
    let answer = server.post("{ hello guarded }").await;
    assert_eq!((code(&answer), &answer["data"]), ("FORBIDDEN", &json!({ "hello": "world", "guarded": null })));
}

#[tokio::test]
async fn an_argument_that_turns_out_wrong_is_the_clients_fault() {
    let server = Server::start().await;
    let answer = server.post("{ hello half(of: 7) }").await;
    assert_eq!(code(&answer), "GRAPHQL_VALIDATION_FAILED", "{answer}");
    assert_eq!(answer["data"], json!({ "hello": "world", "half": null }));
    assert!(answer["errors"][0]["message"].as_str().unwrap().contains("not even"));
    let body = json!({ "query": "query ($n: Even!) { a: half(of: $n) }", "variables": { "n": 7 } });
    let answer: serde_json::Value = server.request(&body).send().await.unwrap().json().await.unwrap();
    assert_eq!(code(&answer), "GRAPHQL_VALIDATION_FAILED", "{answer}");
}
