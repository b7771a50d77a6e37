//! The iterations of a loop that are done, without their records.
//!
//! NoETL's command ids contain the index of the iteration. So the set of the done iterations is a few ranges of indexes,
//! however many they are. An event of such an iteration changes nothing here, unless it contradicts the iteration's end:
//! then the record is needed, and the whole log must be folded again.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::fact::{self, StepKind};
use super::register::Register;
use crate::event::Event;
use crate::ids::Id;

/// An event contradicts a sealed iteration: the state is no longer exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contradiction;

/// Iterations of a run that are completed without an error, and whose records are dropped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sealed {
    /// Last index of each range of indexes, by its first index.
    indexes: BTreeMap<u64, u64>,
    /// Latest event that issued a command of these iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issued: Option<Id>,
    /// Time of the latest completion.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    completed: Register<DateTime<Utc>>,
}

impl Sealed {
    pub(super) fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Returns the number of iterations.
    pub(super) fn len(&self) -> u64 {
        self.indexes.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn contains(&self, index: u64) -> bool {
        self.indexes.range(..=index).next_back().is_some_and(|(_, last)| index <= *last)
    }

    /// Returns the latest completion and its event.
    pub(super) fn completion(&self) -> Option<(Id, DateTime<Utc>)> {
        Some((self.completed.place()?, *self.completed.get()?))
    }

    /// Returns whether a command of these iterations was issued at this event or later.
    pub(super) fn has_issued_since(&self, event: Id) -> bool {
        self.issued >= Some(event)
    }

    /// Adds an iteration.
    pub(super) fn insert(&mut self, index: u64) {
        if self.contains(index) {
            return;
        }
        let last = index.checked_add(1).and_then(|next| self.indexes.remove(&next)).unwrap_or(index);
        match self.indexes.range_mut(..index).next_back() {
            Some((_, before)) if *before + 1 == index => *before = last,
            _ => drop(self.indexes.insert(index, last)),
        }
    }

    /// Adds a command of one of the iterations: the event that issued it, and its completion.
    pub(super) fn add_command(&mut self, issued: Option<Id>, completed: Option<(Id, DateTime<Utc>)>) {
        self.issued = self.issued.max(issued);
        if let Some((event, at)) = completed {
            self.completed.set(event, at);
        }
    }

    /// Folds an event of one of the iterations.
    pub(super) fn fold(&mut self, kind: StepKind, issued: Option<Id>, event: &Event) -> Result<(), Contradiction> {
        let contradicts = match kind {
            StepKind::Failed => true,
            StepKind::Done => fact::call_error(event).is_some(),
            StepKind::Completed => fact::error_status(event).is_some(),
            _ => false,
        };
        if contradicts || fact::cursor(event).is_some() {
            return Err(Contradiction);
        }
        self.add_command(issued, (kind == StepKind::Completed).then_some((event.event_id, event.created_at)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_indexes_are_one_range_in_any_order() {
        for order in [[0, 1, 2, 3, 7], [7, 3, 1, 2, 0], [2, 0, 7, 3, 1]] {
            let mut sealed = Sealed::default();
            for index in order.iter().chain(&order) {
                sealed.insert(*index);
            }
            assert_eq!(sealed.indexes, BTreeMap::from([(0, 3), (7, 7)]), "{order:?}");
            assert_eq!(sealed.len(), 5);
            let contained: Vec<u64> = (0..10).filter(|index| sealed.contains(*index)).collect();
            assert_eq!(contained, [0, 1, 2, 3, 7]);
        }
        let mut last = Sealed::default();
        last.insert(u64::MAX);
        last.insert(u64::MAX - 1);
        assert_eq!(last.len(), 2);
    }
}
