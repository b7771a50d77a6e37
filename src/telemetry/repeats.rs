//! Warnings that repeat. The first line of a cause is written at once; its repetitions are counted, and a line with
//! their number is written after 1, 2, 4 and so on up to [`LONGEST`] seconds. A cause is forgotten when it was not met for
//! this time. So a fault that each request or each run of a task meets does not fill the disk, and its log shows when it
//! began, how often it happened, and when it ended. Errors of this product are always written: each response `INTERNAL`
//! names a request id, and the log has its cause. Those of libraries, such as the client of the broker, are counted too.
//!
//! A cause is the place in the code with the texts of the line's fields, without request ids and digits: ids and numbers
//! differ between repetitions.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use super::export::TARGETS;

/// Longest time between two lines of one cause.
const LONGEST: Duration = Duration::from_secs(64);
/// Number of causes that are remembered. Lines of further causes are written each time.
const CAUSES: usize = 1_000;
/// Maximum number of bytes of a cause's text.
const TEXT_BYTES: usize = 1_000;
/// Target of the lines with numbers of repetitions, which are never counted.
const TARGET: &str = "noetl_graphql::telemetry::repeats";

/// Filter that lets the first line of a cause pass. Clones share their causes.
#[derive(Clone, Default)]
pub(super) struct Repeats(Arc<Mutex<HashMap<Cause, Repeated>>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cause {
    place: &'static str,
    line: Option<u32>,
    text: String,
}

#[derive(Debug)]
struct Repeated {
    /// Number of lines since the last one that was written.
    count: u64,
    written: Instant,
    /// Time of the last line, also if it was not written.
    met: Instant,
    /// Time after `written` at which the next line is due.
    pause: Duration,
}

impl Repeats {
    /// Writes the number of repetitions of each cause for which it is due.
    pub(super) fn report(&self) {
        for (count, text) in self.due(Instant::now()) {
            tracing::warn!(target: TARGET, count, line = text, "a line was repeated");
        }
    }

    fn due(&self, now: Instant) -> Vec<(u64, String)> {
        let mut lines = Vec::new();
        self.lock().retain(|cause, repeated| {
            if now.duration_since(repeated.written) < repeated.pause {
                return true;
            }
            if repeated.count == 0 {
                return now.duration_since(repeated.met) < LONGEST;
            }
            lines.push((repeated.count, cause.text.clone()));
            *repeated = Repeated { count: 0, written: now, pause: (2 * repeated.pause).min(LONGEST), ..*repeated };
            true
        });
        lines
    }

    /// Returns whether a line of this cause is written now.
    fn passes(&self, cause: Cause, now: Instant) -> bool {
        let mut causes = self.lock();
        if let Some(repeated) = causes.get_mut(&cause) {
            repeated.count += 1;
            repeated.met = now;
            return false;
        }
        if causes.len() < CAUSES {
            causes.insert(cause, Repeated { count: 0, written: now, met: now, pause: Duration::from_secs(1) });
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Cause, Repeated>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let counted = match *metadata.level() {
            Level::WARN => metadata.target() != TARGET,
            Level::ERROR => !TARGETS.iter().any(|own| metadata.target().starts_with(own)),
            _ => false,
        };
        if !counted {
            return true;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        text.0.truncate(text.0.floor_char_boundary(TEXT_BYTES));
        let cause = Cause { place: metadata.name(), line: metadata.line(), text: text.0 };
        self.passes(cause, Instant::now())
    }
}

/// Text of a line's fields, without digits.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        let value: String = value.chars().filter(|character| !character.is_ascii_digit()).collect();
        // Writing to a text can't fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value} "),
            "request_id" => Ok(()),
            name => write!(self.0, "{name}={value} "),
        };
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn lines(&self) -> Vec<String> {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
        }
    }

    #[test]
    fn a_cause_that_repeats_is_one_line_and_a_number() {
        let (repeats, written) = (Repeats::default(), Written::default());
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(repeats.clone()));
        let warn = |id: u32, shard: &str| tracing::warn!(id, shard, "no space");
        tracing::subscriber::with_default(subscriber, || {
            (0..1_000).for_each(|id| warn(id, "one"));
            warn(5, "two");
            (0..3).for_each(|id| tracing::info!(id, "is not counted"));
            (0..3).for_each(|id| tracing::error!(id, "is not counted"));
            (0..3).for_each(|id| tracing::error!(target: "a_library", id, "no connection"));
            assert_eq!(written.lines().iter().filter(|line| line.contains("no space")).count(), 2);
            assert_eq!(written.lines().len(), 9);
            let due = |seconds| {
                let due = repeats.due(Instant::now() + Duration::from_secs(seconds));
                due.into_iter().map(|(count, _)| count).collect::<Vec<_>>()
            };
            assert_eq!(due(0), [0; 0]);
            let mut first = due(1);
            first.sort_unstable();
            assert_eq!(first, [2, 999]);
            // The line of a task that runs every few seconds.
            warn(6, "two");
            assert_eq!(due(2), [1]);
            warn(7, "one");
            assert_eq!(due(3), [1]);
            assert_eq!(written.lines().len(), 9);
            assert_eq!(due(70), [0; 0]);
            warn(8, "two");
            assert_eq!(written.lines().len(), 10);
        });
    }

    #[test]
    fn a_storm_of_many_causes_takes_little_memory() {
        let repeats = Repeats::default();
        for n in 0..10 * u32::try_from(CAUSES).unwrap() {
            let cause = Cause { place: "here", line: None, text: format!("{n}") };
            assert!(repeats.passes(cause, Instant::now()));
        }
        assert_eq!(repeats.lock().len(), CAUSES);
    }
}
