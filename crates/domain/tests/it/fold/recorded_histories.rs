//! Histories that are cut, shuffled and duplicated from the recorded logs give the same state as in the order of ids.

use std::fmt;
use std::sync::LazyLock;

use noetl_domain::event::Event;
use noetl_domain::workflow::WorkflowState;
use proptest::prelude::*;

use super::recorded::{Log, fold};

static LOGS: LazyLock<Vec<Log>> = LazyLock::new(Log::all);

/// Events of a recorded log in the order in which they are folded. A failing test prints it as a statement that a test
/// can contain.
#[derive(Clone)]
struct History {
    /// Name of the log.
    log: &'static str,
    /// Indexes of the events in the log. An index may be missing, and may be repeated.
    order: Vec<usize>,
    /// Number of events that are folded before the state is stored and read again.
    split: usize,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gives_one_state({:?}, &{:?}, {});", self.log, self.order, self.split)
    }
}

/// Generates histories: a part of a log (each event with the same probability, or a prefix), in any order, with
/// repeated events.
fn histories() -> impl Strategy<Value = History> {
    prop::sample::select(&LOGS[..]).prop_flat_map(|log| {
        let all: Vec<usize> = (0..log.events.len()).collect();
        let prefix = (0..=all.len()).prop_map(|length| (0..length).collect::<Vec<_>>());
        let part = prop_oneof![Just(all.clone()), prefix, prop::sample::subsequence(all.clone(), 0..=all.len())];
        let name = LOGS.iter().map(|known| known.name.as_str()).find(|known| *known == log.name).unwrap();
        part.prop_flat_map(move |part| {
            let repeated = prop::sample::subsequence(part.clone(), 0..=part.len());
            repeated.prop_flat_map(move |again| {
                let order = [&*part, &again].concat();
                let length = order.len();
                (Just(order).prop_shuffle(), 0..=length).prop_map(move |(order, split)| History {
                    log: name,
                    order,
                    split,
                })
            })
        })
    })
}

/// Panics unless the events give one state: in the given order, in the order of their ids, and if the state is stored
/// and read again after the first `split` events.
fn gives_one_state(log: &str, order: &[usize], split: usize) {
    let log = LOGS.iter().find(|known| known.name == log).unwrap();
    let mut part = order.to_vec();
    part.sort_unstable();
    part.dedup();
    let expected = fold(part.iter().map(|index| &log.events[*index])).state;
    let events: Vec<&Event> = order.iter().map(|index| &log.events[*index]).collect();
    let (before, after) = events.split_at(split);
    let stored = serde_json::to_string(&fold(before.iter().copied()).state).unwrap();
    let mut state: WorkflowState = serde_json::from_str(&stored).unwrap();
    for event in after {
        state.fold(event);
    }
    assert_eq!(state, expected);
    assert_eq!(serde_json::to_value(&state).unwrap(), serde_json::to_value(&expected).unwrap());
    read_everything(&state);
}

/// Reads every value of a state.
fn read_everything(state: &WorkflowState) {
    let _ = (state.status(), state.end(), state.ctx().count());
    for (_, step) in state.steps() {
        let _ = (step.status(), step.entered_at(), step.ended_at(), step.attempt());
        let _ = (step.result(), step.error(), step.iteration_results(), step.iterations(), step.frames());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_repetition_and_split_of_a_part_of_a_log_give_the_same_state(history in histories()) {
        gives_one_state(history.log, &history.order, history.split);
    }
}

#[test]
fn every_prefix_of_a_log_can_be_read_in_the_order_of_ids_and_of_commits() {
    for log in &*LOGS {
        let by_id = log.events.iter().collect::<Vec<_>>();
        let mut by_commit = by_id.clone();
        by_commit.sort_by_key(|event| event.created_at);
        for events in [by_id, by_commit] {
            let mut state = WorkflowState::default();
            read_everything(&state);
            for event in events {
                state.fold(event);
                read_everything(&state);
            }
        }
    }
}
