//! Values derived from a step's state: status, result, attempt, iterations, frames.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::fact::Phase;
use super::register::Register;
use super::step::{Command, Progress, StepState};
use plain_json::AnyJson;

/// Status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepStatus {
    /// Known, not entered.
    Pending,
    /// Entered.
    Entered,
    /// A command was issued.
    CommandIssued,
    /// A worker claimed the command.
    CommandClaimed,
    /// A worker started the command.
    CommandStarted,
    /// The step ended successfully.
    Completed,
    /// The step ended with a failure.
    Failed,
    /// The step was skipped, because its condition did not hold.
    Skipped,
}

/// Progress of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iterations {
    /// Expected number of iterations; if the loop's events do not contain it, the number issued.
    pub expected: i64,
    /// Number of iterations issued.
    pub dispatched: i64,
    /// Number of iterations completed.
    pub completed: i64,
}

/// Progress of one frame of a cursor loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame {
    /// Number of the frame, from 0.
    pub index: i64,
    /// Whether the command that takes the frame's rows has completed.
    pub claim_completed: bool,
    /// Number of rows issued.
    pub body_issued: i64,
    /// Number of rows completed.
    pub body_completed: i64,
}

impl Progress {
    fn status(self) -> StepStatus {
        match self {
            Self::Entered => StepStatus::Entered,
            Self::Issued => StepStatus::CommandIssued,
            Self::Claimed => StepStatus::CommandClaimed,
            Self::Started => StepStatus::CommandStarted,
            Self::CommandCompleted | Self::Completed | Self::LoopEnded => StepStatus::Completed,
            Self::CommandFailed | Self::Failed => StepStatus::Failed,
            Self::Skipped => StepStatus::Skipped,
        }
    }
}

impl StepState {
    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> StepStatus {
        self.decisive().map_or(StepStatus::Pending, |(progress, _)| progress.status())
    }

    /// Returns the time at which the current run was entered.
    #[must_use]
    pub fn entered_at(&self) -> Option<DateTime<Utc>> {
        self.progress.get(&Progress::Entered).and_then(Register::get).copied()
    }

    /// Returns the time at which the step completed, failed or was skipped; `None`: it has not ended.
    #[must_use]
    pub fn ended_at(&self) -> Option<DateTime<Utc>> {
        let (progress, at) = self.decisive()?;
        matches!(progress.status(), StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped).then_some(at)
    }

    /// Returns the result of the step. For a loop, this is the result in its end; the results of iterations are only in
    /// the log.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        if self.is_loop() {
            return self.outcome.get().map(|AnyJson(value)| value);
        }
        let (command, own) = (&self.completion, &self.outcome);
        let completion = if command.event() > own.event() { command } else { own };
        self.called.get().or(completion.get()).map(|AnyJson(value)| value)
    }

    /// Returns the latest error message. A completion clears it.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.get().and_then(Option::as_deref)
    }

    /// Returns the number of attempts in the current run; 0 before the first command.
    #[must_use]
    pub fn attempt(&self) -> i64 {
        let begun = self.progress.keys().any(|progress| !matches!(progress, Progress::Entered | Progress::Skipped));
        let counted = if self.is_loop() { 1 } else { count(self.commands.len()).max(1) };
        self.attempt.get().copied().unwrap_or(if begun { counted } else { 0 })
    }

    /// Returns the progress of the loop; `None`: the step is not a loop.
    #[must_use]
    pub fn iterations(&self) -> Option<Iterations> {
        let dispatched = count(self.commands.len());
        let expected = self.expected.get().copied().unwrap_or(dispatched);
        self.is_loop().then_some(Iterations { expected, dispatched, completed: self.completed() })
    }

    /// Returns the frames of a cursor loop in order; `None`: the step is not a cursor loop.
    #[must_use]
    pub fn frames(&self) -> Option<Vec<Frame>> {
        let mut frames: BTreeMap<i64, Frame> = BTreeMap::new();
        for command in self.commands.values() {
            let Some((phase, index)) = command.cursor() else { continue };
            let frame = frames.entry(index).or_insert(Frame { index, ..Frame::default() });
            let completed = command.is_completed();
            match phase {
                Phase::Claim => frame.claim_completed |= completed,
                Phase::Body => {
                    frame.body_issued += 1;
                    frame.body_completed += i64::from(completed);
                }
            }
        }
        (self.is_cursor() || !frames.is_empty()).then(|| frames.into_values().collect())
    }

    fn is_cursor(&self) -> bool {
        !self.cursor_loop.is_empty()
    }

    fn is_loop(&self) -> bool {
        self.is_cursor() || !self.expected.is_empty() || self.progress.contains_key(&Progress::LoopEnded)
    }

    /// Returns the progress that determines the status, and its time.
    fn decisive(&self) -> Option<(Progress, DateTime<Utc>)> {
        if !self.is_loop() {
            return self.latest(|_| true);
        }
        let failed_alone =
            self.commands.values().any(Command::is_failed) && !self.commands.values().any(Command::is_open);
        let all_done = self.expected.get().is_none_or(|expected| *expected <= self.completed());
        let ended = self.latest(|progress| match progress {
            Progress::LoopEnded | Progress::Skipped | Progress::Failed => true,
            // A cursor loop ends when it is drained, regardless of its commands.
            Progress::Completed | Progress::CommandCompleted => all_done && !self.is_cursor(),
            Progress::CommandFailed => failed_alone,
            Progress::Entered | Progress::Issued | Progress::Claimed | Progress::Started => false,
        });
        let under_way =
            |progress| matches!(progress, Progress::Entered | Progress::Issued | Progress::Claimed | Progress::Started);
        ended.or_else(|| self.latest(under_way))
    }

    fn latest(&self, counts: impl Fn(Progress) -> bool) -> Option<(Progress, DateTime<Utc>)> {
        let counted = self.progress.iter().filter(|(progress, _)| counts(**progress));
        let dated = counted.filter_map(|(progress, at)| Some((at.event()?, *progress, *at.get()?)));
        dated.max_by_key(|(event, ..)| *event).map(|(_, progress, at)| (progress, at))
    }

    fn completed(&self) -> i64 {
        count(self.commands.values().filter(|command| command.is_completed()).count())
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
