//! Rules of NoETL 3.83, in forms and orders of events that its recorded logs (`v3_83_*`) do not have.

use noetl_domain::workflow::{Iterations, StepStatus};
use serde_json::{Value, json};

use super::history::{History, fold, step};

/// Places of the marker in the completion of a parked step.
const PLACES: [&str; 3] = ["result", "context", "meta"];

impl History {
    /// Appends the events of a worker whose tool begins work elsewhere, and returns the id of the command.
    fn parks(&mut self, marker: &str, ahead: i64) -> String {
        let command = self.issued("a");
        self.command("command.claimed", "a", &command);
        self.reported("command.started", "a", &command, ahead);
        self.reported("command.completed", "a", &command, ahead);
        let mut context = json!({ "command_id": command, "pending_callback": true });
        match marker {
            "result" => self.with_result(json!({ "status": "success", "context": context })),
            "context" => self.with_context(context),
            _ => {
                context["worker_id"] = json!("worker-1");
                self.last().meta = Some(context);
                self
            }
        };
        command
    }

    /// Appends the call that a NoETL server writes when the work elsewhere ends.
    fn called_back(&mut self, status: &str) -> &mut Self {
        self.append("call.done", Some("a"), json!({ "node_type": "container" }));
        self.with_result(json!({ "status": status, "context": { "exit_code": 0 } }))
    }
}

fn shown(history: &History) -> (StepStatus, Option<String>) {
    let state = history.fold();
    assert_eq!(fold(history.0.iter().rev()), state, "the order of the events has no effect");
    (step(&state, "a").status(), step(&state, "a").error().map(str::to_owned))
}

#[test]
fn a_parked_step_is_completed_by_the_call_of_its_callback() {
    for (marker, ahead) in PLACES.into_iter().flat_map(|marker| [(marker, -4), (marker, 0), (marker, 4)]) {
        let mut history = History::started();
        history.entered("a");
        history.parks(marker, ahead);
        assert_eq!(shown(&history), (StepStatus::CommandStarted, None), "{marker}, ahead by {ahead}");
        let state = history.fold();
        assert_eq!((step(&state, "a").ended_at(), step(&state, "a").result()), (None, None), "{marker}");
        history.called_back("COMPLETED");
        assert_eq!(shown(&history), (StepStatus::Completed, None), "{marker}, ahead by {ahead}");
        let state = history.fold();
        let done = step(&state, "a");
        assert_eq!(done.ended_at(), Some(history.last().created_at), "{marker}");
        assert_eq!((done.result(), done.attempt()), (history.last().result.clone(), 1), "{marker}");
    }
}

/// As in NoETL: only `command.failed` makes a step failed.
#[test]
fn a_callback_with_an_error_completes_the_step_and_shows_its_error() {
    let mut history = History::started();
    history.parks("result", 0);
    history.called_back("FAILED");
    assert_eq!(shown(&history), (StepStatus::Completed, Some("the call ended with the status FAILED".to_owned())));
}

#[test]
fn a_failure_ends_the_wait_for_the_callback() {
    let mut history = History::started();
    let command = history.parks("result", 0);
    history.reported("command.failed", "a", &command, 0);
    history.with_result(json!({ "context": { "command_id": command, "error": "lost" } }));
    let failed = (StepStatus::Failed, Some("lost".to_owned()));
    assert_eq!(shown(&history), failed);
    history.called_back("COMPLETED");
    assert_eq!(shown(&history), failed);
}

#[test]
fn a_successful_callback_clears_the_error_of_an_attempt_before() {
    let mut history = History::started();
    history.fails("a", "first", "no image").parks("result", 0);
    assert_eq!(shown(&history), (StepStatus::CommandStarted, Some("no image".to_owned())));
    history.called_back("COMPLETED");
    assert_eq!(shown(&history), (StepStatus::Completed, None));
}

#[test]
fn a_call_without_a_command_completes_no_step_that_is_not_parked() {
    let mut history = History::started();
    history.entered("a").called_back("COMPLETED");
    assert_eq!(shown(&history), (StepStatus::Entered, None));
    assert_eq!(step(&history.fold(), "a").attempt(), 0);
}

#[test]
fn an_iteration_is_completed_whether_it_is_parked_or_not() {
    let mut history = History::started();
    history.entered_loop("a", 1);
    let command = history.issued_iteration("a", 0);
    history.completes_iteration("a", &command, 0);
    history.with_result(json!({ "context": { "command_id": command, "pending_callback": true } }));
    assert_eq!(shown(&history), (StepStatus::Completed, None));
    let wanted = Iterations { expected: 1, dispatched: 1, completed: 1 };
    assert_eq!(step(&history.fold(), "a").iterations(), Some(wanted));
}

#[test]
fn the_error_of_a_call_is_read_from_the_extract_of_a_result_that_the_log_only_refers_to() {
    let status = "the call ended with the status error";
    for (extracted, shown_error) in [
        (json!({ "error": "exited with code 1", "data": { "stdout": { "_len": 900 } } }), "exited with code 1"),
        (json!({ "error": { "_len": 900 } }), status),
        (Value::Null, status),
    ] {
        let mut history = History::started();
        let reference =
            json!({ "kind": "result_ref", "ref": "noetl://execution/7/result/a/9", "extracted": extracted });
        let returned = json!({ "status": "error", "reference": reference });
        history.command("call.done", "a", "c1");
        history.with_result(json!({ "status": "COMPLETED", "context": { "result": returned } }));
        assert_eq!(shown(&history).1.as_deref(), Some(shown_error), "{extracted}");
    }
}
