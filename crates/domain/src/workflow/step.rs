//! State of a step in its current run.
//!
//! A `step.enter` event opens a run, unless a worker wrote it: then it names its command or shows that a worker
//! started. One that starts a loop always opens a run. Values from before the start of the run are cleared, so the size
//! of the state does not grow with the number of runs.
//!
//! The state consists of registers and of a set of the run's commands. So the order of folding does not matter, and
//! folding an event again changes nothing.
//!
//! The records of a loop's iterations that are completed without an error can be dropped ([`StepState::seal`]). A sealed
//! state gives the same values as the state before it, except for the results of the iterations. It takes further events
//! as that state does, or reports that an event contradicts it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::fact::{self, StepKind};
use super::order::{self, Moment, Rank};
use super::register::{Place, Register};
use super::sealed::{Contradiction, Sealed};
use super::sealed_rows::SealedRows;
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
    /// A tool began work elsewhere. The step is not completed.
    Parked,
    /// A call that names no command returned. It completes a parked step, and no other one.
    Returned,
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
    /// Iterations without records.
    #[serde(default, skip_serializing_if = "Sealed::is_empty")]
    pub(super) sealed: Sealed,
    /// Commands of a cursor loop without records.
    #[serde(default, skip_serializing_if = "SealedRows::is_empty")]
    pub(super) sealed_rows: SealedRows,
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
            sealed: Sealed::default(),
            sealed_rows: SealedRows::default(),
        }
    }

    /// Folds an event of the step. If it contradicts a sealed iteration, the state is no longer exact.
    pub(super) fn fold(&mut self, kind: StepKind, event: &Event) -> Result<(), Contradiction> {
        let (id, command) = (event.event_id, fact::command_id(event));
        let opens = kind == StepKind::Entered && opens_run(command.as_deref(), event);
        let command = command.filter(|_| !opens);
        let kind = reported_kind(kind, command.as_deref(), event);
        let issued = command.as_deref().and_then(|command| order::issued_by(command, event.execution_id));
        let rank = Rank::of(issued, Moment::of(kind, issued, id));
        self.first = self.first.min(rank.position());
        if opens {
            self.open_run(id)?;
        }
        if Some(rank.position()) < self.run {
            return Ok(());
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
        let index = command.as_deref().filter(|_| issued.is_some()).and_then(order::index_of);
        if index.is_some_and(|index| self.sealed.contains(index)) {
            return self.sealed.fold(kind, issued, event);
        }
        if issued.is_some_and(|issued| self.sealed_rows.contains(issued)) {
            return Err(Contradiction);
        }
        let work = match command {
            Some(command) => self.commands.entry(command).or_insert_with(|| Work::new(issued)),
            None => &mut self.own,
        };
        work.fold(kind, event);
        Ok(())
    }

    /// Drops the records of the iterations that are completed without an error, and keeps the indexes of the iterations.
    ///
    /// An iteration is known by its index: several commands with the same index are one iteration. It is sealed if one
    /// of them is completed, and none of them reported an error.
    pub(super) fn seal(&mut self) {
        if self.is_cursor() {
            self.seal_rows();
            return;
        }
        let done = self.done_indexes();
        let sealed = &mut self.sealed;
        for index in &done {
            sealed.insert(*index);
        }
        self.commands.retain(|command, work| {
            let is_done = index_of(command, work).is_some_and(|index| done.contains(&index));
            if is_done {
                let completion = work.completion().map(|(rank, completion)| (rank.event(), completion.at));
                sealed.add_command(work.issued(), completion);
            }
            !is_done
        });
    }

    /// Drops the records of a cursor loop's commands that are completed without an error, up to the first command that
    /// has not ended. The records of failed ones stay.
    fn seal_rows(&mut self) {
        // A call is expected too, because its event can follow the completion's.
        let done = |work: &Work| work.is_completed() && work.is_without_error() && work.call().is_some();
        let has_ended = |work: &Work| !work.is_open() && work.cursor().is_some();
        let first_open = self.commands.values().filter(|work| !has_ended(work)).filter_map(Work::issued).min();
        let rows = &mut self.sealed_rows;
        self.commands.retain(|_, work| {
            let issued = work.issued().filter(|issued| first_open.is_none_or(|open| *issued < open));
            match issued.zip(work.cursor()).filter(|_| done(work)) {
                Some((issued, cursor)) => {
                    rows.add(issued, cursor);
                    false
                }
                None => true,
            }
        });
    }

    /// Returns the indexes of the iterations with records that can be sealed.
    fn done_indexes(&self) -> BTreeSet<u64> {
        let (mut completed, mut failed) = (BTreeSet::new(), BTreeSet::new());
        for (command, work) in self.commands.iter().filter(|_| self.has_indexes()) {
            let Some(index) = index_of(command, work) else { continue };
            if !work.is_without_error() || work.cursor().is_some() {
                failed.insert(index);
            } else if work.is_completed() {
                completed.insert(index);
            }
        }
        &completed - &failed
    }

    /// Returns the records of the commands that are not of an iteration that can be sealed.
    pub(super) fn undone(&self) -> impl Iterator<Item = &Work> {
        let done = self.done_indexes();
        let is_done = move |command: &str, work| index_of(command, work).is_some_and(|index| done.contains(&index));
        self.commands.iter().filter(move |(command, work)| !is_done(command, work)).map(|(_, work)| work)
    }

    /// Returns whether the iterations are known by their indexes. Those of a cursor loop are not: each of its frames
    /// begins with index 0.
    pub(super) fn has_indexes(&self) -> bool {
        !self.expected.is_empty() && !self.is_cursor()
    }

    fn open_run(&mut self, start: Id) -> Result<(), Contradiction> {
        if Some(start) <= self.run {
            return Ok(());
        }
        // The records of iterations that belong to the new run are gone.
        if self.sealed.has_issued_since(start) || self.sealed_rows.contains(start) {
            return Err(Contradiction);
        }
        self.sealed = Sealed::default();
        self.sealed_rows = SealedRows::default();
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
        Ok(())
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

/// Returns the index of the iteration that a command belongs to, if it is a command of NoETL.
pub(super) fn index_of(command: &str, work: &Work) -> Option<u64> {
    work.issued().and_then(|_| order::index_of(command))
}

fn expected_iterations(event: &Event) -> Option<i64> {
    fact::context_value(event, "iterations_expected").and_then(serde_json::Value::as_i64)
}

fn opens_run(command: Option<&str>, event: &Event) -> bool {
    let begins_loop = expected_iterations(event).is_some() || fact::is_marked(event, "__cursor_loop");
    begins_loop || (command.is_none() && !fact::is_entered_by_worker(event))
}

/// Returns the kind of an event by its content: an end of the step with an error is a failure, and a completion can park
/// the step. A worker leaves a failed step with the status FAILED, before or after it reports the failed command.
fn reported_kind(kind: StepKind, command: Option<&str>, event: &Event) -> StepKind {
    if kind != StepKind::Completed || is_drained(event) {
        return kind;
    }
    if fact::ends_step(event, command.is_some()) && fact::error_status(event).is_some() {
        StepKind::Failed
    } else if fact::is_parked(event) && !is_iteration(command, event) {
        StepKind::Parked
    } else {
        kind
    }
}

/// Returns whether an event is of an iteration, as its command or its meta says. As in NoETL, no iteration is parked.
fn is_iteration(command: Option<&str>, event: &Event) -> bool {
    command.is_some_and(|command| order::index_of(command).is_some()) || fact::cursor(event).is_some()
}

fn is_drained(event: &Event) -> bool {
    fact::is_marked(event, "__cursor_drained")
}

/// Returns the progress that an event reports; `None`: the event only tells of a command's call.
fn progress_of(kind: StepKind, opens: bool, of_command: bool, event: &Event) -> Option<Progress> {
    Some(match kind {
        StepKind::Entered if opens => Progress::Entered,
        StepKind::Entered => Progress::EnteredByWorker,
        StepKind::Skipped => Progress::Skipped,
        StepKind::Issued => Progress::Issued,
        StepKind::Claimed => Progress::Claimed,
        StepKind::Started => Progress::Started,
        StepKind::Parked => Progress::Parked,
        StepKind::Done if !of_command => Progress::Returned,
        StepKind::Done | StepKind::CallFailed => return None,
        StepKind::LoopDone => Progress::LoopEnded,
        StepKind::Completed if is_drained(event) => Progress::LoopEnded,
        StepKind::Completed if of_command => Progress::CommandCompleted,
        StepKind::Completed => Progress::Completed,
        StepKind::Failed if of_command => Progress::CommandFailed,
        StepKind::Failed => Progress::Failed,
    })
}
