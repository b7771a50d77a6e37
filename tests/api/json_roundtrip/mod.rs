//! JSON from every source is only data: in requests, in rows that other programs wrote, and in messages. No key has a
//! special meaning, values are returned unchanged, and unreadable JSON affects only its own row.

mod sources;
mod unreadable;
mod values;

use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use futures::StreamExt;
use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Server, WAIT_TIMEOUT, eventually, execute_input, http_client};
use plain_json as json;
use serde_json::{Value, json};

/// The key with which `serde_json` marks JSON as text. `serde_json::Value` gives this key a meaning when it reads a
/// response, so the tests read responses with the server's own decoder.
const RAW: &str = "$serde_json::private::RawValue";
/// A key that is longer than [`RAW`], so that jsonb sorts it after [`RAW`].
const LONGER: &str = "abcdefghijklmnopqrstuvwxyzabcdefg";

const EVENTS: &str = "query($id: ID!, $first: Int) { events(executionId: $id, first: $first) {
    nodes { id: eventId context result meta } } }";

/// Sends a body unchanged and returns the response.
async fn post(server: &Server, body: String) -> Value {
    let request = http_client().post(format!("{}/graphql", server.url)).timeout(WAIT_TIMEOUT);
    let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
    json::read(&response.text().await.unwrap()).unwrap()
}

/// Sends an operation that must succeed and returns its data.
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
    let query = "mutation($limit: Int!) { claimOutbox(input: {select: {all: true}, limit: $limit, leaseSeconds: 60}) {
        claims { entryId executionId payload } unavailableShards userErrors { code message } } }";
    let payload = ask(server, query, json!({ "limit": limit })).await["claimOutbox"].take();
    assert_eq!((&payload["unavailableShards"], &payload["userErrors"]), (&json!([]), &json!([])));
    payload["claims"].as_array().unwrap().clone()
}

/// Returns the payloads of the workers' messages in the broker, in stream order.
async fn messages(deployment: &Deployment, count: usize) -> Vec<String> {
    let context = jetstream::new(async_nats::connect(deployment.nats.url()).await.unwrap());
    let stream = eventually("the stream exists", async || context.get_stream("noetl_executions").await.ok()).await;
    let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
    let read = consumer.messages().await.unwrap().take(count);
    let read = read.map(|message| String::from_utf8(message.unwrap().payload.to_vec()).unwrap());
    tokio::time::timeout(WAIT_TIMEOUT, read.collect()).await.unwrap()
}

/// Returns objects in which the mark is the first key when they are stored as jsonb.
fn marked() -> [Value; 3] {
    [json!({ LONGER: 1, RAW: 1 }), json!({ RAW: "[1, 2]" }), json!({ "a": [{ RAW: { RAW: null } }] })]
}

/// Starts an execution, stores a trace in its started event as another program could, and returns its id. Its children
/// inherit the trace.
pub(super) async fn parent_with_trace(deployment: &Deployment, server: &Server, trace: &Value) -> String {
    let started = server.execute(json!({ "path": "run" })).await;
    let id = started["execution"]["id"].as_str().unwrap().to_owned();
    let update = format!(
        "UPDATE noetl.event SET meta = jsonb_set(meta, '{{trace}}', '{}') WHERE execution_id = {id}",
        trace.to_string().replace('\'', "''")
    );
    run(&mut deployment.shard(0).await, &update).await;
    id
}

#[tokio::test]
async fn the_raw_value_key_of_serde_json_is_plain_data_in_events_claims_messages_and_lists() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    Box::pin(in_events(&deployment, &server)).await;
    in_the_outbox(&deployment, &server).await;
}

/// The key in claims, messages and lists of the outbox. No entry exists before.
async fn in_the_outbox(deployment: &Deployment, server: &Server) {
    server.register_entry("run", &json!({ "kind": "playbook", "workload": { "own": marked()[0] } })).await;
    let start = "mutation($input: ExecuteInput!) { execute(input: $input) {
        execution { id workload } userErrors { message } } }";
    let mut traces = Vec::new();
    for trace in marked() {
        let parent = parent_with_trace(deployment, server, &trace).await;
        let input = json!({ "path": "run", "parentExecutionId": parent, "workload": trace,
                            "dedup": { "key": trace.to_string() } });
        let started = ask(server, start, json!({ "input": execute_input(input) })).await["execute"]["execution"].take();
        let mut workload = trace.as_object().unwrap().clone();
        workload.insert("own".to_owned(), marked()[0].clone());
        assert_eq!(started["workload"], Value::Object(workload));
        let page = events(server, started["id"].as_str().unwrap()).await;
        assert_eq!((&page[0]["meta"]["trace"], &page[0]["context"]["workload"]), (&trace, &started["workload"]));
        traces.push(trace);
    }
    for (event, value) in marked().into_iter().enumerate() {
        let text = value.to_string();
        let insert = format!(
            "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
             VALUES (9, {event}, 'noetl.executions.test.9', jsonb_build_object('trace', '{text}'::jsonb))"
        );
        run(&mut deployment.shard(0).await, &insert).await;
        traces.push(value);
    }
    run(&mut deployment.shard(0).await, "DELETE FROM noetl.outbox WHERE NOT payload ? 'trace'").await;
    let claims = claim(server, 100).await;
    let shown: Vec<&Value> = claims.iter().map(|claim| &claim["payload"]["trace"]).collect();
    assert_eq!(shown, traces.iter().collect::<Vec<_>>());
    let entries = "{ outbox { entries(first: 100) { nodes { payload status } } } }";
    let mut listed = ask(server, entries, json!({})).await["outbox"]["entries"]["nodes"].take();
    let listed = listed.as_array_mut().unwrap();
    listed.reverse();
    assert_eq!(listed.iter().map(|row| &row["payload"]["trace"]).collect::<Vec<_>>(), shown);

    run(&mut deployment.shard(0).await, "UPDATE noetl.outbox SET status = 'PENDING', lease_until = NULL").await;
    let _relaying = deployment.replica().await;
    let messages = messages(deployment, traces.len()).await;
    let mut sent: Vec<String> = messages.iter().map(|text| json::read(text).unwrap()["trace"].to_string()).collect();
    let mut expected: Vec<String> = traces.iter().map(Value::to_string).collect();
    sent.sort();
    expected.sort();
    assert_eq!(sent, expected);
}

/// The key in events of workers and in rows. The feed begins with them.
async fn in_events(deployment: &Deployment, server: &Server) {
    let live = "subscription { events(start: {latest: true}) { __typename ... on EventDelivery {
        payloadOmitted event { id: eventId context result meta } } } }";
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
        projected rejected { userErrors { message } } } }";
    let payload = ask(server, project, json!({ "events": batch })).await;
    assert_eq!(payload["projectEvents"], json!({ "projected": 3, "rejected": [] }));

    let page = events(server, "7").await;
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

    // The fold keeps these values and can read its own snapshots.
    let advance =
        r#"mutation { advanceProjections(input: {executionIds: ["7"]}) { results { userErrors { message } } } }"#;
    let state = r#"{ execution(id: "7") { steps { nodes { name result } } snapshot { behindBy } } }"#;
    assert_eq!(ask(server, advance, json!({})).await["advanceProjections"]["results"], json!([{ "userErrors": [] }]));
    let state = ask(server, state, json!({})).await["execution"].take();
    let results = json!([{ "name": "a", "result": marked()[2] }, { "name": "b", "result": marked()[2] }]);
    assert_eq!((&state["steps"]["nodes"], &state["snapshot"]["behindBy"]), (&results, &json!("0")));
}
