//! Creates the events that a worker reports while it runs a playbook, step by step. The tools are simulated.

use serde_json::{Value, json};

/// Default number of attempts of a step.
const ATTEMPTS: u64 = 1;

/// Simulated failures of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureMode {
    /// Nothing fails.
    Good,
    /// The first attempt of each step that may be retried fails.
    Mixed,
    /// Every attempt of each step that may be retried fails.
    Bad,
}

/// A step of the playbook's workflow.
#[derive(Debug, PartialEq)]
pub struct Step {
    pub(super) name: String,
    /// Whether the step runs a tool.
    works: bool,
    /// Items of the step's loop; absent: the step has no loop.
    items: Option<Vec<Value>>,
    attempts: u64,
}

/// Returns the steps of a `workflow`, in order.
#[must_use]
pub fn steps(workflow: &Value, workload: &Value) -> Vec<Step> {
    let listed = workflow.as_array().map(Vec::as_slice).unwrap_or_default();
    let step = |step: &Value| {
        let tools = step["tool"].as_array().map_or(std::slice::from_ref(&step["tool"]), Vec::as_slice);
        Some(Step {
            name: step["step"].as_str()?.to_owned(),
            works: tools.iter().any(|tool| !tool.is_null() && tool["kind"] != "noop"),
            items: step["loop"]["in"].as_str().map(|template| items(template, workload)),
            attempts: tools.iter().find_map(attempts).unwrap_or(ATTEMPTS),
        })
    };
    listed.iter().filter_map(step).collect()
}

/// Returns the attempts of the first condition by which a tool is retried.
fn attempts(tool: &Value) -> Option<u64> {
    let conditions = tool["eval"].as_array()?;
    conditions.iter().find(|condition| condition["do"] == "retry")?["attempts"].as_u64()
}

/// Returns the list that a template such as `{{ workload.order.items }}` names; empty if it does not exist.
fn items(template: &str, workload: &Value) -> Vec<Value> {
    let path = template.trim_matches(|c: char| c.is_whitespace() || "{}".contains(c));
    let mut parts = path.split('.');
    let within = (parts.next() == Some("workload")).then_some(workload);
    let found = parts.try_fold(within, |value, part| value.map(|value| value.get(part)));
    found.flatten().and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Returns an event without its ids. The server reads null as an absent value.
fn event(event_type: &str, step: Option<&str>, meta: Value, said: &Value) -> Value {
    json!({
        "type": event_type,
        "nodeName": step,
        "status": status(event_type),
        "meta": meta,
        "error": said.get("error"),
        "result": said,
    })
}

/// Returns the status that NoETL's server and worker give an event of this type.
fn status(event_type: &str) -> Option<&'static str> {
    Some(match event_type {
        "command.issued" => "PENDING",
        "command.claimed" => "RUNNING",
        "command.started" => "STARTED",
        "command.completed" => "success",
        "step.enter" => "ENTERED",
        "step.skipped" => "SKIPPED",
        "ctx.updated" => "CONTEXT",
        "call.done" | "step.exit" | "loop.done" | "playbook.completed" => "COMPLETED",
        "command.failed" | "playbook.failed" => "FAILED",
        _ => return None,
    })
}

/// Returns the events of an execution that runs these steps, in order, up to its end.
#[must_use]
pub fn events(steps: &[Step], luck: FailureMode) -> Vec<Value> {
    let mut events = Vec::new();
    for step in steps {
        let (played, well) = play(step, luck);
        events.extend(played);
        if !well {
            let error = json!({ "error": format!("{} failed too often", step.name) });
            events.push(event("playbook.failed", None, json!({}), &error));
            return events;
        }
    }
    let values = json!({ "context": { "values": { "confirmed": true } } });
    events.push(event("ctx.updated", None, json!({}), &values));
    events.push(event("playbook.completed", None, json!({}), &json!({ "confirmed": true })));
    events
}

/// Divides events into reports: a report ends when a tool begins to work, and the next one has the tool's result.
pub(super) fn reports(events: &[Value]) -> impl Iterator<Item = &[Value]> {
    events.chunk_by(|_, next| next["type"] != "call.done" && next["type"] != "command.failed")
}

/// Returns the events of a step, and whether the step succeeded.
fn play(step: &Step, luck: FailureMode) -> (Vec<Value>, bool) {
    match &step.items {
        _ if !step.works => (["step.enter", "step.exit"].map(|name| own(step, name, &Value::Null)).into(), true),
        Some(items) if items.is_empty() => (vec![own(step, "step.skipped", &Value::Null)], true),
        Some(items) => (looped(step, items), true),
        None => tried(step, luck),
    }
}

fn own(step: &Step, event_type: &str, said: &Value) -> Value {
    event(event_type, Some(&step.name), json!({}), said)
}

fn told(step: &Step, event_type: &str, command: &str, attempt: u64, said: &Value) -> Value {
    event(event_type, Some(&step.name), json!({ "command_id": command, "attempt": attempt }), said)
}

fn tried(step: &Step, luck: FailureMode) -> (Vec<Value>, bool) {
    let fails = |attempt: u64| match luck {
        FailureMode::Good => false,
        FailureMode::Mixed => step.attempts > 1 && attempt == 1,
        FailureMode::Bad => step.attempts > 1,
    };
    let mut events = vec![own(step, "step.enter", &Value::Null)];
    for attempt in 1..=step.attempts {
        let command = format!("{}:{attempt}", step.name);
        let tell = |event_type: &str, said: Value| told(step, event_type, &command, attempt, &said);
        events.extend(["command.issued", "command.claimed", "command.started"].map(|name| tell(name, Value::Null)));
        if !fails(attempt) {
            events.push(tell("call.done", json!({ "data": { "ok": true } })));
            events.push(tell("command.completed", Value::Null));
            return (events, true);
        }
        events.push(tell("command.failed", json!({ "error": "no answer within 5 s" })));
    }
    (events, false)
}

fn looped(step: &Step, items: &[Value]) -> Vec<Value> {
    let commands: Vec<String> = (0..items.len()).map(|index| format!("{}:i{index}", step.name)).collect();
    let expected = json!({ "context": { "iterations_expected": items.len() } });
    let mut events = vec![own(step, "step.enter", &expected)];
    for event_type in ["command.issued", "command.started"] {
        events.extend(commands.iter().map(|command| told(step, event_type, command, 1, &Value::Null)));
    }
    for (command, item) in commands.iter().zip(items) {
        events.push(told(step, "call.done", command, 1, &json!({ "data": item })));
        events.push(told(step, "command.completed", command, 1, &Value::Null));
    }
    events.push(own(step, "loop.done", &json!({ "data": items })));
    events
}
