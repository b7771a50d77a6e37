//! Lists of stored events: their filter, and the positions in lists over several logs and in arrival order.

use chrono::{DateTime, Utc};

use super::event::{Event, EventFilter};
use super::list_position::{EARLIEST, LATEST, time};
use super::page::{KeyRange, PageRequest};
use super::tx_snapshot::TxSnapshot;

/// Maximum number of characters of a type or a node name in the indexes for lists over several logs.
pub const INDEXED_CHARS: usize = 255;

/// Filter of stored events. An absent condition matches every event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LogFilter {
    /// Conditions that the live events have too.
    pub event: EventFilter,
    /// Earliest time of the events.
    pub created_after: Option<DateTime<Utc>>,
    /// Time before which the events are.
    pub created_before: Option<DateTime<Utc>>,
    /// Text that the events contain, in any case of letters.
    pub text: Option<String>,
}

/// Range of event types whose beginnings are indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRange {
    /// Beginning of the types.
    pub stem: String,
    /// Whether all types with this beginning are in the range; otherwise only the type that equals it.
    pub open: bool,
}

impl LogFilter {
    /// Returns the ranges that contain the types of the filter.
    #[must_use]
    pub fn type_ranges(&self) -> Vec<TypeRange> {
        let range = |wanted: &String| match wanted.strip_suffix('*') {
            Some(stem) => TypeRange { stem: indexed(stem), open: true },
            None => TypeRange { stem: indexed(wanted), open: false },
        };
        match &self.event.types {
            Some(types) => types.iter().map(range).collect(),
            None => vec![TypeRange { stem: String::new(), open: true }],
        }
    }
}

/// Returns the part of a text that is indexed.
#[must_use]
pub fn indexed(text: &str) -> String {
    text.chars().take(INDEXED_CHARS).collect()
}

/// Position of an event in a list over several logs: its time, then its id, then its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPosition {
    /// Time of the event, in microseconds.
    pub at: DateTime<Utc>,
    /// Id of the event.
    pub event_id: i64,
    /// Execution of its log.
    pub execution_id: i64,
}

/// Range of a page. It is descending if it is read from the newest event to the oldest.
pub type EventRange = KeyRange<EventPosition>;

impl EventPosition {
    /// Returns the position of an event.
    #[must_use]
    pub fn of<J>(event: &Event<J>) -> Self {
        Self { at: event.created_at, event_id: event.event_id.get(), execution_id: event.execution_id.get() }
    }

    /// Returns the position before all events of a time.
    fn before(at: DateTime<Utc>) -> Self {
        Self { at, event_id: i64::MIN, execution_id: i64::MIN }
    }

    /// Returns the position as a cursor contains it.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        [self.at.timestamp_micros(), self.event_id, self.execution_id].iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    /// Reads the position in a cursor. Returns `None` if the bytes are not a position.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (chunks, []) = bytes.as_chunks::<8>() else { return None };
        let [at, event_id, execution_id] = chunks else { return None };
        let at = DateTime::from_timestamp_micros(i64::from_be_bytes(*at))?;
        Some(Self { at, event_id: i64::from_be_bytes(*event_id), execution_id: i64::from_be_bytes(*execution_id) })
    }
}

impl PageRequest<EventPosition> {
    /// Returns the range for a list with the newest event first, within the times of a filter.
    #[must_use]
    pub fn newest_events_first(&self, filter: &LogFilter) -> EventRange {
        let all = EventRange::all(filter, self.rows_to_read());
        EventRange {
            above: self.before.map_or(all.above, |before| before.max(all.above)),
            below: self.after.map_or(all.below, |after| after.min(all.below)),
            descending: !self.backwards,
            ..all
        }
    }
}

impl EventRange {
    /// Returns the range of all events within the times of a filter.
    #[must_use]
    pub fn all(filter: &LogFilter, limit: i64) -> Self {
        let (from, to) = (filter.created_after, filter.created_before);
        Self {
            above: EventPosition::before(from.unwrap_or_else(|| time(EARLIEST))),
            below: EventPosition::before(to.unwrap_or_else(|| time(LATEST + 1))),
            descending: true,
            limit,
        }
    }
}

/// Position of a reader of a log in arrival order. The events come in batches: a batch has the events of the
/// transactions that `target` sees and `done` does not, in the order of transaction ids and then of event ids. The
/// reader has every event that `done` sees, and the batch up to an event. The next batch begins at `target`, so an event
/// that is committed late is in a later batch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// Identity of the database server, whose transaction ids the position contains.
    pub server: u64,
    /// Snapshot at which the batch starts.
    pub done: TxSnapshot,
    /// Snapshot at which the batch ends.
    pub target: TxSnapshot,
    /// Transaction of the last event that the reader has.
    pub tx_id: u64,
    /// Id of that event.
    pub event_id: i64,
}

impl Arrival {
    /// Returns the position before all events.
    #[must_use]
    pub fn beginning(server: u64) -> Self {
        let (done, target) = (TxSnapshot::beginning(), TxSnapshot::beginning());
        Self { server, done, target, tx_id: 0, event_id: 0 }
    }

    /// Returns the position as a cursor contains it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { server, done, target, tx_id, event_id } = self;
        format!("{server} {done} {target} {tx_id} {event_id}").into_bytes()
    }

    /// Reads the position in a cursor. Returns `None` if the bytes are not a position.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(bytes).ok()?.split(' ');
        let [Some(server), Some(done), Some(target), Some(tx_id), Some(event_id), None] =
            std::array::from_fn(|_| parts.next())
        else {
            return None;
        };
        Some(Self {
            server: server.parse().ok()?,
            done: done.parse().ok()?,
            target: target.parse().ok()?,
            tx_id: tx_id.parse().ok()?,
            event_id: event_id.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn position(second: i64, event_id: i64) -> EventPosition {
        EventPosition { at: DateTime::from_timestamp(second, 0).unwrap(), event_id, execution_id: 5 }
    }

    proptest! {
        #[test]
        fn cursors_contain_the_exact_position(
            micros in -62_135_596_800_000_000i64..253_402_300_799_000_000, event_id: i64, execution_id: i64,
        ) {
            let at = DateTime::from_timestamp_micros(micros).unwrap();
            let position = EventPosition { at, event_id, execution_id };
            prop_assert_eq!(EventPosition::read(&position.to_bytes()), Some(position));
            prop_assert_eq!(EventPosition::read(&position.to_bytes()[1..]), None);
        }
    }

    #[test]
    fn arrivals_round_trip_and_other_bytes_are_refused() {
        let done = "10:20:10,14,15".parse().unwrap();
        let arrival = Arrival { server: u64::MAX, done, target: TxSnapshot::below(30), tx_id: 21, event_id: i64::MAX };
        assert_eq!(Arrival::read(&arrival.to_bytes()), Some(arrival));
        for bytes in ["", "1 3:3: 3:3: 0", "1 3:3: 3:3: 0 0 0", "1 3:3: 3 0 0", "-1 3:3: 3:3: 0 0"] {
            assert_eq!(Arrival::read(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn times_of_the_filter_bound_the_page_with_the_first_one_included() {
        let time = |second| DateTime::from_timestamp(second, 0);
        let filter = LogFilter { created_after: time(100), created_before: time(200), ..LogFilter::default() };
        let request = |after, before| PageRequest { limit: 2, backwards: false, after, before };
        let within = |range: EventRange, event: EventPosition| range.above < event && event < range.below;
        let all = request(None, None).newest_events_first(&filter);
        for (second, expected) in [(99, false), (100, true), (199, true), (200, false)] {
            assert_eq!(within(all, position(second, 1)), expected, "{second}");
        }
        let rest = request(Some(position(150, 7)), Some(position(50, 1))).newest_events_first(&filter);
        assert!(within(rest, position(150, 6)) && !within(rest, position(150, 7)) && !within(rest, position(99, 9)));
        let unbounded = request(None, None).newest_events_first(&LogFilter::default());
        assert!(within(unbounded, position(EARLIEST, 0)) && within(unbounded, position(LATEST, i64::MAX)));
        assert!(unbounded.descending && unbounded.limit == 3);
    }

    #[test]
    fn ranges_contain_the_wanted_types() {
        let types = |types: &[&str]| LogFilter {
            event: EventFilter {
                types: Some(types.iter().map(|one| (*one).to_owned()).collect()),
                ..EventFilter::default()
            },
            ..LogFilter::default()
        };
        let range = |stem: &str, open| TypeRange { stem: stem.to_owned(), open };
        assert_eq!(types(&["a.*", "b"]).type_ranges(), [range("a.", true), range("b", false)]);
        assert_eq!(types(&[&"é".repeat(300)]).type_ranges(), [range(&"é".repeat(255), false)]);
        assert_eq!(LogFilter::default().type_ranges(), [range("", true)]);
        assert!(types(&[]).type_ranges().is_empty());
    }
}
