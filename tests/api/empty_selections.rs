//! An object of whose selection nothing remains is an empty object: after `@skip` and `@include`, and if no fragment
//! applies to its type.

use futures::future::join_all;
use noetl_testkit::{Deployment, Live, Server, http_client};
use serde_json::{Value, json};

/// Sends an operation and returns the text of the response.
async fn text(server: &Server, query: &str, variables: Value) -> String {
    let body = json!({ "query": query, "variables": variables });
    let sent = http_client().post(format!("{}/graphql", server.url)).json(&body).send().await.unwrap();
    sent.text().await.unwrap()
}

async fn started() -> (Deployment, Server, Vec<String>) {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    server.register_entry("p", &json!({ "kind": "playbook" })).await;
    let run = async |_| server.started(json!({ "path": "p" })).await;
    let ids = join_all((0..2).map(run)).await;
    (deployment, server, ids)
}

#[tokio::test]
async fn objects_and_items_without_selected_fields_are_empty_objects() {
    let (_deployment, server, ids) = started().await;
    objects(&server, &ids).await;
    Box::pin(items(&server)).await;
}

/// Objects of queries and mutations. Only the given executions exist.
async fn objects(server: &Server, ids: &[String]) {
    let skipped = "@skip(if: true)";
    let id = &ids[0];
    for (query, data) in [
        (
            "{ executions(first: 2) { nodes { id @include(if: false) } } }".to_owned(),
            r#"{"executions":{"nodes":[{},{}]}}"#,
        ),
        (
            format!("{{ executions(first: 2) {{ edges {{ node {{ id {skipped} }} }} }} }}"),
            r#"{"executions":{"edges":[{"node":{}},{"node":{}}]}}"#,
        ),
        (
            format!("{{ executions(first: 2) {{ edges {{ node {skipped} {{ id }} }} }} }}"),
            r#"{"executions":{"edges":[{},{}]}}"#,
        ),
        (
            format!("{{ events(executionId: {id}, first: 1) {{ nodes {{ id {skipped} }} }} }}"),
            r#"{"events":{"nodes":[{}]}}"#,
        ),
        (format!("{{ catalogEntries {{ nodes {{ path {skipped} }} }} }}"), r#"{"catalogEntries":{"nodes":[{}]}}"#),
        (
            format!("{{ outbox {{ entries {{ nodes {{ id {skipped} }} }} }} }}"),
            r#"{"outbox":{"entries":{"nodes":[{},{}]}}}"#,
        ),
        (format!("{{ a: server {{ version {skipped} }} b: __typename }}"), r#"{"a":{},"b":"Query"}"#),
        (format!("{{ server {skipped} {{ version }} }}"), "{}"),
        (format!("{{ node(id: {id}) {{ ... on Event {{ id }} }} }}"), r#"{"node":{}}"#),
        (format!("{{ node(id: {id}) {{ id {skipped} ... on Event {{ id }} }} }}"), r#"{"node":{}}"#),
        (format!("{{ __schema {{ queryType {{ name {skipped} }} }} }}"), r#"{"__schema":{"queryType":{}}}"#),
        (
            "mutation { execute(input: { entry: { path: \"p\" } }) { outcome @skip(if: true) } }".to_owned(),
            r#"{"execute":{}}"#,
        ),
        ("mutation { execute(input: { entry: { path: \"p\" } }) @skip(if: true) { outcome } }".to_owned(), "{}"),
    ] {
        assert_eq!(text(server, &query, json!({})).await, format!("{{\"data\":{data}}}"), "{query}");
    }
    let query = "query ($b: Boolean!) { server @skip(if: $b) { version } }";
    assert_eq!(text(server, query, json!({ "b": true })).await, r#"{"data":{}}"#);
}

/// Items of subscriptions. Both readers share their items.
async fn items(server: &Server) {
    for fields in ["... on StreamGap { reason }", "... on EventDelivery { event { id @skip(if: true) } }"] {
        let query = format!("subscription {{ events {{ {fields} }} }}");
        let mut readers =
            [Live::open(&server.url, &query, Value::Null).await, Live::open(&server.url, &query, Value::Null).await];
        server.execute(json!({ "path": "p" })).await;
        for reader in &mut readers {
            let mut items = Vec::new();
            for _ in 0..2 {
                items.push(reader.text().await.unwrap());
            }
            let empty = if fields.contains("event {") { r#"{"event":{}}"# } else { "{}" };
            let expected = format!(r#"{{"events":{empty}}}"#);
            assert!(items.iter().any(|item| item.contains(&expected)), "{fields}: {items:?}");
            assert!(!items.iter().any(|item| item.contains("null")), "{fields}: {items:?}");
        }
    }
}
