//! Values are returned unchanged, or refused with their path.

use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Live, Server};
use plain_json as json;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::{LONGER, RAW, ask, claim, events, post};

/// Keys with a meaning in some decoders, and unusual keys.
const KEYS: [&str; 11] = [
    RAW,
    "$serde_json::private::Number",
    "$serde_json::private::",
    "$__toml_private_datetime",
    "$var",
    "$ref",
    "$",
    "__proto__",
    "",
    "\u{1F600}é\u{202E}\u{7f}\\\"",
    LONGER,
];

/// Returns the path of a field, from its parts joined with dots.
fn path(field: &str) -> Value {
    field.split('.').collect::<Vec<_>>().into()
}

/// Generates any JSON without NUL: hostile keys, any text, and all numbers of 64-bit floats and integers.
fn any_json() -> impl Strategy<Value = Value> {
    let text = any::<String>().prop_map(|text| text.replace('\0', "_"));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
        Just(json!("[1,")),
    ];
    let key = prop_oneof![proptest::sample::select(&KEYS[..]).prop_map(str::to_owned), text];
    leaf.prop_recursive(8, 48, 5, move |inner| {
        let member = (key.clone(), inner.clone());
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            proptest::collection::vec(member, 0..4)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn samples(count: usize) -> Vec<Value> {
    let (mut runner, any) = (TestRunner::deterministic(), any_json());
    (0..count).map(|_| any.new_tree(&mut runner).unwrap().current()).collect()
}

/// Returns whether two values are equal JSON. Numbers are compared by value, because jsonb changes their notation.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        _ => one == other,
    }
}

fn assert_same(found: &[Value], expected: &[Value]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(same(found, expected), "{found}\n is not\n{expected}");
    }
}

#[tokio::test]
async fn values_are_returned_unchanged_or_refused_with_their_field() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&[NO_RELAY, ("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
    refused_values(&deployment, &server).await;
    Box::pin(invalid_value_on_a_socket(&server)).await;
    written_values(&deployment, &server).await;
    sent_values(&server).await;
}

/// Values sent in requests are returned unchanged.
async fn sent_values(server: &Server) {
    let values = samples(100);
    let event = |(id, value): (usize, &Value)| json!({ "eventId": (id + 1).to_string(), "executionId": "7", "type": "x", "context": value, "result": [value] });
    let batch: Vec<Value> = values.iter().enumerate().map(event).collect();
    let project = "mutation($events: [EventInput!]!) { projectEvents(input: {events: $events}) {
        projected rejected { index userErrors { message } } } }";
    let payload = ask(server, project, json!({ "events": batch })).await;
    assert_eq!(payload["projectEvents"], json!({ "projected": 100, "rejected": [] }));
    let page = events(server, "7").await;
    let contexts: Vec<Value> = page.iter().map(|node| node["context"].clone()).collect();
    let results: Vec<Value> = page.iter().map(|node| node["result"][0].clone()).collect();
    assert_same(&contexts, &values);
    assert_same(&results, &values);

    // The same values in executions: the dedup claim and the started event store them.
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    let start = "mutation($requests: [ExecuteInput!]!) { executeBatch(input: {requests: $requests}) { results {
        execution { id workload } userErrors { message } } } }";
    let inputs: Vec<Value> = values
        .iter()
        .enumerate()
        .map(|(n, value)| json!({ "entry": { "path": "run" }, "workload": { RAW: value }, "dedup": { "key": n.to_string() } }))
        .collect();
    let mut started = ask(server, start, json!({ "requests": inputs })).await["executeBatch"]["results"].take();
    let started: Vec<Value> =
        started.as_array_mut().unwrap().iter_mut().map(|result| result["execution"].take()).collect();
    let member = |field: &str| started.iter().map(|one| one[field][RAW].clone()).collect::<Vec<_>>();
    assert_same(&member("workload"), &values);
}

/// Values written by other programs are returned unchanged. The outbox has no other entry.
async fn written_values(deployment: &Deployment, server: &Server) {
    let values = samples(100);
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    let mut shard = deployment.shard(0).await;
    for insert in [
        "INSERT INTO noetl.event (execution_id, event_id, event_type, context, result, meta)
         SELECT 8, n, 'x', text::jsonb, text::jsonb, text::jsonb FROM unnest($1::text[]) WITH ORDINALITY AS t (text, n)",
        "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
         SELECT n, n, 'noetl.executions.x', jsonb_build_array(text::jsonb)
         FROM unnest($1::text[]) WITH ORDINALITY AS t (text, n)",
    ] {
        sqlx::query(insert).bind(&texts).execute(&mut shard).await.unwrap();
    }
    let page = events(server, "8").await;
    for field in ["context", "result", "meta"] {
        let found: Vec<Value> = page.iter().map(|node| node[field].clone()).collect();
        assert_same(&found, &values);
    }
    let claims = claim(server, 1000).await;
    assert_same(&claims.iter().map(|claim| claim["payload"][0].clone()).collect::<Vec<_>>(), &values);
}

/// Values that would change are refused with their field. The outbox is empty.
async fn refused_values(deployment: &Deployment, server: &Server) {
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    let deep = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let cases = [
        ("1e400".to_owned(), "variables.input.workload.v"),
        ("{\"n\": [1, 123456789012345678901]}".to_owned(), "variables.input.workload.v.n.1"),
        ("[3.14159265358979323846]".to_owned(), "variables.input.workload.v.0"),
        ("\"\\ud800\"".to_owned(), "variables.input.workload.v"),
        ("{\"\\udfff\": 1}".to_owned(), "variables.input.workload.v.\\udfff"),
        (deep(10_000), "variables.input.workload.v.0.0.0.0"),
    ];
    let mutation =
        "mutation($input: ExecuteInput!) { execute(input: $input) { execution { id } userErrors { code field } } }";
    for (value, field) in cases {
        let body = format!(
            r#"{{"query": "{mutation}", "variables": {{"input": {{"entry": {{"path": "run"}}, "workload": {{"v": {value}}}}}}}}}"#
        );
        let response = post(server, body).await;
        let extensions = &response["errors"][0]["extensions"];
        assert_eq!((&extensions["code"], &extensions["field"]), (&json!("INVALID_INPUT"), &path(field)), "{response}");
    }
    // The same numbers as literals in the document.
    for number in ["1e400", "123456789012345678901", "3.14159265358979323846"] {
        let query = format!(
            r#"mutation {{ execute(input: {{entry: {{path: "run"}}, workload: {{v: [{number}]}}}}) {{ execution {{ id }} }} }}"#
        );
        let response = post(server, json!({ "query": query }).to_string()).await;
        let message = response["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains("input") && message.contains("64-bit float"), "{response}");
    }
    // Valid JSON that PostgreSQL cannot store, and JSON that is too deep for readers.
    let nested = json::read(&deep(102)).unwrap();
    for value in [json!({ "v": "a\0" }), json!({ "v": { "\0": 1 } }), json!({ "v": nested })] {
        let payload =
            ask(server, mutation, json!({ "input": { "entry": { "path": "run" }, "workload": value } })).await;
        let refused = json!([{ "code": "INVALID_INPUT", "field": ["workload"] }]);
        assert_eq!(payload["execute"]["userErrors"], refused);
    }
    assert_eq!(deployment.outbox_rows("true").await, 0);
}

/// On a socket, such a value ends only its operation. The connection stays open.
async fn invalid_value_on_a_socket(server: &Server) {
    let mut socket = Live::init(&server.url, &[], Value::Null).await.unwrap();
    assert_eq!(socket.message().await.unwrap()["type"], "connection_ack");
    let mut send = async |message: String| {
        socket.send_text(message).await.unwrap();
        json::read(&socket.text().await.unwrap()).unwrap()
    };
    let query = r#""query": "query($v: JSON) { __typename }""#;
    let subscribe =
        format!(r#"{{"id": "1", "type": "subscribe", "payload": {{{query}, "variables": {{"v": [1e400]}}}}}}"#);
    let refused = send(subscribe).await;
    let extensions = &refused["payload"][0]["extensions"];
    assert_eq!((&refused["type"], &extensions["code"]), (&json!("error"), &json!("INVALID_INPUT")), "{refused}");
    assert_eq!(extensions["field"], path("variables.v.0"));
    let served = send(r#"{"id": "2", "type": "subscribe", "payload": {"query": "{ __typename }"}}"#.to_owned()).await;
    assert_eq!((&served["type"], &served["id"]), (&json!("next"), &json!("2")), "{served}");
}
