//! An execution can be read as it was at any moment of its history.

use chrono::{DateTime, Duration, Utc};
use noetl_domain::ids::Id;
use noetl_domain::projection::Moment;
use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::snapshots;
use noetl_testkit::projections::insert_step_event;
use noetl_testkit::recordings::{Recording, insert_row, recordings};
use noetl_testkit::{Deployment, Server, size};
use serde_json::{Value, json};

const STATE: &str = "status statusText endedAt error context
    steps { nodes { name status attempt enteredAt startedAt completedAt durationSeconds error result
        iterations { expected dispatched completed } } }";

async fn now(server: &Server, id: &str) -> Value {
    let query = format!("query($id: ID!) {{ execution(id: $id) {{ {STATE} }} }}");
    server.data(&query, json!({ "id": id })).await["execution"].clone()
}

async fn at(server: &Server, id: &str, moment: Value, fields: &str) -> Value {
    let query = format!(
        "query($id: ID!, $at: ExecutionMoment!) {{ executionState(executionId: $id, at: $at) {{ {fields} }} }}"
    );
    server.data(&query, json!({ "id": id, "at": moment })).await["executionState"].clone()
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
                let moment = json!({ "eventId": event.to_string() });
                assert_eq!(&state_at(&server, &id, moment).await, state, "{name}, event {event}");
                let (earlier, later) = (&rows[..position], &rows[position + 1..]);
                if earlier.iter().all(|one| one.1 <= *time) && later.iter().all(|one| one.1 > *time) {
                    times += 1;
                    assert_eq!(&state_at(&server, &id, json!({ "time": time })).await, state, "{name}, time {time}");
                }
            }
            server.advance_projections(&[id.parse().unwrap()]).await;
        }
        let before = json!({ "eventId": (rows[0].0 - 1).to_string() });
        assert_eq!(state_at(&server, &id, before).await, Value::Null, "{name}");
        let first = rows.iter().map(|one| one.1).min().unwrap();
        let before = json!({ "time": first - Duration::microseconds(1) });
        assert_eq!(state_at(&server, &id, before).await, Value::Null, "{name}");
        logs += 1;
    }
    assert!(logs >= 22 && times > 3 * logs, "{logs} logs, {times} times");
}

#[tokio::test]
async fn a_past_state_contains_nothing_that_came_later() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_without_projector().await;
    a_past_state_is_read_from_a_snapshot_that_has_no_later_event(&deployment, &server).await;
    a_past_state_does_not_show_a_later_cancellation(&server).await;
    an_invalid_moment_is_refused_and_an_unknown_execution_is_null(&server).await;
}

/// A snapshot is used for the moments after it, and for no earlier one.
async fn a_past_state_is_read_from_a_snapshot_that_has_no_later_event(deployment: &Deployment, server: &Server) {
    let (id, mut shard) = (server.start_execution().await, deployment.shard(0).await);
    let text = id.to_string();
    for (offset, event_type) in [(100, "step.enter"), (101, "command.issued")] {
        insert_step_event(&mut shard, id, offset, event_type, r#"{"command_id": "c"}"#, "{}").await;
    }
    server.advance_projections(&[id]).await;
    for (offset, event_type) in [(102, "command.started"), (103, "command.completed"), (104, "step.exit")] {
        insert_step_event(&mut shard, id, offset, event_type, r#"{"command_id": "c"}"#, "{}").await;
    }

    let database = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1);
    let event = |offset: i64| Moment::Event(Id::new(id + offset));
    let times: Vec<DateTime<Utc>> = sqlx::query_scalar(
        "SELECT created_at AT TIME ZONE 'UTC' FROM noetl.event WHERE execution_id = $1 ORDER BY event_id",
    )
    .bind(id)
    .fetch_all(&mut shard)
    .await
    .unwrap();
    let time = |position: usize| Moment::Time(times[position]);
    for (moment, status, folded) in [
        (event(100), "ENTERED", None),
        (event(101), "COMMAND_ISSUED", Some(0)),
        (event(102), "COMMAND_STARTED", Some(1)),
        (event(104), "COMPLETED", Some(3)),
        (time(1), "ENTERED", None),
        (time(2), "COMMAND_ISSUED", Some(0)),
        (time(4), "COMPLETED", Some(2)),
    ] {
        let given = match moment {
            Moment::Event(event) => json!({ "eventId": event.to_string() }),
            Moment::Time(time) => json!({ "time": time }),
        };
        let seen = at(server, &text, given, "steps { nodes { status } }").await;
        assert_eq!(seen, json!({ "steps": { "nodes": [{ "status": status }] } }), "{moment:?}");
        let limit = std::time::Duration::from_mins(1);
        let read = snapshots::read_at(&database, &Scope::Unrestricted, id, moment, limit).await.unwrap().unwrap();
        let used = read.snapshot.map(|snapshot| (snapshot.version.get(), read.folded));
        assert_eq!(used, folded.map(|folded| (id + 101, folded)), "{moment:?}");
    }
}

/// A cancellation changes no state of before.
async fn a_past_state_does_not_show_a_later_cancellation(server: &Server) {
    let id = server.start_execution().await.to_string();
    let last = "query($id: ID!) { events(executionId: $id, last: 1) { nodes { eventId } } }";
    let last = server.data(last, json!({ "id": id })).await["events"]["nodes"][0]["eventId"].take();
    let cancel = "mutation($id: ID!) { cancelExecution(input: { executionId: $id, reason: \"enough\" }) {
        userErrors { code } } }";
    server.data(cancel, json!({ "id": id })).await;

    let current = at(server, &id, json!({ "time": "9999-12-31T00:00:00Z" }), "status error").await;
    assert_eq!(current, json!({ "status": "CANCELLED", "error": "enough" }));
    let fields = "executionId status statusText endedAt error execution { id status }";
    let past = at(server, &id, json!({ "eventId": last }), fields).await;
    let pending = json!({ "executionId": id, "status": "PENDING", "statusText": "PENDING", "endedAt": null,
        "error": null, "execution": { "id": id, "status": "CANCELLED" } });
    assert_eq!(past, pending);
}

/// A moment is an event or a time of an execution.
async fn an_invalid_moment_is_refused_and_an_unknown_execution_is_null(server: &Server) {
    let id = server.start_execution().await.to_string();
    assert_eq!(state_at(server, "17", json!({ "eventId": id })).await, Value::Null);

    let query = "query($id: ID!, $at: ExecutionMoment!) { executionState(executionId: $id, at: $at) { status } }";
    let response = server.send(query, json!({ "id": id, "at": { "eventId": "x" } })).await.unwrap();
    let extensions = &response["errors"][0]["extensions"];
    assert_eq!((&extensions["code"], &extensions["field"]), (&json!("INVALID_INPUT"), &json!(["at", "eventId"])));
    let both = json!({ "eventId": id, "time": "2026-01-01T00:00:00Z" });
    for moment in [Value::Null, json!({}), json!({ "eventId": null }), both] {
        let response = server.send(query, json!({ "id": id, "at": moment })).await.unwrap();
        assert!(response["errors"][0]["message"].is_string(), "{moment}: {response}");
    }
}
