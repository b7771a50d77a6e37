//! An execution can be read as it was at any moment of its history.

use chrono::{DateTime, Duration, Utc};
use noetl_testkit::projections::insert_step_event;
use noetl_testkit::recordings::{Recording, insert_row, recordings};
use noetl_testkit::{Deployment, Server, size};
use serde_json::{Value, json};

const STATE: &str = "status statusText endedAt error context
    steps { nodes { name status attempt enteredAt completedAt error result iterations { expected dispatched completed } } }";

async fn now(server: &Server, id: &str) -> Value {
    let query = format!("query($id: ID!) {{ execution(id: $id) {{ {STATE} }} }}");
    server.data(&query, json!({ "id": id })).await["execution"].clone()
}

async fn at(server: &Server, id: &str, moment: Value, fields: &str) -> Value {
    let query = format!("query($id: ID!, $at: ExecutionMoment!) {{ execution(id: $id, at: $at) {{ {fields} }} }}");
    server.data(&query, json!({ "id": id, "at": moment })).await["execution"].clone()
}

async fn state_at(server: &Server, id: &str, moment: Value) -> Value {
    at(server, id, moment, STATE).await
}

/// A row of a log: its event id and time, and the state after it, if this was read.
type Written = (i64, DateTime<Utc>, Option<Value>);

/// Inserts a log row by row. Reads the state after the last row, and after each `step`th row before it.
async fn write(deployment: &Deployment, server: &Server, recording: &Recording, step: usize) -> Vec<Written> {
    let (mut database, mut rows) = (deployment.cluster().await, Vec::new());
    for (position, row) in recording.rows.iter().enumerate() {
        insert_row(&mut database, row).await;
        let time = row["created_at"].as_str().unwrap();
        let time = time.parse().or_else(|_| format!("{time}Z").parse()).unwrap();
        let is_read = (recording.rows.len() - 1 - position).is_multiple_of(step);
        let state = if is_read { Some(now(server, &recording.execution_id()).await) } else { None };
        rows.push((row["event_id"].as_i64().unwrap(), time, state));
    }
    rows
}

#[tokio::test]
async fn a_past_state_is_the_state_that_was_current_then() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_projector().await;
    let every = size(5, 1);
    let (mut times, mut logs) = (0, 0);
    for recording in recordings() {
        let (name, id) = (&recording.name, recording.execution_id());
        let rows = write(&deployment, &server, &recording, every).await;
        // The first round folds the log, the second one may start from the snapshot.
        for step in [every, 4 * every] {
            for (position, (event, time, state)) in rows.iter().enumerate().rev().step_by(step) {
                let state = state.as_ref().unwrap();
                let moment = json!({ "event": event.to_string() });
                assert_eq!(&state_at(&server, &id, moment).await, state, "{name}, event {event}");
                let (earlier, later) = (&rows[..position], &rows[position + 1..]);
                if earlier.iter().all(|one| one.1 <= *time) && later.iter().all(|one| one.1 > *time) {
                    times += 1;
                    assert_eq!(&state_at(&server, &id, json!({ "time": time })).await, state, "{name}, time {time}");
                }
            }
            server.advance_projections(&[id.parse().unwrap()]).await;
        }
        let before = json!({ "event": (rows[0].0 - 1).to_string() });
        assert_eq!(state_at(&server, &id, before).await, Value::Null, "{name}");
        let first = rows.iter().map(|one| one.1).min().unwrap();
        let before = json!({ "time": first - Duration::microseconds(1) });
        assert_eq!(state_at(&server, &id, before).await, Value::Null, "{name}");
        logs += 1;
    }
    assert!(logs >= 22 && times > 3 * logs, "{logs} logs, {times} times");
}

#[tokio::test]
async fn a_past_state_is_read_from_a_snapshot_that_has_no_later_event() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_without_projector().await;
    let (id, mut shard) = (server.start_execution().await, deployment.shard(0).await);
    let text = id.to_string();
    for (offset, event_type) in [(100, "step.enter"), (101, "command.issued")] {
        insert_step_event(&mut shard, id, offset, event_type, r#"{"command_id": "c"}"#, "{}").await;
    }
    server.advance_projections(&[id]).await;
    for (offset, event_type) in [(102, "command.started"), (103, "command.completed"), (104, "step.exit")] {
        insert_step_event(&mut shard, id, offset, event_type, r#"{"command_id": "c"}"#, "{}").await;
    }

    let fields = "steps { nodes { status } } snapshot { version behindBy }";
    let event = |offset: i64| json!({ "event": (id + offset).to_string() });
    let times: Vec<DateTime<Utc>> = sqlx::query_scalar(
        "SELECT created_at AT TIME ZONE 'UTC' FROM noetl.event WHERE execution_id = $1 ORDER BY event_id",
    )
    .bind(id)
    .fetch_all(&mut shard)
    .await
    .unwrap();
    let time = |position: usize| json!({ "time": times[position] });
    for (moment, status, behind) in [
        (event(100), "ENTERED", None),
        (event(101), "COMMAND_ISSUED", Some("0")),
        (event(102), "COMMAND_STARTED", Some("1")),
        (event(104), "COMPLETED", Some("3")),
        (time(1), "ENTERED", None),
        (time(2), "COMMAND_ISSUED", Some("0")),
        (time(4), "COMPLETED", Some("2")),
    ] {
        let expected = behind.map(|behind| json!({ "version": (id + 101).to_string(), "behindBy": behind }));
        let seen = at(&server, &text, moment.clone(), fields).await;
        assert_eq!(seen, json!({ "steps": { "nodes": [{ "status": status }] }, "snapshot": expected }), "{moment}");
    }
}

#[tokio::test]
async fn a_past_state_does_not_show_a_later_cancellation() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_without_projector().await;
    let id = server.start_execution().await.to_string();
    let fields = "id path status statusText endedAt error events(last: 1) { nodes { id: eventId } }";
    let started = at(&server, &id, json!({ "time": "9999-12-31T00:00:00Z" }), fields).await;
    let last = started["events"]["nodes"][0]["id"].clone();
    let cancel =
        "mutation($id: ID!) { cancelExecution(input: { id: $id, reason: \"enough\" }) { userErrors { code } } }";
    server.data(cancel, json!({ "id": id })).await;

    let current = at(&server, &id, json!({ "time": "9999-12-31T00:00:00Z" }), "status error").await;
    assert_eq!(current, json!({ "status": "CANCELLED", "error": "enough" }));
    let past = at(&server, &id, json!({ "event": last }), "id path status statusText endedAt error").await;
    let pending = json!({ "id": id, "path": "run", "status": "PENDING", "statusText": "PENDING", "endedAt": null,
        "error": null });
    assert_eq!(past, pending);
}

#[tokio::test]
async fn an_invalid_moment_is_refused_and_an_unknown_execution_is_null() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_without_projector().await;
    let id = server.start_execution().await.to_string();
    assert_eq!(state_at(&server, "17", json!({ "event": id })).await, Value::Null);

    let query = "query($id: ID!, $at: ExecutionMoment) { execution(id: $id, at: $at) { status } }";
    let response = server.send(query, json!({ "id": id, "at": { "event": "x" } })).await.unwrap();
    let extensions = &response["errors"][0]["extensions"];
    assert_eq!((&extensions["code"], &extensions["field"]), (&json!("INVALID_INPUT"), &json!(["at", "event"])));
    for moment in [json!({}), json!({ "event": null }), json!({ "event": id, "time": "2026-01-01T00:00:00Z" })] {
        let response = server.send(query, json!({ "id": id, "at": moment })).await.unwrap();
        assert!(response["errors"][0]["message"].is_string(), "{moment}: {response}");
    }
    let response = server.send(query, json!({ "id": id, "at": null })).await.unwrap();
    assert_eq!(response["data"]["execution"]["status"], "PENDING");
}
