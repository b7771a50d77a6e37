//! Latest events of one shard's feed, shared by all readers of a replica and bounded in bytes.
//!
//! A reader holds a place in the ring and no events of its own. A reader whose next event was overwritten gets
//! [`Overwritten`]. A ring without readers can be reset. It then has no head, and a reader that joins waits until the feed
//! has started again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::feed::read::delivered::Delivered;
use crate::feed::wire::cursor::Position;

/// The ring of one shard.
#[derive(Debug)]
pub(super) struct Ring {
    kept: Mutex<RingState>,
    /// Number of events that were ever put in; readers wait for it to change.
    put: watch::Sender<u64>,
    /// Notified by each reader that finds no head.
    wanted: Notify,
    capacity: usize,
}

#[derive(Debug, Default)]
struct RingState {
    /// Position of the feed; `None` after a reset, until the stream was found.
    head: Option<Position>,
    events: VecDeque<Arc<Delivered>>,
    bytes: usize,
    /// Number of events that were ever put in.
    put: u64,
}

/// A reader's place in the ring.
#[derive(Debug)]
pub(super) struct RingReader {
    ring: Arc<Ring>,
    /// Number of events that were put in before this reader's next event.
    next: u64,
    put: watch::Receiver<u64>,
}

/// The reader's next event was overwritten.
#[derive(Debug)]
pub(super) struct Overwritten;

impl Ring {
    /// Creates an empty ring of about `capacity` bytes. It keeps the last event even if that is larger.
    pub(super) fn new(capacity: usize) -> Self {
        Self { kept: Mutex::default(), put: watch::Sender::new(0), wanted: Notify::new(), capacity }
    }

    /// Returns the position of the feed; `None` after a reset, until the stream was found.
    pub(super) fn head(&self) -> Option<Position> {
        self.kept().head
    }

    /// Sets the head after the stream was found.
    pub(super) fn begin(&self, head: Position) {
        let mut kept = self.kept();
        kept.head = Some(head);
        self.put.send_replace(kept.put);
    }

    /// Returns true if the ring has a reader, or one that waits for the head.
    pub(super) fn is_read(&self) -> bool {
        self.put.receiver_count() > 0
    }

    /// Resets the ring if it has no readers. Returns true if it did.
    pub(super) fn rest(&self) -> bool {
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

    /// Shares an event, which becomes the head. Returns the number of bytes that the ring holds.
    pub(super) fn put(&self, delivered: Arc<Delivered>) -> usize {
        let mut kept = self.kept();
        kept.head = Some(delivered.position);
        kept.put += 1;
        if self.is_read() {
            kept.bytes += delivered.bytes;
            kept.events.push_back(delivered);
            while kept.bytes > self.capacity && kept.events.len() > 1 {
                kept.bytes -= kept.events.pop_front().map_or(0, |oldest| oldest.bytes);
            }
        } else {
            kept.events.clear();
            kept.bytes = 0;
        }
        self.put.send_replace(kept.put);
        kept.bytes
    }

    /// Waits until the stream was found. Returns the head and a place after it.
    pub(super) async fn join(self: &Arc<Self>) -> (Position, RingReader) {
        let mut put = self.put.subscribe();
        loop {
            // The lock keeps head and place consistent.
            let joined = {
                let kept = self.kept();
                kept.head.map(|head| (head, kept.put))
            };
            if let Some((head, next)) = joined {
                put.mark_unchanged();
                return (head, RingReader { ring: Arc::clone(self), next, put });
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
    /// Waits for the next event and returns it.
    pub(super) async fn next(&mut self) -> Result<Arc<Delivered>, Overwritten> {
        loop {
            if let Some(taken) = self.take() {
                return taken;
            }
            // The ring holds the sender.
            drop(self.put.changed().await);
        }
    }

    fn take(&mut self) -> Option<Result<Arc<Delivered>, Overwritten>> {
        self.put.mark_unchanged();
        let kept = self.ring.kept();
        let behind = usize::try_from(kept.put - self.next).unwrap_or(usize::MAX);
        if behind == 0 {
            return None;
        }
        let Some(index) = kept.events.len().checked_sub(behind) else {
            return Some(Err(Overwritten));
        };
        self.next += 1;
        kept.events.get(index).cloned().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64, bytes: usize) -> Arc<Delivered> {
        Arc::new(Delivered { shard: 0, position: Position { epoch: 1, sequence }, event: None, discard: None, bytes })
    }

    #[tokio::test]
    async fn reader_gets_each_event_once_or_an_error_if_it_was_overwritten() {
        let ring = Arc::new(Ring::new(100));
        ring.begin(Position { epoch: 1, sequence: 7 });
        let (head, mut place) = ring.join().await;
        assert_eq!(head.sequence, 7);
        for sequence in 8..18 {
            ring.put(event(sequence, 10));
        }
        for sequence in 8..18 {
            assert_eq!(place.next().await.unwrap().position.sequence, sequence);
        }
        assert!(place.take().is_none());
        for sequence in 18..29 {
            ring.put(event(sequence, 10));
        }
        assert!(place.next().await.is_err());
        let (head, mut place) = ring.join().await;
        assert_eq!(head.sequence, 28);
        // The last event is kept at any size.
        assert_eq!(ring.put(event(29, 1000)), 1000);
        assert_eq!(place.next().await.unwrap().position.sequence, 29);
    }

    #[tokio::test]
    async fn ring_resets_only_without_readers_and_the_next_reader_waits_for_the_feed() {
        let ring = Arc::new(Ring::new(100));
        ring.begin(Position { epoch: 1, sequence: 7 });
        let (_, place) = ring.join().await;
        assert!(!ring.rest() && ring.head().is_some());
        drop(place);
        assert!(ring.rest() && ring.head().is_none());
        let begun = async {
            ring.wanted().await;
            assert!(!ring.rest());
            ring.begin(Position { epoch: 2, sequence: 3 });
        };
        let ((head, mut place), ()) = tokio::join!(ring.join(), begun);
        assert_eq!(head, Position { epoch: 2, sequence: 3 });
        ring.put(event(4, 10));
        assert_eq!(place.next().await.unwrap().position.sequence, 4);
    }

    #[tokio::test]
    async fn ring_without_readers_keeps_no_events() {
        let ring = Arc::new(Ring::new(100));
        ring.begin(Position::default());
        drop(ring.join().await);
        assert_eq!(ring.put(event(1, 10)), 0);
        assert_eq!(ring.join().await.0.sequence, 1);
    }
}
