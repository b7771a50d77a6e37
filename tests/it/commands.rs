//! Commands: the demo's messages and events, and printed tables.

use std::path::Path;

use futures::TryStreamExt;
use noetl_graphql::commands::demo::script::{FailureMode, Step, events, steps};
use noetl_graphql::commands::demo::source::{Message, Source};
use noetl_graphql::commands::output::table;
use serde_json::{Value, json};

#[test]
fn columns_are_aligned_and_values_stay_in_their_line() {
    let rows = json!([{ "id": "1", "error": "line\nend \u{1b}[31m" }, { "id": "22", "error": null }]);
    assert_eq!(table(&["id", "error"], &rows), "ID  ERROR\n1   line end  [31m\n22  -\n");
    assert_eq!(table(&["id"], &json!({ "id": 7 })), "ID\n7\n");
}

async fn messages(file: &Path) -> Vec<Message> {
    Source::File(file.to_owned()).open("", 1.0).await.unwrap().try_collect().await.unwrap()
}

#[tokio::test]
async fn dedup_key_is_an_objects_id_or_a_hash_of_place_and_content() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"id\": 7}\n\n{\"id\": \"x\"}\nhello\nhello\n").unwrap();
    let read = messages(file.path()).await;
    let keys: Vec<&str> = read.iter().map(|message| message.id.as_str()).collect();
    assert_eq!((keys.len(), &keys[..2], &read[2].body), (4, &["7", "x"][..], &json!("hello")));
    assert_ne!(keys[2], keys[3]);
    assert_eq!(messages(file.path()).await, read);
}

#[test]
fn every_event_has_a_status_and_failures_have_their_error() {
    let retry = json!([{ "do": "retry", "attempts": 2 }]);
    let workflow = json!([
        { "step": "start", "tool": { "kind": "noop" } },
        { "step": "none", "tool": { "kind": "python" }, "loop": { "in": "{{ workload.none }}" } },
        { "step": "each", "tool": { "kind": "python" }, "loop": { "in": "{{ workload.items }}" } },
        { "step": "pay", "tool": [{ "kind": "python", "eval": retry }] },
    ]);
    let steps = steps(&workflow, &json!({ "items": [1] }));
    let events = [FailureMode::Good, FailureMode::Bad].map(|luck| events(&steps, luck)).concat();
    for event in &events {
        assert!(event["status"].is_string(), "{event:?}");
        let failed = event["type"].as_str().is_some_and(|name| name.ends_with(".failed"));
        assert_eq!((failed, failed), (event["status"] == "FAILED", event["error"].is_string()), "{event:?}");
    }
    assert_eq!(events.iter().filter(|event| event["status"] == "FAILED").count(), 3);
}

/// Returns the types of the events of one step.
fn types(step: &Step, luck: FailureMode) -> Vec<String> {
    let of_step = events(std::slice::from_ref(step), luck).into_iter().filter(|event| event["nodeName"] != Value::Null);
    of_step.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn steps_have_their_loop_items_and_attempts() {
    let retry = json!([{ "else": { "do": "continue" } }, { "expr": "{{ true }}", "do": "retry", "attempts": 2 }]);
    let workflow = json!([
        { "step": "start", "tool": { "kind": "noop" } },
        { "step": "each", "tool": { "kind": "python" }, "loop": { "in": "{{ workload.order.items }}" } },
        { "step": "pay", "tool": [{ "kind": "python", "eval": retry }] },
        { "step": "none", "tool": { "kind": "python" }, "loop": { "in": "{{ workload.none.there }}" } },
    ]);
    let steps = steps(&workflow, &json!({ "order": { "items": [1, 2] } }));
    assert_eq!(types(&steps[0], FailureMode::Bad), ["step.enter", "step.exit"]);
    assert_eq!(types(&steps[1], FailureMode::Good).len(), 1 + 2 + 2 + 4 + 1);
    let values =
        events(&steps[1..2], FailureMode::Good).into_iter().find(|event| event["type"] == "loop.done").unwrap();
    assert_eq!(values["result"]["data"], json!([1, 2]));
    let failures = |luck| types(&steps[2], luck).iter().filter(|name| *name == "command.failed").count();
    assert_eq!((failures(FailureMode::Good), failures(FailureMode::Mixed), failures(FailureMode::Bad)), (0, 1, 2));
    assert_eq!(types(&steps[3], FailureMode::Good), ["step.skipped"]);
}
