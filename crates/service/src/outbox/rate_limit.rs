//! Rate limit for work whose cost can grow without bound: the work takes at most about one twentieth of the time.

use std::time::{Duration, Instant};

/// Cost up to which the work is not limited.
const UNLIMITED_COST: Duration = Duration::from_millis(5);
/// Multiple of the cost that must pass between two starts of more expensive work.
const INTERVAL_FACTOR: u32 = 20;

/// Start of the last run, and the cost of the last two runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateLimit {
    begun: Option<Instant>,
    costs: [Duration; 2],
}

impl RateLimit {
    /// Limit of work that has not run yet.
    pub(super) const UNUSED: Self = Self { begun: None, costs: [Duration::ZERO; 2] };

    /// Returns whether the work may run at this time. The smaller of the last two costs counts, because one of them can
    /// include a wait.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let cost = self.costs[0].min(self.costs[1]);
        self.begun.is_none_or(|begun| cost <= UNLIMITED_COST || now.duration_since(begun) >= cost * INTERVAL_FACTOR)
    }

    /// Records a run.
    pub(super) fn note(&mut self, begun: Instant, ended: Instant) {
        self.begun = Some(begun);
        self.costs = [self.costs[1], ended.duration_since(begun)];
    }
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
}
