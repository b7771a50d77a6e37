//! Pages of stored messages that several replays read within a short time. Without them, each of the readers that
//! replay after a restart would read the whole range from the broker.

use std::collections::VecDeque;
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

/// Pages and the times at which they were read, the oldest first, bounded in bytes. A page has many messages, so about
/// a hundred fit, and a search passes through them.
#[derive(Debug)]
pub(super) struct PageCache {
    pages: VecDeque<(Instant, Arc<Page>)>,
    bytes: usize,
    capacity: usize,
}

impl PageCache {
    /// Creates an empty cache for about `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { pages: VecDeque::new(), bytes: 0, capacity }
    }

    /// Returns the latest page that contains the sequence, unless it is too old.
    pub(super) fn get(&self, sequence: u64, now: Instant) -> Option<Arc<Page>> {
        let (read, page) = self.pages.iter().rev().find(|(_, page)| page.contains(sequence))?;
        (now - *read < KEPT).then(|| Arc::clone(page))
    }

    /// Adds a page that was read at `now`, and removes the pages that are too old or beyond the capacity.
    pub(super) fn insert(&mut self, page: Arc<Page>, now: Instant) {
        if page.messages.is_empty() {
            return;
        }
        self.bytes += page.bytes();
        self.pages.push_back((now, page));
        while let Some((read, oldest)) = self.pages.front()
            && (self.bytes > self.capacity || now - *read >= KEPT)
        {
            self.bytes -= oldest.bytes();
            self.pages.pop_front();
        }
    }

    /// Removes all pages.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity);
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
        assert_eq!((cache.bytes, cache.pages.len()), (200, 2));
    }
}
