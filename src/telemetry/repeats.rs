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
pub struct Repeats(Arc<Mutex<HashMap<Cause, Repeated>>>);

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

    /// Takes the numbers of repetitions that are due at `now`, each with the text of its cause.
    #[must_use]
    pub fn due(&self, now: Instant) -> Vec<(u64, String)> {
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
