//! Latest events of one shard's feed, shared by all readers of a replica and bounded in bytes. Without it, the memory
//! for events would grow with the number of readers that lag.
//!
//! A reader holds a place in the ring and no events of its own. An event wakes only the readers that follow it, by the
//! index of their interests. A reader whose next event was overwritten gets [`Overwritten`]; events that it does not
//! follow do not count. A ring without readers can be reset. It then has no head, and a reader that joins waits until
//! the feed has started again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::Counter;
use tokio::sync::{Notify, watch};

use crate::read::delivered::Delivered;
use crate::read::interests::{Group, Interest, Interests, NextMatch};
use crate::wire::cursor::Position;

#[derive(Debug)]
pub(super) struct Ring {
    kept: Mutex<RingState>,
    /// Changes with each event; a reader that needs every event waits for it.
    put: watch::Sender<()>,
    /// Notified by each reader that finds no head.
    wanted: Notify,
    capacity: usize,
    taken: Counter,
}

#[derive(Debug, Default)]
struct RingState {
    /// Position of the feed; `None` after a reset, until the stream was found.
    head: Option<Position>,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Number of events that were ever put in. Events are numbered in this order.
    put: u64,
    interests: Interests,
}

impl RingState {
    /// Returns the number of the oldest event in the ring.
    fn first(&self) -> u64 {
        self.put - self.entries.len() as u64
    }
}

/// Event in the ring.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Position of the feed before the event.
    pub(super) before: Position,
    pub(super) delivered: Arc<Delivered>,
}

/// A reader's place in the ring. The reader leaves the ring when the value is dropped.
#[derive(Debug)]
pub(super) struct RingReader {
    place: Arc<Place>,
    /// Changes with each event.
    put: watch::Receiver<()>,
    /// Changes with each event that the reader follows.
    matched: watch::Receiver<()>,
}

/// The place of a reader, which its heartbeats share.
#[derive(Debug)]
pub(super) struct Place {
    ring: Arc<Ring>,
    group: Arc<Group>,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// Number of the reader's next event.
    next: u64,
    /// Whether the reader has received all events before its place that it follows.
    live: bool,
    /// Last position that [`Place::passed`] returned.
    passed: Position,
}

/// The reader's next event was overwritten.
#[derive(Debug)]
pub(super) struct Overwritten;

impl Ring {
    /// Creates an empty ring of about `capacity` bytes. It keeps the last event even if that is larger.
    pub(super) fn new(capacity: usize) -> Self {
        let taken = metrics::counter!("noetl_stream_taken_events_total");
        Self { kept: Mutex::default(), put: watch::Sender::new(()), wanted: Notify::new(), capacity, taken }
    }

    /// Returns the position of the feed; `None` after a reset, until the stream was found.
    pub(super) fn head(&self) -> Option<Position> {
        self.kept().head
    }

    /// Sets the head after the stream was found.
    pub(super) fn begin(&self, head: Position) {
        self.kept().head = Some(head);
        self.put.send_replace(());
    }

    /// Returns true if the ring has a reader, or one that waits for the head.
    pub(super) fn is_read(&self) -> bool {
        self.put.receiver_count() > 0
    }

    /// Resets the ring if it has no readers. Returns true if it did.
    pub(super) fn reset_unread(&self) -> bool {
        let mut kept = self.kept();
        // A reader that subscribes after this check finds no head, and waits.
        if self.is_read() {
            return false;
        }
        *kept = RingState { put: kept.put, ..RingState::default() };
        true
    }

    /// Waits until the ring has a reader.
    pub(super) async fn wanted(&self) {
        while !self.is_read() {
            self.wanted.notified().await;
        }
    }

    /// Shares an event, which becomes the head, and wakes the readers that follow it. Returns the number of bytes that
    /// the ring holds.
    pub(super) fn put(&self, delivered: Arc<Delivered>) -> usize {
        let mut kept = self.kept();
        let position = delivered.position;
        let before = kept.head.replace(position).unwrap_or_default();
        let number = kept.put;
        kept.put += 1;
        if self.is_read() {
            kept.bytes += delivered.bytes;
            kept.entries.push_back(Entry { before, delivered: Arc::clone(&delivered) });
            while kept.bytes > self.capacity && kept.entries.len() > 1 {
                kept.bytes -= kept.entries.pop_front().map_or(0, |oldest| oldest.delivered.bytes);
            }
        } else {
            kept.entries.clear();
            kept.bytes = 0;
        }
        let first = kept.first();
        let event = delivered.event.as_ref().map(|live| &*live.event);
        kept.interests.list(number, first, before.precedes(position), event);
        self.put.send_replace(());
        kept.bytes
    }

    /// Waits until the stream was found. Returns the head and a place after it.
    pub(super) async fn join(self: &Arc<Self>, interest: Interest) -> (Position, RingReader) {
        let mut put = self.put.subscribe();
        loop {
            // The lock keeps head and place consistent.
            let joined = {
                let mut kept = self.kept();
                let next = kept.put;
                kept.head.map(|head| (head, next, kept.interests.join(interest.clone(), next)))
            };
            if let Some((head, next, group)) = joined {
                let matched = group.watch();
                let progress = Mutex::new(Progress { next, live: false, passed: Position::default() });
                let place = Arc::new(Place { ring: Arc::clone(self), group, progress });
                return (head, RingReader { place, put, matched });
            }
            self.wanted.notify_one();
            // The ring holds the sender.
            drop(put.changed().await);
        }
    }

    fn kept(&self) -> MutexGuard<'_, RingState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RingReader {
    pub(super) fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place)
    }

    /// Sets whether the reader has received all events before its place that it follows. Returns the last position that
    /// its heartbeats reported.
    pub(super) fn set_live(&self, live: bool) -> Position {
        let mut progress = self.place.progress();
        progress.live = live;
        progress.passed
    }

    /// Waits for the next event that the reader follows, or, if `every` is true, for the next event, and returns it. May
    /// also return an event that the reader does not follow. All events between the reader's last one and the returned
    /// one directly follow each other.
    pub(super) async fn next(&mut self, every: bool) -> Result<Entry, Overwritten> {
        loop {
            let news = if every { &mut self.put } else { &mut self.matched };
            news.mark_unchanged();
            if let Some(taken) = self.place.take(every) {
                return taken;
            }
            // The place holds the senders.
            drop(news.changed().await);
        }
    }

    /// Moves the place to the end of the ring. Returns the head.
    pub(super) fn skip(&mut self) -> Position {
        let kept = self.place.ring.kept();
        self.place.progress().next = kept.put;
        kept.head.unwrap_or_default()
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        self.place.ring.kept().interests.leave(&self.place.group);
    }
}

impl Place {
    /// Returns the position of the feed if the reader has received all events up to it that it follows.
    pub(super) fn passed(&self) -> Option<Position> {
        let kept = self.ring.kept();
        let mut progress = self.progress();
        let all = progress.next == kept.put || self.group.next_match(progress.next) == NextMatch::None;
        let passed = kept.head.filter(|_| progress.live && all)?;
        progress.passed = passed;
        Some(passed)
    }

    fn take(&self, every: bool) -> Option<Result<Entry, Overwritten>> {
        let kept = self.ring.kept();
        let mut progress = self.progress();
        if progress.next == kept.put {
            return None;
        }
        let listed = if every { NextMatch::Unknown } else { self.group.next_match(progress.next) };
        let number = match listed {
            NextMatch::At(number) => number,
            NextMatch::Unknown => progress.next,
            NextMatch::None => {
                progress.next = kept.put;
                return None;
            }
        };
        let Some(index) = number.checked_sub(kept.first()) else {
            return Some(Err(Overwritten));
        };
        progress.next = number + 1;
        self.ring.taken.increment(1);
        kept.entries.get(usize::try_from(index).unwrap_or(usize::MAX)).cloned().map(Ok)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use noetl_domain::event::{Event, EventFilter};
    use noetl_domain::ids::Id;
    use noetl_domain::tenant::Scope;

    use super::*;
    use crate::read::delivered::LiveEvent;
    use crate::read::precedence::Precedence;

    fn at(sequence: u64) -> Position {
        Position { epoch: 1, sequence }
    }

    fn event(sequence: u64, bytes: usize) -> Arc<Delivered> {
        Arc::new(Delivered {
            shard: 0,
            position: at(sequence),
            event: None,
            precedence: Precedence::Stream,
            discard: None,
            complete: None,
            bytes,
        })
    }

    fn event_of(execution: i64, sequence: u64) -> Arc<Delivered> {
        let event = Event::bare(Id::new(execution), Id::new(1), Id::new(0), "a", DateTime::UNIX_EPOCH);
        let live = LiveEvent { event: Arc::new(event), partial: false };
        Arc::new(Delivered {
            shard: 0,
            position: at(sequence),
            event: Some(live),
            precedence: Precedence::Stream,
            discard: None,
            complete: None,
            bytes: 10,
        })
    }

    fn following(execution: i64) -> Interest {
        let filter = EventFilter { execution_ids: Some(vec![Id::new(execution)]), ..EventFilter::default() };
        Interest { filter, scope: Scope::Unrestricted }
    }

    fn everything() -> Interest {
        Interest { filter: EventFilter::default(), scope: Scope::Unrestricted }
    }

    async fn taken(reader: &mut RingReader, every: bool) -> u64 {
        reader.next(every).await.unwrap().delivered.position.sequence
    }

    #[tokio::test]
    async fn reader_of_every_event_gets_each_once_or_an_error_if_it_was_overwritten() {
        let ring = Arc::new(Ring::new(100));
        ring.begin(at(7));
        let (head, mut reader) = ring.join(everything()).await;
        assert_eq!(head.sequence, 7);
        for sequence in 8..18 {
            ring.put(event(sequence, 10));
        }
        for sequence in 8..18 {
            assert_eq!(taken(&mut reader, true).await, sequence);
        }
        assert!(reader.place.take(true).is_none());
        for sequence in 18..29 {
            ring.put(event(sequence, 10));
        }
        assert!(reader.next(true).await.is_err());
        assert_eq!(reader.skip().sequence, 28);
        // The last event is kept at any size.
        assert_eq!(ring.put(event(29, 1000)), 1000);
        assert_eq!(taken(&mut reader, true).await, 29);
    }

    #[tokio::test]
    async fn reader_of_one_execution_is_not_affected_by_the_events_of_others() {
        let ring = Arc::new(Ring::new(100));
        ring.begin(at(0));
        let (_, mut reader) = ring.join(following(1)).await;
        assert_eq!(reader.place.passed(), None);
        reader.set_live(true);
        for sequence in 1..50 {
            ring.put(event_of(2, sequence));
        }
        assert!(!reader.matched.has_changed().unwrap());
        assert_eq!(reader.place.passed(), Some(at(49)));
        ring.put(event_of(1, 50));
        assert!(reader.matched.has_changed().unwrap());
        assert_eq!(reader.place.passed(), None);
        let entry = reader.next(false).await.unwrap();
        assert_eq!((entry.before, entry.delivered.position), (at(49), at(50)));
        assert_eq!(reader.set_live(false), at(49));
        for sequence in 51..70 {
            ring.put(event_of(1, sequence));
        }
        assert!(reader.next(false).await.is_err());
    }

    #[tokio::test]
    async fn every_reader_gets_an_event_that_does_not_follow_the_one_before_it() {
        let ring = Arc::new(Ring::new(100));
        ring.begin(at(3));
        let (_, mut reader) = ring.join(following(1)).await;
        ring.put(event_of(2, 5));
        let entry = reader.next(false).await.unwrap();
        assert_eq!((entry.before, entry.delivered.position), (at(3), at(5)));
    }

    #[tokio::test]
    async fn ring_resets_only_without_readers_and_the_next_reader_waits_for_the_feed() {
        let ring = Arc::new(Ring::new(100));
        ring.begin(at(7));
        let (_, reader) = ring.join(everything()).await;
        assert!(!ring.reset_unread() && ring.head().is_some());
        drop(reader);
        assert!(ring.reset_unread() && ring.head().is_none());
        let begun = async {
            ring.wanted().await;
            assert!(!ring.reset_unread());
            ring.begin(Position { epoch: 2, sequence: 3 });
        };
        let ((head, mut reader), ()) = tokio::join!(ring.join(everything()), begun);
        assert_eq!(head, Position { epoch: 2, sequence: 3 });
        ring.put(event(4, 10));
        assert_eq!(taken(&mut reader, false).await, 4);
    }

    #[tokio::test]
    async fn ring_without_readers_keeps_no_events() {
        let ring = Arc::new(Ring::new(100));
        ring.begin(Position::default());
        drop(ring.join(everything()).await);
        assert_eq!(ring.put(event(1, 10)), 0);
        assert_eq!(ring.join(everything()).await.0.sequence, 1);
    }
}
