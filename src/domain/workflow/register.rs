//! A value that the latest event wins, so that the order in which events are folded does not matter.

use serde::{Deserialize, Serialize};

use crate::domain::ids::Id;

/// What the latest event (by id) said, if any did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Register<T>(Option<(Id, T)>);

impl<T> Default for Register<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Register<T> {
    /// Notes what an event said; an event that was folded before, or an earlier one, changes nothing.
    pub(super) fn set(&mut self, event: Id, value: T) {
        if self.0.as_ref().is_none_or(|(held, _)| *held < event) {
            self.0 = Some((event, value));
        }
    }

    /// Forgets what an event before `start` said.
    pub(super) fn forget_before(&mut self, start: Id) {
        if self.0.as_ref().is_some_and(|(held, _)| *held < start) {
            self.0 = None;
        }
    }

    /// The value that stands.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }

    /// The event that set it.
    #[must_use]
    pub fn event(&self) -> Option<Id> {
        self.0.as_ref().map(|(event, _)| *event)
    }

    /// Whether no event said anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}
