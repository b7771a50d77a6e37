//! Access to the stream of one shard: the range of its sequences, the first message of an epoch, and the messages from
//! a position on.

use std::time::Duration;

use async_nats::jetstream::consumer::pull::{self, Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::{Info, RawMessageErrorKind, Stream};
use chrono::{DateTime, Utc};

use crate::read::error::ReadError;
use crate::read::pages::Pages;
use crate::wire::cursor::Position;
use crate::wire::envelope::Mark;
use crate::wire::names::StreamNames;
use crate::wire::streams;
use noetl_domain::feed::FeedId;
use noetl_domain::shard::ShardIndex;

/// Messages that the live feed's consumer requests at a time; each may be as large as the broker allows.
const LIVE_BATCH: i64 = 32;
/// Time after which the broker removes the consumer of a replay that is no longer read.
const FORGET_AFTER: Duration = Duration::from_secs(30);
/// Number of messages at the end of a stream that are searched for one with a mark.
const SEARCH_LIMIT: u64 = 1000;

/// Stream of one shard, for reading.
#[derive(Debug, Clone)]
pub(super) struct ShardStream {
    shard: ShardIndex,
    feed: Option<FeedId>,
    /// Pattern of the subjects of its events.
    subjects: String,
    client: async_nats::Client,
    stream: Stream,
}

/// Range of the sequences that a stream holds; empty if `first > last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// First sequence that is still stored.
    pub(super) first: u64,
    /// Last sequence that was assigned.
    pub(super) last: u64,
    /// Creation time of the stream in nanoseconds since 1970. It changes if the stream is deleted and created again,
    /// and sequences then start over.
    pub(super) created: i128,
}

impl Extent {
    fn of(info: &Info) -> Self {
        let created = info.created.unix_timestamp_nanos();
        Self { first: info.state.first_sequence.max(1), last: info.state.last_sequence, created }
    }
}

impl ShardStream {
    /// Opens the shard's stream, which must exist. Messages of other feeds than `feed` are skipped.
    pub(super) async fn open(
        client: async_nats::Client,
        names: &StreamNames,
        shard: ShardIndex,
        feed: Option<FeedId>,
    ) -> Result<Self, ReadError> {
        let stream = streams::context(client.clone(), names).get_stream(names.stream(shard)).await;
        let stream = stream
            .map_err(|error| ReadError { missing: streams::is_missing(&error), ..ReadError::of(shard, error) })?;
        Ok(Self { shard, feed, subjects: names.subjects(shard), client, stream })
    }

    /// Returns the feed whose messages are read; `None` if it was unknown when the stream was opened.
    pub(super) fn feed(&self) -> Option<FeedId> {
        self.feed
    }

    /// Returns the range of the sequences that the stream holds.
    pub(super) async fn extent(&self) -> Result<Extent, ReadError> {
        Ok(Extent::of(&self.stream.get_info().await.map_err(|error| self.failed(error))?))
    }

    /// Returns the range of the sequences that the stream held when it was opened.
    pub(super) fn opened_extent(&self) -> Extent {
        Extent::of(self.stream.cached_info())
    }

    /// Returns true if the stream's limits may have removed messages that were published at `since` or later.
    pub(super) fn may_have_dropped(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        let config = &self.stream.cached_info().config;
        let age = (now - since).to_std().unwrap_or_default();
        let limited = config.max_bytes > 0 || config.max_messages > 0 || config.max_messages_per_subject > 0;
        limited || (!config.max_age.is_zero() && age > config.max_age)
    }

    /// Returns the position after the last message that the stream had when it was opened. Its epoch is that of the
    /// last mark, or 0 if no message near the end has one.
    pub(super) async fn end(&self) -> Result<Position, ReadError> {
        let extent = self.opened_extent();
        for sequence in (extent.first.max(extent.last.saturating_sub(SEARCH_LIMIT))..=extent.last).rev() {
            match self.stream.get_raw_message(sequence).await {
                Ok(message) => {
                    if let Some(mark) = Mark::read_of(&message.headers, self.feed) {
                        return Ok(Position { epoch: mark.epoch.cast_unsigned(), sequence: extent.last });
                    }
                }
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(Position { epoch: 0, sequence: extent.last })
    }

    /// Returns the sequence of the first message of a later epoch than `epoch`, by binary search over the headers.
    pub(super) async fn first_after(&self, epoch: u32, extent: Extent) -> Result<Option<u64>, ReadError> {
        // Messages below `low` have no later epoch. `found` is the first message from `high` on that has one.
        let (mut low, mut high, mut found) = (extent.first, extent.last + 1, None);
        let mut middle = extent.last;
        while low < high {
            match self.mark_within(middle.max(low), high).await? {
                Some((sequence, marked)) if marked > epoch => (found, high) = (Some(sequence), middle.max(low)),
                Some((sequence, _)) => low = sequence + 1,
                None => high = middle.max(low),
            }
            middle = low + high.saturating_sub(low) / 2;
        }
        Ok(found)
    }

    /// Returns the sequence after which a reader at `at` continues: its own, or, if a later epoch begins below it, the
    /// sequence before that epoch's first message.
    pub(super) async fn resume(&self, at: Position) -> Result<u64, ReadError> {
        let extent = self.opened_extent();
        // Every stored message of any epoch is after `at`.
        if at.sequence < extent.first {
            return Ok(at.sequence);
        }
        let renewed = self.first_after(at.epoch, extent).await?;
        Ok(renewed.map_or(at.sequence, |first| at.sequence.min(first - 1)))
    }

    /// Fails if the message at `next`, which has a later epoch than `epoch`, is not the first one that has: the
    /// consumer was recreated and skipped that message.
    pub(super) async fn check_epoch(&self, epoch: u32, next: u64) -> Result<(), ReadError> {
        match self.first_after(epoch, self.extent().await?).await? {
            Some(first) if first < next => Err(self.failed("the consumer skipped the first message of an epoch")),
            _ => Ok(()),
        }
    }

    /// Fails if the stream holds an event between two positions that the consumer did not deliver. The consumer of a
    /// replicated stream may have been on a server that lagged.
    pub(super) async fn check_gone(&self, at: Position, until: Position) -> Result<(), ReadError> {
        match self.mark_within(at.sequence + 1, until.sequence + 1).await? {
            Some((_, epoch)) if epoch <= until.epoch => {
                Err(self.failed("the consumer did not deliver every stored message"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the position of the first message that was published at `time` or later.
    pub(super) async fn first_since(&self, time: DateTime<Utc>) -> Result<Option<Position>, ReadError> {
        let extent = self.opened_extent();
        let nanos = i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos());
        let start_time = async_nats::datetime::from_nanos(nanos).map_err(|error| self.failed(error))?;
        let mut pages = self.pages(DeliverPolicy::ByStartTime { start_time }).await?;
        let Some(message) = pages.one().await? else {
            if extent.last < extent.first {
                return Ok(None);
            }
            return match self.stream.get_raw_message(extent.last).await {
                Ok(last) if last.time.unix_timestamp_nanos() >= nanos => {
                    Err(self.failed("the consumer did not deliver every stored message"))
                }
                Err(error) if error.kind() != RawMessageErrorKind::NoMessageFound => Err(self.failed(error)),
                _ => Ok(None),
            };
        };
        let sequence = message.info().map_err(|error| self.failed(error))?.stream_sequence;
        let marked = self.mark_within(sequence, extent.last + 1).await?;
        Ok(marked.map(|(_, epoch)| Position { epoch, sequence }))
    }

    /// Returns sequence and epoch of the first message with a mark from `from` on, below `end`.
    pub(super) async fn mark_within(&self, mut from: u64, end: u64) -> Result<Option<(u64, u32)>, ReadError> {
        while from < end {
            match self.stream.get_first_raw_message_by_subject(&self.subjects, from).await {
                Ok(message) if message.sequence >= end => break,
                Ok(message) => match Mark::read_of(&message.headers, self.feed) {
                    Some(mark) => return Ok(Some((message.sequence, mark.epoch.cast_unsigned()))),
                    None => from = message.sequence + 1,
                },
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => break,
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(None)
    }

    /// Returns the messages from a sequence on, including future ones.
    pub(super) async fn follow(&self, start_sequence: u64) -> Result<Ordered, ReadError> {
        let config = OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: start_sequence.max(1) },
            max_batch: LIVE_BATCH,
            ..OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(|error| self.failed(error))?;
        consumer.messages().await.map_err(|error| self.failed(error))
    }

    /// Returns the messages from a position on, which are fetched page by page on request.
    pub(super) async fn pages(&self, deliver_policy: DeliverPolicy) -> Result<Pages, ReadError> {
        let config = pull::Config {
            deliver_policy,
            ack_policy: AckPolicy::None,
            inactive_threshold: FORGET_AFTER,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(|error| self.failed(error))?;
        Ok(Pages::new(self.shard, self.client.clone(), consumer))
    }

    /// Returns an error of this stream.
    pub(super) fn failed(&self, error: impl std::fmt::Display) -> ReadError {
        ReadError::of(self.shard, error)
    }
}
