//! JSON from any source is only data: in requests, in rows that other programs wrote, and in messages, no key has a
//! meaning, values come out as they went in, and what can't be read affects only itself.

use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use futures::StreamExt;
use noetl_graphql::json;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::common::feed::run;
use crate::common::outbox::NO_RELAY;
use crate::common::{Deployment, PATIENCE, Server, eventually};

/// The mark of `serde_json` for JSON as text. `serde_json::Value` reads it itself, so responses are read by the server's
/// own decoder here, too.
const RAW: &str = "$serde_json::private::RawValue";
/// Longer than [`RAW`], so that jsonb sorts it behind.
const LONGER: &str = "abcdefghijklmnopqrstuvwxyzabcdefg";

/// Keys that some decoder gives a meaning, and keys that are odd in themselves.
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

const EVENTS: &str = "query($id: ID!, $first: Int) { events(executionId: $id, first: $first) {
    nodes { id context result meta } } }";

/// Sends a body as it is; returns the response.
async fn post(server: &Server, body: String) -> Value {
    let request = reqwest::Client::new().post(format!("{}/graphql", server.url)).timeout(PATIENCE);
    let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
    json::read(&response.text().await.unwrap()).unwrap()
}

/// Sends an operation that must not fail; returns its data.
async fn ask(server: &Server, query: &str, variables: Value) -> Value {
    let response = post(server, json!({ "query": query, "variables": variables }).to_string()).await;
    assert_eq!(response.get("errors"), None, "{query}");
    response["data"].clone()
}

async fn events(server: &Server, execution: &str) -> Vec<Value> {
    let page = ask(server, EVENTS, json!({ "id": execution, "first": 100 })).await;
    page["events"]["nodes"].as_array().unwrap().clone()
}

async fn claim(server: &Server, limit: usize) -> Vec<Value> {
    let query = "mutation($limit: Int!) { claimOutbox(input: {limit: $limit, leaseSeconds: 60}) {
        claims { id executionId payload } unavailableShards userErrors { code message } } }";
    let payload = ask(server, query, json!({ "limit": limit })).await["claimOutbox"].take();
    assert_eq!((&payload["unavailableShards"], &payload["userErrors"]), (&json!([]), &json!([])));
    payload["claims"].as_array().unwrap().clone()
}

/// The payloads of the workers' messages, in order, as they are in the broker.
async fn messages(deployment: &Deployment, count: usize) -> Vec<String> {
    let context = jetstream::new(async_nats::connect(deployment.nats.url()).await.unwrap());
    let stream = eventually("the stream is there", async || context.get_stream("noetl_commands").await.ok()).await;
    let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
    let read = consumer.messages().await.unwrap().take(count);
    let read = read.map(|message| String::from_utf8(message.unwrap().payload.to_vec()).unwrap());
    tokio::time::timeout(PATIENCE, read.collect()).await.unwrap()
}

/// Values of maps whose first key in a jsonb is the mark.
fn marked() -> [Value; 3] {
    [json!({ LONGER: 1, RAW: 1 }), json!({ RAW: "[1, 2]" }), json!({ "a": [{ RAW: { RAW: null } }] })]
}

#[tokio::test]
async fn a_key_that_serde_json_knows_stops_no_claim_no_relay_and_no_page() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    server.register_entry("run", &json!({ "kind": "playbook", "workload": { "own": marked()[0] } })).await;
    let start = "mutation($input: ExecuteInput!) { execute(input: $input) {
        execution { id trace workload } userErrors { message } } }";
    let mut traces = Vec::new();
    for trace in marked() {
        let input = json!({ "path": "run", "trace": trace, "workload": trace, "dedup": { "key": trace.to_string() } });
        let started = ask(&server, start, json!({ "input": input })).await["execute"]["execution"].take();
        let mut workload = trace.as_object().unwrap().clone();
        workload.insert("own".to_owned(), marked()[0].clone());
        assert_eq!((&started["trace"], &started["workload"]), (&trace, &Value::Object(workload)));
        let page = events(&server, started["id"].as_str().unwrap()).await;
        assert_eq!((&page[0]["meta"]["trace"], &page[0]["context"]["workload"]), (&trace, &started["workload"]));
        // A child inherits it from the row.
        let child = json!({ "path": "run", "parentExecutionId": started["id"] });
        let child = ask(&server, start, json!({ "input": child })).await["execute"]["execution"].take();
        assert_eq!(child["trace"], trace);
        traces.extend([trace.clone(), trace]);
    }
    for (event, value) in marked().into_iter().enumerate() {
        let text = value.to_string();
        let insert = format!(
            "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
             VALUES (9, {event}, 'noetl.commands.test.9', jsonb_build_object('trace', '{text}'::jsonb))"
        );
        run(&mut deployment.shard(0).await, &insert).await;
        traces.push(value);
    }
    let claims = claim(&server, 100).await;
    let shown: Vec<&Value> = claims.iter().map(|claim| &claim["payload"]["trace"]).collect();
    assert_eq!(shown, traces.iter().collect::<Vec<_>>());
    let entries = "{ outbox { entries(first: 100) { nodes { payload status } } } }";
    let mut listed = ask(&server, entries, json!({})).await["outbox"]["entries"]["nodes"].take();
    let listed = listed.as_array_mut().unwrap();
    listed.reverse();
    assert_eq!(listed.iter().map(|row| &row["payload"]["trace"]).collect::<Vec<_>>(), shown);

    run(&mut deployment.shard(0).await, "UPDATE noetl.outbox SET status = 'PENDING', lease_until = NULL").await;
    let _relaying = deployment.replica().await;
    let messages = messages(&deployment, traces.len()).await;
    let mut sent: Vec<String> = messages.iter().map(|text| json::read(text).unwrap()["trace"].to_string()).collect();
    let mut expected: Vec<String> = traces.iter().map(Value::to_string).collect();
    sent.sort();
    expected.sort();
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn a_key_that_serde_json_knows_is_data_in_worker_events_and_in_rows() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    let live = "subscription { events(start: {latest: true}) { __typename ... on EventDelivery {
        payloadOmitted event { id context result meta } } } }";
    deployment.feeds_begun().await;
    let mut live = server.live(live, json!(null)).await;
    while json::read(&live.text().await.unwrap()).unwrap()["payload"]["data"]["events"]["__typename"] != "CaughtUp" {}
    let mut batch = Vec::new();
    for (id, value) in marked().into_iter().enumerate() {
        let json = json!({ "eventId": (id + 1).to_string(), "executionId": "7", "type": "call.done", "nodeName": "a",
                           "context": value, "result": value, "meta": value, "extra": value });
        batch.push(json);
        let insert = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, context, result, meta)
             VALUES (7, {}, 'call.done', 'b', '{value}', '{value}', '{value}')",
            id + 11
        );
        run(&mut deployment.shard(0).await, &insert).await;
    }
    let project = "mutation($events: [EventInput!]!) { projectEvents(input: {events: $events}) {
        projected rejected { message } } }";
    let payload = ask(&server, project, json!({ "events": batch })).await;
    assert_eq!(payload["projectEvents"], json!({ "projected": 3, "rejected": [] }));

    let page = events(&server, "7").await;
    let (sent, written) = page.split_at(3);
    for (node, value) in sent.iter().zip(marked()) {
        let mut meta = value.as_object().unwrap().clone();
        meta.insert("extra".to_owned(), value.clone());
        let expected = json!({ "id": node["id"], "context": value, "result": value, "meta": meta });
        assert_eq!(node, &expected);
    }
    for (node, value) in written.iter().zip(marked()) {
        assert_eq!(node, &json!({ "id": node["id"], "context": value, "result": value, "meta": value }));
    }
    let mut delivered = Vec::new();
    while delivered.len() < 6 {
        let mut item = json::read(&live.text().await.unwrap()).unwrap()["payload"]["data"]["events"].take();
        if item["__typename"] == "EventDelivery" {
            assert_eq!(item["payloadOmitted"], false);
            delivered.push(item["event"].take());
        }
    }
    delivered.sort_by_key(|event| event["id"].as_str().unwrap().parse::<i64>().unwrap());
    assert_eq!(delivered, page);

    // The fold keeps them, and reads its own snapshots.
    let advance = r#"mutation { advanceProjections(input: {executionIds: ["7"]}) { failed { message } } }"#;
    let state = r#"{ execution(id: "7") { steps { name result } snapshot { behindBy } } }"#;
    assert_eq!(ask(&server, advance, json!({})).await["advanceProjections"]["failed"], json!([]));
    let state = ask(&server, state, json!({})).await["execution"].take();
    let results = json!([{ "name": "a", "result": marked()[2] }, { "name": "b", "result": marked()[2] }]);
    assert_eq!((&state["steps"], &state["snapshot"]["behindBy"]), (&results, &json!("0")));
}

/// Any JSON, without NUL: hostile keys, any text, any number that a float or an integer of 64 bits is.
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

/// Whether two values are the same JSON: jsonb writes a number in another way.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.is_f64() | other.is_f64() && one.as_f64() == other.as_f64()
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
async fn what_goes_in_through_a_request_comes_out_equal() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&[NO_RELAY, ("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
    let values = samples(100);
    let event = |(id, value): (usize, &Value)| json!({ "eventId": (id + 1).to_string(), "executionId": "7", "type": "x", "context": value, "result": [value] });
    let batch: Vec<Value> = values.iter().enumerate().map(event).collect();
    let project = "mutation($events: [EventInput!]!) { projectEvents(input: {events: $events}) {
        projected rejected { index message } } }";
    let payload = ask(&server, project, json!({ "events": batch })).await;
    assert_eq!(payload["projectEvents"], json!({ "projected": 100, "rejected": [] }));
    let page = events(&server, "7").await;
    let contexts: Vec<Value> = page.iter().map(|node| node["context"].clone()).collect();
    let results: Vec<Value> = page.iter().map(|node| node["result"][0].clone()).collect();
    assert_same(&contexts, &values);
    assert_same(&results, &values);

    // The same through an execution, whose claim stores it, and the outbox.
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    let start = "mutation($requests: [ExecuteInput!]!) { executeBatch(input: {requests: $requests}) { results {
        execution { id workload trace } userErrors { message } } } }";
    let inputs: Vec<Value> = values
        .iter()
        .enumerate()
        .map(|(n, value)| {
            json!({ "path": "run", "workload": { RAW: value }, "trace": { RAW: value }, "dedup": { "key": n.to_string() } })
        })
        .collect();
    let mut started = ask(&server, start, json!({ "requests": inputs })).await["executeBatch"]["results"].take();
    let started: Vec<Value> =
        started.as_array_mut().unwrap().iter_mut().map(|result| result["execution"].take()).collect();
    let member = |field: &str| started.iter().map(|one| one[field][RAW].clone()).collect::<Vec<_>>();
    assert_same(&member("workload"), &values);
    assert_same(&member("trace"), &values);
    let claims = claim(&server, 1000).await;
    let traces: Vec<Value> = claims.iter().map(|claim| claim["payload"]["trace"][RAW].clone()).collect();
    assert_same(&traces, &values);
}

#[tokio::test]
async fn what_another_program_writes_comes_out_equal() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&[NO_RELAY, ("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
    let values = samples(100);
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    let mut shard = deployment.shard(0).await;
    for insert in [
        "INSERT INTO noetl.event (execution_id, event_id, event_type, context, result, meta)
         SELECT 7, n, 'x', text::jsonb, text::jsonb, text::jsonb FROM unnest($1::text[]) WITH ORDINALITY AS t (text, n)",
        "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
         SELECT n, n, 'noetl.commands.x', jsonb_build_array(text::jsonb)
         FROM unnest($1::text[]) WITH ORDINALITY AS t (text, n)",
    ] {
        sqlx::query(insert).bind(&texts).execute(&mut shard).await.unwrap();
    }
    let page = events(&server, "7").await;
    for field in ["context", "result", "meta"] {
        let found: Vec<Value> = page.iter().map(|node| node[field].clone()).collect();
        assert_same(&found, &values);
    }
    let claims = claim(&server, 1000).await;
    assert_same(&claims.iter().map(|claim| claim["payload"][0].clone()).collect::<Vec<_>>(), &values);
}

#[tokio::test]
async fn what_would_change_is_refused_with_its_field() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&[NO_RELAY, ("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    let deep = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let cases = [
        ("1e400".to_owned(), "variables.input.trace.v"),
        ("{\"n\": [1, 123456789012345678901]}".to_owned(), "variables.input.trace.v.n.1"),
        ("[3.14159265358979323846]".to_owned(), "variables.input.trace.v.0"),
        ("\"\\ud800\"".to_owned(), "variables.input.trace.v"),
        ("{\"\\udfff\": 1}".to_owned(), "variables.input.trace.v.\\udfff"),
        (deep(10_000), "variables.input.trace.v.0.0.0.0"),
    ];
    let mutation =
        "mutation($input: ExecuteInput!) { execute(input: $input) { execution { id } userErrors { code field } } }";
    for (value, field) in cases {
        let body = format!(
            r#"{{"query": "{mutation}", "variables": {{"input": {{"path": "run", "trace": {{"v": {value}}}}}}}}}"#
        );
        let response = post(&server, body).await;
        let extensions = &response["errors"][0]["extensions"];
        assert_eq!((&extensions["code"], &extensions["field"]), (&json!("INVALID_INPUT"), &json!(field)), "{response}");
    }
    // The same where it is written in the document.
    for number in ["1e400", "123456789012345678901", "3.14159265358979323846"] {
        let query = format!(
            r#"mutation {{ execute(input: {{path: "run", trace: {{v: [{number}]}}}}) {{ execution {{ id }} }} }}"#
        );
        let response = post(&server, json!({ "query": query }).to_string()).await;
        let message = response["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains("input") && message.contains("64-bit float"), "{response}");
    }
    // What JSON can say and PostgreSQL can't hold, and what readers would find too deep.
    let nested = json::read(&deep(102)).unwrap();
    for value in [json!({ "v": "a\0" }), json!({ "v": { "\0": 1 } }), json!({ "v": nested })] {
        for field in ["trace", "workload"] {
            let payload = ask(&server, mutation, json!({ "input": { "path": "run", field: value } })).await;
            let refused = json!([{ "code": "INVALID_INPUT", "field": [field] }]);
            assert_eq!(payload["execute"]["userErrors"], refused, "{field}");
        }
    }
    assert_eq!(deployment.outbox_rows("true").await, 0);
    // On a socket it ends the operation, not the connection.
    let query = "subscription($v: JSON) { events { __typename } }";
    let mut refused = server.live(query, json!(null)).await;
    assert_eq!(refused.errors().await[0]["extensions"]["code"], "GRAPHQL_VALIDATION_FAILED");
}

/// Payloads that no parser reads, with what they are in SQL.
const UNREADABLE: [&str; 4] = [
    "(repeat('[', 6000) || repeat(']', 6000))::jsonb",
    "'{\"n\": 1e400}'::jsonb",
    "jsonb_build_object('a', jsonb_build_array((repeat('{\"k\":', 500) || '1' || repeat('}', 500))::jsonb))",
    "to_jsonb(('1' || repeat('0', 100000))::numeric)",
];

#[tokio::test]
async fn an_unreadable_outbox_row_is_a_dead_letter_and_hides_no_other() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    let mut shard = deployment.shard(0).await;
    // One execution: each unreadable row lies between two others of it.
    let mut rows = vec!["'\"first\"'::jsonb".to_owned()];
    for (n, payload) in UNREADABLE.iter().enumerate() {
        rows.extend([(*payload).to_owned(), format!("'\"after {n}\"'::jsonb")]);
    }
    for (n, payload) in rows.iter().enumerate() {
        let insert = format!(
            "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
             VALUES (5, {n}, 'noetl.commands.test.5', {payload})"
        );
        run(&mut shard, &insert).await;
    }
    let claims = claim(&server, 3).await;
    let read = |claims: &[Value]| claims.iter().map(|claim| claim["payload"].as_str().unwrap().to_owned()).collect();
    let mut readable: Vec<String> = read(&claims);
    assert_eq!(readable, ["first", "after 0"], "an execution's rows are in flight together");
    let _relaying = deployment.replica().await;
    run(&mut shard, "UPDATE noetl.outbox SET lease_until = now() - interval '1 second' WHERE status = 'IN_FLIGHT'")
        .await;
    eventually("every other row is published", async || {
        (deployment.outbox_rows("status = 'PUBLISHED'").await == 5).then_some(())
    })
    .await;
    readable = messages(&deployment, 5).await;
    let expected = ["first", "after 0", "after 1", "after 2", "after 3"].map(|text| format!("\"{text}\""));
    assert_eq!(readable, expected, "in their order");
    assert_eq!(deployment.outbox_rows("status = 'FAILED' AND available_at = 'infinity' AND attempts = 1").await, 4);

    let entries = "{ outbox { pendingCount stats { failed } entries(first: 100, filter: {statuses: [FAILED]}) { nodes {
        dead lastError payload availableAt } } } }";
    let outbox = ask(&server, entries, json!({})).await["outbox"].take();
    assert_eq!((&outbox["pendingCount"], &outbox["stats"]["failed"]), (&json!(0), &json!(4)));
    let dead = outbox["entries"]["nodes"].as_array().unwrap();
    assert_eq!(dead.len(), 4);
    for row in dead {
        assert_eq!((&row["dead"], &row["payload"]["error"]["code"]), (&json!(true), &json!("UNREADABLE")), "{row}");
        assert_eq!(row["lastError"], row["payload"]["error"]["message"]);
    }
    // A retry is how an operator asks again, once the row is mended.
    run(&mut shard, "UPDATE noetl.outbox SET payload = '\"mended\"' WHERE event_id = 1").await;
    assert_eq!(server.retry(json!({}), false).await["retried"], 4);
    eventually("the mended row is published", async || {
        (deployment.outbox_rows("status = 'PUBLISHED'").await == 6).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unreadable_event_is_delivered_with_its_error_and_hides_no_other() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let live = "subscription { events(start: {latest: true}) { __typename ... on EventDelivery {
        payloadOmitted event { id context result meta } } } }";
    let mut live = server.live(live, json!(null)).await;
    while json::read(&live.text().await.unwrap()).unwrap()["payload"]["data"]["events"]["__typename"] != "CaughtUp" {}
    let mut shard = deployment.shard(0).await;
    for (n, payload) in UNREADABLE.iter().enumerate() {
        let (odd, even) = (2 * n + 1, 2 * n + 2);
        let insert = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, context, result, meta, created_at)
             VALUES (7, {odd}, 'call.done', 'a', {payload}, {payload}, {payload}, 'infinity'),
                    (7, {even}, 'call.done', 'b', '{{\"n\": {n}}}', '{{\"n\": {n}}}', '{{\"n\": {n}}}', now())"
        );
        run(&mut shard, &insert).await;
    }
    let check = |events: &[Value]| {
        assert_eq!(events.len(), 8);
        for (place, event) in events.iter().enumerate() {
            assert_eq!(event["id"], (place + 1).to_string());
            for field in ["context", "result", "meta"] {
                match place % 2 {
                    0 => assert_eq!(event[field]["error"]["code"], "UNREADABLE", "{event}"),
                    _ => assert_eq!(event[field], json!({ "n": place / 2 })),
                }
            }
        }
    };
    check(&events(&server, "7").await);
    let one = r#"{ event(executionId: "7", id: "1") { createdAt context } }"#;
    assert_eq!(ask(&server, one, json!({})).await["event"]["context"]["error"]["code"], "UNREADABLE");
    let mut delivered = Vec::new();
    while delivered.len() < 8 {
        let mut item = json::read(&live.text().await.unwrap()).unwrap()["payload"]["data"]["events"].take();
        if item["__typename"] == "EventDelivery" {
            delivered.push(item["event"].take());
        }
    }
    delivered.sort_by_key(|event| event["id"].as_str().unwrap().parse::<i64>().unwrap());
    check(&delivered);

    // The projector folds the log, the others' too.
    let state = r#"{ execution(id: "7") { steps { name result } snapshot { appliedCount behindBy } } }"#;
    let state = eventually("the projector has advanced it", async || {
        let state = ask(&server, state, json!({})).await["execution"].take();
        (state["snapshot"]["appliedCount"] == "8").then_some(state)
    })
    .await;
    assert_eq!(state["snapshot"]["behindBy"], "0");
    assert_eq!(state["steps"][1], json!({ "name": "b", "result": { "n": 3 } }));
}

fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Clippy refuses the functions of `serde_json` that read; this finds the types that they must not read.
#[test]
fn no_type_and_no_query_reads_json_past_the_decoder() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for path in sources(&root.join("src")).iter().filter(|path| !path.ends_with("json/read.rs")) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for derived in text
            .split("#[derive(")
            .skip(1)
            .filter(|derived| derived.split(")]").next().unwrap().contains("Deserialize"))
        {
            let body = derived.split("\n}").next().unwrap();
            let mut attribute = "";
            for line in body.lines().map(str::trim) {
                let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
                let is_any = names.into_iter().any(|name| name == "Value" || name == "Map");
                if is_any && line.contains(':') && !attribute.contains("deserialize_with") {
                    found.push(format!("{}: {line}", path.display()));
                }
                attribute = if line.starts_with("#[") { line } else { "" };
            }
        }
    }
    for path in sources(&root.join(".sqlx")) {
        let query = json::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for column in query["describe"]["columns"].as_array().unwrap() {
            if column["type_info"] == "Jsonb" || column["type_info"] == "Json" {
                found.push(format!("{} in {}", column["name"], query["query"]));
            }
        }
    }
    assert!(found.is_empty(), "these read JSON by serde_json::Value: {found:#?}");
}
