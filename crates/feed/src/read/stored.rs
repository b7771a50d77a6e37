//! Stored messages of one shard for all replays of a replica.
//!
//! Many readers replay at the same time after a restart, a new epoch or an overflow of the ring. So readers do not read
//! the stream themselves. Their requests wait in queues, and one worker for each shard answers them
//! ([`super::worker`]). A page of messages answers every request for a position in it, and is kept for a short time
//! for the readers that come next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use metrics::Gauge;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::read::error::ReadError;
use crate::read::page_cache::{Page, PageCache};
use crate::read::requests::{Answer, Requests};
use crate::read::source::ShardStream;
use crate::wire::cursor::Position;
use noetl_domain::shard::ShardIndex;

/// Time in which the broker must return the end of the stream.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Result of a search in a stream.
#[derive(Debug, Clone)]
pub(super) struct Found<T> {
    /// The stream at the time of the search.
    pub(super) stream: ShardStream,
    pub(super) found: Option<T>,
}

/// Stored messages of one shard.
#[derive(Debug)]
pub(super) struct StoredFeed {
    shard: ShardIndex,
    queues: Mutex<Queues>,
    /// Notified by each new request.
    wanted: Notify,
    waiting: Gauge,
}

/// Start of the epoch after another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct EpochStart {
    /// Epoch before it.
    pub(super) after: u32,
    /// Creation time of the stream, as in [`super::source::Extent`].
    pub(super) created: i128,
    /// Sequence of the first message of a later epoch than `after`.
    pub(super) first: u64,
}

/// Requests of all replays, and what was read last.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) streams: Requests<(), ShardStream>,
    /// Searches for the sequence of the first message of a later epoch.
    pub(super) epochs: Requests<u32, Found<u64>>,
    /// Searches for the position of the first message from a time on.
    pub(super) times: Requests<DateTime<Utc>, Found<Position>>,
    /// Pages that contain a sequence.
    pub(super) pages: Requests<u64, Arc<Page>>,
    pub(super) cache: PageCache,
    /// Result of the last search for an epoch, which several requests of a replay need.
    pub(super) epoch_start: Option<EpochStart>,
}

impl StoredFeed {
    /// Creates a feed that keeps pages of about `capacity` bytes.
    pub(super) fn new(shard: ShardIndex, capacity: usize) -> Self {
        let queues = Queues {
            streams: Requests::default(),
            epochs: Requests::default(),
            times: Requests::default(),
            pages: Requests::default(),
            cache: PageCache::new(capacity),
            epoch_start: None,
        };
        let waiting = metrics::gauge!("noetl_stream_replays_waiting");
        Self { shard, queues: Mutex::new(queues), wanted: Notify::new(), waiting }
    }

    /// Returns the stream as it is after this call.
    pub(super) async fn stream(&self) -> Result<ShardStream, ReadError> {
        self.ask(|queues| queues.streams.ask(())).await
    }

    /// Returns the position after the stream's last message. Fails if the broker does not answer in time.
    pub(super) async fn end(&self) -> Result<Position, ReadError> {
        let end = async { self.stream().await?.end().await };
        let late = |_| Err(ReadError::of(self.shard, "the broker does not answer"));
        timeout(ANSWER_WITHIN, end).await.unwrap_or_else(late)
    }

    /// Returns the sequence of the first message of a later epoch than `epoch`.
    pub(super) async fn first_after(&self, epoch: u32) -> Result<Found<u64>, ReadError> {
        self.ask(|queues| queues.epochs.ask(epoch)).await
    }

    /// Returns the position of the first message that was published at a time or later.
    pub(super) async fn first_since(&self, time: DateTime<Utc>) -> Result<Found<Position>, ReadError> {
        self.ask(|queues| queues.times.ask(time)).await
    }

    /// Returns a page that contains a sequence, or an empty one if the stream holds no message from there on.
    pub(super) async fn page(&self, sequence: u64) -> Result<Arc<Page>, ReadError> {
        let kept = self.queues().cache.get(sequence, Instant::now());
        match kept {
            Some(page) => Ok(page),
            None => self.ask(|queues| queues.pages.ask(sequence)).await,
        }
    }

    /// Forgets what was read: the stream may hold other messages with the same sequences.
    pub(super) fn forget(&self) {
        let mut queues = self.queues();
        queues.cache.clear();
        queues.epoch_start = None;
    }

    /// Waits until a reader has asked.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Returns the queues. Not to be held across an await.
    pub(super) fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask<T>(&self, ask: impl FnOnce(&mut Queues) -> Answer<T>) -> Result<T, ReadError> {
        let answer = ask(&mut self.queues());
        let _counted = Counted::new(self.waiting.clone());
        self.wanted.notify_one();
        answer.await.unwrap_or_else(|_| Err(ReadError::of(self.shard, "the request was dropped")))
    }
}

/// Counts in a gauge until it is dropped.
pub(super) struct Counted(Gauge);

impl Counted {
    pub(super) fn new(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
