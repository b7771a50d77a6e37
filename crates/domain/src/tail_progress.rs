//! Progress of the publication of a batch that is read in pages: how much of it is certainly in the stream.

use std::collections::VecDeque;

use super::event::EventKey;

/// A place between two pages.
#[derive(Debug, Clone, Copy)]
pub struct Boundary {
    /// Number of the batch's events before it.
    pub events: u64,
    /// Key of the last entry before it.
    pub key: EventKey,
}

/// Boundaries of the pages that were read, from the last one that is known to be stored in the stream.
#[derive(Debug)]
pub struct Boundaries {
    passed: VecDeque<Boundary>,
    in_flight: u64,
}

impl Boundaries {
    /// Creates the boundaries of a batch of which nothing was read. Up to `in_flight` events that were read may not be
    /// in the stream yet.
    #[must_use]
    pub fn new(in_flight: u64) -> Self {
        Self { passed: VecDeque::new(), in_flight }
    }

    /// Notes a boundary. Returns the latest one whose events all are in the stream, if it is another one than before.
    pub fn pass(&mut self, boundary: Boundary) -> Option<Boundary> {
        self.passed.push_back(boundary);
        let mut stored = None;
        while self.passed.front().is_some_and(|passed| passed.events + self.in_flight < boundary.events) {
            stored = self.passed.pop_front();
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_stored_only_for_events_that_are_no_longer_in_flight() {
        let mut boundaries = Boundaries::new(500);
        let at = |events| Boundary { events, key: EventKey { event_id: 1, execution_id: 1 } };
        let mut stored = |events| boundaries.pass(at(events)).map(|boundary| boundary.events);
        assert_eq!([stored(0), stored(400), stored(500)], [None; 3]);
        assert_eq!(stored(501), Some(0));
        assert_eq!(stored(2_000), Some(501));
        assert_eq!(stored(2_100), None);
    }
}
