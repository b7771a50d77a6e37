//! What a step's state comes to: status, attempt, iterations, frames.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::register::Register;
use super::step::{Command, Mark, Phase, StepState};
use noetl_json::Data;

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepStatus {
    /// Known, not entered.
    Pending,
    /// Entered.
    Entered,
    /// A command was handed out.
    CommandIssued,
    /// A worker took it.
    CommandClaimed,
    /// A worker began it.
    CommandStarted,
    /// It ended as intended.
    Completed,
    /// It ended by a failure.
    Failed,
    /// Its condition left it out.
    Skipped,
}

/// How far a loop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iterations {
    /// How many there will be; of a loop that did not say so, how many are known.
    pub expected: i64,
    /// How many were handed out.
    pub dispatched: i64,
    /// How many completed.
    pub completed: i64,
}

/// How far one frame of a cursor loop is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its number, from 0.
    pub index: i64,
    /// Whether its rows were taken.
    pub claim_completed: bool,
    /// Rows handed out.
    pub body_issued: i64,
    /// Rows done.
    pub body_completed: i64,
}

impl Mark {
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
    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> StepStatus {
        self.decisive().map_or(StepStatus::Pending, |(mark, _)| mark.status())
    }

    /// When its current run was entered.
    #[must_use]
    pub fn entered_at(&self) -> Option<DateTime<Utc>> {
        self.marks.get(&Mark::Entered).and_then(Register::get).copied()
    }

    /// When it completed, failed or was skipped; `None` while it goes on.
    #[must_use]
    pub fn ended_at(&self) -> Option<DateTime<Utc>> {
        let (mark, at) = self.decisive()?;
        matches!(mark.status(), StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped).then_some(at)
    }

    /// What it gave; a loop's is what its end gave, as each iteration's own result is in the log.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        if self.is_loop() {
            return self.outcome.get().map(|Data(value)| value);
        }
        let (command, own) = (&self.completion, &self.outcome);
        let completion = if command.event() > own.event() { command } else { own };
        self.called.get().or(completion.get()).map(|Data(value)| value)
    }

    /// What went wrong last, until it completed.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.get().and_then(Option::as_deref)
    }

    /// How often it was tried in its current run; 0 before its first command.
    #[must_use]
    pub fn attempt(&self) -> i64 {
        let begun = self.marks.keys().any(|mark| !matches!(mark, Mark::Entered | Mark::Skipped));
        let counted = if self.is_loop() { 1 } else { count(self.commands.len()).max(1) };
        self.attempt.get().copied().unwrap_or(if begun { counted } else { 0 })
    }

    /// How far the loop is; `None`: it is none.
    #[must_use]
    pub fn iterations(&self) -> Option<Iterations> {
        let dispatched = count(self.commands.len());
        let expected = self.expected.get().copied().unwrap_or(dispatched);
        self.is_loop().then_some(Iterations { expected, dispatched, completed: self.completed() })
    }

    /// The frames of a cursor loop in order; `None`: it is none.
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
        self.is_cursor() || !self.expected.is_empty() || self.marks.contains_key(&Mark::LoopEnded)
    }

    /// What decides on the status, and when it happened.
    fn decisive(&self) -> Option<(Mark, DateTime<Utc>)> {
        if !self.is_loop() {
            return self.latest(|_| true);
        }
        let failed_alone =
            self.commands.values().any(Command::is_failed) && !self.commands.values().any(Command::is_open);
        let all_done = self.expected.get().is_none_or(|expected| *expected <= self.completed());
        let ended = self.latest(|mark| match mark {
            Mark::LoopEnded | Mark::Skipped | Mark::Failed => true,
            // A cursor loop ends by being drained, whatever its commands do.
            Mark::Completed | Mark::CommandCompleted => all_done && !self.is_cursor(),
            Mark::CommandFailed => failed_alone,
            Mark::Entered | Mark::Issued | Mark::Claimed | Mark::Started => false,
        });
        let under_way = |mark| matches!(mark, Mark::Entered | Mark::Issued | Mark::Claimed | Mark::Started);
        ended.or_else(|| self.latest(under_way))
    }

    fn latest(&self, counts: impl Fn(Mark) -> bool) -> Option<(Mark, DateTime<Utc>)> {
        let counted = self.marks.iter().filter(|(mark, _)| counts(**mark));
        let told = counted.filter_map(|(mark, at)| Some((at.event()?, *mark, *at.get()?)));
        told.max_by_key(|(event, ..)| *event).map(|(_, mark, at)| (mark, at))
    }

    fn completed(&self) -> i64 {
        count(self.commands.values().filter(|command| command.is_completed()).count())
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
