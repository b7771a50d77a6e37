//! The fold gives the result that NoETL gives.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use noetl_domain::event::Event;
use noetl_domain::projection::Projection;
use noetl_domain::workflow::{Frame, Iterations, StepState, StepStatus};
use serde_json::{Value, json};

use super::recorded::{Log, fold, time};

/// Values of a result by the name of the field. A field without a value is null.
type Fields = BTreeMap<String, Value>;

/// NoETL shows an execution whose pool has no worker as running, this server as pending.
const UNBEGUN: &str = "no worker has taken the first command";
/// NoETL's list gives the time of the failure, but its execution none.
const ENDED: &str = "a failed execution has an end";
/// NoETL shows no error of a call that ended with an error, although its command or its callback completes the step.
const ERROR_OF_CALL: &str = "the error of a call is shown";
/// NoETL's fold takes every `step.exit` for a completion, and its result for that of the step.
const FAILED_EXIT: &str = "a step that its worker left with FAILED has failed";
/// NoETL replaces a reference by the value in its result store, or adds the extract of it a second time.
const REFERENCE: &str = "the log contains only a reference";

/// Fields in which the fold differs from NoETL's result, with the reason.
const EXCEPTIONS: [(&str, &str, &str); 16] = [
    ("big_result", "step start, result", REFERENCE),
    ("left_running", "status", UNBEGUN),
    ("left_running", "status in the list", UNBEGUN),
    ("left_running", "status of the execution", UNBEGUN),
    (
        "loop_one_fails",
        "step fetch, has ended",
        "NoETL keeps the time of the failed iteration, but its state of the step is COMMAND_STARTED",
    ),
    ("missing_credential", "ended at", ENDED),
    ("tool_exit_1", "step start, error", ERROR_OF_CALL),
    ("v3_83_container_failed", "step start, error", ERROR_OF_CALL),
    ("v3_83_exit_failed", "step start, completed at", FAILED_EXIT),
    ("v3_83_exit_failed", "step start, error", ERROR_OF_CALL),
    ("v3_83_exit_failed", "step start, state", FAILED_EXIT),
    ("v3_83_inline_failure", "ended at", ENDED),
    ("v3_83_inline_failure", "step start, result", FAILED_EXIT),
    ("v3_83_lean_results", "step start, result", REFERENCE),
    ("v3_83_lean_results", "step use, error", ERROR_OF_CALL),
    ("v3_83_lean_results", "step use, result", REFERENCE),
];

#[test]
fn every_recorded_log_gives_the_result_of_noetl() {
    let mut found = BTreeSet::new();
    let mut unexpected = Vec::new();
    for log in Log::all() {
        let (theirs, ours) = (of_noetl(&log), of_fold(&fold(&log.events)));
        for field in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
            let (theirs, ours) = (theirs.get(field), ours.get(field));
            if theirs == ours {
                continue;
            }
            found.insert((log.name.clone(), field.clone()));
            if !EXCEPTIONS.iter().any(|(name, excepted, _)| *name == log.name && excepted == field) {
                let text = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
                unexpected.push(format!("{} {field}: NoETL {}, the fold {}", log.name, text(theirs), text(ours)));
            }
        }
    }
    assert!(unexpected.is_empty(), "\n{}", unexpected.join("\n"));
    let excepted = EXCEPTIONS.map(|(name, field, _)| (name.to_owned(), field.to_owned()));
    assert_eq!(found, excepted.into_iter().collect(), "an exception is not needed");
}

/// Returns the result that NoETL gives. Where its API and its fold disagree, the API is right: its fold does not know
/// `playbook_cancelled`, and leaves an execution without an ending event in progress.
fn of_noetl(log: &Log) -> Fields {
    let (execution, listed) = (&log.noetl["execution"], &log.noetl["list"][0]);
    let (replay, state) = (&log.noetl["replay"], &log.noetl["state"]);
    let mut fields = Fields::from([
        ("status".to_owned(), log.noetl["status"]["status"].clone()),
        ("status in the list".to_owned(), listed["status"].clone()),
        ("status of the execution".to_owned(), execution["status"].clone()),
        ("catalog id".to_owned(), execution["catalog_id"].clone()),
        ("parent".to_owned(), execution["parent_execution_id"].clone()),
        ("path".to_owned(), execution["path"].clone()),
        ("workload".to_owned(), execution["workload"].clone()),
        ("variables".to_owned(), state.get("ctx").cloned().unwrap_or_else(|| json!({}))),
        ("started at".to_owned(), json!(time(execution["started_at"].as_str().unwrap()))),
        ("ended at".to_owned(), json!(execution["completed_at"].as_str().map(time))),
        ("number of events".to_owned(), listed["event_count"].clone()),
        ("last event".to_owned(), replay["last_event_id"].clone()),
        ("type of the last event".to_owned(), replay["last_event_type"].clone()),
    ]);
    for (name, step) in state["steps"].as_object().unwrap() {
        fields.extend(step_of_noetl(name, step, &log.events));
    }
    fields
}

fn step_of_noetl(name: &str, step: &Value, events: &[Event]) -> Fields {
    // A failure keeps the id of a completion before it.
    let completed = step["completed_event_id"].as_i64().filter(|_| step["state"] == "completed");
    let completed = events.iter().find(|event| Some(event.event_id.get()) == completed).map(|event| event.created_at);
    let iterations = step["iterations_expected"].as_i64().map(|expected| {
        let completed = step["iteration_command_ids"].as_array().map_or(0, Vec::len);
        let dispatched = step["iterations_dispatched"].as_i64().unwrap_or_default();
        json!([expected, dispatched, completed])
    });
    let frame = |(index, frame): (&String, &Value)| {
        let part = |name: &str| frame[name].clone();
        json!([index.parse::<i64>().unwrap(), part("claim_completed"), part("body_issued"), part("body_completed")])
    };
    let frames = step["cursor_frames"].as_object().map(|frames| frames.iter().map(frame).collect::<Vec<_>>());
    step_fields(
        name,
        [
            ("state", step["state"].as_str().unwrap().to_uppercase().into()),
            ("result", step["result"].clone()),
            ("error", step["error"].clone()),
            ("iterations", iterations.into()),
            ("results of iterations", step.get("iteration_results").cloned().unwrap_or_default()),
            ("frames", frames.into()),
            ("has been entered", step.get("entered_at").is_some().into()),
            ("has ended", step.get("completed_at").is_some().into()),
            ("completed at", json!(completed)),
        ],
    )
}

/// Returns the result of the fold in the same form.
fn of_fold(projection: &Projection) -> Fields {
    let state = &projection.state;
    let start = state.started.get().unwrap();
    let variables: BTreeMap<&str, &Value> = state.ctx().collect();
    let status = Value::from(state.status().as_str());
    let mut fields = Fields::from([
        ("status".to_owned(), status.clone()),
        ("status in the list".to_owned(), status.clone()),
        ("status of the execution".to_owned(), status),
        ("catalog id".to_owned(), json!(start.catalog_id)),
        ("parent".to_owned(), json!(start.parent_execution_id)),
        ("path".to_owned(), json!(start.path)),
        ("workload".to_owned(), json!(start.workload)),
        ("variables".to_owned(), json!(variables)),
        ("started at".to_owned(), json!(start.at)),
        ("ended at".to_owned(), json!(state.end().map(|end| end.at))),
        ("number of events".to_owned(), json!(projection.applied_count)),
        ("last event".to_owned(), json!(projection.version)),
        ("type of the last event".to_owned(), json!(state.last.get().map(|last| &last.event_type))),
    ]);
    for (name, step) in state.steps() {
        fields.extend(step_of_fold(name, step));
    }
    fields
}

fn step_of_fold(name: &str, step: &StepState) -> Fields {
    let is_cursor = step.frames().is_some();
    let list = |iterations: Iterations| json!([iterations.expected, iterations.dispatched, iterations.completed]);
    let frame = |frame: Frame| json!([frame.index, frame.claim_completed, frame.body_issued, frame.body_completed]);
    let frames = step.frames().map(|frames| frames.into_iter().map(frame).collect::<Vec<_>>());
    let completed: Option<DateTime<Utc>> = step.ended_at().filter(|_| step.status() == StepStatus::Completed);
    step_fields(
        name,
        [
            ("state", state_name(step.status()).into()),
            ("result", json!(step.result())),
            ("error", json!(step.error())),
            // NoETL counts no iterations of a cursor loop, only its frames.
            ("iterations", step.iterations().filter(|_| !is_cursor).map(list).into()),
            ("results of iterations", list_of(step)),
            ("frames", frames.into()),
            ("has been entered", step.entered_at().is_some().into()),
            ("has ended", step.ended_at().is_some().into()),
            ("completed at", json!(completed)),
        ],
    )
}

/// Returns the results of the iterations, null if there is none.
fn list_of(step: &StepState) -> Value {
    let results = step.iteration_results();
    if results.is_empty() { Value::Null } else { json!(results) }
}

fn step_fields<const N: usize>(name: &str, fields: [(&str, Value); N]) -> Fields {
    fields.into_iter().map(|(field, value)| (format!("step {name}, {field}"), value)).collect()
}

/// Returns the name that NoETL gives to a state, in capitals.
fn state_name(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Pending => "PENDING",
        StepStatus::Entered => "ENTERED",
        StepStatus::CommandIssued => "COMMAND_ISSUED",
        StepStatus::CommandClaimed => "COMMAND_CLAIMED",
        StepStatus::CommandStarted => "COMMAND_STARTED",
        StepStatus::Completed => "COMPLETED",
        StepStatus::Failed => "FAILED",
        StepStatus::Skipped => "SKIPPED",
    }
}
