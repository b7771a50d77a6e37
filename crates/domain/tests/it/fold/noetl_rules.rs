//! Rules of NoETL that no recorded log covers, or that are clearer on a short log.

use noetl_domain::event::Event;
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::workflow::{Iterations, StepStatus};
use serde_json::{Value, json};

use super::history::{History, fold, step};
use super::recorded::Log;

const NO_SKEW: i64 = 0;

#[test]
fn the_step_enter_of_an_older_worker_starts_no_run() {
    let by_worker = [
        ("its worker", json!({ "worker_id": "w", "informative": true }), Value::Null, Value::Null),
        ("its result", json!({ "informative": true }), json!({ "status": "RUNNING" }), Value::Null),
        ("its context", json!({ "informative": true }), Value::Null, json!({ "status": "started" })),
    ];
    for (marked_by, meta, result, context) in by_worker {
        let mut history = History::started();
        history.entered("l").with_result(json!({ "context": { "iterations_expected": 2 } }));
        let commands = [history.issued("l"), history.issued("l")];
        for command in &commands {
            history.reported("command.started", "l", command, NO_SKEW);
            history.append("step.enter", Some("l"), meta.clone());
            history.with_result(result.clone()).with_context(context.clone());
            history.reported("call.done", "l", command, NO_SKEW);
            history.reported("command.completed", "l", command, NO_SKEW);
        }
        let state = history.fold();
        let wanted = Iterations { expected: 2, dispatched: 2, completed: 2 };
        assert_eq!(step(&state, "l").iterations(), Some(wanted), "a worker's event is told by {marked_by}");
        assert_eq!(step(&state, "l").status(), StepStatus::Completed);
        assert_eq!(step(&state, "l").entered_at(), Some(history.time(1)));
    }
}

#[test]
fn the_step_enter_of_an_older_worker_does_not_hide_the_state_of_its_command() {
    let mut history = History::started();
    history.entered("a");
    let command = history.issued("a");
    history.reported("command.started", "a", &command, NO_SKEW);
    history.append("step.enter", Some("a"), json!({ "worker_id": "w" }));
    assert_eq!(shown(&history), (StepStatus::CommandStarted, None));
    history.reported("command.completed", "a", &command, NO_SKEW);
    assert_eq!(shown(&history), (StepStatus::Completed, None));
}

#[test]
fn the_event_that_starts_a_loop_is_no_iteration_even_if_it_names_a_command() {
    let mut history = History::started();
    history.command("step.enter", "l", "c0").with_context(json!({ "iterations_expected": 1 }));
    history.runs("l", "c1", json!(1));
    let wanted = Iterations { expected: 1, dispatched: 1, completed: 1 };
    assert_eq!(step(&history.fold(), "l").iterations(), Some(wanted));
}

#[test]
fn steps_are_listed_in_the_order_in_which_they_began_also_if_a_worker_s_clock_is_behind() {
    let names = |events: &[Event]| -> Vec<String> {
        fold(events).steps().into_iter().map(|(name, _)| name.to_owned()).collect()
    };
    let mut history = History::started();
    for (name, ahead) in [("b", 0), ("a", -4)] {
        let command = history.issued(name);
        history.reported("command.completed", name, &command, ahead);
    }
    assert_eq!(names(&history.0), ["b", "a"]);
    for log in ["linear", "worker_clock_ahead_linear"] {
        assert_eq!(names(&Log::read(log).events), ["start", "test_step", "end"]);
    }
}

#[test]
fn a_step_that_only_a_worker_entered_is_entered() {
    let mut history = History::started();
    history.append("step.enter", Some("a"), json!({ "worker_id": "w" }));
    let state = history.fold();
    assert_eq!(step(&state, "a").status(), StepStatus::Entered);
    assert_eq!(step(&state, "a").entered_at(), Some(history.time(1)));
}

#[test]
fn a_run_keeps_its_commands_if_the_worker_s_clock_is_ahead_or_behind() {
    for ahead in [-4, 4] {
        let mut history = History::started();
        history.entered("a");
        let first = history.issued("a");
        for (event_type, result) in [("call.done", json!("first")), ("command.completed", Value::Null)] {
            history.reported(event_type, "a", &first, ahead);
            let result = json!({ "context": { "command_id": first }, "data": result });
            history.with_result(result);
        }
        history.entered("a");
        let second = history.issued("a");
        history.command("command.claimed", "a", &second);
        let state = history.fold();
        let again = step(&state, "a");
        assert_eq!((again.status(), again.result()), (StepStatus::CommandClaimed, None), "ahead by {ahead}");
        history.reported("command.started", "a", &second, ahead).reported("call.done", "a", &second, ahead);
        let result = json!({ "context": { "command_id": second }, "data": "second" });
        history.with_result(result.clone()).reported("command.completed", "a", &second, ahead);
        let state = history.fold();
        let done = step(&state, "a");
        assert_eq!((done.status(), done.result()), (StepStatus::Completed, Some(result)), "ahead by {ahead}");
    }
}

#[test]
fn the_error_of_an_event_is_its_column_else_its_meta_else_in_its_result() {
    let mut history = History::started();
    history.append("playbook.failed", None, json!({ "error": "Failed steps: a" }));
    history.with_result(json!({ "status": "FAILED", "error": "less exact" }));
    let error = |history: &History| history.fold().end().unwrap().error;
    assert_eq!(error(&history).as_deref(), Some("Failed steps: a"));
    history.last().error = Some(String::new());
    assert_eq!(error(&history).as_deref(), Some("Failed steps: a"));
    history.last().error = Some("no disk".to_owned());
    assert_eq!(error(&history).as_deref(), Some("no disk"));
    history.last().error = None;
    history.last().meta = Some(json!({ "error": "" }));
    assert_eq!(error(&history).as_deref(), Some("less exact"));
}

/// Returns the status and the error of the step `a`.
fn shown(history: &History) -> (StepStatus, Option<String>) {
    let state = history.fold();
    (step(&state, "a").status(), step(&state, "a").error().map(str::to_owned))
}

#[test]
fn a_failed_call_shows_its_error_until_a_command_of_the_step_completes() {
    let mut history = History::started();
    history.entered("a");
    let first = history.issued("a");
    history.reported("command.started", "a", &first, NO_SKEW);
    history.reported("call.error", "a", &first, NO_SKEW);
    history.with_result(json!({ "context": { "command_id": first, "error": "no route" } }));
    assert_eq!(shown(&history), (StepStatus::CommandStarted, Some("no route".to_owned())));
    history.reported("command.failed", "a", &first, NO_SKEW);
    assert_eq!(shown(&history), (StepStatus::Failed, Some("no route".to_owned())));
    let second = history.issued("a");
    assert_eq!(shown(&history), (StepStatus::CommandIssued, Some("no route".to_owned())));
    history.reported("command.completed", "a", &second, NO_SKEW);
    assert_eq!(shown(&history), (StepStatus::Completed, None));
}

#[test]
fn a_call_that_ended_with_the_status_error_shows_its_error_until_another_call_succeeds() {
    let mut history = History::started();
    history.entered("a");
    let first = history.issued("a");
    history.reported("call.done", "a", &first, NO_SKEW);
    let returned = json!({ "status": "error", "context": { "data": {}, "error": "exited with code 1" } });
    history.with_result(json!({ "status": "COMPLETED", "context": { "command_id": first, "result": returned } }));
    let error = Some("exited with code 1".to_owned());
    assert_eq!(shown(&history), (StepStatus::CommandIssued, error.clone()));
    for status in ["error", "success"] {
        history.reported("command.completed", "a", &first, NO_SKEW);
        history.with_result(json!({ "status": status, "context": { "command_id": first } }));
        assert_eq!(shown(&history), (StepStatus::Completed, error.clone()), "completed with {status}");
    }
    let second = history.issued("a");
    history.reported("call.done", "a", &second, NO_SKEW);
    assert_eq!(shown(&history).1, None);
}

#[test]
fn a_call_that_ended_with_the_status_error_and_no_message_shows_the_status() {
    let mut history = History::started();
    history.command("call.done", "a", "c1").with_result(json!({ "status": "ERROR" }));
    assert_eq!(shown(&history).1.as_deref(), Some("the call ended with the status ERROR"));
}

#[test]
fn the_data_that_a_tool_returns_is_no_status_of_its_call() {
    let mut history = History::started();
    history.command("call.done", "a", "c1");
    history.with_result(json!({ "status": "ok", "data": { "status": "error", "error": "found in a file" } }));
    assert_eq!(shown(&history).1, None);
}

#[test]
fn a_loop_shows_the_error_of_the_iteration_whose_call_ended_with_an_error() {
    let mut history = History::started();
    history.entered("a").with_result(json!({ "context": { "iterations_expected": 2 } }));
    history.runs("a", "i0", json!({ "status": "error", "error": "bad" })).runs("a", "i1", json!({ "status": "ok" }));
    assert_eq!(shown(&history), (StepStatus::Completed, Some("bad".to_owned())));
}

#[test]
fn an_iteration_that_another_command_replaced_shows_no_error_when_the_loop_is_completed() {
    let mut history = History::started();
    history.entered("a").with_result(json!({ "context": { "iterations_expected": 2 } }));
    history.fails("a", "i0", "bad").runs("a", "i1", json!(1));
    assert_eq!(shown(&history).1.as_deref(), Some("bad"));
    history.runs("a", "i0-again", json!(0));
    assert_eq!(shown(&history), (StepStatus::Completed, None));
}

#[test]
fn a_completion_with_the_status_error_shows_its_error() {
    let mut history = History::started();
    history.command("command.completed", "a", "c1").with_result(json!({ "status": "error", "error": "bad" }));
    assert_eq!(shown(&history), (StepStatus::Completed, Some("bad".to_owned())));
}

#[test]
fn the_results_of_a_cursor_loop_s_commands_are_not_its_result() {
    let mut history = History::started();
    history.entered("l").with_result(json!({ "context": { "__cursor_loop": true } }));
    let command = history.issued("l");
    for command in [command.as_str(), "unlike NoETL's"] {
        let cursor = json!({ "phase": "body", "frame": 0 });
        history.append("command.issued", Some("l"), json!({ "command_id": command, "cursor": cursor }));
        history.command("command.completed", "l", command).with_result(json!("of a row"));
    }
    let state = history.fold();
    assert!(step(&state, "l").iteration_results().is_empty());
    let stored = serde_json::to_string(&state).unwrap();
    assert_eq!(stored.matches("of a row").count(), 1, "the result of a command of NoETL is not stored");
    history.step("step.exit", "l").with_result(json!({ "context": { "__cursor_drained": true } }));
    let drained = json!({ "context": { "__cursor_drained": true } });
    assert_eq!(step(&history.fold(), "l").result(), Some(drained));
}

#[test]
fn an_older_worker_s_failure_is_a_failure() {
    for of_rust_server in [false, true] {
        let mut history = History::started();
        let issued = history.issued("a");
        let command = if of_rust_server { issued.as_str() } else { "5" };
        history.command("command.started", "a", command);
        history.command("call.error", "a", command).with_result(json!({ "context": { "error": "bad" } }));
        history.append("step.exit", Some("a"), json!({ "worker_id": "w" })).with_result(json!({ "status": "FAILED" }));
        assert_eq!(shown(&history), (StepStatus::Failed, Some("bad".to_owned())));
        history.command("command.failed", "a", command);
        assert_eq!(shown(&history), (StepStatus::Failed, Some("bad".to_owned())));
    }
}

#[test]
fn a_step_that_its_worker_left_with_an_error_is_failed_until_a_retry_succeeds() {
    for exit in ["step.exit", "step_completed"] {
        let mut history = History::started();
        for event_type in ["step.enter", "command.issued", "command.started"] {
            history.command(event_type, "a", "a:1");
        }
        for event_type in ["call.error", "command.failed"] {
            history.command(event_type, "a", "a:1").last().error = Some("boom".to_owned());
        }
        history.command(exit, "a", "a:1").last().status = Some("FAILED".to_owned());
        let failed = (StepStatus::Failed, Some("boom".to_owned()));
        assert_eq!((shown(&history), history.fold().failed_steps()), (failed.clone(), 1), "{exit}");
        let mut retried = history.clone();
        retried.runs("a", "a:2", json!(1)).command(exit, "a", "a:2").append("playbook.completed", None, json!({}));
        assert_eq!((shown(&retried), retried.fold().failed_steps()), ((StepStatus::Completed, None), 0), "{exit}");
        history.append("playbook.completed", None, json!({}));
        assert_eq!((shown(&history), history.fold().failed_steps()), (failed, 1), "{exit}");
        assert_eq!(history.fold().status(), Status::Completed, "the execution has NoETL's status");
    }
}

#[test]
fn an_execution_whose_only_step_failed_is_failed_until_something_else_runs() {
    let mut history = History::started();
    history.fails("a", "c1", "no such alias");
    let state = history.fold();
    assert_eq!((state.status(), state.ended.get()), (Status::Failed, None));
    let end = state.end().unwrap();
    assert_eq!((end.at, end.status(), end.error.as_deref()), (history.time(4), Status::Failed, Some("no such alias")));
    let mut retried = history.clone();
    retried.command("command.issued", "a", "c2");
    assert_eq!((retried.fold().status(), retried.fold().end()), (Status::Running, None));
    let mut routed = history.clone();
    routed.entered("recover");
    assert_eq!(routed.fold().status(), Status::Running);
    routed.runs("recover", "c3", json!(1));
    assert_eq!(routed.fold().status(), Status::Running, "the next step may be entered");
    history.append("playbook_cancelled", None, json!({}));
    assert_eq!(history.fold().status(), Status::Cancelled, "an ending event determines the status");
}

#[test]
fn an_execution_whose_only_step_is_a_loop_fails_when_no_iteration_can_run() {
    let mut history = History::started();
    history.entered("l").with_result(json!({ "context": { "iterations_expected": 2 } }));
    history.command("command.issued", "l", "i1").fails("l", "i0", "bad");
    assert_eq!(history.fold().status(), Status::Running, "the other iteration is issued");
    history.command("command.completed", "l", "i1");
    assert_eq!(history.fold().status(), Status::Failed);
    let mut ended = history.clone();
    ended.step("loop.done", "l");
    assert_eq!(ended.fold().status(), Status::Running, "the loop tolerates the failure, and another step can follow");
    history.runs("l", "i0", json!(1));
    assert_eq!(history.fold().status(), Status::Running, "a retry completed the loop");
}

#[test]
fn every_name_of_an_end_ends_the_execution() {
    for (event_type, status) in [
        ("playbook_cancelled", Status::Cancelled),
        ("execution.cancelled", Status::Cancelled),
        ("workflow.completed", Status::Completed),
        ("workflow.failed", Status::Failed),
    ] {
        let mut history = History::started();
        history.append(event_type, None, json!({}));
        assert_eq!(history.fold().status(), status, "{event_type}");
        assert_eq!(history.fold().ended.get().unwrap().at, history.time(1));
    }
}

#[test]
fn a_completion_after_a_cancellation_is_the_end() {
    let mut history = History::started();
    history.append("playbook_cancelled", None, json!({})).append("playbook.completed", None, json!({}));
    assert_eq!(history.fold().status(), Status::Completed);
}

#[test]
fn step_skipped_skips_the_step() {
    let mut history = History::started();
    history.step("step_skipped", "a");
    assert_eq!(shown(&history), (StepStatus::Skipped, None));
}

#[test]
fn playbook_initialized_starts_an_execution_with_the_values_that_the_python_engine_writes() {
    let values = json!({ "workload": { "n": 1 }, "playbook_path": "p" });
    let inline = json!({ "inline_workload": { "n": 1 }, "playbook_path": "p" });
    let context = Some(json!({ "status": "initialized", "result": values }));
    for (context, meta) in [(context, json!({})), (None, inline)] {
        let mut history = History::default();
        history.append("playbook.initialized", Some("p"), meta);
        history.last().context = context;
        let state = history.fold();
        let start = state.started.get().unwrap();
        assert_eq!((state.status(), start.at, start.path.as_deref()), (Status::Pending, history.time(0), Some("p")));
        assert_eq!(start.workload, Some(json!({ "n": 1 })));
    }
    let mut bare = History::default();
    bare.append("playbook.initialized", Some("p"), json!({}));
    assert_eq!(bare.fold().started.get().unwrap().path.as_deref(), Some("p"), "the node is named after the path");
}

#[test]
fn events_of_unknown_types_are_only_counted() {
    let log = Log::read("linear");
    let mut strange = log.events.clone();
    for event in &log.events {
        let id = Id::new(event.event_id.get() - 1);
        let event_type = format!("{}.of_tomorrow", event.event_type);
        strange.push(Event { event_id: id, event_type, ..event.clone() });
    }
    assert_eq!(fold(&strange), fold(&log.events));
}

#[test]
fn the_state_of_a_recorded_loop_over_steps_does_not_grow_with_its_rounds() {
    let log = Log::read("worker_clock_ahead_arc_loop");
    let size = |rounds: usize| serde_json::to_string(&fold(&repeated(&log, rounds))).unwrap().len();
    let (few, many) = (size(3), size(100));
    assert!(many < few + few / 10, "{few} bytes after 3 rounds, {many} after 100");
}

/// Returns the events of the log's second round (`poll`, then `check`), repeated with later ids and in the order of
/// commits, after the events before it.
fn repeated(log: &Log, rounds: usize) -> Vec<Event> {
    let mut by_commit = log.events.clone();
    by_commit.sort_by_key(|event| event.created_at);
    let enters = by_commit
        .iter()
        .enumerate()
        .filter(|(_, event)| event.event_type == "step.enter" && event.node_name.as_deref() == Some("poll"));
    let starts: Vec<usize> = enters.map(|(index, _)| index).collect();
    let (start, end) = (starts[1], starts[2]);
    let length = by_commit[end].event_id.get() - by_commit[start].event_id.get();
    let mut events = by_commit[..start].to_vec();
    for round in 0..rounds {
        let shift = length * i64::try_from(round).unwrap();
        for event in &by_commit[start..end] {
            let id = event.event_id.get();
            let mut text = serde_json::to_string(&[&event.meta, &event.result]).unwrap();
            for issued in by_commit.iter().filter(|issued| issued.event_type == "command.issued") {
                let issued = issued.event_id.get();
                text = text.replace(&format!(":{issued}\""), &format!(":{}\"", issued + shift));
            }
            let [meta, result]: [Option<Value>; 2] = serde_json::from_str(&text).unwrap();
            let id = Id::new(id + shift);
            events.push(Event { event_id: id, meta, result, ..event.clone() });
        }
    }
    events
}

#[test]
fn an_empty_command_id_counts_as_absent() {
    let mut history = History::started();
    history.entered("l").with_result(json!({ "context": { "iterations_expected": 1 } }));
    let command = history.issued("l");
    history.append("command.completed", Some("l"), json!({ "command_id": "" }));
    history.with_result(json!({ "context": { "command_id": command } }));
    let wanted = Iterations { expected: 1, dispatched: 1, completed: 1 };
    assert_eq!(step(&history.fold(), "l").iterations(), Some(wanted));
}

#[test]
fn an_event_of_the_orchestrator_enters_a_step_whatever_its_status_is() {
    let mut history = History::started();
    history.entered("a").with_result(json!({ "status": "STARTED" }));
    assert_eq!(shown(&history), (StepStatus::Entered, None));
    assert_eq!(step(&history.fold(), "a").entered_at(), Some(history.time(1)));
}

#[test]
fn only_a_later_success_of_another_command_clears_the_error_of_a_call() {
    let error = json!({ "status": "error", "error": "no route" });
    let failing = |history: &mut History| {
        let command = history.issued("a");
        history.command("call.done", "a", &command).with_result(error.clone());
    };
    let succeeding = |history: &mut History| {
        let command = history.issued("a");
        history.command("command.completed", "a", &command);
    };
    let mut history = History::started();
    history.entered("a");
    succeeding(&mut history);
    failing(&mut history);
    assert_eq!(step(&history.fold(), "a").error(), Some("no route"));
    succeeding(&mut history);
    assert_eq!(step(&history.fold(), "a").error(), None);
}
