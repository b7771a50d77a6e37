//! Workers: they claim outbox rows, run the executions, and settle the rows.
//!
//! The ids of a worker's events follow from that of the execution's first event. So a worker that repeats the work of
//! one that vanished reports the same events.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use super::Traffic;
use super::client::Client;
use crate::outbox::reference;
use crate::sleep_in_scenario;

const CLAIM: &str = "mutation($input: ClaimOutboxInput!) { done: claimOutbox(input: $input) {
    claims { entryId lease eventId executionId } userErrors { code message retryable } } }";
const PROJECT: &str = "mutation($events: [EventInput!]!, $claim: OutboxClaimRef) {
    done: projectEvents(input: {events: $events, claim: $claim}) {
    rejected { index userErrors { code message retryable } } userErrors { code message retryable } } }";
const SETTLE: &str = "mutation($input: MarkOutboxPublishedInput!) { done: markOutboxPublished(input: $input) {
    published results { userErrors { code message } } userErrors { code message retryable } } }";
const LEFT: &str = "{ done: outbox { stats { pending inFlight failed unavailableShards } } }";

/// Reports of a worker in order; the events of a report are sent together.
const REPORTS: [&[&str]; 4] = [
    &["step.enter", "command.issued"],
    &["command.claimed", "command.started"],
    &["call.done", "command.completed"],
    &["playbook.completed"],
];
/// Length of a lease, in seconds. It is short, so that the rows of a worker that vanished are soon claimed again.
pub(super) const LEASE: u64 = 3;
/// Interval at which an idle worker claims again.
pub(super) const IDLE: Duration = Duration::from_millis(50);

/// Number of events of an execution that ran once.
pub const EVENTS: usize = 8;

/// Returns the types of the events of an execution that ran once, in order.
pub(super) fn whole_log() -> Vec<&'static str> {
    std::iter::once("playbook_started").chain(REPORTS.into_iter().flatten().copied()).collect()
}

/// Works until the traffic has stopped, all messages are completed and all rows are settled.
pub(super) async fn work(traffic: &Traffic, number: u64, mut client: Client<'_>) {
    let claim = json!({ "input": {
        "select": { "all": true }, "limit": 16, "leaseSeconds": LEASE, "claimant": format!("worker-{number}"),
    } });
    loop {
        if traffic.all_finished() {
            if all_settled(&mut client).await {
                return;
            }
        } else if client.once_in(50) {
            client.send_and_vanish(CLAIM, &claim).await;
        }
        let payload = client.until_done(CLAIM, &claim).await;
        let claims = payload["claims"].as_array().unwrap();
        if claims.is_empty() {
            sleep_in_scenario(IDLE).await;
            continue;
        }
        let clients = claims.iter().map(|_| client.branch()).collect::<Vec<_>>();
        let done = join_all(claims.iter().zip(clients).map(async |(claim, client)| {
            let number = |field: &str| claim[field].as_str().unwrap().parse().unwrap();
            let claim = reference(claim);
            run(traffic, number("executionId"), number("eventId"), Some(&claim), client).await.then_some(claim)
        }));
        let done: Vec<Value> = done.await.into_iter().flatten().collect();
        // A worker that vanishes here leaves rows whose work is done; another one claims them when the lease expires.
        if !done.is_empty() && !client.once_in(50) {
            settle(&mut client, &done).await;
        }
    }
}

/// Returns whether all rows of all shards are settled. A worker that vanished holds its rows until the lease expires.
async fn all_settled(client: &mut Client<'_>) -> bool {
    let stats = client.until_done(LEFT, &Value::Null).await["stats"].take();
    ["pending", "inFlight", "failed"].iter().all(|rows| stats[rows] == 0) && stats["unavailableShards"] == json!([])
}

/// Runs one execution after its first event, under a claim if there is one. Returns whether it ended; else the worker
/// vanished before, or another one has claimed the row.
pub(super) async fn run(
    traffic: &Traffic,
    execution: i64,
    first: i64,
    claim: Option<&Value>,
    mut client: Client<'_>,
) -> bool {
    let mut event = first;
    for types in REPORTS {
        let mut events = Vec::new();
        for of_type in types {
            event += 1;
            events.push(reported(execution, event, of_type));
        }
        let variables = json!({ "events": events, "claim": claim });
        if client.once_in(200) {
            client.send_and_vanish(PROJECT, &variables).await;
            return false;
        }
        if client.until_done(PROJECT, &variables).await["userErrors"][0]["code"] == "STALE_LEASE" {
            return false;
        }
    }
    traffic.note_finished(execution);
    true
}

fn reported(execution: i64, event: i64, of_type: &str) -> Value {
    json!({
        "executionId": execution.to_string(), "eventId": event.to_string(), "type": of_type, "nodeName": "work",
        "meta": { "command_id": "work:1" }, "result": { "data": { "type": of_type } },
    })
}

/// Marks the rows as published. Rows whose lease has expired may have another holder, who settles them.
async fn settle(client: &mut Client<'_>, claims: &[Value]) {
    let payload = client.until_done(SETTLE, &json!({ "input": { "claims": claims } })).await;
    for error in payload["results"].as_array().unwrap().iter().filter_map(|result| result["userErrors"].get(0)) {
        let known = ["STALE_LEASE", "SHARD_UNAVAILABLE", "TIMEOUT"].iter().any(|code| error["code"] == *code);
        assert!(known, "{error}");
    }
}
