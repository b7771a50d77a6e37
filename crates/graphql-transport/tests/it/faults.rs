//! Deadlines, panics, errors, and secrets that must not be in responses.

use std::time::Duration;

use graphql_transport::Limits;
use reqwest::StatusCode;
use serde_json::json;

use super::server::{Server, code, reaches};

#[tokio::test]
async fn an_operation_ends_at_its_deadline() {
    let server = Server::limited(Limits { deadline: Duration::from_millis(50), ..Limits::default() }).await;
    let (status, answer) = server.post_strict("{ slow }").await;
    assert_eq!((status, code(&answer)), (StatusCode::GATEWAY_TIMEOUT, "TIMEOUT"));
    reaches(&server.probe.ended, 1).await;
    let extensions = &server.post("{ slow }").await["errors"][0]["extensions"];
    assert_eq!(extensions, &json!({ "code": "TIMEOUT", "retryable": true }));
}

#[tokio::test]
async fn a_mutation_that_reaches_its_deadline_says_that_its_outcome_is_unknown() {
    let server = Server::with(|edge| {
        edge.limits.deadline = Duration::from_millis(50);
        edge.outcome_hint = |field| (field == "addAndHang").then_some("Query the sum.");
    })
    .await;
    let (status, answer) = server.post_strict("mutation { a: addAndHang(amount: 3) }").await;
    assert_eq!((status, code(&answer)), (StatusCode::GATEWAY_TIMEOUT, "TIMEOUT"));
    assert_eq!(*server.probe.sum.borrow(), 3, "the mutation had no effect");
    let error = &answer["errors"][0];
    assert_eq!(error["extensions"], json!({ "code": "TIMEOUT", "outcomeUnknown": true, "retryable": true }));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("its outcome is unknown") && message.ends_with("Query the sum."), "{message}");
    let (_, answer) = server.post_strict("{ slow }").await;
    assert_eq!(answer["errors"][0]["extensions"].get("outcomeUnknown"), None, "only a mutation has an unknown outcome");
}

#[tokio::test]
async fn an_operation_ends_with_its_client() {
    let server = Server::start().await;
    tokio::select! {
        _ = server.post("{ slow }") => unreachable!("the query never ends"),
        () = reaches(&server.probe.begun, 1) => {}
    }
    reaches(&server.probe.ended, 1).await;
}

#[tokio::test]
async fn a_panic_is_an_internal_error_that_reveals_nothing() {
    let server = Server::start().await;
    let (status, answer) = server.post_strict("{ panics }").await;
    assert_eq!((status, code(&answer)), (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"));
    assert_eq!(answer["errors"][0]["extensions"]["retryable"], false);
    assert!(!answer.to_string().contains("swordfish"));
    assert_eq!(server.post("{ hello }").await["data"]["hello"], "world");
}

#[tokio::test]
async fn an_error_without_a_code_is_an_internal_error_that_reveals_nothing() {
    let server = Server::start().await;
    let answer = server.post("{ hello leaks }").await;
    assert_eq!(code(&answer), "INTERNAL");
    assert_eq!(answer["errors"][0]["path"], json!(["leaks"]));
    assert_eq!(answer["data"], json!({ "hello": "world", "leaks": null }));
    assert!(!answer.to_string().contains("swordfish"));
    // An error that is only a message is not shown either.
    let answer = server.post("{ pages { nodes { note } } }").await;
    assert_eq!(code(&answer), "INTERNAL");
    assert!(!answer.to_string().contains("No note"), "{answer}");
}

#[tokio::test]
async fn an_error_is_located_at_its_field() {
    let server = Server::start().await;
    let answer = server.post("{ hello\n  coded ...f }\nfragment f on Query { coded }").await;
    assert_eq!(answer["errors"][0]["locations"], json!([{ "line": 2, "column": 3 }]));
    let answer = server.post("mutation { total(of: [])\n total(of: [1]) }").await;
    assert_eq!(answer["errors"][0]["locations"], json!([{ "line": 1, "column": 12 }, { "line": 2, "column": 2 }]));
}

#[tokio::test]
async fn a_resolvers_own_code_and_message_are_kept() {
    let server = Server::start().await;
    let (status, answer) = server.post_strict("{ coded }").await;
    assert_eq!((status, code(&answer)), (StatusCode::OK, "SHARD_UNAVAILABLE"));
    assert_eq!(answer["errors"][0]["message"], "No shard is available.");
}

#[tokio::test]
async fn the_number_and_length_of_errors_are_limited() {
    let server = Server::start().await;
    let answer = server.post(&format!("{{ {} }}", "nothing ".repeat(1_500))).await;
    assert_eq!(answer["errors"].as_array().map(Vec::len), Some(20));
    let answer = server.post(&format!("{{ {} ! }}", "hello ".repeat(1_500))).await;
    assert!(answer["errors"][0]["message"].as_str().unwrap().len() < 1_100);
}

#[tokio::test]
async fn a_failed_field_is_null_and_a_failed_non_null_field_makes_its_parent_null() {
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
async fn fields_are_in_the_order_of_the_document() {
    let server = Server::start().await;
    let text =
        server.request(&json!({ "query": "{ late hello a: hello }" })).send().await.unwrap().text().await.unwrap();
    assert_eq!(text, r#"{"data":{"late":true,"hello":"world","a":"world"}}"#);
}

#[tokio::test]
async fn a_field_refused_by_its_guard_is_null_with_an_error() {
    let server = Server::start().await;
    let answer = server.post("{ hello guarded }").await;
    assert_eq!((code(&answer), &answer["data"]), ("FORBIDDEN", &json!({ "hello": "world", "guarded": null })));
}

#[tokio::test]
async fn an_argument_that_fails_its_scalar_check_is_a_validation_error() {
    let server = Server::start().await;
    let answer = server.post("{ hello half(of: 7) }").await;
    assert_eq!(code(&answer), "GRAPHQL_VALIDATION_FAILED", "{answer}");
    assert_eq!(answer["data"], json!({ "hello": "world", "half": null }));
    assert!(answer["errors"][0]["message"].as_str().unwrap().contains("not even"));
    let body = json!({ "query": "query ($n: Even!) { a: half(of: $n) }", "variables": { "n": 7 } });
    let answer: serde_json::Value = server.request(&body).send().await.unwrap().json().await.unwrap();
    assert_eq!(code(&answer), "GRAPHQL_VALIDATION_FAILED", "{answer}");
}
