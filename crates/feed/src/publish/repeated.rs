//! Failures that repeat. A leader that can't continue gives up and tries again, often with the same failure, which is
//! logged once.

use std::time::Duration;

use tokio::time::Instant;

/// Time after which an equal failure counts as another one.
const SAME_FAILURE: Duration = Duration::from_mins(1);

/// Last failure of a tailer.
#[derive(Debug, Default)]
pub(super) struct LastFailure(Option<(String, Instant)>);

impl LastFailure {
    /// Records a failure. Returns false if it is equal to the last one, and that was recent.
    pub(super) fn is_new(&mut self, failure: &str) -> bool {
        let repeated = self.is_recent() && self.0.as_ref().is_some_and(|(last, _)| last == failure);
        self.0 = Some((failure.to_owned(), Instant::now()));
        !repeated
    }

    /// Returns true if a failure was recorded recently.
    pub(super) fn is_recent(&self) -> bool {
        self.0.as_ref().is_some_and(|(_, at)| at.elapsed() < SAME_FAILURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_equal_failure_is_new_only_after_a_pause() {
        let mut last = LastFailure::default();
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
}
