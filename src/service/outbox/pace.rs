//! How often something may be done whose cost can grow without bound: so rarely that it takes a small share of the time.

use std::time::{Duration, Instant};

/// What costs no more than this is done whenever it is wanted.
const CHEAP: Duration = Duration::from_millis(5);
/// What costs more pauses for this many times its cost.
const PAUSE: u32 = 20;

/// When something was done last, and what it cost the last two times.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    begun: Option<Instant>,
    costs: [Duration; 2],
}

impl Pace {
    /// Whether it may be done at this time. The smaller of the last two costs counts: once, it may have had to wait.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let cost = self.costs[0].min(self.costs[1]);
        self.begun.is_none_or(|begun| cost <= CHEAP || now.duration_since(begun) >= cost * PAUSE)
    }

    /// Notes that it was begun and ended.
    pub(super) fn note(&mut self, begun: Instant, ended: Instant) {
        self.begun = Some(begun);
        self.costs = [self.costs[1], ended.duration_since(begun)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cheap_is_always_due_and_what_is_dear_takes_a_twentieth_of_the_time() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert!(pace.is_due(start));
        pace.note(start, start + CHEAP);
        pace.note(start, start + CHEAP);
        assert!(pace.is_due(start + CHEAP));
        let cost = Duration::from_millis(300);
        pace.note(start, start + cost);
        assert!(pace.is_due(start + cost), "one that had to wait");
        pace.note(start, start + cost * 2);
        assert!(!pace.is_due(start + cost * 19));
        assert!(pace.is_due(start + cost * 20));
    }
}
