//! Statuses of executions with failed events, by the end and by the steps.

use noetl_domain::execution::{Status, StatusSource};
use noetl_domain::workflow::WorkflowState;
use serde_json::json;

use super::history::{History, fold};
use super::recorded::{self, Log};

/// Type, step and status of an event.
type Written = (&'static str, Option<&'static str>, Option<&'static str>);

const DONE: Written = ("command.completed", Some("a"), Some("success"));
const FAILED: Written = ("command.failed", Some("a"), Some("FAILED"));
const COMPLETED: Written = ("playbook.completed", None, Some("COMPLETED"));
const CANCELLED: Written = ("playbook.cancelled", None, Some("CANCELLED"));

#[test]
fn an_ended_execution_is_failed_by_any_failed_event_if_its_steps_decide() {
    let cases: [(&str, &[Written], Status, Status); 10] = [
        ("no failure", &[DONE, COMPLETED], Status::Completed, Status::Completed),
        ("failed, completed", &[FAILED, COMPLETED], Status::Completed, Status::Failed),
        ("failed, retried, completed", &[FAILED, DONE, COMPLETED], Status::Completed, Status::Failed),
        (
            "a failed call",
            &[("call.error", Some("a"), Some("error")), DONE, COMPLETED],
            Status::Completed,
            Status::Failed,
        ),
        (
            "a step that was left with a failure",
            &[("step.exit", Some("a"), Some("Failed")), COMPLETED],
            Status::Completed,
            Status::Failed,
        ),
        ("an unknown type", &[("acme.check", None, Some("ERROR")), DONE, COMPLETED], Status::Completed, Status::Failed),
        (
            "a failure without a status, which NoETL does not count",
            &[("command.failed", Some("a"), None), COMPLETED],
            Status::Completed,
            Status::Completed,
        ),
        ("failed, cancelled", &[FAILED, CANCELLED], Status::Cancelled, Status::Failed),
        ("failed after the end", &[DONE, COMPLETED, FAILED], Status::Completed, Status::Failed),
        ("not ended", &[FAILED, ("step.enter", Some("b"), None)], Status::Running, Status::Running),
    ];
    for (name, written, by_end, by_steps) in cases {
        let mut history = History::started();
        for (event_type, step, status) in written {
            history.append(event_type, *step, json!({})).last().status = status.map(str::to_owned);
        }
        // In another order, and each event twice.
        let state = fold(history.0.iter().rev().chain(&history.0));
        assert_eq!(state.status(), by_end, "{name}");
        let state = state.with_status_from(StatusSource::Steps);
        let end = state.end().map_or(Status::Running, |end| end.status());
        assert_eq!((state.status(), end), (by_steps, by_steps), "{name}");
        let stored: WorkflowState = serde_json::from_value(serde_json::to_value(&state).unwrap()).unwrap();
        assert_eq!(stored.status(), by_end, "{name}: the source is not stored");
        assert_eq!(stored.with_status_from(StatusSource::Steps), state, "{name}");
    }
}

#[test]
fn of_the_recorded_logs_only_completed_ones_with_a_failure_have_another_status() {
    let others = ["tool_exit_1", "v3_83_container_failed", "v3_83_exit_failed", "v3_83_lean_results"];
    for log in Log::all() {
        let state = recorded::fold(&log.events).state;
        let expected = if others.contains(&log.name.as_str()) { Status::Failed } else { state.status() };
        assert_eq!(state.with_status_from(StatusSource::Steps).status(), expected, "{}", log.name);
    }
}
