//! How long a leader that found nothing waits before it looks again.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest wait.
const SHORTEST: Duration = Duration::from_millis(2);
/// A wait is this part of the time that has passed since something was found, so an event comes late by a small part of
/// the silence before it.
const PART: u32 = 16;

/// The time since something was found.
#[derive(Debug)]
pub(super) struct Idle {
    since: Instant,
    longest: Duration,
}

impl Idle {
    /// Something was just found. No wait will be longer than `longest`.
    pub(super) fn new(longest: Duration) -> Self {
        Self { since: Instant::now(), longest }
    }

    /// Something was found.
    pub(super) fn over(&mut self) {
        self.since = Instant::now();
    }

    /// How long to wait before the next look.
    pub(super) fn wait(&self) -> Duration {
        after(self.since.elapsed(), self.longest)
    }
}

fn after(silence: Duration, longest: Duration) -> Duration {
    (silence / PART).max(SHORTEST).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_the_silence_up_to_the_longest() {
        let longest = Duration::from_millis(500);
        assert_eq!(after(Duration::ZERO, longest), SHORTEST);
        assert_eq!(after(Duration::from_secs(4), longest), Duration::from_millis(250));
        assert_eq!(after(Duration::from_mins(1), longest), longest);
        assert_eq!(after(Duration::ZERO, Duration::from_millis(1)), Duration::from_millis(1));
    }
}
