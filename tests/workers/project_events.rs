//! Worker events are stored once, even if several workers send them repeatedly. An invalid event is reported by its
//! index and does not affect the others, but a value of another GraphQL type refuses the request.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use futures::future::join_all;
use noetl_testkit::feed::{Key, Reader, run};
use noetl_testkit::worker::{event, event_with};
use noetl_testkit::{Deployment, Server, http_client};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::FromRow;

/// Returns `count` keys with ascending event ids, starting at `from`, distributed over 20 executions on both shards.
fn keys(count: i64, from: i64) -> Vec<Key> {
    (0..count).map(|n| (1000 + n % 20, from + n)).collect()
}

fn count(payload: &Value, field: &str) -> i64 {
    payload[field].as_i64().unwrap_or_else(|| panic!("{payload}"))
}

/// Returns the rejected indexes with their codes.
fn refused(payload: &Value) -> BTreeMap<usize, String> {
    let rejected = payload["rejected"].as_array().unwrap().iter();
    let entry = |one: &Value| {
        (usize::try_from(one["index"].as_u64().unwrap()).unwrap(), one["code"].as_str().unwrap().to_owned())
    };
    rejected.map(entry).collect()
}

#[tokio::test]
async fn the_valid_events_of_large_batches_are_stored_once() {
    let deployment = Deployment::start(2).await;
    let (one, other) = tokio::join!(deployment.replica_without_feed(), deployment.replica_without_feed());
    eight_workers_that_send_the_same_batch_store_each_event_once(&deployment, &one, &other).await;
    five_invalid_events_of_5000_are_rejected_by_index_and_the_others_are_stored(&deployment, &one).await;
}

/// Each event of a batch that several workers send is stored once.
async fn eight_workers_that_send_the_same_batch_store_each_event_once(
    deployment: &Deployment,
    one: &Server,
    other: &Server,
) {
    let keys = keys(2000, 1);
    let forward: Vec<Value> = keys.iter().map(|key| event(key.0, key.1)).collect();
    let backward: Vec<Value> = forward.iter().rev().cloned().collect();
    let workers = (0..8).map(|n| {
        let (server, batch) = (if n % 2 == 0 { one } else { other }, if n % 4 < 2 { &forward } else { &backward });
        server.project(batch)
    });
    let payloads = join_all(workers).await;
    assert!(payloads.iter().all(|payload| payload["rejected"] == json!([])), "{payloads:?}");
    let sum = |field| payloads.iter().map(|payload| count(payload, field)).sum::<i64>();
    assert_eq!((sum("projected"), sum("duplicates")), (2000, 14_000));
    assert_eq!(deployment.committed().await, BTreeSet::from_iter(keys));

    let again = one.project(&forward).await;
    assert_eq!((count(&again, "projected"), count(&again, "duplicates")), (0, 2000), "{again}");
}

/// Invalid events of a large batch affect no other one.
async fn five_invalid_events_of_5000_are_rejected_by_index_and_the_others_are_stored(
    deployment: &Deployment,
    server: &Server,
) {
    let keys = keys(5000, 10_001);
    let bytes = "x".repeat(1900);
    let mut events: Vec<Value> =
        keys.iter().map(|key| event_with(key.0, key.1, &json!({ "result": { "data": bytes } }))).collect();
    let bad = [
        (0, json!({ "eventId": "" })),
        (17, json!({ "parentEventId": "x" })),
        (1234, json!({ "createdAt": "0000-01-01T00:00:00Z" })),
        (2500, json!({ "type": "" })),
        (4999, json!({ "context": { "a": "b\0" } })),
    ];
    for (index, fields) in &bad {
        events[*index].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    assert!(json!(events).to_string().len() > 9_000_000, "the batch must be about as large as the limit");
    let mut stored = deployment.committed().await;
    let payload = server.project(&events).await;
    assert_eq!((count(&payload, "projected"), count(&payload, "duplicates")), (4995, 0));
    let expected: BTreeMap<usize, String> = bad.iter().map(|(index, _)| (*index, "INVALID_INPUT".to_owned())).collect();
    assert_eq!(refused(&payload), expected, "{}", payload["rejected"]);
    assert_eq!(payload["rejected"][0]["eventId"], "");
    assert_eq!(payload["rejected"][1]["eventId"], json!(keys[17].1.to_string()));
    assert!(payload["rejected"].as_array().unwrap().iter().all(|one| one["retryable"] == false));
    stored.extend(keys.iter().enumerate().filter(|(index, _)| !expected.contains_key(index)).map(|(_, key)| *key));
    assert_eq!(deployment.committed().await, stored);
}

#[tokio::test]
async fn each_event_of_a_batch_is_stored_as_it_is_or_rejected_by_index() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_without_feed().await;
    // It counts all events.
    every_invalid_event_is_rejected_by_index_and_not_stored(&deployment, &server).await;
    the_first_valid_event_with_an_id_in_a_batch_is_stored(&deployment, &server).await;
    absent_values_get_their_defaults_and_unknown_fields_are_kept(&deployment, &server).await;
    extreme_values_of_a_stored_event_can_be_read(&server).await;
}

/// Of the events with one id, an invalid one takes no place.
async fn the_first_valid_event_with_an_id_in_a_batch_is_stored(deployment: &Deployment, server: &Server) {
    let events = [
        event_with(11, 1, &json!({ "status": "bad", "parentEventId": "x" })),
        event_with(11, 1, &json!({ "status": "first" })),
        event_with(11, 1, &json!({ "status": "second" })),
        event_with(12, 1, &json!({ "status": "another log" })),
        event_with(11, 1, &json!({ "status": "first" })),
    ];
    let payload = server.project(&events).await;
    assert_eq!((count(&payload, "projected"), count(&payload, "duplicates")), (2, 1), "{payload}");
    let expected = [(0, "INVALID_INPUT".to_owned()), (2, "EVENT_ID_CONFLICT".to_owned())];
    assert_eq!(refused(&payload), BTreeMap::from(expected));
    let status: Vec<(String,)> = deployment.rows("SELECT status FROM noetl.event WHERE execution_id = $1", "11").await;
    assert_eq!(status, [("first".to_owned(),)]);
}

/// Returns invalid fields with their codes.
fn bad_fields() -> Vec<(Value, &'static str)> {
    let mut cases = Vec::new();
    let mut invalid = |fields: Value| cases.push((fields, "INVALID_INPUT"));
    for field in ["eventId", "executionId", "type"] {
        invalid(json!({ field: "" }));
    }
    for field in ["eventId", "executionId", "parentEventId", "parentExecutionId"] {
        invalid(json!({ field: "0" }));
    }
    for field in ["eventId", "executionId", "catalogId", "parentEventId", "parentExecutionId"] {
        for id in ["x", "-1", "+1", "01", "1.5", " 1", " ", "9223372036854775808", "1\0", "१"] {
            invalid(json!({ field: id }));
        }
        invalid(json!({ field: -5 }));
    }
    // A log whose last id is the maximum could not get another event.
    invalid(json!({ "eventId": "9223372036854775807" }));
    // An event has an id or a key.
    invalid(json!({ "eventId": null }));
    invalid(json!({ "idempotencyKey": "key" }));
    for key in ["", "a\0", &"x".repeat(256)] {
        invalid(json!({ "eventId": null, "idempotencyKey": key }));
    }
    for event_type in [" ", "a\0", &"x".repeat(256), &"x".repeat(1 << 20)] {
        invalid(json!({ "type": event_type }));
    }
    for state in ["registered", "activated", "paused", "resumed", "draining", "deactivated"] {
        invalid(json!({ "type": format!("subscription.{state}"), "status": "ACTIVE" }));
    }
    for field in ["nodeId", "nodeName", "nodeType", "status", "error", "stackTrace"] {
        invalid(json!({ field: "a\0b" }));
    }
    // Times in years that PostgreSQL or RFC 3339 do not have.
    for time in
        ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "-0001-01-01T00:00:00Z"]
    {
        invalid(json!({ "createdAt": time }));
    }
    let deep = (0..=100).fold(json!(1), |inner, _| json!([inner]));
    for field in ["context", "result", "meta", "traceComponent"] {
        invalid(json!({ field: { "a": "b\0" } }));
        invalid(json!({ field: [{ "b\0": 1 }] }));
        invalid(json!({ field: deep }));
    }
    invalid(json!({ "extra": [1] }));
    invalid(json!({ "extra": "x" }));
    for field in ["context", "result", "meta", "traceComponent", "error", "stackTrace"] {
        cases.push((json!({ field: "x".repeat((8 << 20) + 1) }), "PAYLOAD_TOO_LARGE"));
    }
    cases.push((json!({ "context": "x".repeat(4 << 20), "error": "x".repeat((4 << 20) + 1) }), "PAYLOAD_TOO_LARGE"));
    cases
}

/// Each invalid value refuses its event, and neither of its neighbours.
async fn every_invalid_event_is_rejected_by_index_and_not_stored(deployment: &Deployment, server: &Server) {
    let (mut wrong, mut landed, cases) = (Vec::new(), 0, bad_fields());
    // A request has room for one large event.
    let (large, small): (Vec<_>, Vec<_>) = (1..).zip(&cases).partition(|(_, (_, code))| *code == "PAYLOAD_TOO_LARGE");
    for batch in large.into_iter().map(|case| vec![case]).chain([small]) {
        // Each invalid event is sent between two valid ones.
        let around = |(n, (fields, _)): &(i64, &(Value, &str))| {
            [event(1, 3 * n), event_with(1, 3 * n + 1, fields), event(1, 3 * n + 2)]
        };
        let payload = server.project(&batch.iter().flat_map(around).collect::<Vec<Value>>()).await;
        assert_eq!(payload["userErrors"], json!([]));
        landed += count(&payload, "projected");
        let rejected = payload["rejected"].as_array().unwrap();
        for (position, (_, (fields, code))) in batch.iter().enumerate() {
            let of_case: Vec<&Value> = rejected.iter().filter(|one| one["index"] == 3 * position + 1).collect();
            let right = |one: &Value| {
                one["code"] == *code
                    && one["retryable"] == false
                    && one["message"].as_str().is_some_and(|message| (10..300).contains(&message.len()))
            };
            if of_case.len() != 1 || !right(of_case[0]) {
                let fields = fields.to_string();
                wrong.push(format!("{}: {of_case:?}", fields.get(..200).unwrap_or(&fields)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(landed, 2 * i64::try_from(cases.len()).unwrap());
    assert_eq!(deployment.committed().await.len(), 2 * cases.len());
}

/// Returns fields with values that are not of their type; `None`: the field is missing.
fn values_of_other_types() -> Vec<(&'static str, Option<Value>)> {
    let mut cases = Vec::new();
    for field in ["eventId", "executionId", "type"] {
        cases.extend([json!(true), json!(1.5), json!([]), json!({})].map(|value| (field, Some(value))));
    }
    for field in ["executionId", "type"] {
        cases.extend([(field, Some(Value::Null)), (field, None)]);
    }
    let durations = [json!("1.5"), json!("soon"), json!(""), json!(true), json!([1]), json!({ "seconds": 1 })];
    cases.extend(durations.map(|value| ("durationSeconds", Some(value))));
    let times = [
        json!("yesterday"),
        json!("2026-01-01"),
        json!("2026-01-01T00:00:00"),
        json!("2026-02-30T00:00:00Z"),
        json!("2026-01-01T25:00:00Z"),
        json!("292277-01-01T00:00:00Z"),
        json!(""),
        json!("\0"),
        json!(1_767_225_600),
        json!(true),
        json!([]),
        json!({}),
    ];
    cases.extend(times.map(|value| ("createdAt", Some(value))));
    cases.push(("timestamp", Some(json!("2026-01-01T00:00:00Z"))));
    cases
}

#[tokio::test]
async fn a_request_is_refused_as_a_whole_or_stored_with_its_json_as_it_arrived() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_without_feed().await;
    // The first two assert that nothing is stored.
    a_value_of_another_type_refuses_the_request_and_nothing_is_stored(&deployment, &server).await;
    a_batch_has_1_to_5000_events_and_a_body_over_the_limit_is_refused(&deployment, &server).await;
    json_of_events_is_stored_as_it_arrived_and_compared_by_its_value(&deployment, &server).await;
    texts_that_can_not_be_stored_fail_only_their_event_and_space_does_not_count_as_size(&server).await;
    variables_in_the_json_of_a_document_are_part_of_it(&deployment, &server).await;
}

/// A value of another GraphQL type refuses the whole request.
async fn a_value_of_another_type_refuses_the_request_and_nothing_is_stored(deployment: &Deployment, server: &Server) {
    let query = "mutation($events: [EventInput!]!) { projectEvents(input: {events: $events}) { projected } }";
    let mut wrong = Vec::new();
    for (field, value) in values_of_other_types() {
        let mut bad = event(1, 2);
        match &value {
            Some(value) => bad[field] = value.clone(),
            None => drop(bad.as_object_mut().unwrap().remove(field)),
        }
        let answer = server.send(query, json!({ "events": [event(1, 1), bad, event(1, 3)] })).await.unwrap();
        let error = &answer["errors"][0];
        let is_coded = error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED";
        let is_named = error["message"].as_str().is_some_and(|message| message.contains(field));
        if !is_coded || !is_named || !answer["data"].is_null() {
            wrong.push(format!("{field} {value:?}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(deployment.committed().await, BTreeSet::new());
}

#[derive(Debug, FromRow, PartialEq)]
struct Row {
    catalog_id: i64,
    parent_event_id: Option<i64>,
    parent_execution_id: Option<i64>,
    created_at: DateTime<Utc>,
    duration: Option<f64>,
    context: Option<Value>,
    result: Option<Value>,
    meta: Option<Value>,
}

async fn stored(deployment: &Deployment, (execution, event): Key) -> Row {
    let query = "SELECT catalog_id, parent_event_id, parent_execution_id, created_at AT TIME ZONE 'UTC' AS created_at,
                        duration, context, result, meta
                 FROM noetl.event WHERE execution_id = $1 AND event_id = $2";
    let shard = (0..2).find(|shard| deployment.ids_on(*shard, execution, 1) == [execution]).unwrap();
    let row = sqlx::query_as(query).bind(execution).bind(event);
    row.fetch_one(&mut deployment.shard(shard).await).await.unwrap()
}

/// A value that an event lacks is that of its execution or empty.
async fn absent_values_get_their_defaults_and_unknown_fields_are_kept(deployment: &Deployment, server: &Server) {
    let entry: i64 = server.register_entry("flow", &json!({ "kind": "playbook" })).await.parse().unwrap();
    let started = server.started(json!({ "path": "flow" })).await;
    let child = server.execute(json!({ "path": "flow", "parentExecutionId": started })).await;
    let child: i64 = child["execution"]["id"].as_str().unwrap().parse().unwrap();
    let empty = json!({
        "catalogId": "", "parentEventId": "", "parentExecutionId": "", "durationSeconds": null,
        "createdAt": "2026-01-02T03:04:05.5+01:00", "context": null, "result": null, "meta": null, "extra": null,
        "traceComponent": null, "nodeId": null, "error": null,
    });
    let full = json!({
        "catalogId": 7, "parentEventId": "8", "parentExecutionId": "9", "durationSeconds": 1.25,
        "createdAt": "2026-01-02T03:04:05.000006Z", "context": [1], "result": "text",
        "meta": { "command_id": "c", "extra": { "a": 1, "b": 1 } }, "extra": { "b": 2, "worker_id": "w" },
        "traceComponent": { "t": 1 },
    });
    let bare_meta = json!({ "meta": "said", "durationSeconds": -3, "extra": {}, "catalogId": "0" });
    let key = |n| (child, n);
    let events = [
        event_with(child, 1, &empty),
        event_with(child, 2, &full),
        event_with(child, 3, &bare_meta),
        event_with(5, 1, &empty),
        event(5, 2),
    ];
    let before = Utc::now() - chrono::TimeDelta::minutes(5);
    let payload = server.project(&events).await;
    assert_eq!(count(&payload, "projected"), 5, "{payload}");

    let of_execution = stored(deployment, key(1)).await;
    let expected = Row {
        catalog_id: entry,
        parent_event_id: None,
        parent_execution_id: Some(started.parse().unwrap()),
        created_at: "2026-01-02T02:04:05.5Z".parse().unwrap(),
        duration: None,
        context: None,
        result: None,
        meta: None,
    };
    assert_eq!(of_execution, expected);
    let of_nobody = Row { catalog_id: 0, parent_execution_id: None, ..expected };
    assert_eq!(stored(deployment, (5, 1)).await, of_nobody);
    let said = Row {
        catalog_id: 7,
        parent_event_id: Some(8),
        parent_execution_id: Some(9),
        created_at: "2026-01-02T03:04:05.000006Z".parse().unwrap(),
        duration: Some(1.25),
        context: Some(json!([1])),
        result: Some(json!("text")),
        meta: Some(json!({
            "command_id": "c", "extra": { "a": 1, "b": 2, "worker_id": "w", "trace_component": { "t": 1 } },
        })),
    };
    assert_eq!(stored(deployment, key(2)).await, said);
    let bare = stored(deployment, key(3)).await;
    assert_eq!((bare.meta, bare.duration, bare.catalog_id), (Some(json!({ "value": "said" })), Some(-3.0), entry));
    assert!(bare.created_at > before && bare.created_at < Utc::now() + chrono::TimeDelta::minutes(5));
}

/// Each value that can be stored can be read.
async fn extreme_values_of_a_stored_event_can_be_read(server: &Server) {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let numbers: Value = serde_json::from_str("[1e308, -1e308, 5e-324, 123456789012345678901234567890, 1e-7]").unwrap();
    let fields = json!({ "context": deep, "result": numbers, "createdAt": "0001-01-01T00:00:00Z", "error": "ß\u{1}" });
    let payload = server.project(&[event_with(13, 1, &fields)]).await;
    assert_eq!(count(&payload, "projected"), 1, "{payload}");
    let query = "{ event(executionId: \"13\", eventId: \"1\") { context result createdAt error } }";
    let read = server.data(query, Value::Null).await["event"].clone();
    assert_eq!((&read["context"], &read["error"]), (&deep, &json!("ß\u{1}")));
    assert_eq!(read["result"][0], numbers[0]);
    assert_eq!(read["createdAt"], "0001-01-01T00:00:00.000000+00:00");
}

#[tokio::test]
async fn what_the_database_refuses_is_rejected_by_index() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_without_feed().await;
    a_batch_that_the_database_refuses_completely_is_rejected_with_bounded_work(&deployment, &server).await;
    events_that_the_database_refuses_are_rejected_by_index_and_the_rest_is_stored(&deployment, &server).await;
}

/// The database may refuse events for reasons of its own, which the message names.
async fn events_that_the_database_refuses_are_rejected_by_index_and_the_rest_is_stored(
    deployment: &Deployment,
    server: &Server,
) {
    let mut shard = deployment.shard(0).await;
    run(
        &mut shard,
        "ALTER TABLE noetl.event ADD CONSTRAINT no_ghosts CHECK (node_name <> 'ghost');
         CREATE TABLE noetl.kinds (name VARCHAR PRIMARY KEY);
         INSERT INTO noetl.kinds VALUES ('step');
         ALTER TABLE noetl.event ADD CONSTRAINT known_kinds FOREIGN KEY (node_type) REFERENCES noetl.kinds;
         CREATE FUNCTION noetl.grumble() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN IF NEW.status = 'odd' THEN RAISE EXCEPTION 'secret %', NEW.status; END IF; RETURN NEW; END $$;
         CREATE TRIGGER grumble BEFORE INSERT ON noetl.event FOR EACH ROW EXECUTE FUNCTION noetl.grumble();",
    )
    .await;
    let keys = keys(1000, 1);
    let mut events: Vec<Value> =
        keys.iter().map(|key| event_with(key.0, key.1, &json!({ "nodeType": "step" }))).collect();
    let offences = [
        (0, json!({ "nodeName": "ghost" }), "no_ghosts"),
        (1, json!({ "nodeName": "ghost" }), "no_ghosts"),
        (300, json!({ "nodeType": "unknown" }), "known_kinds"),
        (600, json!({ "status": "odd" }), "P0001"),
        (999, json!({ "nodeName": "ghost" }), "no_ghosts"),
    ];
    for (index, fields, _) in &offences {
        events[*index].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    // If an event is rejected, later events with the same id are rejected too.
    events.push(events[0].clone());
    let payload = server.project(&events).await;
    assert_eq!((count(&payload, "projected"), count(&payload, "duplicates")), (995, 0), "{payload}");
    let rejected = payload["rejected"].as_array().unwrap();
    let expected = offences.iter().map(|(index, _, named)| (*index, *named)).chain([(1000, "no_ghosts")]);
    assert_eq!(rejected.len(), expected.clone().count(), "{payload}");
    for (one, (index, named)) in rejected.iter().zip(expected) {
        assert_eq!((&one["index"], &one["code"]), (&json!(index), &json!("INVALID_INPUT")), "{one}");
        let message = one["message"].as_str().unwrap();
        assert!(message.contains(named) && !message.contains("ghost\"") && !message.contains("secret"), "{message}");
        assert_eq!(one["retryable"], false);
    }
    assert_eq!(deployment.committed().await.len(), 995);
}

/// Of a refused batch, the events that were not tried are retryable.
async fn a_batch_that_the_database_refuses_completely_is_rejected_with_bounded_work(
    deployment: &Deployment,
    server: &Server,
) {
    run(&mut deployment.shard(0).await, "ALTER TABLE noetl.event ADD CONSTRAINT closed CHECK (node_name <> 'step')")
        .await;
    // The search for the refused events has at most 1000 statements.
    let events: Vec<Value> = keys(1500, 1).iter().map(|key| event(key.0, key.1)).collect();
    let payload = server.project(&events).await;
    assert_eq!((count(&payload, "projected"), count(&payload, "duplicates")), (0, 0), "{}", payload["userErrors"]);
    let codes = refused(&payload);
    assert_eq!(codes.len(), 1500);
    // Events that were not tried are retryable. Events that the database refused are the sender's mistake.
    let not_tried = payload["rejected"].as_array().unwrap().iter().filter(|one| one["retryable"] == true).count();
    let mendable = codes.values().filter(|code| *code == "INVALID_INPUT").count();
    assert!((100..1000).contains(&mendable) && not_tried + mendable == 1500, "{mendable} {not_tried}");
    assert_eq!(deployment.committed().await, BTreeSet::new());
    run(&mut deployment.shard(0).await, "ALTER TABLE noetl.event DROP CONSTRAINT closed").await;
}

#[tokio::test]
async fn projected_events_are_delivered_once_on_the_live_feed() {
    let deployment = Deployment::start(2).await;
    let (server, other) = tokio::join!(deployment.replica(), deployment.replica());
    deployment.feeds_begun().await;
    let mut reader = Reader::from_latest(&other).await;
    let keys = keys(300, 1);
    let events: Vec<Value> = keys.iter().map(|key| event(key.0, key.1)).collect();
    for batch in events.chunks(100) {
        server.project(batch).await;
        server.project(batch).await;
    }
    assert!(reader.until_seen(keys.clone()).await);
    reader.assert_saw_exactly(&keys.into_iter().collect());
}

/// A batch of another size, and a larger body, store nothing.
async fn a_batch_has_1_to_5000_events_and_a_body_over_the_limit_is_refused(deployment: &Deployment, server: &Server) {
    let many: Vec<Value> = keys(5001, 1).iter().map(|key| event(key.0, key.1)).collect();
    for batch in [&many[..0], &many] {
        let payload = server.project(batch).await;
        let error = &payload["userErrors"][0];
        assert_eq!((&error["code"], &error["field"]), (&json!("INVALID_INPUT"), &json!(["events"])), "{payload}");
        assert_eq!((count(&payload, "projected"), &payload["rejected"]), (0, &json!([])));
    }
    let body = json!({ "query": "mutation { a }", "variables": { "a": "x".repeat(64 << 20) } }).to_string();
    let post = http_client().post(format!("{}/graphql", server.url));
    let answer = post.header("content-type", "application/json").body(body).send().await;
    // The server responds before it has read the whole body. The client may fail while it still writes, and then gets
    // no response.
    if let Ok(answer) = answer {
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(answer.json::<Value>().await.unwrap()["errors"][0]["extensions"]["code"], "LIMIT_EXCEEDED");
    }
    assert_eq!(deployment.committed().await, BTreeSet::new());
    assert_eq!(count(&server.project(&many[..5000]).await, "projected"), 5000);
}

/// Sends the text of one event's fields, in addition to its log, id and type, and returns the payload.
async fn project_text(server: &Server, log: i64, id: i64, fields: &str) -> Value {
    let query = "mutation($event: EventInput!) { projectEvents(input: {events: [$event]}) {
        projected duplicates rejected { index userErrors { code field message } } userErrors { message } } }";
    let event = format!(r#"{{"executionId": "{log}", "eventId": "{id}", "type": "call.done", {fields}}}"#);
    let body = format!(r#"{{"variables": {{"event": {event}}}, "query": {}}}"#, json!(query));
    let post = http_client().post(format!("{}/graphql", server.url));
    let response = post.header("content-type", "application/json").body(body).send().await.unwrap();
    let mut response: Value = response.json().await.unwrap();
    assert_eq!(response.get("errors"), None, "{response}");
    response["data"]["projectEvents"].take()
}

/// JSON is stored without a loss, and is equal in each of its notations.
async fn json_of_events_is_stored_as_it_arrived_and_compared_by_its_value(deployment: &Deployment, server: &Server) {
    let texts = [
        // Of a repeated key, the last value counts. Digits are kept.
        r#"{"b": 1.50, "a": [1, {"\u00e4": 0.10000000000000001}], "b": 2.50}"#,
        " \n {\"a\" : \"x\\u0001\\\\u0000\"\t}",
        r#"{"$serde_json::private::RawValue": "[1]"}"#,
        "[1, 2]",
        "\"text\"",
        "-1.5e3",
        "true",
    ];
    for (id, text) in (1..).zip(texts) {
        let fields = format!(r#""context": {text}, "result": {text}, "meta": {{"m": {text}}}"#);
        assert_eq!(count(&project_text(server, 21, id, &fields).await, "projected"), 1, "{text}");
        let query = "SELECT (context = $2::jsonb AND result = $2::jsonb AND meta = jsonb_build_object('m', $2::jsonb)
                             AND context::text = $2::jsonb::text)::text
                     FROM noetl.event WHERE execution_id = 21 AND event_id = $1";
        let equal: String =
            sqlx::query_scalar(query).bind(id).bind(text).fetch_one(&mut deployment.shard(0).await).await.unwrap();
        assert_eq!(equal, "true", "{text}");
        // Another notation of the same value is the same event.
        let spaced = fields.replace(": ", " :\n").replace(", ", ",  ");
        assert_eq!(count(&project_text(server, 21, id, &spaced).await, "duplicates"), 1, "{text}");
        let other = project_text(server, 21, id, r#""context": 7, "result": 8"#).await;
        assert_eq!(other["rejected"][0]["userErrors"][0]["code"], "EVENT_ID_CONFLICT", "{other}");
    }
    let query = "{ event(executionId: \"21\", eventId: \"1\") { context } }";
    let read = server.data(query, Value::Null).await;
    assert_eq!(read["event"]["context"], json!({ "a": [1, { "ä": 0.1 }], "b": 2.5 }));
}

/// A text that the database refuses is refused with its field.
async fn texts_that_can_not_be_stored_fail_only_their_event_and_space_does_not_count_as_size(server: &Server) {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let space = " ".repeat(9 << 20);
    for (id, (text, code)) in (1..).zip([
        (nested(100), None),
        (nested(101), Some("INVALID_INPUT")),
        (r#"{"a\u0000": 1}"#.to_owned(), Some("INVALID_INPUT")),
        // A value that a later one with the same key replaces is refused too, because the database reads it.
        (r#"{"a": "\u0000", "a": 1}"#.to_owned(), Some("INVALID_INPUT")),
        (r#"["\\u0000"]"#.to_owned(), None),
        (format!("[1,{space}2]"), None),
        (format!(r#"["{space}"]"#), Some("PAYLOAD_TOO_LARGE")),
    ]) {
        let payload = project_text(server, 22, id, &format!(r#""result": {text}"#)).await;
        let error = &payload["rejected"][0]["userErrors"][0];
        let shown = &text[..text.len().min(50)];
        assert_eq!(error["code"].as_str(), code, "{shown}: {payload}");
        if code.is_some() {
            assert_eq!(error["field"], json!(["events", "0", "result"]), "{shown}: {payload}");
        }
    }
}

/// JSON may contain variables and enumeration values.
async fn variables_in_the_json_of_a_document_are_part_of_it(deployment: &Deployment, server: &Server) {
    let query = "mutation($json: JSON, $null: JSON) { projectEvents(input: {events: [{
        executionId: 23, eventId: 1, type: \"call.done\", context: {a: [$json, 1.5], b: $null, c: OPEN}, result: $json,
        meta: $null }]}) { projected rejected { userErrors { message } } } }";
    let special = json!({ "$serde_json::private::RawValue": "[1]" });
    let payload = server.data(query, json!({ "json": special, "null": null })).await;
    assert_eq!(payload["projectEvents"], json!({ "projected": 1, "rejected": [] }));
    let stored = stored_of(deployment, 23).await;
    assert_eq!(stored, [json!({ "a": [special, 1.5], "b": null, "c": "OPEN" }), special, Value::Null]);
}

/// Returns the context, result and meta of the only event of a log on the first shard.
async fn stored_of(deployment: &Deployment, log: i64) -> [Value; 3] {
    let query = "SELECT context::text, result::text, meta::text FROM noetl.event WHERE execution_id = $1";
    let row: (Option<String>, Option<String>, Option<String>) =
        sqlx::query_as(query).bind(log).fetch_one(&mut deployment.shard(0).await).await.unwrap();
    [row.0, row.1, row.2].map(|text| text.map_or(Value::Null, |text| plain_json::read(&text).unwrap()))
}
