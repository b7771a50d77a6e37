//! A piece of a step's work: one of its commands, or the events of the step that name no command.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::fact::{self, Phase, StepKind};
use super::order::{Moment, Rank};
use super::register::Register;
use crate::event::Event;
use crate::ids::Id;
use plain_json::AnyJson;

/// Completion of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Completion {
    pub(super) at: DateTime<Utc>,
    /// Whether the status of the event is not an error.
    pub(super) succeeded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<AnyJson>,
}

/// State of one command in a step's current run, or of the events that name no command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Work {
    /// Event that issued the command, if the command's id contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issued: Option<Id>,
    /// Latest event.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    seen: Register<(), Moment>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    completed: Register<Completion, Moment>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    failed: Register<(), Moment>,
    /// Error of a failure.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    failure: Register<String, Moment>,
    /// Error of the latest call that returned a result; `None`: it returned no error.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    call: Register<Option<String>, Moment>,
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    cursor: Register<(Phase, i64), Moment>,
}

impl Work {
    pub(super) fn new(issued: Option<Id>) -> Self {
        Self { issued, ..Self::default() }
    }

    /// Folds an event.
    pub(super) fn fold(&mut self, kind: StepKind, event: &Event) {
        let moment = Moment::of(kind, self.issued, event.event_id);
        self.seen.set(moment, ());
        match kind {
            StepKind::Done => self.call.set(moment, fact::call_error(event)),
            StepKind::Completed => {
                let result = event.result.clone().filter(|result| !result.is_null()).map(AnyJson);
                let succeeded = fact::error_status(event).is_none();
                self.completed.set(moment, Completion { at: event.created_at, succeeded, result });
            }
            StepKind::Failed => self.failed.set(moment, ()),
            _ => {}
        }
        let fails = match kind {
            StepKind::Failed | StepKind::CallFailed => true,
            StepKind::Completed => fact::error_status(event).is_some(),
            _ => false,
        };
        if let Some(error) = fact::error(event).filter(|_| fails) {
            self.failure.set(moment, error);
        }
        if let Some(cursor) = fact::cursor(event) {
            self.cursor.set(moment, cursor);
        }
        // The result of a cursor loop's command is not read. It is dropped only if `issued` is known: then the command
        // belongs to one run, so `cursor` is not cleared before `completed`, and the order has no effect.
        if self.issued.is_some() && !self.cursor.is_empty() {
            self.completed.update(|completion| completion.result = None);
        }
    }

    /// Clears everything from before the start of a run.
    pub(super) fn forget_before(&mut self, start: Id) {
        match self.issued {
            Some(issued) if issued < start => *self = Self::new(self.issued),
            Some(_) => {}
            None => {
                self.seen.forget_before(start);
                self.completed.forget_before(start);
                self.failed.forget_before(start);
                self.failure.forget_before(start);
                self.call.forget_before(start);
                self.cursor.forget_before(start);
            }
        }
    }

    /// Returns whether no event of the current run is known.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    pub(super) fn is_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Returns whether the latest known outcome is a failure.
    pub(super) fn is_failed(&self) -> bool {
        self.failed.place() > self.completed.place()
    }

    /// Returns whether more events are expected.
    pub(super) fn is_open(&self) -> bool {
        self.completed.is_empty() && self.failed.place().is_none_or(|failed| self.seen.place() > Some(failed))
    }

    /// Returns whether the command has ended with a failure or an error, or its last call has returned an error.
    pub(super) fn ended_with_error(&self) -> bool {
        let completed_with_error = self.completed.get().is_some_and(|completion| !completion.succeeded);
        let has_error = self.standing_failure().is_some() || self.call_error().is_some();
        !self.is_open() && (self.is_failed() || completed_with_error || has_error)
    }

    /// Returns whether the iteration of this command can be sealed, as far as this command says: it is open, or it is
    /// completed and an event that can still come can't change this, unless the event contradicts it.
    ///
    /// An error of a call is without effect once the iteration is completed, because the end of a command follows its
    /// calls. The latest of several ends, and of several results of calls, depends on ids that a sealed iteration lacks.
    pub(super) fn is_without_error(&self) -> bool {
        let failed_at_end = self.failure.place().is_some_and(Moment::is_end);
        let call_succeeded = self.call.get().is_none_or(Option::is_none);
        let succeeded = self.completed.get().is_none_or(|completion| completion.succeeded);
        self.failed.is_empty() && !failed_at_end && call_succeeded && succeeded
    }

    /// Returns the event that issued the command, if the command's id contains it.
    pub(super) fn issued(&self) -> Option<Id> {
        self.issued
    }

    pub(super) fn cursor(&self) -> Option<(Phase, i64)> {
        self.cursor.get().copied()
    }

    /// Returns the completion and its place.
    pub(super) fn completion(&self) -> Option<(Rank, &Completion)> {
        Some((self.rank(self.completed.place()?), self.completed.get()?))
    }

    /// Returns the latest error of a failure and its place.
    pub(super) fn failure(&self) -> Option<(Rank, &str)> {
        Some((self.rank(self.failure.place()?), self.failure.get()?))
    }

    /// Returns the latest error of a failure that no completion without error follows, and its place.
    pub(super) fn standing_failure(&self) -> Option<(Rank, &str)> {
        self.failure().filter(|(rank, _)| Some(*rank) > self.success())
    }

    /// Returns the place of the latest call that returned a result.
    pub(super) fn call(&self) -> Option<Rank> {
        self.call.place().map(|moment| self.rank(moment))
    }

    /// Returns the error with which the latest call ended, and its place.
    pub(super) fn call_error(&self) -> Option<(Rank, &str)> {
        Some((self.rank(self.call.place()?), self.call.get()?.as_deref()?))
    }

    /// Returns the latest place of a completion without error.
    pub(super) fn success(&self) -> Option<Rank> {
        self.completion().filter(|(_, completion)| completion.succeeded).map(|(rank, _)| rank)
    }

    fn rank(&self, moment: Moment) -> Rank {
        Rank::of(self.issued, moment)
    }
}
