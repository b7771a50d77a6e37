//! Pages of stored messages that several replays read within a short time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::read::delivered::Delivered;

/// Time for which a page is kept. The stream may remove or lose its messages meanwhile.
const KEPT: Duration = Duration::from_secs(5);

/// Decoded messages of a stream, in order.
#[derive(Debug)]
pub(super) struct Page {
    /// First sequence of the range.
    pub(super) from: u64,
    /// Sequence after the range.
    pub(super) next: u64,
    /// All messages that the stream held in the range.
    pub(super) messages: Vec<Arc<Delivered>>,
}

impl Page {
    /// Returns true if the range contains the sequence.
    pub(super) fn contains(&self, sequence: u64) -> bool {
        self.from <= sequence && sequence < self.next
    }

    /// Returns the messages from a sequence on.
    pub(super) fn messages_from(&self, sequence: u64) -> &[Arc<Delivered>] {
        &self.messages[self.messages.partition_point(|message| message.position.sequence < sequence)..]
    }

    fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.bytes).sum()
    }
}

/// Pages by their ranges, bounded in bytes. If it is full, the oldest pages are removed.
#[derive(Debug)]
pub(super) struct PageCache {
    pages: BTreeMap<u64, (Instant, Arc<Page>)>,
    order: VecDeque<u64>,
    bytes: usize,
    capacity: usize,
}

impl PageCache {
    /// Creates an empty cache for about `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { pages: BTreeMap::new(), order: VecDeque::new(), bytes: 0, capacity }
    }

    /// Returns a page that contains the sequence, unless it is too old.
    pub(super) fn get(&self, sequence: u64, now: Instant) -> Option<Arc<Page>> {
        let (_, (read, page)) = self.pages.range(..=sequence).next_back()?;
        (page.contains(sequence) && now - *read < KEPT).then(|| Arc::clone(page))
    }

    /// Adds a page that was read at `now`, and removes the pages that are too old or beyond the capacity.
    pub(super) fn insert(&mut self, page: Arc<Page>, now: Instant) {
        if page.messages.is_empty() {
            return;
        }
        let from = page.from;
        self.remove(from);
        self.bytes += page.bytes();
        self.order.push_back(from);
        self.pages.insert(from, (now, page));
        while let Some(oldest) = self.order.front().copied()
            && (self.bytes > self.capacity || self.pages.get(&oldest).is_none_or(|(read, _)| now - *read >= KEPT))
        {
            self.remove(oldest);
        }
    }

    /// Removes all pages.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    fn remove(&mut self, from: u64) {
        if let Some((_, page)) = self.pages.remove(&from) {
            self.bytes -= page.bytes();
            self.order.retain(|other| *other != from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::precedence::Precedence;
    use crate::wire::cursor::Position;

    fn page(from: u64, next: u64) -> Arc<Page> {
        let message = |sequence| {
            Arc::new(Delivered {
                shard: 0,
                position: Position { epoch: 1, sequence },
                event: None,
                precedence: Precedence::Stream,
                discard: None,
                complete: None,
                bytes: 10,
            })
        };
        Arc::new(Page { from, next, messages: (from..next).map(message).collect() })
    }

    #[test]
    fn a_page_is_found_by_each_of_its_sequences_until_it_is_too_old() {
        let (mut cache, now) = (PageCache::new(1000), Instant::now());
        cache.insert(page(10, 20), now);
        assert_eq!([9, 10, 19, 20].map(|sequence| cache.get(sequence, now).is_some()), [false, true, true, false]);
        assert_eq!(cache.get(15, now).unwrap().messages_from(18).len(), 2);
        assert!(cache.get(15, now + KEPT).is_none());
        cache.clear();
        assert!(cache.get(15, now).is_none());
    }

    #[test]
    fn the_oldest_pages_are_removed_beyond_the_capacity() {
        let (mut cache, now) = (PageCache::new(250), Instant::now());
        for from in [30, 10, 20, 10] {
            cache.insert(page(from, from + 10), now);
        }
        assert_eq!([10, 20, 30].map(|sequence| cache.get(sequence, now).is_some()), [true, true, false]);
        assert_eq!((cache.bytes, cache.order.len(), cache.pages.len()), (200, 2, 2));
    }
}
