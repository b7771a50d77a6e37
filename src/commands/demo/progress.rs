//! The demo's progress line. On a terminal it is rewritten in place; otherwise a new line is printed every 5 seconds.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use super::Outcome;

/// Interval of the updates on a terminal.
const ON_TERMINAL: Duration = Duration::from_millis(100);
/// Interval of the lines elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Counts of the messages so far.
pub(super) struct Progress {
    /// State of the subscription when it was last read.
    pub(super) status: String,
    /// Messages taken from the source.
    pub(super) taken: u64,
    left: u64,
    completed: u64,
    failed: u64,
    duplicates: u64,
    refused: u64,
    began: Instant,
    shown: Instant,
    terminal: bool,
}

impl Progress {
    pub(super) fn new(status: String) -> Self {
        let (began, terminal) = (Instant::now(), stderr().is_terminal());
        Self {
            status,
            taken: 0,
            left: 0,
            completed: 0,
            failed: 0,
            duplicates: 0,
            refused: 0,
            began,
            shown: began,
            terminal,
        }
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Left => self.left += 1,
            Outcome::Completed => self.completed += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Duplicate => self.duplicates += 1,
            Outcome::Refused => self.refused += 1,
        }
    }

    /// Prints the line if the last one is old enough.
    pub(super) fn show(&mut self, in_flight: usize) {
        let period = if self.terminal { ON_TERMINAL } else { ELSEWHERE };
        if self.shown.elapsed() >= period {
            self.shown = Instant::now();
            self.print(in_flight, if self.terminal { "" } else { "\n" });
        }
    }

    /// Prints the line for the last time.
    pub(super) fn finish(&mut self) {
        self.print(0, "\n");
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn print(&self, in_flight: usize, end: &str) {
        let Self { status, taken, left, completed, failed, duplicates, refused, .. } = self;
        let rate = *taken as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let start = if self.terminal { "\r\x1b[K" } else { "" };
        let line = format!(
            "{start}{status}  taken {taken}  completed {completed}  failed {failed}  left {left}  duplicates {duplicates}  \
             refused {refused}  in flight {in_flight}  {rate:.1}/s{end}"
        );
        // If the terminal is closed, the demo continues.
        drop(stderr().write_all(line.as_bytes()).and_then(|()| stderr().flush()));
    }
}
