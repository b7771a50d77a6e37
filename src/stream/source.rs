//! The stream of one shard: what it holds, where its epochs begin, and its messages from a place on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::{self, Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, ErrorCode};
use chrono::{DateTime, Utc};

use super::cursor::Position;
use super::envelope::Mark;
use super::names;
use super::pages::Pages;
use crate::domain::shard::ShardIndex;

/// Messages that the live feed's consumer asks for at a time; each may be as large as the broker allows.
const LIVE_BATCH: i64 = 32;
/// How long the broker keeps the consumer of a replay whose reader has gone.
const FORGET_AFTER: Duration = Duration::from_secs(30);
/// Messages at a stream's end among which a marked one is looked for.
const LOOK_BACK: u64 = 1000;

/// Why a stream can't be read now.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the event stream of shard {shard} can't be read: {reason}")]
pub struct ReadError {
    /// Which shard's.
    pub shard: ShardIndex,
    /// For the log.
    pub reason: String,
    /// Whether the broker answered that it has no such stream.
    pub missing: bool,
}

impl ReadError {
    pub(super) fn of(shard: ShardIndex, reason: impl std::fmt::Display) -> Self {
        Self { shard, reason: reason.to_string(), missing: false }
    }
}

/// Reads the stream of one shard.
#[derive(Debug, Clone)]
pub(super) struct ShardStream {
    shard: ShardIndex,
    client: async_nats::Client,
    stream: Stream,
}

/// What a stream holds: the sequences from the first to the last; none when `first > last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The first sequence that is still there.
    pub(super) first: u64,
    /// The last that was given out.
    pub(super) last: u64,
    /// When the stream was made, in nanoseconds since 1970: a stream made anew begins anew.
    pub(super) created: i128,
}

impl ShardStream {
    /// Opens the shard's stream, which must exist.
    pub(super) async fn open(client: async_nats::Client, shard: ShardIndex) -> Result<Self, ReadError> {
        let stream = jetstream::new(client.clone()).get_stream(names::stream(shard)).await;
        let missing = |kind: &GetStreamErrorKind| matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND);
        let stream =
            stream.map_err(|error| ReadError { missing: missing(&error.kind()), ..ReadError::of(shard, error) })?;
        Ok(Self { shard, client, stream })
    }

    /// What the stream holds now.
    pub(super) async fn extent(&self) -> Result<Extent, ReadError> {
        let info = self.stream.get_info().await.map_err(|error| self.failed(error))?;
        let (state, created) = (info.state, info.created.unix_timestamp_nanos());
        Ok(Extent { first: state.first_sequence.max(1), last: state.last_sequence, created })
    }

    /// Whether messages of a time may have been dropped by the stream's limits.
    pub(super) fn may_have_dropped(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        let config = &self.stream.cached_info().config;
        let age = (now - since).to_std().unwrap_or_default();
        let limited = config.max_bytes > 0 || config.max_messages > 0 || config.max_messages_per_subject > 0;
        limited || (!config.max_age.is_zero() && age > config.max_age)
    }

    /// The place behind the last message.
    pub(super) async fn end(&self, extent: Extent) -> Result<Position, ReadError> {
        for sequence in (extent.first.max(extent.last.saturating_sub(LOOK_BACK))..=extent.last).rev() {
            match self.stream.get_raw_message(sequence).await {
                Ok(message) => {
                    if let Some(mark) = Mark::read(&message.headers) {
                        return Ok(Position { epoch: mark.epoch.cast_unsigned(), sequence: extent.last });
                    }
                }
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(Position { epoch: 0, sequence: extent.last })
    }

    /// The first message of a later epoch than `epoch`, by binary search over the headers.
    pub(super) async fn first_after(&self, epoch: u32, extent: Extent) -> Result<Option<u64>, ReadError> {
        // What is below `low` is of no later epoch; `found` is the first of one from `high` on.
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

    /// Behind which sequence one who stands at `at` goes on: its own, or, where later epochs began below it, their
    /// beginning.
    pub(super) async fn resume(&self, at: Position, extent: Extent) -> Result<u64, ReadError> {
        // All that is there is behind it, whatever epochs it has.
        if at.sequence < extent.first {
            return Ok(at.sequence);
        }
        let renewed = self.first_after(at.epoch, extent).await?;
        Ok(renewed.map_or(at.sequence, |first| at.sequence.min(first - 1)))
    }

    /// Fails when `next` is of a later epoch than `at` and not the first of those: the consumer was made anew behind it.
    pub(super) async fn check_epoch(&self, at: Position, next: Position) -> Result<Extent, ReadError> {
        let extent = self.extent().await?;
        if next.epoch > at.epoch && self.first_after(at.epoch, extent).await?.is_some_and(|first| first < next.sequence)
        {
            return Err(self.failed("an epoch began before its message"));
        }
        Ok(extent)
    }

    /// Fails when the stream holds an event between two places that a consumer did not give: of a stream that several
    /// brokers keep, it may have been with one that is behind.
    pub(super) async fn check_gone(&self, at: Position, until: Position) -> Result<(), ReadError> {
        match self.mark_within(at.sequence + 1, until.sequence + 1).await? {
            Some((_, epoch)) if epoch <= until.epoch => Err(self.failed("a consumer did not give all that is there")),
            _ => Ok(()),
        }
    }

    /// The place of the first message that was published at a time or later.
    pub(super) async fn first_since(&self, time: DateTime<Utc>, extent: Extent) -> Result<Option<Position>, ReadError> {
        let nanos = i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos());
        let start_time = async_nats::datetime::from_nanos(nanos).map_err(|error| self.failed(error))?;
        let mut pages = self.pages(DeliverPolicy::ByStartTime { start_time }).await?;
        let Some(message) = pages.one().await? else {
            if extent.last < extent.first {
                return Ok(None);
            }
            return match self.stream.get_raw_message(extent.last).await {
                Ok(last) if last.time.unix_timestamp_nanos() >= nanos => {
                    Err(self.failed("a consumer did not give what is there"))
                }
                Err(error) if error.kind() != RawMessageErrorKind::NoMessageFound => Err(self.failed(error)),
                _ => Ok(None),
            };
        };
        let sequence = message.info().map_err(|error| self.failed(error))?.stream_sequence;
        let marked = self.mark_within(sequence, extent.last + 1).await?;
        Ok(marked.map(|(_, epoch)| Position { epoch, sequence }))
    }

    /// The first marked message from `from` on, below `end`.
    async fn mark_within(&self, mut from: u64, end: u64) -> Result<Option<(u64, u32)>, ReadError> {
        let subjects = names::subjects(self.shard);
        while from < end {
            match self.stream.get_first_raw_message_by_subject(&subjects, from).await {
                Ok(message) if message.sequence >= end => break,
                Ok(message) => match Mark::read(&message.headers) {
                    Some(mark) => return Ok(Some((message.sequence, mark.epoch.cast_unsigned()))),
                    None => from = message.sequence + 1,
                },
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => break,
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(None)
    }

    /// The messages from a sequence on, without end, as they come.
    pub(super) async fn follow(&self, start_sequence: u64) -> Result<Ordered, ReadError> {
        let config = OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: start_sequence.max(1) },
            max_batch: LIVE_BATCH,
            ..OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(|error| self.failed(error))?;
        consumer.messages().await.map_err(|error| self.failed(error))
    }

    /// The messages from a place on, page by page as they are asked for.
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

    fn failed(&self, error: impl std::fmt::Display) -> ReadError {
        ReadError::of(self.shard, error)
    }
}

/// How often the broker's connection has come up. The broker forgets consumers when it restarts, and the client is slow to
/// notice.
pub(super) fn connects(client: &async_nats::Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}
