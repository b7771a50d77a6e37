//! An event id names one event: a repetition of a stored event is a duplicate, and another event with its id is rejected.

use std::collections::BTreeSet;

use futures::future::join_all;
use noetl_testkit::feed::{insert, run};
use noetl_testkit::worker::{event, event_with, with_errors_of_items};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

/// Returns the numbers of stored, repeated and conflicting events of a batch.
fn counts(payload: &Value) -> (u64, u64, usize) {
    let rejected = payload["rejected"].as_array().unwrap();
    assert!(rejected.iter().all(|one| one["code"] == "EVENT_ID_CONFLICT" && one["retryable"] == false), "{payload}");
    (payload["projected"].as_u64().unwrap(), payload["duplicates"].as_u64().unwrap(), rejected.len())
}

fn failure() -> Value {
    json!({
        "catalogId": "7", "parentEventId": "8", "parentExecutionId": "9", "nodeId": "n", "nodeName": "load",
        "nodeType": "http", "status": "FAILED", "durationSeconds": 1.5, "createdAt": "2026-01-02T03:04:05.000006Z",
        "context": { "a": 1, "b": [2] }, "result": { "rows": 0 }, "meta": { "command_id": "c" }, "error": "no route",
        "stackTrace": "at load", "extra": { "host": "w1" }, "tenantId": "acme", "organizationId": "west",
    })
}

#[tokio::test]
async fn an_event_with_the_id_of_a_stored_one_is_its_duplicate_or_is_rejected() {
    let deployment = Deployment::start(2).await;
    let (one, other) = tokio::join!(deployment.replica_without_feed(), deployment.replica_without_feed());
    an_event_that_differs_from_the_stored_one_in_any_field_is_rejected_by_index(&deployment, &one).await;
    a_repeated_batch_is_a_duplicate_whatever_the_server_has_filled(&one).await;
    of_concurrent_events_with_one_id_one_is_stored_and_those_with_other_content_are_rejected(&one, &other).await;
    an_event_whose_id_an_open_transaction_has_taken_is_compared_after_its_commit(&deployment, &one).await;
    reserved_ids_increase_and_no_two_replicas_give_the_same_one(&one, &other).await;
}

/// An event is compared with the stored one in each of its fields.
async fn an_event_that_differs_from_the_stored_one_in_any_field_is_rejected_by_index(
    deployment: &Deployment,
    server: &Server,
) {
    let stored = event_with(1000, 1, &failure());
    assert_eq!(counts(&server.project(std::slice::from_ref(&stored)).await), (1, 0, 0));
    let others = [
        ("catalogId", json!("6")),
        ("parentEventId", json!("6")),
        ("parentExecutionId", json!("6")),
        ("type", json!("call.error")),
        ("nodeId", Value::Null),
        ("nodeName", json!("store")),
        ("nodeType", json!("")),
        ("status", json!("COMPLETED")),
        ("durationSeconds", Value::Null),
        ("createdAt", json!("2026-01-02T03:04:05.000007Z")),
        ("context", json!({ "a": 1, "b": [3] })),
        ("result", Value::Null),
        ("meta", json!({ "command_id": "d" })),
        ("error", json!("timeout")),
        ("stackTrace", Value::Null),
        ("organizationId", json!("east")),
    ];
    for (field, value) in &others {
        let other = event_with(1000, 1, &merged(&failure(), &json!({ *field: value })));
        let payload = server.project(&[event(1000, 2), other, stored.clone()]).await;
        let rejected = &payload["rejected"][0];
        assert_eq!((&rejected["index"], &rejected["eventId"]), (&json!(1), &json!("1")), "{field}: {payload}");
        assert_eq!(rejected["field"], json!(["events", "1", "eventId"]), "{field}");
        assert!(rejected["message"].as_str().unwrap().ends_with(&format!("it differs in: {field}")), "{rejected}");
        assert_eq!(payload["rejected"].as_array().unwrap().len(), 1, "{field}: {payload}");
    }
    let extra = event_with(1000, 1, &merged(&failure(), &json!({ "extra": { "host": "w2" } })));
    assert_eq!(counts(&server.project(&[extra]).await), (0, 0, 1));
    assert_eq!(deployment.committed().await, BTreeSet::from([(1000, 1), (1000, 2)]));
    let query = "{ event(executionId: \"1000\", eventId: \"1\") { status error durationSeconds catalogId } }";
    let kept = json!({ "status": "FAILED", "error": "no route", "durationSeconds": 1.5, "catalogId": "7" });
    assert_eq!(server.data(query, Value::Null).await["event"], kept);
}

fn merged(fields: &Value, others: &Value) -> Value {
    let mut all = fields.clone();
    all.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
    all
}

/// The server fills times, the catalog entry, the parent, tenant and organization of events that do not name them. Maps
/// have no order, and numbers no form.
async fn a_repeated_batch_is_a_duplicate_whatever_the_server_has_filled(server: &Server) {
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    let parent = server.started(json!({ "path": "flow" })).await;
    let child = server.execute(json!({ "path": "flow", "parentExecutionId": parent })).await;
    let child: i64 = child["execution"]["id"].as_str().unwrap().parse().unwrap();
    let batch = [
        event(child, 1),
        event_with(child, 2, &failure()),
        event_with(child, 3, &json!({ "meta": {}, "context": { "x": 1.0, "y": null } })),
        event_with(child, 4, &json!({ "extra": { "worker_id": "w" } })),
        event(77, 1),
    ];
    let refused = server.project(&batch[1..2]).await;
    assert_eq!(counts(&refused), (1, 0, 0), "{refused}");
    assert_eq!(counts(&server.project(&batch).await), (4, 1, 0));
    assert_eq!(counts(&server.project(&batch).await), (0, 5, 0));
    let same = [
        event_with(child, 3, &json!({ "meta": null, "context": { "y": null, "x": 1 }, "createdAt": null })),
        event_with(child, 1, &json!({ "catalogId": "0", "tenantId": "default", "error": null })),
    ];
    let payload = server.project(&same).await;
    assert_eq!(counts(&payload), (0, 2, 0), "{payload}");
    let catalog = "{ event(executionId: \"77\", eventId: \"1\") { catalogId } }";
    assert_eq!(server.data(catalog, Value::Null).await["event"], json!({ "catalogId": null }), "it is unknown");
}

/// Of concurrent events with one id, exactly one is stored.
async fn of_concurrent_events_with_one_id_one_is_stored_and_those_with_other_content_are_rejected(
    one: &Server,
    other: &Server,
) {
    for round in 1..=30 {
        let batch = |status: &str| {
            let of = |execution| event_with(execution, round, &json!({ "status": status }));
            (2000..2010).map(of).collect::<Vec<Value>>()
        };
        let (good, bad) = (batch("COMPLETED"), batch("FAILED"));
        let sent = join_all([one.project(&good), other.project(&bad), one.project(&bad), other.project(&good)]).await;
        let counted: Vec<_> = sent.iter().map(counts).collect();
        let sum = counted.iter().fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        assert_eq!(sum, (10, 10, 20), "{counted:?}");
    }
}

/// The stored event is not visible to the statement that finds its id taken.
async fn an_event_whose_id_an_open_transaction_has_taken_is_compared_after_its_commit(
    deployment: &Deployment,
    server: &Server,
) {
    let mut shard = deployment.shard(0).await;
    let log = deployment.ids_on(0, 3000, 1)[0];
    run(&mut shard, "BEGIN").await;
    insert(&mut shard, (log, 1)).await;
    let batch = [event_with(log, 1, &json!({ "status": "FAILED" }))];
    let commit = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                       AND datname = current_database()";
        eventually("the batch waits for the transaction", async || {
            (deployment.sum_over_shards(waiting).await > 0).then_some(())
        })
        .await;
        run(&mut shard, "COMMIT").await;
    };
    let (payload, ()) = tokio::join!(server.project(&batch), commit);
    assert_eq!(counts(&payload), (0, 0, 1), "{payload}");
}

#[tokio::test]
async fn documents_with_a_stored_id_and_other_content_are_rejected() {
    let deployment = Deployment::start(1).await;
    run(&mut deployment.shard(0).await, "ALTER TABLE noetl.event ADD COLUMN worker_id VARCHAR, ADD COLUMN frame JSON")
        .await;
    let server = deployment.replica_without_feed().await;
    let project = async |events: Value| {
        let query =
            "mutation($events: [JSON!]!) { projectEventDocuments(input: { events: $events }) { projected duplicates
            rejected { index eventId executionId event { eventId } userErrors { code message field retryable } } } }";
        with_errors_of_items(server.data(query, json!({ "events": events })).await["projectEventDocuments"].take())
    };
    let row = |fields: Value| {
        let row = json!({ "event_id": 1, "execution_id": 7, "event_type": "call.done", "worker_id": "w1",
                          "frame": { "n": 1 }, "duration": 2 });
        merged(&row, &fields)
    };
    let payload = project(json!([row(json!({}))])).await;
    assert_eq!(counts(&payload), (1, 0, 0), "{payload}");
    assert_eq!(counts(&project(json!([row(json!({}))])).await), (0, 1, 0));
    for (field, value) in [("worker_id", json!("w2")), ("frame", json!({ "n": 2 }))] {
        let payload = project(json!([row(json!({ field: value }))])).await;
        assert_eq!(counts(&payload), (0, 0, 1), "{payload}");
        assert!(payload["rejected"][0]["message"].as_str().unwrap().ends_with(field), "{payload}");
        assert_eq!(payload["rejected"][0]["executionId"], "7");
        assert_eq!(payload["rejected"][0]["event"], json!({ "eventId": "1" }), "the stored event");
    }
    assert_eq!(counts(&project(json!([row(json!({ "worker_id": null }))])).await), (0, 1, 0), "it is not compared");
}

/// The ids that replicas reserve differ, and those of each increase.
async fn reserved_ids_increase_and_no_two_replicas_give_the_same_one(one: &Server, other: &Server) {
    let reserve = async |server: &Server, count: i64| {
        let query = "mutation($count: Int!) { reserveEventIds(input: { count: $count }) {
            eventIds userErrors { code field } } }";
        server.data(query, json!({ "count": count })).await["reserveEventIds"].take()
    };
    let ids = |payload: &Value| -> Vec<i64> {
        let ids = payload["eventIds"].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().parse().unwrap()).collect()
    };
    let mut all = BTreeSet::new();
    let mut last = 0;
    for count in [1, 1000, 999] {
        let (mine, theirs) = tokio::join!(reserve(one, count), reserve(other, count));
        let (mine, theirs) = (ids(&mine), ids(&theirs));
        assert!(mine.is_sorted() && theirs.is_sorted() && mine[0] > last, "{mine:?}");
        last = *mine.last().unwrap();
        all.extend(mine.into_iter().chain(theirs));
    }
    assert_eq!(all.len(), 4000, "an id was given twice");
    for count in [0, 1001, -1] {
        let refused = json!({ "eventIds": [], "userErrors": [{ "code": "INVALID_INPUT", "field": ["count"] }] });
        assert_eq!(reserve(one, count).await, refused, "{count}");
    }
    let event = json!({ "eventId": last.to_string(), "executionId": "7", "type": "call.done" });
    assert_eq!(counts(&one.project(&[event]).await), (1, 0, 0));
}
