//! Events that a worker reports while it runs an execution of four steps: 21 events in 14 calls. The event that starts the
//! execution is written by the server.

use serde_json::{Value, json};

use super::Ids;

/// Catalog content of the playbook.
pub fn playbook() -> Value {
    let step = |name: &str, kind: &str| json!({ "step": name, "tool": { "kind": kind } });
    json!({
        "kind": "playbook",
        "workload": { "currency": "EUR" },
        "workflow": [step("start", "noop"), step("check", "python"), step("charge", "python"), step("confirm", "python")],
    })
}

/// A reported event: its type, its step, and its status.
pub type Reported = (&'static str, &'static str, &'static str);

/// Returns the calls of a worker: those of each step, then that of the end.
pub fn reports() -> Vec<Vec<Vec<Reported>>> {
    let mut steps = vec![vec![vec![("step.enter", "start", "ENTERED"), ("step.exit", "start", "COMPLETED")]]];
    for step in ["check", "charge", "confirm"] {
        steps.push(vec![
            vec![("step.enter", step, "ENTERED")],
            vec![("command.issued", step, "PENDING")],
            vec![("command.claimed", step, "RUNNING"), ("command.started", step, "STARTED")],
            vec![("call.done", step, "COMPLETED"), ("command.completed", step, "success")],
        ]);
    }
    steps.push(vec![vec![("playbook.completed", "", "COMPLETED")]]);
    steps
}

/// Returns the calls of a worker that reports all events of a step in one call, and the end with the last step.
pub fn reports_of_steps() -> Vec<Vec<Reported>> {
    let mut steps: Vec<Vec<Reported>> = reports().into_iter().map(|step| step.concat()).collect();
    let end = steps.pop().unwrap();
    steps.last_mut().unwrap().extend(end);
    steps
}

/// Returns an event as `projectEvents` takes it.
pub fn event((kind, step, status): Reported, execution: i64, id: i64) -> Value {
    let mut event = json!({
        "executionId": execution.to_string(), "eventId": id.to_string(), "type": kind, "status": status, "meta": {},
    });
    if !step.is_empty() {
        event["nodeName"] = step.into();
    }
    if kind.starts_with("command.") || kind == "call.done" {
        event["meta"] = json!({ "command_id": format!("{step}:1"), "attempt": 1 });
    }
    if kind == "call.done" {
        event["result"] = json!({ "data": { "ok": true } });
    }
    event
}

/// Returns all events of an execution.
pub fn events(ids: &Ids, execution: i64) -> impl Iterator<Item = Value> {
    reports().into_iter().flatten().flatten().map(move |reported| event(reported, execution, ids.next()))
}
