//! Last-writer-wins register: the event with the largest id sets the value, in any order of folding.

use serde::{Deserialize, Serialize};

use crate::ids::Id;

/// Value from the latest event (by id), if any event set it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Register<T>(Option<(Id, T)>);

impl<T> Default for Register<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Register<T> {
    /// Sets the value of an event. A repeated or earlier event changes nothing.
    pub(super) fn set(&mut self, event: Id, value: T) {
        if self.0.as_ref().is_none_or(|(held, _)| *held < event) {
            self.0 = Some((event, value));
        }
    }

    /// Clears the value if an event before `start` set it.
    pub(super) fn forget_before(&mut self, start: Id) {
        if self.0.as_ref().is_some_and(|(held, _)| *held < start) {
            self.0 = None;
        }
    }

    /// Returns the value.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }

    /// Returns the id of the event that set the value.
    #[must_use]
    pub fn event(&self) -> Option<Id> {
        self.0.as_ref().map(|(event, _)| *event)
    }

    /// Returns whether no event set a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}
