//! Last-writer-wins register: the latest event sets the value, in any order of folding.

use serde::{Deserialize, Serialize};

use crate::ids::Id;

/// Place of an event by which registers compare events. By default, it is the event's id.
pub(super) trait Place: Copy + Ord {
    /// Returns the id by which the event belongs to a run of its step.
    fn position(self) -> Id;
    /// Returns the event's id.
    fn event(self) -> Id;
}

impl Place for Id {
    fn position(self) -> Id {
        self
    }

    fn event(self) -> Id {
        self
    }
}

/// Value from the latest event, if any event set it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Register<T, P = Id>(Option<(P, T)>);

impl<T, P> Default for Register<T, P> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T, P> Register<T, P> {
    /// Returns the value.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }

    /// Returns whether no event set a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

#[expect(private_bounds, reason = "only the fold sets registers")]
impl<T, P: Place> Register<T, P> {
    /// Sets the value of an event. A repeated or earlier event changes nothing.
    pub(super) fn set(&mut self, place: P, value: T) {
        self.set_with(place, || value);
    }

    /// Sets the value of an event as [`Self::set`] does. `value` is called only if the value is set.
    pub(super) fn set_with(&mut self, place: P, value: impl FnOnce() -> T) {
        if self.place() < Some(place) {
            self.0 = Some((place, value()));
        }
    }

    /// Changes the value, if an event set it.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut T)) {
        if let Some((_, value)) = &mut self.0 {
            change(value);
        }
    }

    /// Clears the value if an event of a run before `start` set it.
    pub(super) fn forget_before(&mut self, start: Id) {
        if self.place().is_some_and(|place| place.position() < start) {
            self.0 = None;
        }
    }

    /// Returns the place of the event that set the value.
    pub(super) fn place(&self) -> Option<P> {
        self.0.as_ref().map(|(place, _)| *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_event_does_not_change_the_value() {
        let mut register = Register::default();
        register.set(Id::new(5), "first");
        register.set(Id::new(5), "again");
        assert_eq!(register.get(), Some(&"first"));
    }

    #[test]
    fn a_value_of_the_event_that_starts_a_run_is_kept() {
        let mut register = Register::default();
        register.set(Id::new(5), "value");
        register.forget_before(Id::new(5));
        assert_eq!(register.get(), Some(&"value"));
        register.forget_before(Id::new(6));
        assert_eq!(register.get(), None);
    }
}
