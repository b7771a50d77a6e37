//! Rows with JSON that parsers cannot read affect only themselves.

use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Server, eventually};
use plain_json as json;
use serde_json::{Value, json};

use super::{ask, claim, events, messages};

/// Payloads that parsers cannot read, as SQL expressions.
const UNREADABLE: [&str; 4] = [
    "(repeat('[', 6000) || repeat(']', 6000))::jsonb",
    "'{\"n\": 1e400}'::jsonb",
    "jsonb_build_object('a', jsonb_build_array((repeat('{\"k\":', 500) || '1' || repeat('}', 500))::jsonb))",
    "to_jsonb(('1' || repeat('0', 100000))::numeric)",
];

#[tokio::test]
async fn an_unreadable_event_or_outbox_row_has_its_error_and_does_not_hide_or_block_others() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    Box::pin(unreadable_events(&deployment, &server)).await;
    outbox_rows(&deployment, &server).await;
}

/// An unreadable outbox row is dead, and does not block others. No other row exists.
async fn outbox_rows(deployment: &Deployment, server: &Server) {
    let mut shard = deployment.shard(0).await;
    // All rows belong to one execution. Each unreadable row is between two readable ones.
    let mut rows = vec!["'\"first\"'::jsonb".to_owned()];
    for (n, payload) in UNREADABLE.iter().enumerate() {
        rows.extend([(*payload).to_owned(), format!("'\"after {n}\"'::jsonb")]);
    }
    for (n, payload) in rows.iter().enumerate() {
        let insert = format!(
            "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
             VALUES (5, {n}, 'noetl.executions.test.5', {payload})"
        );
        run(&mut shard, &insert).await;
    }
    let claims = claim(server, 3).await;
    let read = |claims: &[Value]| claims.iter().map(|claim| claim["payload"].as_str().unwrap().to_owned()).collect();
    let mut readable: Vec<String> = read(&claims);
    assert_eq!(readable, ["first", "after 0"], "a claim of one execution returns its readable rows");
    let _relaying = deployment.replica().await;
    run(&mut shard, "UPDATE noetl.outbox SET lease_until = now() - interval '1 second' WHERE status = 'IN_FLIGHT'")
        .await;
    eventually("every other row is published", async || {
        (deployment.outbox_rows("status = 'PUBLISHED'").await == 5).then_some(())
    })
    .await;
    readable = messages(deployment, 5).await;
    let expected = ["first", "after 0", "after 1", "after 2", "after 3"].map(|text| format!("\"{text}\""));
    assert_eq!(readable, expected, "the rows are out of order");
    assert_eq!(deployment.outbox_rows("status = 'FAILED' AND available_at = 'infinity' AND attempts = 1").await, 4);

    let entries = "{ outbox { stats { pending failed dead } entries(first: 100, filter: {statuses: [DEAD]}) { nodes {
        dead lastError payload availableAt } } } }";
    let outbox = ask(server, entries, json!({})).await["outbox"].take();
    assert_eq!(outbox["stats"], json!({ "pending": 0, "failed": 0, "dead": 4 }));
    let dead = outbox["entries"]["nodes"].as_array().unwrap();
    assert_eq!(dead.len(), 4);
    for row in dead {
        assert_eq!((&row["dead"], &row["payload"]["error"]["code"]), (&json!(true), &json!("UNREADABLE")), "{row}");
        assert_eq!(row["lastError"], row["payload"]["error"]["message"]);
    }
    // An operator repairs the row and retries it.
    run(&mut shard, "UPDATE noetl.outbox SET payload = '\"mended\"' WHERE event_id = 1").await;
    assert_eq!(server.retry(json!({ "statuses": ["DEAD"] }), false).await["retried"], 4);
    eventually("the mended row is published", async || {
        (deployment.outbox_rows("status = 'PUBLISHED'").await == 6).then_some(())
    })
    .await;
}

/// An unreadable event is delivered with its error, and does not hide others.
async fn unreadable_events(deployment: &Deployment, server: &Server) {
    deployment.feeds_begun().await;
    let live = "subscription { events(start: {latest: true}) { __typename ... on EventDelivery {
        payloadOmitted event { id: eventId context result meta } } } }";
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
    check(&events(server, "7").await);
    let one = r#"{ event(executionId: "7", eventId: "1") { createdAt context } }"#;
    assert_eq!(ask(server, one, json!({})).await["event"]["context"]["error"]["code"], "UNREADABLE");
    let mut delivered = Vec::new();
    while delivered.len() < 8 {
        let mut item = json::read(&live.text().await.unwrap()).unwrap()["payload"]["data"]["events"].take();
        if item["__typename"] == "EventDelivery" {
            delivered.push(item["event"].take());
        }
    }
    delivered.sort_by_key(|event| event["id"].as_str().unwrap().parse::<i64>().unwrap());
    check(&delivered);

    // The projector folds the whole log, including the readable events.
    let state = r#"{ execution(id: "7") { steps { nodes { name result } } snapshot { appliedCount behindBy } } }"#;
    let state = eventually("the projector has advanced it", async || {
        let state = ask(server, state, json!({})).await["execution"].take();
        (state["snapshot"]["appliedCount"] == "8").then_some(state)
    })
    .await;
    assert_eq!(state["snapshot"]["behindBy"], "0");
    assert_eq!(state["steps"]["nodes"][1], json!({ "name": "b", "result": { "n": 3 } }));
}
