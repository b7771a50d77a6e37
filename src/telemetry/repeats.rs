//! Warnings that repeat. The first line of a cause is written at once; its repetitions are counted, and a line with
//! their number is written after 1, 2, 4 and so on up to [`LONGEST`] seconds. So a fault that each request meets does not
//! fill the disk, and its log shows when it began, how often it happened, and when it ended. Errors are always written:
//! each response `INTERNAL` names a request id, and the log has its cause.
//!
//! A cause is the place in the code with the texts of the line's fields, without their digits: ids and numbers differ
//! between repetitions.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

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
    /// Time after `written` at which the next line is due.
    pause: Duration,
}

impl Repeats {
    /// Writes the number of repetitions of each cause for which it is due. Causes that have not repeated are forgotten.
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
                return false;
            }
            lines.push((repeated.count, cause.text.clone()));
            *repeated = Repeated { count: 0, written: now, pause: (2 * repeated.pause).min(LONGEST) };
            true
        });
        lines
    }

    /// Returns whether a line of this cause is written now.
    fn passes(&self, cause: Cause, now: Instant) -> bool {
        let mut causes = self.lock();
        if let Some(repeated) = causes.get_mut(&cause) {
            repeated.count += 1;
            return false;
        }
        if causes.len() < CAUSES {
            causes.insert(cause, Repeated { count: 0, written: now, pause: Duration::from_secs(1) });
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
        if *metadata.level() != Level::WARN || metadata.target() == TARGET {
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
            assert_eq!(written.lines().iter().filter(|line| line.contains("no space")).count(), 2);
            assert_eq!(written.lines().len(), 5);
            let at = |seconds| Instant::now() + Duration::from_secs(seconds);
            assert_eq!(repeats.due(at(0)), []);
            assert_eq!(repeats.due(at(1)).iter().map(|(count, _)| *count).collect::<Vec<_>>(), [999]);
            // The other cause is forgotten, so its next line is the first one again.
            warn(6, "two");
            assert_eq!(written.lines().len(), 6);
            warn(7, "one");
            assert_eq!(written.lines().len(), 6);
            assert_eq!(repeats.due(at(2)).len(), 0);
            assert_eq!(repeats.due(at(3)).iter().map(|(count, _)| *count).collect::<Vec<_>>(), [1]);
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
