//! A sealed state has no records of a loop's completed iterations, and is otherwise the state of the whole log.

use std::collections::{BTreeMap, BTreeSet};

use noetl_domain::event::Event;
use noetl_domain::workflow::{Iterations, LoopResults, StepState, StepStatus, WorkflowState};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::history::{History, fold, step};
use super::recorded::{self, Log};

const LOOP: &str = "l";

/// Events of one iteration of a loop, in the order in which they happen.
#[derive(Debug, Clone, Copy)]
enum Course {
    Issued,
    Started,
    Completes,
    /// Another worker reports the completion again.
    CompletesTwice,
    Fails,
    /// The command fails, and a later report of the same command completes it.
    FailsThenCompletes,
    CompletesThenFails,
    CallFailsThenCompletes,
    CallHasError,
    CompletesWithError,
    /// Another command of the same iteration replaces a failed or an open one.
    Replaced {
        failed: bool,
    },
}

fn course() -> impl Strategy<Value = Course> {
    prop_oneof![
        8 => Just(Course::Completes),
        1 => Just(Course::Issued),
        1 => Just(Course::Started),
        1 => Just(Course::CompletesTwice),
        1 => Just(Course::Fails),
        1 => Just(Course::FailsThenCompletes),
        1 => Just(Course::CompletesThenFails),
        1 => Just(Course::CallFailsThenCompletes),
        1 => Just(Course::CallHasError),
        1 => Just(Course::CompletesWithError),
        1 => any::<bool>().prop_map(|failed| Course::Replaced { failed }),
    ]
}

impl History {
    fn fails_command(&mut self, command: &str) -> &mut Self {
        self.reported("command.failed", LOOP, command, 0);
        self.with_result(json!({ "status": "FAILED", "context": { "command_id": command, "error": "no route" } }))
    }

    /// Appends the `command.issued` of an iteration, of a frame if the loop has a cursor.
    fn issues(&mut self, index: usize, frame: Option<usize>) -> String {
        let command = self.issued_iteration(LOOP, index);
        if let Some(frame) = frame {
            self.last().meta = Some(json!({ "command_id": command, "cursor": { "phase": "body", "frame": frame } }));
        }
        command
    }

    /// Appends the claim of a frame's rows.
    fn claims(&mut self, frame: usize, ahead: i64) {
        let command = self.issued(LOOP);
        self.last().meta = Some(json!({ "command_id": command, "cursor": { "phase": "claim", "frame": frame } }));
        self.completes_iteration(LOOP, &command, ahead);
    }

    fn iterates(&mut self, index: usize, frame: Option<usize>, course: Course, ahead: i64) {
        let command = self.issues(index, frame);
        let failed = json!({ "status": "error", "context": { "command_id": command, "error": "bad" } });
        match course {
            Course::Issued => {}
            Course::Started => drop(self.reported("command.started", LOOP, &command, ahead)),
            Course::Completes => drop(self.completes_iteration(LOOP, &command, ahead)),
            Course::CompletesTwice => {
                self.completes_iteration(LOOP, &command, ahead).completes_iteration(LOOP, &command, ahead);
            }
            Course::Fails => drop(self.fails_command(&command)),
            Course::FailsThenCompletes => {
                self.fails_command(&command).completes_iteration(LOOP, &command, ahead);
            }
            Course::CompletesThenFails => {
                self.completes_iteration(LOOP, &command, ahead).fails_command(&command);
            }
            Course::CallFailsThenCompletes => {
                self.reported("call.error", LOOP, &command, ahead).with_result(failed);
                self.completes_iteration(LOOP, &command, ahead);
            }
            Course::CallHasError => {
                self.completes_iteration(LOOP, &command, ahead);
                self.reported("call.done", LOOP, &command, ahead).with_result(failed);
            }
            Course::CompletesWithError => {
                self.reported("command.completed", LOOP, &command, ahead).with_result(failed);
            }
            Course::Replaced { failed } => {
                if failed {
                    self.fails_command(&command);
                }
                let again = self.issues(index, frame);
                self.completes_iteration(LOOP, &again, ahead);
            }
        }
    }
}

/// Returns the log of a loop: the runs with the courses of their iterations, by workers whose clocks are ahead.
fn looping(runs: &[Vec<Course>], ahead: i64, ended: bool) -> History {
    let mut history = History::started();
    for courses in runs {
        history.entered_loop(LOOP, courses.len());
        for (index, course) in courses.iter().enumerate() {
            history.iterates(index, None, *course, ahead);
        }
    }
    if ended {
        history.append("playbook.completed", None, json!({}));
    }
    history
}

/// Returns the log of a cursor loop: the frames of its runs with the courses of their rows.
fn draining(runs: &[Vec<Vec<Course>>], ahead: i64, ended: bool) -> History {
    let mut history = History::started();
    for frames in runs {
        history.entered(LOOP).with_result(json!({ "context": { "__cursor_loop": true } }));
        for (frame, courses) in frames.iter().enumerate() {
            history.claims(frame, ahead);
            for (row, course) in courses.iter().enumerate() {
                history.iterates(row, Some(frame), *course, ahead);
            }
        }
        if ended {
            history.step("step.exit", LOOP).with_result(json!({ "context": { "__cursor_drained": true } }));
        }
    }
    history
}

/// Folds the events, and seals, stores and reads the state after each of these numbers of events. A state that an event
/// contradicts is folded again, as the storage does.
fn fold_with_seals(events: &[&Event], seals: &BTreeSet<usize>) -> WorkflowState {
    let mut state = WorkflowState::default();
    for (index, event) in events.iter().enumerate() {
        state.fold(event);
        if !state.is_exact() {
            state = fold(events[..=index].iter().copied());
        }
        if seals.contains(&index) {
            state = stored(state);
        }
    }
    state.seal();
    state
}

fn stored(mut state: WorkflowState) -> WorkflowState {
    state.seal();
    serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap()
}

/// Values that the API shows of a step, with the result from the log if the state lacks it.
fn shown(name: &str, step: &StepState, events: &[&Event]) -> Value {
    let result = || {
        let mut results = LoopResults::default();
        events.iter().filter(|event| event.node_name.as_deref() == Some(name)).for_each(|event| results.fold(event));
        results.list()
    };
    let result = if step.has_result_in_log() { result() } else { step.result() };
    let iterations =
        step.iterations().map(|Iterations { expected, dispatched, completed }| [expected, dispatched, completed]);
    json!([
        name,
        format!("{:?}", step.status()),
        step.attempt(),
        step.entered_at(),
        step.ended_at(),
        result,
        step.error(),
        iterations,
        step.failed_iterations(),
        format!("{:?}", step.frames()),
    ])
}

fn all_shown(state: &WorkflowState, events: &[&Event]) -> Value {
    let steps: Vec<Value> = state.steps().into_iter().map(|(name, step)| shown(name, step, events)).collect();
    json!([state.status().as_str(), state.end().map(|end| (end.at, end.error)), steps])
}

/// Panics unless the events in this order, with seals, give the state of the events in the order of the log.
fn seals_have_no_effect(log: &[Event], order: &[usize], seals: &BTreeSet<usize>) {
    let events: Vec<&Event> = order.iter().map(|index| &log[*index]).collect();
    let whole: Vec<&Event> = order.iter().collect::<BTreeSet<_>>().into_iter().map(|index| &log[*index]).collect();
    let state = fold_with_seals(&events, seals);
    let mut expected = fold(whole.iter().copied());
    let unsealed = all_shown(&expected, &whole);
    expected.seal();
    assert_eq!(state, expected);
    assert_eq!(serde_json::to_value(&state).unwrap(), serde_json::to_value(&expected).unwrap());
    assert_eq!(all_shown(&state, &whole), unsealed);
}

/// Generates an order of the events of a log, with repeated and missing events, and the places of the seals.
fn orders(length: usize) -> impl Strategy<Value = (Vec<usize>, BTreeSet<usize>)> {
    let all: Vec<usize> = (0..length).collect();
    let part = prop_oneof![2 => Just(all.clone()), 1 => prop::sample::subsequence(all, 0..=length)];
    part.prop_flat_map(|part| {
        let repeated = prop::sample::subsequence(part.clone(), 0..=part.len());
        (Just(part), repeated).prop_flat_map(|(part, again)| {
            let order = [&*part, &again].concat();
            let length = order.len();
            let seals = prop::collection::btree_set(0..length.max(1), 0..=4);
            (prop_oneof![Just(order.clone()).prop_shuffle(), Just(order)], seals)
        })
    })
}

/// The runs of a loop, the number of events by which its workers' clocks are ahead, whether it ended, the order of the
/// events, and the places of the seals.
type Case<Runs> = (Runs, i64, bool, (Vec<usize>, BTreeSet<usize>));

fn loops() -> impl Strategy<Value = Case<Vec<Vec<Course>>>> {
    let runs = prop::collection::vec(prop::collection::vec(course(), 1..12), 1..3);
    (runs, -4..=4_i64, any::<bool>()).prop_flat_map(|(runs, ahead, ended)| {
        let length = looping(&runs, ahead, ended).0.len();
        (Just(runs), Just(ahead), Just(ended), orders(length))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sealed_loop_is_the_state_of_the_log_in_any_order_and_with_any_repetition(
        (runs, ahead, ended, (order, seals)) in loops()
    ) {
        seals_have_no_effect(&looping(&runs, ahead, ended).0, &order, &seals);
    }

    #[test]
    fn a_sealed_recorded_log_is_its_state_in_any_order_and_with_any_repetition(
        (name, (order, seals)) in prop::sample::select(Log::all()).prop_flat_map(|log| {
            (Just(log.name), orders(log.events.len()))
        })
    ) {
        seals_have_no_effect(&Log::read(&name).events, &order, &seals);
    }
}

fn cursor_loops() -> impl Strategy<Value = Case<Vec<Vec<Vec<Course>>>>> {
    let frame = prop::collection::vec(course(), 0..4);
    let runs = prop::collection::vec(prop::collection::vec(frame, 1..5), 1..3);
    (runs, -4..=4_i64, any::<bool>()).prop_flat_map(|(runs, ahead, ended)| {
        let length = draining(&runs, ahead, ended).0.len();
        (Just(runs), Just(ahead), Just(ended), orders(length))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sealed_cursor_loop_is_the_state_of_the_log_in_any_order_and_with_any_repetition(
        (runs, ahead, ended, (order, seals)) in cursor_loops()
    ) {
        seals_have_no_effect(&draining(&runs, ahead, ended).0, &order, &seals);
    }
}

/// Returns the numbers of iterations by the events alone: the commands that are issued, and those that are completed.
fn counted(events: &[Event]) -> (usize, usize) {
    let mut commands: BTreeMap<String, bool> = BTreeMap::new();
    for event in events {
        let of = |part: Option<&Value>| Some(part?.get("command_id")?.as_str()?.to_owned());
        let in_result = event.result.as_ref().and_then(|result| result.get("context"));
        if let Some(command) = of(event.meta.as_ref()).or_else(|| of(in_result)) {
            *commands.entry(command).or_default() |= event.event_type == "command.completed";
        }
    }
    (commands.len(), commands.values().filter(|completed| **completed).count())
}

#[test]
fn late_and_repeated_events_of_completed_iterations_change_nothing_and_need_no_other_event() {
    let mut history = History::started();
    history.entered_loop(LOOP, 50);
    for index in 0..40 {
        history.iterates(index, None, Course::Completes, 0);
    }
    let late =
        |event: &&Event| ["command.claimed", "command.started", "call.done"].contains(&event.event_type.as_str());
    let (late, rest): (Vec<&Event>, Vec<&Event>) = history.0.iter().partition(late);
    let first = stored(fold(rest));
    let mut state = first.clone();
    late.iter().copied().chain(&history.0).for_each(|event| state.fold(event));
    assert!(state.is_exact());
    state.seal();
    let mut whole = history.fold();
    whole.seal();
    assert_eq!(state, whole);
    let (dispatched, completed) = counted(&history.0);
    assert_eq!((dispatched, completed), (40, 40));
    assert_eq!(step(&state, LOOP).iterations(), Some(Iterations { expected: 50, dispatched: 40, completed: 40 }));
    assert_eq!(step(&first, LOOP).iterations(), step(&state, LOOP).iterations());
}

#[test]
fn the_error_of_a_failed_command_is_shown_although_another_command_completed_its_iteration() {
    let mut history = History::started();
    history.entered_loop(LOOP, 3);
    history.iterates(0, None, Course::Replaced { failed: true }, 0);
    history.iterates(1, None, Course::Completes, 0);
    for state in [history.fold(), stored(history.fold())] {
        let shown = step(&state, LOOP);
        assert_eq!(shown.error(), Some("no route"));
        assert_eq!(shown.iterations(), Some(Iterations { expected: 3, dispatched: 2, completed: 2 }));
    }
}

#[test]
fn an_iteration_is_failed_if_its_last_outcome_is_an_error() {
    for (course, failed) in [
        (Course::Issued, 0),
        (Course::Started, 0),
        (Course::Completes, 0),
        (Course::Fails, 1),
        (Course::FailsThenCompletes, 0),
        (Course::CompletesThenFails, 1),
        (Course::CallFailsThenCompletes, 0),
        (Course::CallHasError, 1),
        (Course::CompletesWithError, 1),
        (Course::Replaced { failed: true }, 0),
    ] {
        let mut history = History::started();
        history.entered_loop(LOOP, 3);
        history.iterates(0, None, Course::Completes, 0);
        history.iterates(1, None, course, 0);
        for state in [history.fold(), stored(history.fold())] {
            assert_eq!(step(&state, LOOP).failed_iterations(), Some(failed), "{course:?}");
        }
    }
    let mut replaced = History::started();
    replaced.entered_loop(LOOP, 1);
    replaced.fails(LOOP, "c1", "no route").runs(LOOP, "c2", json!(1));
    assert_eq!(step(&replaced.fold(), LOOP).failed_iterations(), Some(0), "the loop is completed by other commands");
    let mut plain = History::started();
    plain.entered(LOOP).fails(LOOP, "c1", "no route");
    assert_eq!(step(&plain.fold(), LOOP).failed_iterations(), None, "the step is not a loop");
}

#[test]
fn the_events_of_an_open_row_need_no_other_event_although_later_rows_are_completed() {
    let mut history = History::started();
    history.entered(LOOP).with_result(json!({ "context": { "__cursor_loop": true } }));
    history.claims(0, 0);
    let open = history.issues(0, Some(0));
    for row in 1..10 {
        history.iterates(row, Some(0), Course::Completes, 0);
    }
    let mut state = stored(history.fold());
    assert_eq!(records(&state), 10, "the rows after the open one");
    let next = history.0.len();
    history.completes_iteration(LOOP, &open, 0);
    for event in &history.0[next..] {
        state.fold(event);
    }
    assert!(state.is_exact());
    state.seal();
    assert_eq!(records(&state), 0);
    assert_eq!(step(&state, LOOP).iterations(), Some(Iterations { expected: 10, dispatched: 10, completed: 10 }));
}

#[test]
fn an_event_that_contradicts_a_completed_iteration_makes_the_state_inexact() {
    let mut history = History::started();
    history.entered_loop(LOOP, 2);
    let command = history.issued_iteration(LOOP, 0);
    history.completes_iteration(LOOP, &command, 0);
    let sealed = stored(history.fold());
    let error = json!({ "status": "error", "context": { "command_id": command, "error": "bad" } });
    let cursor = json!({ "command_id": command, "cursor": { "phase": "body", "frame": 0 } });
    for (event_type, meta, result) in [
        ("command.failed", json!({}), error.clone()),
        ("command.completed", json!({}), error.clone()),
        ("call.done", json!({}), error.clone()),
        ("command.issued", cursor, Value::Null),
    ] {
        let mut later = history.clone();
        later.append(event_type, Some(LOOP), meta).with_result(result);
        let mut state = sealed.clone();
        state.fold(later.last());
        assert!(!state.is_exact(), "{event_type}");
    }
    let mut again = history.clone();
    again.entered_loop(LOOP, 2);
    let entered = again.last().clone();
    let second = again.issued_iteration(LOOP, 0);
    again.completes_iteration(LOOP, &second, 0);
    let mut state = sealed.clone();
    again.0.iter().filter(|event| event.event_id != entered.event_id).for_each(|event| state.fold(event));
    assert!(state.is_exact());
    state.fold(&entered);
    assert!(!state.is_exact(), "the run began before its iteration was sealed");
    let mut state = sealed;
    for event in &again.0 {
        state.fold(event);
    }
    assert!(state.is_exact(), "a run that begins before its iterations drops those of the run before");
    assert_eq!(step(&state, LOOP).iterations(), Some(Iterations { expected: 2, dispatched: 1, completed: 1 }));
}

/// Returns the log of a parallel loop of which all iterations but the last two are completed, and one more completion.
fn long_loop(iterations: usize) -> (History, Event) {
    let mut history = History::started();
    history.entered_loop(LOOP, iterations);
    let mut last = String::new();
    for index in 0..iterations {
        last = history.issued_iteration(LOOP, index);
        if index + 2 < iterations {
            history.completes_iteration(LOOP, &last, 0);
        }
    }
    let mut more = history.clone();
    more.0.clear();
    more.reported("command.completed", LOOP, &last, 0);
    let mut event = more.last().clone();
    event.event_id = noetl_domain::ids::Id::new(history.last().event_id.get() + 5);
    (history, event)
}

/// Number of records of commands in a state.
fn records(state: &WorkflowState) -> usize {
    let state = serde_json::to_value(state).unwrap();
    state["steps"][LOOP]["commands"].as_object().map_or(0, serde_json::Map::len)
}

#[test]
fn the_stored_state_and_the_work_of_one_more_event_do_not_grow_with_the_completed_iterations() {
    let sizes = [1_000, 10_000].map(|iterations| {
        let (history, more) = long_loop(iterations);
        let mut state = stored(history.fold());
        let before = serde_json::to_string(&state).unwrap().len();
        assert_eq!(records(&state), 2, "the open iterations");
        state.fold(&more);
        assert!(state.is_exact());
        // The seal visits the records.
        assert_eq!(records(&state), 2);
        state.seal();
        assert_eq!(records(&state), 1);
        let count = i64::try_from(iterations).unwrap();
        let wanted = Iterations { expected: count, dispatched: count, completed: count - 1 };
        assert_eq!(step(&state, LOOP).iterations(), Some(wanted));
        (before, serde_json::to_string(&state).unwrap().len())
    });
    let [short, long] = sizes;
    println!("sizes of a loop of 10^3 and of 10^4 iterations, before and after one more event: {short:?}, {long:?}");
    // Numbers of events, iterations and seconds have more digits.
    assert!(long.0 <= short.0 + 100 && long.1 <= short.1 + 100, "{short:?} {long:?}");
}

#[test]
fn the_stored_state_of_a_cursor_loop_does_not_grow_with_its_rows_and_frames() {
    let sizes = [1_000, 10_000].map(|rows| {
        let mut history = History::started();
        history.entered(LOOP).with_result(json!({ "context": { "__cursor_loop": true } }));
        for frame in 0..rows / 100 {
            history.claims(frame, 0);
            (0..100).for_each(|row| history.iterates(row, Some(frame), Course::Completes, 0));
        }
        let mut state = stored(history.fold());
        let before = serde_json::to_string(&state).unwrap().len();
        assert_eq!(records(&state), 0);
        let next = history.0.len();
        history.claims(rows / 100, 0);
        for event in &history.0[next..] {
            state.fold(event);
        }
        assert!(state.is_exact());
        assert_eq!(records(&state), 1);
        state.seal();
        let count = i64::try_from(rows).unwrap();
        let wanted = Iterations { expected: count, dispatched: count, completed: count };
        assert_eq!(step(&state, LOOP).iterations(), Some(wanted));
        assert_eq!(step(&state, LOOP).frames().unwrap().len(), rows / 100 + 1);
        (before, serde_json::to_string(&state).unwrap().len())
    });
    let [short, long] = sizes;
    println!("sizes of a cursor loop of 10^3 and of 10^4 rows, before and after one more claim: {short:?}, {long:?}");
    assert!(long.0 <= short.0 + 100 && long.1 <= short.1 + 100, "{short:?} {long:?}");
}

#[test]
fn the_recorded_loops_have_no_records_once_they_are_completed() {
    for name in ["loop_parallel", "loop_sequential"] {
        let log = Log::read(name);
        let mut state = recorded::fold(&log.events).state;
        let events: Vec<&Event> = log.events.iter().collect();
        let unsealed = all_shown(&state, &events);
        state.seal();
        let sealed = step(&state, "loop_test");
        assert_eq!(sealed.status(), StepStatus::Completed);
        assert!(sealed.has_result_in_log() && sealed.iteration_results().is_empty());
        assert_eq!(all_shown(&state, &events), unsealed);
    }
}
