//! Statistics of the steps of several executions: where the time goes, and what fails. They are computed from each single
//! duration, so the percentiles are exact.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::ids::Id;
use super::workflow::{StepState, StepStatus, WorkflowState};

/// Durations of a step, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepDurations {
    /// Duration that half of the executions do not exceed.
    pub p50: f64,
    /// Duration that 95 % of the executions do not exceed.
    pub p95: f64,
    /// Duration that 99 % of the executions do not exceed.
    pub p99: f64,
    /// Longest duration.
    pub max: f64,
    /// Sum of the durations.
    pub total: f64,
}

/// Statistics of a step. A step that was entered again in an execution counts with its last run.
#[derive(Debug, Clone, PartialEq)]
pub struct StepSummary {
    /// Name of the step.
    pub name: String,
    /// Number of executions in which it was run.
    pub executions: i64,
    /// Number of its attempts; in a loop, of its iterations.
    pub attempts: i64,
    /// Number of executions in which it is failed.
    pub failed: i64,
    /// Number of executions in which it was skipped.
    pub skipped: i64,
    /// Share of its durations in those of all steps (0 to 1).
    pub share: f64,
    /// Its durations; `None`: it has not ended in any execution.
    pub durations: Option<StepDurations>,
    /// Execution in which it took the longest time; of several, the first added one.
    pub slowest: Option<Id>,
    /// First added execution in which it is failed.
    pub failed_in: Option<Id>,
}

impl StepSummary {
    fn total(&self) -> f64 {
        self.durations.map_or(0.0, |durations| durations.total)
    }
}

/// Statistics of the steps of executions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepStats {
    /// Number of executions.
    pub executions: i64,
    /// Time at which the earliest of them started.
    pub from: Option<DateTime<Utc>>,
    /// Time at which the latest of them ended.
    pub to: Option<DateTime<Utc>>,
    /// The steps, the one that takes the most time first.
    pub steps: Vec<StepSummary>,
    /// Whether there are more steps.
    pub more_steps: bool,
}

/// Sums over executions, to which one execution after the other is added.
#[derive(Debug, Clone, Default)]
pub struct StepSums {
    executions: i64,
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
    by_name: BTreeMap<String, Sums>,
}

/// Sums of a step.
#[derive(Debug, Clone, Default)]
struct Sums {
    executions: i64,
    attempts: i64,
    failed: i64,
    skipped: i64,
    /// Durations in seconds, with their executions.
    durations: Vec<(f64, Id)>,
    failed_in: Option<Id>,
}

impl StepSums {
    /// Adds the steps of an execution.
    pub fn add(&mut self, execution: Id, state: &WorkflowState) {
        self.executions += 1;
        let (start, end) = (state.started.get().map(|start| start.at), state.end().map(|end| end.at));
        self.from = self.from.into_iter().chain(start).min();
        self.to = self.to.max(end);
        for (name, step) in state.steps() {
            match self.by_name.get_mut(name) {
                Some(sums) => sums.add(execution, step),
                None => self.by_name.entry(name.to_owned()).or_default().add(execution, step),
            }
        }
    }

    /// Returns the statistics, with up to `most` steps.
    #[must_use]
    pub fn stats(self, most: usize) -> StepStats {
        let Self { executions, from, to, by_name } = self;
        let mut steps: Vec<StepSummary> = by_name.into_iter().map(|(name, sums)| sums.summary(name)).collect();
        let of_all: f64 = steps.iter().map(StepSummary::total).sum();
        for step in steps.iter_mut().filter(|_| of_all > 0.0) {
            step.share = step.total() / of_all;
        }
        // The sort is stable, so steps that take the same time are in the order of their names.
        steps.sort_by(|a, b| b.total().total_cmp(&a.total()));
        let more_steps = steps.len() > most;
        steps.truncate(most);
        StepStats { executions, from, to, steps, more_steps }
    }
}

impl Sums {
    fn add(&mut self, execution: Id, step: &StepState) {
        match step.status() {
            StepStatus::Pending => return,
            StepStatus::Skipped => {
                self.skipped += 1;
                return;
            }
            StepStatus::Failed => {
                self.failed += 1;
                self.failed_in.get_or_insert(execution);
            }
            StepStatus::Entered
            | StepStatus::CommandIssued
            | StepStatus::CommandClaimed
            | StepStatus::CommandStarted
            | StepStatus::Completed => {}
        }
        self.executions += 1;
        let attempts = step.iterations().map_or_else(|| step.attempt(), |iterations| iterations.dispatched);
        self.attempts = self.attempts.saturating_add(attempts.max(0));
        if let Some((entered, ended)) = step.entered_at().zip(step.ended_at()) {
            // The times are of several clocks.
            let duration = (ended - entered).max(TimeDelta::zero());
            self.durations.push((duration.as_seconds_f64(), execution));
        }
    }

    fn summary(self, name: String) -> StepSummary {
        let Self { executions, attempts, failed, skipped, mut durations, failed_in } = self;
        // The sort is stable: of the longest durations, that of the first added execution is the last one.
        durations.reverse();
        durations.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        // The nearest rank: the first duration that so many percent of the durations do not exceed.
        let percentile = |percent: usize| {
            let rank = (durations.len() * percent).div_ceil(100);
            durations.get(rank.saturating_sub(1)).map(|(seconds, _)| *seconds)
        };
        let longest = durations.last().copied();
        let of_percentiles = || {
            Some(StepDurations {
                p50: percentile(50)?,
                p95: percentile(95)?,
                p99: percentile(99)?,
                max: longest?.0,
                total: durations.iter().map(|(seconds, _)| *seconds).sum(),
            })
        };
        StepSummary {
            name,
            executions,
            attempts,
            failed,
            skipped,
            share: 0.0,
            durations: of_percentiles(),
            slowest: longest.map(|(_, execution)| execution),
            failed_in,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Event;

    /// Returns the state after these events: type, step and second.
    fn state(events: &[(&str, &str, i64)]) -> WorkflowState {
        let mut state = WorkflowState::default();
        for (id, (event_type, step, second)) in (1..).zip(events) {
            let at = DateTime::from_timestamp(*second, 0).unwrap();
            let event = Event::bare(Id::new(7), Id::new(id), Id::new(3), event_type, at);
            let iterations = step.starts_with("each").then(|| json!({ "iterations_expected": 2 }));
            let meta = json!({ "command_id": format!("{step}:{id}") });
            let meta = event_type.starts_with("command").then_some(meta);
            state.fold(&Event { node_name: Some((*step).to_owned()), context: iterations, meta, ..event });
        }
        state
    }

    fn stats(states: &[WorkflowState], most: usize) -> StepStats {
        let mut sums = StepSums::default();
        for (id, state) in (1..).zip(states) {
            sums.add(Id::new(id), state);
        }
        sums.stats(most)
    }

    /// Returns the state of an execution whose step `a` takes this many seconds.
    fn with_duration(seconds: i64) -> WorkflowState {
        state(&[("step.enter", "a", 100), ("command.completed", "a", 100 + seconds)])
    }

    fn durations(states: &[WorkflowState]) -> Option<StepDurations> {
        stats(states, 1).steps[0].durations
    }

    #[test]
    fn percentiles_are_those_of_the_single_durations() {
        let all: Vec<WorkflowState> = (1..=200).rev().map(with_duration).collect();
        let expected = StepDurations { p50: 100.0, p95: 190.0, p99: 198.0, max: 200.0, total: 20100.0 };
        assert_eq!(durations(&all), Some(expected));
        let one = StepDurations { p50: 3.0, p95: 3.0, p99: 3.0, max: 3.0, total: 3.0 };
        assert_eq!(durations(&[with_duration(3)]), Some(one));
        let none = StepDurations { p50: 0.0, p95: 0.0, p99: 0.0, max: 0.0, total: 0.0 };
        assert_eq!(durations(&[with_duration(-5)]), Some(none), "a clock that is late");
        assert_eq!(durations(&[state(&[("step.enter", "a", 1)])]), None);
    }

    #[test]
    fn the_step_that_takes_the_most_time_is_first_and_the_shares_are_of_all_steps() {
        let both = state(&[
            ("step.enter", "a", 0),
            ("command.completed", "a", 1),
            ("step.enter", "b", 1),
            ("command.completed", "b", 3),
            ("step.enter", "c", 3),
            ("command.completed", "c", 4),
        ]);
        let found = stats(std::slice::from_ref(&both), 2);
        let shares: Vec<(&str, String)> =
            found.steps.iter().map(|step| (step.name.as_str(), format!("{:.2}", step.share))).collect();
        assert_eq!(shares, [("b", "0.50".to_owned()), ("a", "0.25".to_owned())]);
        assert_eq!(stats(&[with_duration(0)], 1).steps[0].share.to_string(), "0", "no step took any time");
        assert!(found.more_steps);
        assert!(!stats(&[both], 3).more_steps);
    }

    #[test]
    fn failures_skips_attempts_and_iterations_are_counted() {
        let failed = state(&[
            ("step.enter", "a", 0),
            ("command.failed", "a", 1),
            ("command.failed", "a", 5),
            ("step.skipped", "b", 5),
            ("step.enter", "each", 6),
            ("command.completed", "each", 7),
            ("command.completed", "each", 8),
        ]);
        let other = state(&[("step.enter", "a", 0), ("command.completed", "a", 9), ("step.enter", "b", 9)]);
        let found = stats(&[other, failed.clone(), failed], 9);
        let counts: Vec<_> = found
            .steps
            .iter()
            .map(|step| (step.name.as_str(), step.executions, step.attempts, step.failed, step.skipped))
            .collect();
        assert_eq!(counts, [("a", 3, 5, 2, 0), ("each", 2, 4, 0, 0), ("b", 1, 0, 0, 2)]);
        let places: Vec<_> = found.steps.iter().map(|step| (step.slowest, step.failed_in)).collect();
        assert_eq!(places[0], (Some(Id::new(1)), Some(Id::new(2))));
        assert_eq!(places[2], (None, None));
    }

    #[test]
    fn the_time_is_from_the_first_start_to_the_last_end() {
        let at = |second| DateTime::from_timestamp(second, 0);
        let run = |start, end| state(&[("playbook_started", "run", start), ("playbook_completed", "run", end)]);
        let found = stats(&[run(50, 60), run(10, 90), WorkflowState::default(), run(30, 40)], 1);
        assert_eq!((found.executions, found.from, found.to), (4, at(10), at(90)));
        assert_eq!(stats(&[], 1), StepStats::default());
    }
}
