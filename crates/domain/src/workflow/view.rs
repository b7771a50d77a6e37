//! Values derived from a step's state: status, times, attempt, iterations, frames. The result and the error are in
//! `outcome.rs`.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use super::fact::Phase;
use super::order::Rank;
use super::register::{Place, Register};
use super::step::{Progress, StepState, index_of};
use super::work::Work;

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
    /// A worker started the command. The step is also in this status while it waits for a callback.
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
            Self::Entered | Self::EnteredByWorker => StepStatus::Entered,
            Self::Issued => StepStatus::CommandIssued,
            Self::Claimed => StepStatus::CommandClaimed,
            Self::Started | Self::Parked => StepStatus::CommandStarted,
            Self::CommandCompleted | Self::Completed | Self::LoopEnded | Self::Returned => StepStatus::Completed,
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

    /// Returns the time at which the current run was entered, or at which the step was skipped.
    #[must_use]
    pub fn entered_at(&self) -> Option<DateTime<Utc>> {
        [Progress::Entered, Progress::EnteredByWorker, Progress::Skipped].iter().find_map(|progress| self.at(*progress))
    }

    /// Returns the time at which a worker started the last command of the current run; `None`: no command was started.
    #[must_use]
    pub fn started_at(&self) -> Option<DateTime<Utc>> {
        self.at(Progress::Started)
    }

    /// Returns the time at which the step completed, failed or was skipped; `None`: it has not ended.
    #[must_use]
    pub fn ended_at(&self) -> Option<DateTime<Utc>> {
        let (progress, at) = self.decisive()?;
        matches!(progress.status(), StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped).then_some(at)
    }

    /// Returns the number of attempts in the current run; 0 before the first command.
    #[must_use]
    pub fn attempt(&self) -> i64 {
        let unbegun = |progress: &Progress| {
            use Progress::{Entered, EnteredByWorker, Returned, Skipped};
            matches!(progress, Entered | EnteredByWorker | Skipped | Returned)
        };
        let begun = self.progress.keys().any(|progress| !unbegun(progress));
        let counted = if self.is_loop() { 1 } else { count(self.commands.len()).max(1) };
        self.attempt.get().copied().unwrap_or(if begun { counted } else { 0 })
    }

    /// Returns the progress of the loop; `None`: the step is not a loop. The iterations of a cursor loop are its rows:
    /// the commands that claim rows do not count.
    #[must_use]
    pub fn iterations(&self) -> Option<Iterations> {
        let (dispatched, completed) = (self.count_iterations(|_| true), self.completed());
        let expected = self.expected.get().copied().unwrap_or(dispatched);
        self.is_loop().then_some(Iterations { expected, dispatched, completed })
    }

    /// Returns the number of iterations of the loop that ended with an error, and that no other command has completed
    /// without one; `None`: the step is not a loop.
    #[must_use]
    pub fn failed_iterations(&self) -> Option<i64> {
        let all_completed = self.all_iterations_completed();
        let has_failed = |work: &Work| work.ended_with_error() && (work.is_completed() || !all_completed);
        let (mut failed, mut succeeded, mut others) = (BTreeSet::new(), BTreeSet::new(), 0_usize);
        for (command, work) in self.iterations_with_records() {
            let index = index_of(command, work).filter(|_| self.has_indexes());
            match (index, has_failed(work)) {
                (Some(index), true) => drop(failed.insert(index)),
                (Some(index), false) if work.is_completed() => drop(succeeded.insert(index)),
                (None, true) => others += 1,
                (_, false) => {}
            }
        }
        self.is_loop().then(|| count((&failed - &succeeded).len() + others))
    }

    /// Returns the frames of a cursor loop in order; `None`: the step is not a cursor loop.
    #[must_use]
    pub fn frames(&self) -> Option<Vec<Frame>> {
        let sealed = self.sealed_rows.frames().map(|(index, done)| {
            let (body_issued, body_completed) = (done.rows, done.rows);
            (index, Frame { index, claim_completed: done.claim, body_issued, body_completed })
        });
        let mut frames: BTreeMap<i64, Frame> = sealed.collect();
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

    /// Returns the time at which the step failed, if none of its commands can still change this.
    pub(super) fn failed_at(&self) -> Option<DateTime<Utc>> {
        if !self.is_loop() {
            return self.decisive().filter(|(progress, _)| progress.status() == StepStatus::Failed).map(|(_, at)| at);
        }
        let failed = self.undone().any(Work::is_failed) && !self.undone().any(Work::is_open);
        let ended = self.decisive().is_some_and(|(progress, _)| progress.status() == StepStatus::Completed);
        if failed && !ended { self.at(Progress::CommandFailed) } else { None }
    }

    /// Returns the place of the call that completed a parked step without error.
    pub(super) fn callback(&self) -> Option<Rank> {
        let (progress, _) = self.decisive()?;
        let succeeded = progress == Progress::Returned && self.own.call_error().is_none();
        if succeeded { self.own.call() } else { None }
    }

    pub(super) fn is_cursor(&self) -> bool {
        !self.cursor_loop.is_empty()
    }

    pub(super) fn is_loop(&self) -> bool {
        self.is_cursor() || !self.expected.is_empty() || self.progress.contains_key(&Progress::LoopEnded)
    }

    /// Returns whether all expected iterations of a loop are completed.
    pub(super) fn all_iterations_completed(&self) -> bool {
        !self.is_cursor() && self.expected.get().is_some_and(|expected| *expected <= self.completed())
    }

    /// Returns the records of the commands that are iterations of the loop.
    pub(super) fn iteration_works(&self) -> impl Iterator<Item = &Work> {
        self.iterations_with_records().map(|(_, work)| work)
    }

    fn iterations_with_records(&self) -> impl Iterator<Item = (&str, &Work)> {
        let is_iteration = |work: &Work| !self.is_cursor() || matches!(work.cursor(), Some((Phase::Body, _)));
        self.commands.iter().filter(move |(_, work)| is_iteration(work)).map(|(command, work)| (command.as_str(), work))
    }

    /// Returns the progress that determines the status, and its time.
    fn decisive(&self) -> Option<(Progress, DateTime<Utc>)> {
        let ranked = if self.is_loop() { self.decisive_of_loop() } else { self.decisive_of_commands() };
        ranked.or_else(|| Some((Progress::EnteredByWorker, self.at(Progress::EnteredByWorker)?)))
    }

    /// A call that names no command decides only if the latest command is parked: then it reports the end of the work.
    fn decisive_of_commands(&self) -> Option<(Progress, DateTime<Utc>)> {
        use Progress::{Parked, Returned};
        let latest = self.latest(|progress| progress != Returned, |rank| rank)?;
        if latest.0 == Parked {
            return self.latest(|progress| matches!(progress, Parked | Returned), |rank| rank);
        }
        Some(latest)
    }

    /// As in NoETL, a loop is completed when all expected iterations are completed, or when it is drained or done.
    /// Until then, the latest event that is not a completion determines its status: a loop with a failed iteration is
    /// shown as failed until another iteration begins.
    fn decisive_of_loop(&self) -> Option<(Progress, DateTime<Utc>)> {
        let ends = |progress| matches!(progress, Progress::LoopEnded | Progress::Skipped | Progress::Failed);
        let of_records = self.iteration_works().filter_map(Work::completion);
        let completions = of_records.map(|(rank, completion)| (rank.event(), completion.at));
        let last = || completions.chain(self.sealed.completion()).max_by_key(|(event, _)| *event);
        let completed = self.all_iterations_completed().then(last).flatten();
        let under_way = |progress| {
            use Progress::{Claimed, CommandFailed, Entered, Issued, Started};
            matches!(progress, Entered | Issued | Claimed | Started | CommandFailed)
        };
        self.latest(ends, |rank| rank)
            .or_else(|| completed.map(|(_, at)| (Progress::CommandCompleted, at)))
            .or_else(|| self.latest(under_way, Rank::event))
    }

    fn latest<K: Ord>(
        &self,
        counts: impl Fn(Progress) -> bool,
        key: impl Fn(Rank) -> K,
    ) -> Option<(Progress, DateTime<Utc>)> {
        let counted =
            self.progress.iter().filter(|(progress, _)| **progress != Progress::EnteredByWorker && counts(**progress));
        let dated = counted.filter_map(|(progress, at)| Some((at.place()?, *progress, *at.get()?)));
        dated.max_by_key(|(rank, ..)| key(*rank)).map(|(_, progress, at)| (progress, at))
    }

    fn at(&self, progress: Progress) -> Option<DateTime<Utc>> {
        self.progress.get(&progress).and_then(Register::get).copied()
    }

    fn completed(&self) -> i64 {
        self.count_iterations(Work::is_completed)
    }

    /// Returns the number of sealed iterations, and of others with a command for which `counts` is true. Commands with
    /// the same index are one iteration.
    fn count_iterations(&self, counts: impl Fn(&Work) -> bool) -> i64 {
        let (mut indexes, mut others) = (BTreeSet::new(), 0_usize);
        for (command, work) in self.iterations_with_records().filter(|(_, work)| counts(work)) {
            match index_of(command, work).filter(|_| self.has_indexes()) {
                Some(index) => drop(indexes.insert(index)),
                None => others += 1,
            }
        }
        let sealed = self.sealed_rows.len().saturating_add_unsigned(self.sealed.len());
        count(indexes.len() + others).saturating_add(sealed)
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
