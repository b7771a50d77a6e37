//! Reads of the open rows of an outbox. A read from the start also finds rows below the low watermarks, but its cost
//! can grow without bound, so it is limited. The other reads begin at the low watermarks.

use std::time::{Duration, Instant};

/// Cost up to which the work is not limited.
const UNLIMITED_COST: Duration = Duration::from_millis(5);
/// Multiple of the cost that must pass between two starts of more expensive work.
const INTERVAL_FACTOR: u32 = 20;

/// Rate limit for work whose cost can grow without bound: the work takes at most about one twentieth of the time. It
/// consists of the start of the last run, and the cost of the last two runs.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    begun: Option<Instant>,
    costs: [Duration; 2],
}

impl RateLimit {
    /// Limit of work that has not run yet.
    pub const UNUSED: Self = Self { begun: None, costs: [Duration::ZERO; 2] };

    /// Returns whether the work may run at this time. The smaller of the last two costs counts, because one of them can
    /// include a wait.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        let cost = self.costs[0].min(self.costs[1]);
        self.begun.is_none_or(|begun| cost <= UNLIMITED_COST || now.duration_since(begun) >= cost * INTERVAL_FACTOR)
    }

    /// Records a run.
    pub fn note(&mut self, begun: Instant, ended: Instant) {
        self.begun = Some(begun);
        self.costs = [self.costs[1], ended.duration_since(begun)];
    }
}

/// Returns the place from which rows are read, and the one from which they are read if the first read takes too long.
/// So the rows above the low watermarks stay readable.
#[must_use]
pub fn places<Place: Copy + PartialEq>(
    start: Place,
    low_watermarks: Place,
    from_start: bool,
) -> (Place, Option<Place>) {
    if from_start { (start, (low_watermarks != start).then_some(low_watermarks)) } else { (low_watermarks, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_work_is_always_due_and_expensive_work_takes_a_twentieth_of_the_time() {
        let start = Instant::now();
        let mut limit = RateLimit::UNUSED;
        assert!(limit.is_due(start));
        limit.note(start, start + UNLIMITED_COST);
        limit.note(start, start + UNLIMITED_COST);
        assert!(limit.is_due(start + UNLIMITED_COST));
        let cost = Duration::from_millis(300);
        limit.note(start, start + cost);
        assert!(limit.is_due(start + cost), "one expensive run does not limit the next");
        limit.note(start, start + cost * 2);
        assert!(!limit.is_due(start + cost * 19));
        assert!(limit.is_due(start + cost * 20));
    }

    #[test]
    fn reading_continues_from_the_watermarks_if_the_start_cannot_be_read_in_time() {
        assert_eq!(places(0, 7, true), (0, Some(7)));
        assert_eq!(places(0, 0, true), (0, None));
        assert_eq!(places(0, 7, false), (7, None));
    }
}
