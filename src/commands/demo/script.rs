//! Creates the events that a worker reports while it runs a playbook, step by step. The tools are simulated.

use serde_json::{Value, json};

/// Default number of attempts of a step.
const ATTEMPTS: u64 = 1;

/// Simulated failures of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureMode {
    /// Nothing fails.
    Good,
    /// The first attempt of each step that may be retried fails.
    Mixed,
    /// Every attempt of each step that may be retried fails.
    Bad,
}

/// A step of the playbook's workflow.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) name: String,
    /// Whether the step runs a tool.
    works: bool,
    /// Items of the step's loop; absent: the step has no loop.
    items: Option<Vec<Value>>,
    attempts: u64,
}

/// Returns the steps of a `workflow`, in order.
pub(super) fn steps(workflow: &Value, workload: &Value) -> Vec<Step> {
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
pub(super) fn events(steps: &[Step], luck: FailureMode) -> Vec<Value> {
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
        _ if !step.works => (vec![entered(step, &Value::Null), own(step, "step.exit", &Value::Null)], true),
        Some(items) if items.is_empty() => (vec![own(step, "step.skipped", &Value::Null)], true),
        Some(items) => (looped(step, items), true),
        None => tried(step, luck),
    }
}

fn entered(step: &Step, said: &Value) -> Value {
    own(step, "step.enter", said)
}

fn own(step: &Step, event_type: &str, said: &Value) -> Value {
    event(event_type, Some(&step.name), json!({}), said)
}

fn told(step: &Step, event_type: &str, command: &str, attempt: u64, said: &Value) -> Value {
    event(event_type, Some(&step.name), json!({ "command_id": command, "attempt": attempt }), said)
}

fn tried(step: &Step, luck: FailureMode) -> (Vec<Value>, bool) {
    let fails = |attempt: u64| match luck {
        _ if step.attempts == 1 => false,
        FailureMode::Good => false,
        FailureMode::Mixed => attempt == 1,
        FailureMode::Bad => true,
    };
    let mut events = vec![entered(step, &Value::Null)];
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
    let mut events = vec![entered(step, &expected)];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_status_and_failures_have_their_error() {
        let retry = json!([{ "do": "retry", "attempts": 2 }]);
        let workflow = json!([
            { "step": "start", "tool": { "kind": "noop" } },
            { "step": "none", "tool": { "kind": "python" }, "loop": { "in": "{{ workload.none }}" } },
            { "step": "each", "tool": { "kind": "python" }, "loop": { "in": "{{ workload.items }}" } },
            { "step": "pay", "tool": [{ "kind": "python", "eval": retry }] },
        ]);
        let steps = steps(&workflow, &json!({ "items": [1] }));
        let events = [FailureMode::Good, FailureMode::Bad].map(|luck| events(&steps, luck)).concat();
        for event in &events {
            assert!(event["status"].is_string(), "{event:?}");
            let failed = event["type"].as_str().is_some_and(|name| name.ends_with(".failed"));
            assert_eq!((failed, failed), (event["status"] == "FAILED", event["error"].is_string()), "{event:?}");
        }
        assert_eq!(events.iter().filter(|event| event["status"] == "FAILED").count(), 3);
    }

    fn types(events: &[Value]) -> Vec<&str> {
        events.iter().filter_map(|event| event["type"].as_str()).collect()
    }

    #[test]
    fn steps_have_their_loop_items_and_attempts() {
        let retry = json!([{ "else": { "do": "continue" } }, { "expr": "{{ true }}", "do": "retry", "attempts": 2 }]);
        let workflow = json!([
            { "step": "start", "tool": { "kind": "noop" } },
            { "step": "each", "tool": { "kind": "python" }, "loop": { "in": "{{ workload.order.items }}" } },
            { "step": "pay", "tool": [{ "kind": "python", "eval": retry }] },
        ]);
        let steps = steps(&workflow, &json!({ "order": { "items": [1, 2] } }));
        assert_eq!(steps[1].items, Some(vec![json!(1), json!(2)]));
        assert_eq!(types(&play(&steps[0], FailureMode::Bad).0), ["step.enter", "step.exit"]);
        assert_eq!(types(&play(&steps[1], FailureMode::Good).0).len(), 1 + 2 + 2 + 4 + 1);
        let (played, well) = play(&steps[2], FailureMode::Bad);
        assert!(!well);
        assert_eq!(types(&played).iter().filter(|name| **name == "command.failed").count(), 2);
        assert!(play(&steps[2], FailureMode::Mixed).1);
        assert_eq!(items("{{ workload.none.there }}", &json!({})), Vec::<Value>::new());
    }
}
