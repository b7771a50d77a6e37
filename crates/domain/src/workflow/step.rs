//! State of a step in its current run.
//!
//! A `step.enter` event that names no command, or that starts a loop, opens a run. (A worker's own `step.enter` names
//! its command.) Values from earlier events of the step are cleared, so the size of the state does not grow with the
//! number of runs.
//!
//! The state consists of registers and of a set of the run's commands. So the order of folding does not matter, and
//! folding an event again changes nothing.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::fact::{self, Phase, StepKind};
use super::register::Register;
use crate::event::Event;
use crate::ids::Id;
use plain_json::AnyJson;

/// Kind of progress of a step or of one of its commands. Of each kind, the latest event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Progress {
    Entered,
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

/// A command of a step's current run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Command {
    /// Latest event that names the command.
    seen: Register<()>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    completed: Register<()>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    failed: Register<()>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    cursor: Register<(Phase, i64)>,
}

impl Command {
    pub(super) fn is_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Returns whether the latest known outcome is a failure.
    pub(super) fn is_failed(&self) -> bool {
        self.failed.event() > self.completed.event()
    }

    pub(super) fn is_open(&self) -> bool {
        self.completed.is_empty() && self.failed.event().is_none_or(|failed| self.seen.event() > Some(failed))
    }

    pub(super) fn cursor(&self) -> Option<(Phase, i64)> {
        self.cursor.get().copied()
    }

    fn forget_before(&mut self, start: Id) {
        self.seen.forget_before(start);
        self.completed.forget_before(start);
        self.failed.forget_before(start);
        self.cursor.forget_before(start);
    }
}

/// State of a step, folded from its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    /// First event of the step. Steps are listed in this order.
    pub(super) first: Id,
    /// Event that opened the current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Id>,
    /// Latest event of each kind of progress. Stored snapshots name it `marks`.
    #[serde(default, rename = "marks")]
    pub(super) progress: BTreeMap<Progress, Register<DateTime<Utc>>>,
    /// Result in a command's `call.done`.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) called: Register<AnyJson>,
    /// Result in a command's completion.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) completion: Register<AnyJson>,
    /// Result in the completion of the step itself, or in the end of its loop.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) outcome: Register<AnyJson>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) error: Register<Option<String>>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) attempt: Register<i64>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) expected: Register<i64>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub(super) cursor_loop: Register<()>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) commands: BTreeMap<String, Command>,
}

impl StepState {
    pub(super) fn new(first: Id) -> Self {
        Self {
            first,
            run: None,
            progress: BTreeMap::new(),
            called: Register::default(),
            completion: Register::default(),
            outcome: Register::default(),
            error: Register::default(),
            attempt: Register::default(),
            expected: Register::default(),
            cursor_loop: Register::default(),
            commands: BTreeMap::new(),
        }
    }

    pub(super) fn fold(&mut self, kind: StepKind, event: &Event) {
        let (id, command) = (event.event_id, fact::command_id(event));
        self.first = self.first.min(id);
        if kind == StepKind::Entered && opens_run(event) {
            self.open_run(id);
        }
        if Some(id) < self.run {
            return;
        }
        let progress = progress_of(kind, command.is_some(), event);
        if let Some(progress) = progress {
            self.progress.entry(progress).or_default().set(id, event.created_at);
        }
        if let Some(attempt) = fact::attempt(event) {
            self.attempt.set(id, attempt);
        }
        match kind {
            StepKind::Entered => self.enter(event),
            StepKind::Completed => self.error.set(id, None),
            StepKind::Failed => self.error.set(id, fact::error(event)),
            _ => {}
        }
        self.note_result(progress, event);
        if let Some(command) = command {
            self.note_command(command, kind, event);
        }
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
        self.completion.forget_before(start);
        self.outcome.forget_before(start);
        self.error.forget_before(start);
        self.attempt.forget_before(start);
        self.expected.forget_before(start);
        self.cursor_loop.forget_before(start);
        for command in self.commands.values_mut() {
            command.forget_before(start);
        }
        self.commands.retain(|_, command| !command.seen.is_empty());
    }

    fn enter(&mut self, event: &Event) {
        if let Some(expected) = expected_iterations(event) {
            self.expected.set(event.event_id, expected);
        }
        if fact::is_marked(event, "__cursor_loop") {
            self.cursor_loop.set(event.event_id, ());
        }
    }

    fn note_result(&mut self, progress: Option<Progress>, event: &Event) {
        let given = match progress {
            None => &mut self.called,
            Some(Progress::CommandCompleted) => &mut self.completion,
            Some(Progress::Completed | Progress::LoopEnded) => &mut self.outcome,
            Some(_) => return,
        };
        if let Some(result) = event.result.as_ref().filter(|result| !result.is_null()) {
            given.set(event.event_id, AnyJson(result.clone()));
        }
    }

    fn note_command(&mut self, name: String, kind: StepKind, event: &Event) {
        let command = self.commands.entry(name).or_default();
        command.seen.set(event.event_id, ());
        match kind {
            StepKind::Completed => command.completed.set(event.event_id, ()),
            StepKind::Failed => command.failed.set(event.event_id, ()),
            _ => {}
        }
        if let Some(cursor) = fact::cursor(event) {
            command.cursor.set(event.event_id, cursor);
        }
    }
}

fn expected_iterations(event: &Event) -> Option<i64> {
    fact::context_value(event, "iterations_expected").and_then(serde_json::Value::as_i64)
}

fn opens_run(event: &Event) -> bool {
    let begins_loop = expected_iterations(event).is_some() || fact::is_marked(event, "__cursor_loop");
    begins_loop || fact::command_id(event).is_none()
}

/// Returns the progress that an event reports; `None`: the event only carries the result of a call.
fn progress_of(kind: StepKind, of_command: bool, event: &Event) -> Option<Progress> {
    Some(match (kind, of_command) {
        (StepKind::Entered, _) => Progress::Entered,
        (StepKind::Skipped, _) => Progress::Skipped,
        (StepKind::Issued, _) => Progress::Issued,
        (StepKind::Claimed, _) => Progress::Claimed,
        (StepKind::Started, _) => Progress::Started,
        (StepKind::Done, _) => return None,
        (StepKind::LoopDone, _) => Progress::LoopEnded,
        (StepKind::Completed, _) if fact::is_marked(event, "__cursor_drained") => Progress::LoopEnded,
        (StepKind::Completed, true) => Progress::CommandCompleted,
        (StepKind::Completed, false) => Progress::Completed,
        (StepKind::Failed, true) => Progress::CommandFailed,
        (StepKind::Failed, false) => Progress::Failed,
    })
}
