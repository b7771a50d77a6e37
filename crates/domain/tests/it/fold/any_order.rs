//! Invented histories give the same state in any order and with any repetition.

use noetl_domain::event::Event;
use noetl_domain::workflow::WorkflowState;
use proptest::prelude::*;
use serde_json::json;

use super::history::{History, fold};

use StepScenario::{Cursor, OfNoetl, Parallel, Plain, Sequential, Skipped, Unknown, Variable};

/// Part of a random history: the events of one step.
#[derive(Debug, Clone)]
enum StepScenario {
    Plain {
        fails: usize,
    },
    Skipped,
    Parallel {
        iterations: usize,
        done: usize,
    },
    Sequential {
        iterations: usize,
    },
    Cursor {
        runs: usize,
        frames: usize,
    },
    Variable {
        name: usize,
        value: i32,
    },
    /// Runs as NoETL's orchestrator and workers write them. The worker's clock is ahead by a number of events.
    OfNoetl {
        runs: usize,
        commands: usize,
        ahead: i64,
        fails: bool,
    },
    Unknown,
}

fn scenario() -> impl Strategy<Value = StepScenario> {
    prop_oneof![
        (0..3_usize).prop_map(|fails| Plain { fails }),
        Just(Skipped),
        (1..5_usize, 0..5_usize).prop_map(|(iterations, done)| Parallel { iterations, done }),
        (1..4_usize).prop_map(|iterations| Sequential { iterations }),
        (1..3_usize, 0..3_usize).prop_map(|(runs, frames)| Cursor { runs, frames }),
        (0..3_usize, any::<i32>()).prop_map(|(name, value)| Variable { name, value }),
        (1..4_usize, 1..3_usize, -4..=4_i64, any::<bool>()).prop_map(|(runs, commands, ahead, fails)| OfNoetl {
            runs,
            commands,
            ahead,
            fails
        }),
        Just(Unknown),
    ]
}

impl History {
    fn play(&mut self, number: usize, step: &str, scenario: &StepScenario) {
        let id = |part: &str, n: usize| format!("{number}-{part}{n}");
        match *scenario {
            Plain { fails } => {
                self.step("step.enter", step);
                for n in 0..fails {
                    self.fails(step, &id("f", n), "failed");
                }
                self.runs(step, &id("c", 0), json!(number));
            }
            Skipped => drop(self.step("step.skipped", step)),
            Parallel { iterations, done } => {
                self.step("step.enter", step).with_context(json!({ "iterations_expected": iterations }));
                for n in 0..iterations {
                    self.command("command.issued", step, &id("i", n));
                }
                for n in 0..done.min(iterations) {
                    self.runs(step, &id("i", n), json!(n));
                }
            }
            Sequential { iterations } => {
                self.step("step.enter", step).with_context(json!({ "iterations_expected": iterations }));
                for n in 0..iterations {
                    self.runs(step, &id("i", n), json!(n));
                }
                self.step("loop.done", step).with_result(json!([number]));
            }
            Cursor { runs, frames } => {
                for run in 0..runs {
                    self.step("step.enter", step).with_context(json!({ "__cursor_loop": true }));
                    for frame in 0..frames {
                        for phase in ["claim", "body"] {
                            let meta = json!({
                                "command_id": id(phase, run * 10 + frame),
                                "cursor": { "phase": phase, "frame": frame },
                            });
                            self.append("command.issued", Some(step), meta);
                            self.command("command.completed", step, &id(phase, run * 10 + frame));
                        }
                    }
                    self.step("step.exit", step).with_context(json!({ "__cursor_drained": true }));
                }
            }
            Variable { name, value } => {
                let values = json!({ "values": { format!("v{name}"): value } });
                self.step("ctx.updated", step).with_context(values);
            }
            OfNoetl { runs, commands, ahead, fails } => {
                for _ in 0..runs {
                    self.run_of_noetl(step, commands, ahead, fails);
                }
            }
            Unknown => drop(self.step("worker.heartbeat", step)),
        }
    }

    fn run_of_noetl(&mut self, step: &str, commands: usize, ahead: i64, fails: bool) {
        self.entered(step);
        if commands > 1 {
            self.with_context(json!({ "iterations_expected": commands }));
        }
        let issued: Vec<String> = (0..commands).map(|_| self.issued(step)).collect();
        for command in issued {
            self.command("command.claimed", step, &command);
            self.reported("command.started", step, &command, ahead);
            // An older worker enters the step again, and names no command.
            self.reported("step.enter", step, "", ahead);
            let (call, end) = if fails { ("call.error", "command.failed") } else { ("call.done", "command.completed") };
            for event_type in [call, end] {
                let result = json!({ "status": "error", "context": { "command_id": command, "error": "no" } });
                self.reported(event_type, step, &command, ahead).with_result(result);
            }
        }
    }
}

/// Generates the step scenarios of a history, its last event (or an empty text), the order in which its events are folded, and the
/// number of events before a state is stored. The order has each index of an event once or twice.
fn cases() -> impl Strategy<Value = (Vec<(usize, StepScenario)>, &'static str, Vec<usize>, usize)> {
    let ends = prop_oneof![Just(""), Just("playbook.completed"), Just("workflow.failed"), Just("playbook_cancelled")];
    (prop::collection::vec((0..4_usize, scenario()), 0..12), ends).prop_flat_map(|(steps, end)| {
        let events: Vec<usize> = (0..history(&steps, end).0.len()).collect();
        let repeated = prop::sample::subsequence(events.clone(), 0..=events.len());
        repeated.prop_flat_map(move |again| {
            let order = [&*events, &again].concat();
            let length = order.len();
            (Just(steps.clone()), Just(end), Just(order).prop_shuffle(), 0..=length)
        })
    })
}

/// Returns the history of the given step scenarios. The numbers are those of the steps.
fn history(steps: &[(usize, StepScenario)], end: &str) -> History {
    let mut history = History::started();
    for (number, (name, scenario)) in steps.iter().enumerate() {
        history.play(number, &format!("step{name}"), scenario);
    }
    if !end.is_empty() {
        history.append(end, None, json!({}));
    }
    history
}

/// Panics unless the events give the same state in the given order as in the order of the history. The test below
/// prints the arguments of a failing case, such as `order_has_no_effect(&[(0, Skipped)], "", &[1, 0], 1)`.
fn order_has_no_effect(steps: &[(usize, StepScenario)], end: &str, order: &[usize], split: usize) {
    let history = history(steps, end);
    let expected = history.fold();
    let events: Vec<Event> = order.iter().map(|index| history.0[*index].clone()).collect();
    let (before, after) = events.split_at(split);
    let stored = serde_json::to_value(fold(before)).unwrap();
    let mut state: WorkflowState = serde_json::from_value(stored).unwrap();
    for event in after {
        state.fold(event);
    }
    assert_eq!(state, expected);
    assert_eq!(serde_json::to_value(&state).unwrap(), serde_json::to_value(&expected).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_repetition_and_split_of_the_events_give_the_same_state((steps, end, order, split) in cases()) {
        order_has_no_effect(&steps, end, &order, split);
    }
}
