//! Failures that repeat. A leader that can't continue gives up and tries again, often with the same failure, which is
//! logged once.

use std::time::Duration;

use tokio::time::Instant;

/// Time after which an equal failure counts as another one.
const SAME_FAILURE: Duration = Duration::from_mins(1);

/// Failures of a tailer.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The last one and its time.
    last: Option<(String, Instant)>,
    /// Time of the first one without a pause of [`SAME_FAILURE`] after it.
    since: Option<Instant>,
}

impl Failures {
    /// Records a failure. Returns false if it is equal to the last one, and that was recent.
    pub(super) fn is_new(&mut self, failure: &str) -> bool {
        let now = Instant::now();
        let recent = self.is_recent();
        let repeated = recent && self.last.as_ref().is_some_and(|(last, _)| last == failure);
        if !recent || self.since.is_none() {
            self.since = Some(now);
        }
        self.last = Some((failure.to_owned(), now));
        !repeated
    }

    /// Returns true if failures have followed each other for this time. Then the time begins again.
    pub(super) fn have_lasted(&mut self, time: Duration) -> bool {
        let lasted = self.since.is_some_and(|since| since.elapsed() >= time);
        if lasted {
            self.since = None;
        }
        lasted
    }

    /// Returns true if a failure was recorded recently.
    pub(super) fn is_recent(&self) -> bool {
        self.last.as_ref().is_some_and(|(_, at)| at.elapsed() < SAME_FAILURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_equal_failure_is_new_only_after_a_pause() {
        let mut last = Failures::default();
        assert!(!last.is_recent());
        assert!(last.is_new("a"));
        for _ in 0..10 {
            tokio::time::advance(SAME_FAILURE / 2).await;
            assert!(!last.is_new("a"));
        }
        assert!(last.is_new("b"));
        assert!(last.is_recent());
        tokio::time::advance(SAME_FAILURE).await;
        assert!(!last.is_recent());
        assert!(last.is_new("b"));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_last_from_the_first_one_and_begin_again_after_a_pause() {
        let (mut failures, time) = (Failures::default(), Duration::from_secs(20));
        assert!(!failures.have_lasted(time));
        failures.is_new("a");
        tokio::time::advance(Duration::from_secs(19)).await;
        failures.is_new("b");
        assert!(!failures.have_lasted(time));
        tokio::time::advance(Duration::from_secs(1)).await;
        failures.is_new("a");
        assert!(failures.have_lasted(time) && !failures.have_lasted(time));
        failures.is_new("a");
        tokio::time::advance(SAME_FAILURE).await;
        failures.is_new("a");
        assert!(!failures.have_lasted(time));
    }
}
