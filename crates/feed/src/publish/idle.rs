//! Poll interval of a leader that finds no events. It grows with the idle time.

use std::time::Duration;

use tokio::time::Instant;

/// Shortest interval.
const SHORTEST: Duration = Duration::from_millis(2);
/// The interval is the idle time divided by this number, so the delay of an event is small compared with the idle time
/// before it.
const PART: u32 = 16;

/// Time since events were last found.
#[derive(Debug)]
pub(super) struct Idle {
    since: Instant,
    longest: Duration,
}

impl Idle {
    /// Starts the idle time. Intervals are at most `longest`.
    pub(super) fn new(longest: Duration) -> Self {
        Self { since: Instant::now(), longest }
    }

    /// Restarts the idle time.
    pub(super) fn over(&mut self) {
        self.since = Instant::now();
    }

    /// Returns the time to wait before the next poll.
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
    fn intervals_grow_with_the_idle_time_up_to_the_longest() {
        let longest = Duration::from_millis(500);
        assert_eq!(after(Duration::ZERO, longest), SHORTEST);
        assert_eq!(after(Duration::from_secs(4), longest), Duration::from_millis(250));
        assert_eq!(after(Duration::from_mins(1), longest), longest);
        assert_eq!(after(Duration::ZERO, Duration::from_millis(1)), Duration::from_millis(1));
    }
}
