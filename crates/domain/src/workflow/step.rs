//! State of a step in its current run.
//!
//! A `step.enter` event opens a run, unless a worker wrote it: then it names its command or shows that a worker
//! started. One that starts a loop always opens a run. Values from before the start of the run are cleared, so the size
//! of the state does not grow with the number of runs.
//!
//! The state consists of registers and of a set of the run's commands. So the order of folding does not matter, and
//! folding an event again changes nothing.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::fact::{self, StepKind};
use super::order::{self, Moment, Rank};
use super::register::{Place, Register};
use super::work::Work;
use crate::event::Event;
use crate::ids::Id;
use plain_json::AnyJson;

/// Kind of progress of a step or of one of its commands. Of each kind, the latest event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Progress {
    Entered,
    /// A worker entered the step, to run a command of it.
    EnteredByWorker,
    Issued,
    Claimed,
    Started,
    CommandCompleted,
    CommandFailed,
    /// The step itself completed; the event names no command.
    Completed,
    Failed,
    Skipped,
    /// A loop ended: `loop.done`, or the exit of a drained cursor loop.
    LoopEnded,
}

/// State of a step, folded from its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    /// Position of the first event of the step. Steps are listed in this order.
    pub(super) first: Id,
    /// Event that opened the current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Id>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) progress: BTreeMap<Progress, Register<DateTime<Utc>, Rank>>,
    /// Result in a command's `call.done`.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) called: Register<AnyJson, Rank>,
    /// Result in the completion of the step itself, or in the end of its loop.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) outcome: Register<AnyJson>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) attempt: Register<i64, Rank>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) expected: Register<i64>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) cursor_loop: Register<()>,
    /// Events that name no command.
    #[serde(default, skip_serializing_if = "Work::is_empty")]
    pub(super) own: Work,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) commands: BTreeMap<String, Work>,
}

impl StepState {
    /// Returns the state of a step without events.
    pub(super) fn new() -> Self {
        Self {
            first: Id::new(i64::MAX),
            run: None,
            progress: BTreeMap::new(),
            called: Register::default(),
            outcome: Register::default(),
            attempt: Register::default(),
            expected: Register::default(),
            cursor_loop: Register::default(),
            own: Work::default(),
            commands: BTreeMap::new(),
        }
    }

    pub(super) fn fold(&mut self, kind: StepKind, event: &Event) {
        let (id, command) = (event.event_id, fact::command_id(event));
        let opens = kind == StepKind::Entered && opens_run(command.as_deref(), event);
        let command = command.filter(|_| !opens);
        let issued = command.as_deref().and_then(|command| order::issued_by(command, event.execution_id));
        let rank = Rank::of(issued, Moment::of(kind, issued, id));
        self.first = self.first.min(rank.position());
        if opens {
            self.open_run(id);
        }
        if Some(rank.position()) < self.run {
            return;
        }
        let progress = progress_of(kind, opens, command.is_some(), event);
        if let Some(progress) = progress {
            self.progress.entry(progress).or_default().set(rank, event.created_at);
        }
        if let Some(attempt) = fact::attempt(event) {
            self.attempt.set(rank, attempt);
        }
        if opens {
            self.enter(event);
        }
        self.note_result(kind, progress, rank, event);
        let work = match command {
            Some(command) => self.commands.entry(command).or_insert_with(|| Work::new(issued)),
            None => &mut self.own,
        };
        work.fold(kind, event);
    }

    fn open_run(&mut self, start: Id) {
        if Some(start) <= self.run {
            return;
        }
        self.run = Some(start);
        for progress in self.progress.values_mut() {
            progress.forget_before(start);
        }
        self.progress.retain(|_, progress| !progress.is_empty());
        self.called.forget_before(start);
        self.outcome.forget_before(start);
        self.attempt.forget_before(start);
        self.expected.forget_before(start);
        self.cursor_loop.forget_before(start);
        self.own.forget_before(start);
        for command in self.commands.values_mut() {
            command.forget_before(start);
        }
        self.commands.retain(|_, command| !command.is_empty());
    }

    fn enter(&mut self, event: &Event) {
        if let Some(expected) = expected_iterations(event) {
            self.expected.set(event.event_id, expected);
        }
        if fact::is_marked(event, "__cursor_loop") {
            self.cursor_loop.set(event.event_id, ());
        }
    }

    fn note_result(&mut self, kind: StepKind, progress: Option<Progress>, rank: Rank, event: &Event) {
        let Some(result) = event.result.as_ref().filter(|result| !result.is_null()) else { return };
        if kind == StepKind::Done {
            self.called.set(rank, AnyJson(result.clone()));
        }
        if matches!(progress, Some(Progress::Completed | Progress::LoopEnded)) {
            self.outcome.set(event.event_id, AnyJson(result.clone()));
        }
    }
}

fn expected_iterations(event: &Event) -> Option<i64> {
    fact::context_value(event, "iterations_expected").and_then(serde_json::Value::as_i64)
}

fn opens_run(command: Option<&str>, event: &Event) -> bool {
    let begins_loop = expected_iterations(event).is_some() || fact::is_marked(event, "__cursor_loop");
    begins_loop || (command.is_none() && !fact::is_entered_by_worker(event))
}

/// Returns the progress that an event reports; `None`: the event only tells of a call.
fn progress_of(kind: StepKind, opens: bool, of_command: bool, event: &Event) -> Option<Progress> {
    let drained = || fact::is_marked(event, "__cursor_drained");
    Some(match kind {
        StepKind::Entered if opens => Progress::Entered,
        StepKind::Entered => Progress::EnteredByWorker,
        StepKind::Skipped => Progress::Skipped,
        StepKind::Issued => Progress::Issued,
        StepKind::Claimed => Progress::Claimed,
        StepKind::Started => Progress::Started,
        StepKind::Done | StepKind::CallFailed => return None,
        StepKind::LoopDone => Progress::LoopEnded,
        StepKind::Completed if drained() => Progress::LoopEnded,
        StepKind::Completed if of_command => Progress::CommandCompleted,
        // An older worker exits a step with the status FAILED before it reports the failed command.
        StepKind::Completed if fact::error_status(event).is_some() => Progress::Failed,
        StepKind::Completed => Progress::Completed,
        StepKind::Failed if of_command => Progress::CommandFailed,
        StepKind::Failed => Progress::Failed,
    })
}
