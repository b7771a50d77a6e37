//! States of executions and steps.

use noetl_domain::execution::Status;
use noetl_domain::workflow::{Frame, Iterations, StepStatus, WorkflowState};
use serde_json::{Value, json};

use super::history::{History, step};

#[test]
fn a_simple_step_passes_through_every_status() {
    let mut history = History::started();
    let stages = [
        ("step.enter", StepStatus::Entered),
        ("command.issued", StepStatus::CommandIssued),
        ("command.claimed", StepStatus::CommandClaimed),
        ("action_started", StepStatus::CommandStarted),
    ];
    assert!(history.fold().steps().is_empty());
    for (event_type, status) in stages {
        if event_type == "step.enter" {
            history.step(event_type, "a")
        } else {
            history.command(event_type, "a", "c1")
        };
        assert_eq!(step(&history.fold(), "a").status(), status);
    }
    history.command("call.done", "a", "c1").with_result(json!({ "data": 5 }));
    history.command("step.exit", "a", "c1").with_result(json!({ "status": "ok" }));
    history.append("playbook.completed", None, json!({}));
    let state = history.fold();
    let a = step(&state, "a");
    assert_eq!((a.status(), a.attempt(), a.error()), (StepStatus::Completed, 1, None));
    assert_eq!((a.entered_at(), a.ended_at()), (Some(history.time(1)), Some(history.time(6))));
    assert_eq!(
        a.result(),
        Some(json!({ "data": 5 })),
        "the result is the call's data, not the envelope of its last event"
    );
    assert_eq!((a.iterations(), a.frames()), (None, None));
    assert_eq!(state.status(), Status::Completed);
    let start = state.started.get().unwrap();
    assert_eq!((start.path.as_deref(), start.version.as_deref()), (Some("p"), Some("2")));
    assert_eq!(start.workload, Some(json!({ "n": 1 })));
    assert_eq!(state.ended.get().map(|end| end.at), Some(history.time(7)));
}

#[test]
fn a_failed_step_is_retried() {
    let mut history = History::started();
    history.step("step_enter", "a").fails("a", "c1", "no route");
    let state = history.fold();
    let failed = step(&state, "a");
    assert_eq!((failed.status(), failed.attempt(), failed.error()), (StepStatus::Failed, 1, Some("no route")));
    assert_eq!((failed.started_at(), failed.ended_at()), (Some(history.time(4)), Some(history.time(5))));
    history.command("command.issued", "a", "c2");
    let state = history.fold();
    let again = step(&state, "a");
    assert_eq!((again.status(), again.attempt()), (StepStatus::CommandIssued, 2));
    assert_eq!((again.error(), again.ended_at()), (Some("no route"), None));
    assert_eq!(again.started_at(), Some(history.time(4)));
    history.runs("a", "c2", json!(1));
    let state = history.fold();
    let done = step(&state, "a");
    assert_eq!((done.status(), done.attempt(), done.error()), (StepStatus::Completed, 2, None));
    assert_eq!(done.started_at(), Some(history.time(9)));
}

#[test]
fn an_attempt_number_in_an_event_is_used() {
    let mut history = History::started();
    history.step("step.enter", "a").command("command.issued", "a", "c1");
    history.append("command.started", Some("a"), json!({ "command_id": "c1", "attempt": 4 }));
    assert_eq!(step(&history.fold(), "a").attempt(), 4);
}

#[test]
fn a_skipped_step_has_no_attempt() {
    let mut history = History::started();
    history.step("step.skipped", "a");
    let state = history.fold();
    let skipped = step(&state, "a");
    assert_eq!((skipped.status(), skipped.attempt()), (StepStatus::Skipped, 0));
    assert_eq!(skipped.ended_at(), Some(history.time(1)));
}

#[test]
fn a_step_that_is_entered_again_starts_from_the_beginning() {
    let mut history = History::started();
    history.step("step.enter", "a").fails("a", "c1", "x").runs("a", "c2", json!("first"));
    history.step("step.enter", "a");
    let state = history.fold();
    let again = step(&state, "a");
    assert_eq!((again.status(), again.attempt(), again.result()), (StepStatus::Entered, 0, None));
    assert_eq!(again.started_at(), None);
    history.runs("a", "c3", json!("second"));
    let state = history.fold();
    let done = step(&state, "a");
    assert_eq!((done.status(), done.attempt(), done.result()), (StepStatus::Completed, 1, Some(json!("second"))));
}

#[test]
fn the_state_does_not_grow_when_a_step_is_entered_a_thousand_times() {
    let size = |times: u32| {
        let mut history = History::started();
        for time in 0..times {
            history.step("step.enter", "a").runs("a", &format!("c{time:04}"), json!(time));
        }
        serde_json::to_string(&history.fold()).unwrap().len()
    };
    assert!(size(1000) < size(2) + 100, "{} and {}", size(1000), size(2));
}

#[test]
fn a_parallel_loop_is_completed_when_all_iterations_are_completed() {
    let mut history = History::started();
    history.step("step.enter", "l").with_result(json!({ "context": { "iterations_expected": 3 } }));
    for n in 0..3 {
        history.command("command.issued", "l", &format!("i{n}"));
    }
    for n in [1, 0] {
        history.command("command.started", "l", &format!("i{n}"));
        history.command("call.done", "l", &format!("i{n}")).with_result(json!(n));
        history.command("command.completed", "l", &format!("i{n}"));
        // A second worker sends the same event again.
        history.command("command.completed", "l", &format!("i{n}"));
    }
    let state = history.fold();
    let running = step(&state, "l");
    assert_eq!(running.iterations(), Some(Iterations { expected: 3, dispatched: 3, completed: 2 }));
    assert_eq!((running.status(), running.ended_at()), (StepStatus::CommandStarted, None));
    history.command("command.completed", "l", "i2");
    let state = history.fold();
    let done = step(&state, "l");
    assert_eq!(done.iterations(), Some(Iterations { expected: 3, dispatched: 3, completed: 3 }));
    assert_eq!((done.status(), done.attempt(), done.result()), (StepStatus::Completed, 1, None));
    history.step("loop.done", "l").with_result(json!([0, 1, 2]));
    assert_eq!(step(&history.fold(), "l").result(), Some(json!([0, 1, 2])));
}

#[test]
fn a_failed_iteration_shows_until_another_begins_and_its_error_until_it_is_retried() {
    let mut history = History::started();
    history.step("step.enter", "l").with_context(json!({ "iterations_expected": 2 }));
    history.fails("l", "i0", "bad");
    let shown = |history: &History| {
        let state = history.fold();
        let l = step(&state, "l");
        (l.status(), l.error().map(str::to_owned), l.result())
    };
    assert_eq!(shown(&history), (StepStatus::Failed, Some("bad".to_owned()), None));
    history.command("command.issued", "l", "i1");
    assert_eq!(shown(&history), (StepStatus::CommandIssued, Some("bad".to_owned()), None));
    history.runs("l", "i1", json!(1));
    let siblings = "a completed sibling does not clear the error";
    assert_eq!(shown(&history), (StepStatus::CommandStarted, Some("bad".to_owned()), None), "{siblings}");
    history.runs("l", "i0", json!(0));
    let retried = "a retry under the same command id completes the loop";
    assert_eq!(shown(&history), (StepStatus::Completed, None, None), "{retried}");
}

#[test]
fn a_sequential_loop_runs_one_iteration_at_a_time() {
    let mut history = History::started();
    history.step("step.enter", "l").with_result(json!({ "context": { "iterations_expected": 2 } }));
    for (n, command) in ["i0", "i1"].into_iter().enumerate() {
        history.command("command.issued", "l", command).command("command.claimed", "l", command);
        history.command("step.enter", "l", command).command("call.done", "l", command);
        history.command("command.completed", "l", command);
        let done = i64::try_from(n).unwrap() + 1;
        let wanted = Iterations { expected: 2, dispatched: done, completed: done };
        assert_eq!(step(&history.fold(), "l").iterations(), Some(wanted));
    }
    assert_eq!(step(&history.fold(), "l").status(), StepStatus::Completed);
}

#[test]
fn a_cursor_loop_is_completed_when_drained_and_its_next_run_starts_at_frame_0() {
    let mut history = History::started();
    let phase = |history: &mut History, event_type: &str, command: &str, phase: &str, frame: i64| {
        let cursor = json!({ "phase": phase, "frame": frame });
        history.append(event_type, Some("l"), json!({ "command_id": command, "cursor": cursor }));
    };
    for run in 0..2 {
        history.step("step.enter", "l").with_result(json!({ "context": { "__cursor_loop": true } }));
        phase(&mut history, "command.issued", &format!("{run}-c0"), "claim", 0);
        history.command("call.done", "l", &format!("{run}-c0")).with_result(json!({ "rows": [1, 2] }));
        history.command("command.completed", "l", &format!("{run}-c0"));
        phase(&mut history, "command.issued", &format!("{run}-b0"), "body", 0);
        phase(&mut history, "command.issued", &format!("{run}-b1"), "body", 0);
        history.command("command.completed", "l", &format!("{run}-b1"));
        phase(&mut history, "command.issued", &format!("{run}-c1"), "claim", 1);
        let state = history.fold();
        let running = step(&state, "l");
        assert_eq!(running.status(), StepStatus::CommandIssued, "the end of a body must not end the loop");
        let frames = [
            Frame { index: 0, claim_completed: true, body_issued: 2, body_completed: 1 },
            Frame { index: 1, claim_completed: false, body_issued: 0, body_completed: 0 },
        ];
        assert_eq!(running.frames().unwrap(), frames, "run {run}");
        history.command("command.completed", "l", &format!("{run}-b0"));
        history.command("command.completed", "l", &format!("{run}-c1"));
        history.step("step.exit", "l").with_result(json!({ "context": { "__cursor_drained": true } }));
        let state = history.fold();
        let drained = step(&state, "l");
        assert_eq!(drained.status(), StepStatus::Completed);
        assert_eq!(drained.iterations(), Some(Iterations { expected: 2, dispatched: 2, completed: 2 }));
        assert!(drained.frames().unwrap().iter().all(|frame| frame.claim_completed));
    }
}

#[test]
fn a_variable_has_the_value_that_the_latest_event_set() {
    let mut history = History::started();
    history.step("ctx.updated", "a").with_result(json!({ "context": { "values": { "offset": 1, "ctx.page": "x" } } }));
    history.step("ctx.updated", "a").with_context(json!({ "values": { "offset": 2 } }));
    history.step("ctx.updated", "b").with_context(json!({ "offset": [3] }));
    let state = history.fold();
    let variables: Vec<(&str, &Value)> = state.ctx().collect();
    assert_eq!(variables, [("offset", &json!([3])), ("page", &json!("x"))]);
}

#[test]
fn an_empty_command_id_or_a_null_value_counts_as_absent() {
    let mut history = History::started();
    history.step("step.enter", "a").with_result(json!({ "context": { "iterations_expected": null } }));
    history.last().context = Some(json!({ "iterations_expected": 2 }));
    history.append("command.issued", Some("a"), json!({ "command_id": "" }));
    history.with_result(json!({ "context": { "command_id": 17 } }));
    let wanted = Iterations { expected: 2, dispatched: 1, completed: 0 };
    assert_eq!(step(&history.fold(), "a").iterations(), Some(wanted));
}

#[test]
fn unknown_event_types_and_planning_commands_of_other_servers_change_no_step() {
    let mut history = History::started();
    history.step("something.else", "a").command("command.issued", "__orchestrate__", "o1");
    let state = history.fold();
    assert!(state.steps().is_empty());
    assert_eq!(state.last.get().unwrap().event_type, "command.issued");
}

#[test]
fn events_about_the_outbox_change_neither_the_state_nor_the_last_event() {
    let mut history = History::started();
    history.step("step.enter", "a").append("playbook.completed", None, json!({}));
    let before = history.fold();
    for event_type in ["outbox.retried", "outbox.discarded"] {
        history.append(event_type, Some("a"), json!({ "actor": "ann" }));
    }
    let mut after = history.fold();
    assert!(after.latest_at > before.latest_at);
    after.latest_at = before.latest_at;
    assert_eq!(after, before);
}

#[test]
fn an_execution_ends_with_the_status_of_its_ending_event() {
    for (event_type, status) in [
        ("playbook_completed", Status::Completed),
        ("playbook_failed", Status::Failed),
        ("playbook.failed", Status::Failed),
        ("playbook.cancelled", Status::Cancelled),
    ] {
        let mut history = History::started();
        history.append(event_type, None, json!({})).with_context(json!({ "reason": "enough" }));
        history.step("step.enter", "late");
        assert_eq!(history.fold().status(), status);
        assert_eq!(history.fold().ended.get().unwrap().error.as_deref(), Some("enough"));
    }
}

#[test]
fn an_execution_is_pending_until_a_step_has_begun() {
    assert_eq!(WorkflowState::default().status(), Status::Pending);
    let mut history = History::started();
    history.append("ctx.updated", None, json!({})).append("command.issued", Some("__orchestrate__"), json!({}));
    history.append("command.claimed", Some("__orchestrate__"), json!({})).command("command.issued", "a", "c1");
    assert_eq!(history.fold().status(), Status::Pending, "a worker has taken no command of a step");
    for first in ["command.claimed", "command.started", "call.done", "step.enter", "step.skipped"] {
        let mut begun = history.clone();
        begun.command(first, "a", "c1");
        assert_eq!(begun.fold().status(), Status::Running, "{first}");
        begun.step("step.enter", "a").command("command.issued", "a", "c2");
        let state = begun.fold();
        assert_eq!(state.status(), Status::Running, "{first}: another run of the step changes nothing");
        assert_eq!(state.first_step_at, Some(begun.time(history.0.len())), "{first}");
        begun.0.reverse();
        assert_eq!(begun.fold().first_step_at, state.first_step_at, "{first}: the events arrive in another order");
    }
}
