//! The payload of a batch of events has the executions of the batch with their states after it, if they are selected.

use noetl_testkit::feed::run;
use noetl_testkit::outbox::reference;
use noetl_testkit::worker::event_with;
use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Value, json};

const REPORT: &str = "mutation($events: [EventInput!]!) { projectEvents(input: {events: $events}) {
    projected duplicates rejected { index } executions { id status steps { nodes { status } } } userErrors { code } } }";

async fn report(server: &Server, events: &[Value]) -> Value {
    server.data(REPORT, json!({ "events": events })).await["projectEvents"].take()
}

fn entered(execution: i64, id: i64) -> Value {
    event_with(execution, id, &json!({ "type": "step.enter" }))
}

/// Starts executions until each shard has one, and returns them by shard.
async fn one_on_each_shard(server: &Server) -> [i64; 2] {
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    let mut found: [Option<i64>; 2] = [None, None];
    loop {
        let execution = server.execute(json!({ "path": "run" })).await["execution"].take();
        let shard = usize::try_from(execution["shard"].as_u64().unwrap()).unwrap();
        found[shard] = Some(execution["id"].as_str().unwrap().parse().unwrap());
        if let [Some(first), Some(second)] = found {
            return [first, second];
        }
    }
}

#[tokio::test]
async fn a_batch_returns_the_executions_that_it_changed_and_can_read() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    // It claims all entries.
    a_report_and_the_next_claim_in_one_request_succeed_or_fail_independently(&server).await;
    a_batch_returns_each_of_its_executions_once_with_the_state_after_it(&server).await;
    // It renames a column.
    executions_that_can_not_be_read_do_not_hide_the_outcome_of_the_batch(&deployment, &server).await;
}

/// The payload has the executions of the batch in the order of their first events.
async fn a_batch_returns_each_of_its_executions_once_with_the_state_after_it(server: &Server) {
    let [one, two] = one_on_each_shard(server).await;
    let refused = server.start_execution().await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let inbox: i64 = server.register("inbox").await["subscription"]["id"].as_str().unwrap().parse().unwrap();
    server.project(&[entered(two, two + 10)]).await;

    let note = |log, id| event_with(log, id, &json!({ "type": "note", "nodeName": null }));
    let events = [
        note(inbox, inbox + 10),
        // A log that is neither an execution's nor a source subscription's.
        note(5, 1),
        event_with(refused, refused + 10, &json!({ "type": "" })),
        // A duplicate.
        entered(two, two + 10),
        entered(one, one + 10),
        event_with(two, two + 11, &json!({ "type": "command.completed" })),
        event_with(one, one + 11, &json!({ "type": "playbook.completed" })),
    ];
    let payload = report(server, &events).await;
    let execution = |id: i64, status: &str, step: &str| {
        let steps = json!([{ "status": step }]);
        json!({ "id": id.to_string(), "status": status, "steps": { "nodes": steps } })
    };
    let expected = json!({
        "projected": 5, "duplicates": 1, "rejected": [{ "index": 2 }], "userErrors": [],
        "executions": [execution(two, "RUNNING", "COMPLETED"), execution(one, "COMPLETED", "ENTERED")],
    });
    assert_eq!(payload, expected);
}

#[tokio::test]
async fn executions_of_a_batch_are_read_together_and_only_if_they_are_selected() {
    const ROUNDS: i64 = 40;
    const EXECUTIONS: i64 = 20;
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    let mut statements = Vec::new();
    for (first, selection) in [(100_000, ""), (200_000, "executions { status progress { stepsKnown } }")] {
        let query = format!(
            "mutation($events: [EventInput!]!) {{ projectEvents(input: {{events: $events}}) {{ projected {selection} }} }}"
        );
        let before = server.metric("noetl_sql_statements_total").await;
        for round in 0..ROUNDS {
            let events: Vec<Value> = (0..EXECUTIONS).map(|n| entered(first + 1000 * round + n, 1)).collect();
            let payload = server.data(&query, json!({ "events": events })).await["projectEvents"].take();
            assert_eq!(payload["projected"], EXECUTIONS);
            let executions = payload["executions"].as_array();
            let read = json!({ "status": "RUNNING", "progress": { "stepsKnown": 1 } });
            assert_eq!(executions.is_some(), !selection.is_empty());
            assert!(executions.into_iter().flatten().all(|execution| *execution == read), "{payload}");
        }
        statements.push(server.metric("noetl_sql_statements_total").await - before);
    }
    let read = statements[1] - statements[0];
    // Three for each batch, because the list lacks these logs, and none for each execution. Background tasks need a few in
    // each second.
    assert!((60.0..400.0).contains(&read), "{read} statements more for {ROUNDS} batches: {statements:?}");
}

/// An execution that can not be read is an error of its own.
async fn executions_that_can_not_be_read_do_not_hide_the_outcome_of_the_batch(
    deployment: &Deployment,
    server: &Server,
) {
    let (here, there) = (deployment.ids_on(0, 1000, 1), deployment.ids_on(1, 1000, 2));
    // The list has this execution, but the status there does not include the batch.
    let [_, listed] = one_on_each_shard(server).await;
    run(&mut deployment.shard(1).await, "ALTER TABLE noetl.projection_snapshot RENAME COLUMN snapshot TO gone").await;
    let events = [entered(there[0], 1), entered(here[0], 1), entered(there[1], 1), entered(listed, listed + 10)];
    let payload = report(server, &events).await;
    let readable =
        json!({ "id": here[0].to_string(), "status": "RUNNING", "steps": { "nodes": [{ "status": "ENTERED" }] } });
    let expected = json!({
        "projected": 4, "duplicates": 0, "rejected": [], "executions": [readable],
        "userErrors": [{ "code": "INTERNAL" }],
    });
    assert_eq!(payload, expected);
}

/// A worker may report and claim in one request.
async fn a_report_and_the_next_claim_in_one_request_succeed_or_fail_independently(server: &Server) {
    let query = "mutation($events: [EventInput!]!, $claim: OutboxClaimRef!) {
        projectEvents(input: {events: $events, claim: $claim, settle: true}) {
            settled executions { id status } userErrors { code } }
        claimOutbox(input: {select: {all: true}, limit: 1}) { claims { executionId } userErrors { code } } }";
    let one = server.start_execution().await;
    let claim = reference(&server.claim(json!({})).await["claims"][0]);
    let two = server.start_execution().await;
    let completed = event_with(one, one + 10, &json!({ "type": "playbook.completed" }));
    let send = async |lease: &Value| {
        let claim = json!({ "entryId": claim["entryId"], "lease": lease });
        server.data(query, json!({ "events": [completed], "claim": claim })).await
    };
    let claimed = |ids: &[String]| {
        let claims: Vec<Value> = ids.iter().map(|id| json!({ "executionId": id })).collect();
        json!({ "claims": claims, "userErrors": [] })
    };
    let stale = json!({ "settled": false, "executions": [], "userErrors": [{ "code": "STALE_LEASE" }] });
    let expected = json!({ "projectEvents": stale, "claimOutbox": claimed(&[two.to_string()]) });
    assert_eq!(send(&json!("12")).await, expected);

    let execution = json!({ "id": one.to_string(), "status": "COMPLETED" });
    let settled = json!({ "settled": true, "executions": [execution], "userErrors": [] });
    let expected = json!({ "projectEvents": settled, "claimOutbox": claimed(&[]) });
    assert_eq!(send(&claim["lease"]).await, expected);
    // The response was lost.
    assert_eq!(send(&claim["lease"]).await, expected);
}
