//! Appends batches to a shard's stream, exactly once.
//!
//! Each publish names the sequence that it must follow, so the broker refuses every message after a lost one, and every
//! message of a replaced leader. It also names the id of the message that it must follow. Otherwise, if a foreign
//! message took the sequence of a refused one, the next message would be accepted. So no other program may use the same
//! ids: where NoETL's tailer publishes, ids contain more than the event id. After any failure, [`Publisher::end`] returns
//! what is stored.

use std::error::Error;
use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_MESSAGE_ID, NATS_EXPECTED_LAST_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{
    Config, DeleteMessageErrorKind, Info, InfoError, RawMessageErrorKind, State, Stream,
};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, Subject};
use chrono::{DateTime, Utc};
use futures::{Stream as EventSource, StreamExt, TryStreamExt};
use serde::Deserialize;
use tokio::time::sleep;

use crate::publish::acks::Acks;
use crate::publish::error::{PublishError, broker};
use crate::publish::notice::Foreign;
use crate::publish::published::Published;
use crate::publish::trace_links::TraceLinks;
use crate::wire::envelope::{Discard, MalformedMark, Mark};
use crate::wire::names::StreamNames;
use crate::wire::streams;
use noetl_domain::event::EventKey;
use noetl_domain::feed::{FeedId, FeedOwner};
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::tail::{Overlap, TailCursor};
use noetl_storage::tail_session::EventPayload;
use plain_json::{self as json, Typed};

/// Bytes of the broker's limit that are reserved for headers and protocol.
const HEADER_ROOM: usize = 4096;
/// Number of messages that are requested at a time when a range of the stream is read.
pub(super) const READS_IN_FLIGHT: usize = 64;
/// Time after which a stream's leader that can't reach the other servers gives up its role.
const LOST_QUORUM: Duration = Duration::from_secs(20);

/// Settings of streams that are created; an existing stream is left unchanged.
#[derive(Debug, Clone, Copy)]
pub struct StreamSettings {
    /// Time for which the broker recognises a message id.
    pub dedup: Duration,
    /// Time for which events stay in the stream.
    pub retention: Duration,
    /// Maximum size in bytes; `None`: unlimited. The oldest events leave a full stream.
    pub max_bytes: Option<i64>,
    /// Number of servers of a NATS cluster that store the stream.
    pub replicas: usize,
}

/// Message of a tailer in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) sequence: u64,
    /// Place in the feed.
    pub(super) mark: Mark,
    /// Time at which the broker stored it.
    pub(super) time: DateTime<Utc>,
    pub(super) key: EventKey,
    /// Id of the transaction that wrote the event, if the message contains it.
    pub(super) tx_id: Option<u64>,
}

/// Payload of a tailer's message, as far as a tailer reads it.
#[derive(Debug, Deserialize)]
struct StoredEvent {
    #[serde(rename = "event_id")]
    event: i64,
    #[serde(rename = "execution_id")]
    execution: i64,
    #[serde(default, rename = "tx_id")]
    transaction: Option<String>,
}

impl Typed for StoredEvent {}

/// End of a stream, found by searching back to a floor: the argument of [`Publisher::end`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamEnd {
    /// Last sequence that was assigned.
    pub(super) sequence: u64,
    /// Last message of a tailer; `None` if none is left after the floor.
    pub(super) last: Option<Stored>,
    /// Foreign messages after `last`, or after the floor if that is `None`.
    pub(super) foreign: Foreign,
    /// Number of sequences directly after the floor whose messages have expired.
    pub(super) expired: u64,
}

impl StreamEnd {
    /// Returns an end at this sequence with no message after the floor.
    pub(super) fn at(sequence: u64) -> Self {
        Self { sequence, last: None, foreign: Foreign::default(), expired: 0 }
    }
}

/// Point in a batch at which publishing continues.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resume {
    /// Index of the next event in the batch.
    pub(super) index: u64,
    /// Sequence after which the event is appended.
    pub(super) after: u64,
    /// Sequence from which on message ids also contain the execution id and the epoch, because the broker has seen the
    /// event's id before, or NoETL's tailer may publish the event with this id.
    pub(super) distinct: Option<u64>,
}

/// Publisher to one shard's stream.
#[derive(Debug)]
pub(super) struct Publisher {
    shard: ShardIndex,
    names: StreamNames,
    feed: FeedId,
    client: Client,
    stream: Stream,
    /// Creation time of the stream in nanoseconds since 1970.
    created: i64,
    /// Maximum size in bytes of a message in the stream.
    max_message: usize,
    acks: Acks,
}

impl Publisher {
    /// Opens the shard's stream, and creates it if it does not exist. About `window` messages are in flight at most.
    pub(super) async fn open(
        client: Client,
        shard: ShardIndex,
        feed: FeedId,
        names: StreamNames,
        settings: StreamSettings,
        window: usize,
    ) -> Result<Self, PublishError> {
        let config = Config {
            name: names.stream(shard),
            subjects: vec![names.subjects(shard)],
            duplicate_window: settings.dedup,
            max_age: settings.retention,
            max_bytes: settings.max_bytes.unwrap_or_default(),
            num_replicas: settings.replicas,
            storage: jetstream::stream::StorageType::File,
            allow_direct: true,
            ..Config::default()
        };
        let context = streams::context(client.clone(), &names);
        let stream = streams::open_or_create(&context, &names, config).await.map_err(broker)?;
        let acks = Acks::open(client.clone(), window).await?;
        let info = stream.cached_info();
        let created = created(info);
        // Without a limit, the stream's own is not positive.
        let max_message = usize::try_from(info.config.max_message_size).ok().filter(|max| *max > 0);
        Ok(Self { shard, names, feed, client, stream, created, max_message: max_message.unwrap_or(usize::MAX), acks })
    }

    /// Returns the creation time of the stream in nanoseconds since 1970.
    pub(super) fn created(&self) -> i64 {
        self.created
    }

    /// Returns the range of the sequences that the stream holds. Fails if the stream was deleted and created again.
    async fn state(&self) -> Result<State, PublishError> {
        let info = self.stream.get_info().await.map_err(|error| missing_or(&error, broker))?;
        if created(&info) == self.created { Ok(info.state) } else { Err(PublishError::Recreated) }
    }

    /// Returns the last sequence that was assigned, or `None` if the broker does not respond. Fails if the stream was
    /// deleted.
    pub(super) async fn probe(&self) -> Result<Option<u64>, PublishError> {
        match self.state().await {
            Ok(state) => Ok(Some(state.last_sequence)),
            Err(PublishError::Broker(error)) => {
                tracing::debug!(shard = self.shard, error, "the stream can't be checked now");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until the servers of a replicated stream agree with its leader. Afterwards, the leader's state contains
    /// every acknowledged message. A leader that can't reach the others, or has not read its log yet, may return an
    /// older state.
    ///
    /// The deletion of a message that can't exist changes nothing, and its response needs that agreement.
    pub(super) async fn settle(&self) -> Result<(), PublishError> {
        let config = self.stream.get_info().await.map_err(broker)?.config;
        if config.num_replicas > 1 && config.deny_delete {
            sleep(LOST_QUORUM).await;
        } else if config.num_replicas > 1 {
            match self.stream.delete_message(0).await {
                Err(error) if !matches!(error.kind(), DeleteMessageErrorKind::JetStream(_)) => {
                    return Err(broker(format!("the servers of the stream did not confirm its state: {error}")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the last sequence that was assigned.
    pub(super) async fn sequence(&self) -> Result<u64, PublishError> {
        Ok(self.state().await?.last_sequence)
    }

    /// Returns the end of the stream. Searches for a message of this feed from there back to the sequence after `floor`.
    pub(super) async fn end(&self, floor: u64) -> Result<StreamEnd, PublishError> {
        let state = self.state().await?;
        let first = (floor + 1).max(state.first_sequence);
        let mut end = StreamEnd {
            expired: first.min(state.last_sequence + 1).saturating_sub(floor + 1),
            ..StreamEnd::at(state.last_sequence)
        };
        (end.last, end.foreign) = self.last_stored(first, state.last_sequence).await?;
        Ok(end)
    }

    /// Returns the last message of this feed in a range of sequences, and the foreign messages after it.
    pub(super) async fn last_stored(&self, first: u64, last: u64) -> Result<(Option<Stored>, Foreign), PublishError> {
        let mut foreign = Foreign::default();
        let state = self.state().await?;
        let first = first.max(state.first_sequence);
        // The last message is ours, unless other programs publish.
        let alone = futures::stream::iter(first.max(last)..=last).then(|sequence| self.numbered(sequence));
        let others = futures::stream::iter((first..last).rev()).map(|sequence| self.numbered(sequence));
        let mut slots = std::pin::pin!(alone.chain(others.buffered(READS_IN_FLIGHT)));
        while let Some((sequence, slot)) = slots.try_next().await? {
            match slot {
                Slot::Empty => self.check_missing(sequence, &state).await?,
                Slot::Foreign(owner) => foreign.add(owner),
                Slot::Ours(stored) => return Ok((Some(*stored), foreign)),
            }
        }
        Ok((None, foreign))
    }

    /// Returns the messages of this feed in a range of sequences, in order. Many requests are in flight at a time.
    pub(super) fn stored(
        &self,
        first: u64,
        last: u64,
    ) -> impl EventSource<Item = Result<Stored, PublishError>> + Send + '_ {
        let slots =
            futures::stream::iter(first..=last).map(move |sequence| self.settled(sequence)).buffered(READS_IN_FLIGHT);
        slots.try_filter_map(async |slot| Ok(if let Slot::Ours(stored) = slot { Some(*stored) } else { None }))
    }

    /// Returns the content of a sequence. Fails if the response came from a server that does not have all messages.
    async fn settled(&self, sequence: u64) -> Result<Slot, PublishError> {
        let slot = self.slot(sequence).await?;
        if matches!(slot, Slot::Empty) {
            self.check_missing(sequence, &self.state().await?).await?;
        }
        Ok(slot)
    }

    async fn numbered(&self, sequence: u64) -> Result<(u64, Slot), PublishError> {
        Ok((sequence, self.slot(sequence).await?))
    }

    async fn slot(&self, sequence: u64) -> Result<Slot, PublishError> {
        Slot::read(&self.stream, sequence, self.feed).await
    }

    pub(super) fn stream_name(&self) -> String {
        self.names.stream(self.shard)
    }

    /// Fails if the stream has no gaps, so that it must hold a message that was not found: the response came from a
    /// server that does not have all messages. `state` was read before.
    async fn check_missing(&self, sequence: u64, state: &State) -> Result<(), PublishError> {
        if has_gaps(state) {
            return Ok(());
        }
        let state = self.state().await?;
        if has_gaps(&state) || sequence < state.first_sequence || sequence > state.last_sequence {
            return Ok(());
        }
        Err(broker(format!("a server of the stream does not have message {sequence} yet")))
    }

    /// Returns the maximum size in bytes of an event's JSON: the smaller limit of the broker and the stream, without the
    /// room for headers.
    pub(super) fn payload_limit(&self) -> i32 {
        let max = self.client.server_info().max_payload.min(self.max_message);
        i32::try_from(max.saturating_sub(HEADER_ROOM)).unwrap_or(i32::MAX)
    }

    /// Appends events of the batch that is fixed in the cursor, and returns the last sequence. The span is linked to
    /// the events' traces.
    #[tracing::instrument(
        level = "debug", name = "publish", skip_all,
        fields(shard = self.shard, batch = cursor.batch, epoch = cursor.feed_epoch, otel.kind = "producer")
    )]
    pub(super) async fn append(
        &mut self,
        cursor: &TailCursor,
        events: impl EventSource<Item = Result<EventPayload, StorageError>> + Send,
        from: Resume,
    ) -> Result<u64, PublishError> {
        let mut events = std::pin::pin!(events.peekable());
        let (mut index, mut sequence) = (from.index, from.after);
        let mut previous: Option<String> = None;
        let mut subject = self.subject("");
        let (mut links, mut published) = (TraceLinks::of_current_span(), Published::default());
        self.acks.begin();
        while let Some(event) = events.next().await {
            let event = event?;
            links.add(event.traceparent.as_deref());
            let mut headers = mark(cursor, index).headers();
            headers.insert(NATS_EXPECTED_LAST_SEQUENCE, sequence.to_string());
            if let Some(previous) = previous.take() {
                headers.insert(NATS_EXPECTED_LAST_MESSAGE_ID, previous);
            }
            let id = message_id(&event, cursor.feed_epoch, from.distinct.is_some_and(|first| sequence + 1 >= first));
            headers.insert(NATS_MESSAGE_ID, id.clone());
            previous = Some(id);
            if event.omitted {
                metrics::counter!("noetl_stream_oversize_events_total", "shard" => self.shard.to_string()).increment(1);
            }
            let last = events.as_mut().peek().await.is_none();
            (index, sequence) = (index + 1, sequence + 1);
            if subject.event_type != event.event_type {
                subject = self.subject(&event.event_type);
            }
            self.acks.publish(subject.subject.clone(), headers, event.json.into(), sequence, last).await?;
            published.add(&event.event_type, event.event_id);
        }
        self.acks.finish().await?;
        published.count(self.shard);
        Ok(sequence)
    }

    fn subject(&self, event_type: &str) -> TypeSubject {
        let subject = self.names.subject(self.shard, event_type).into();
        TypeSubject { event_type: event_type.to_owned(), subject }
    }
}

/// Content of a sequence of the stream.
pub(super) enum Slot {
    Empty,
    /// A message that this feed did not publish. If a tailer of another feed did, its database.
    Foreign(Option<FeedOwner>),
    Ours(Box<Stored>),
}

impl Slot {
    /// Returns the content of a sequence, for the feed with this identity.
    pub(super) async fn read(stream: &Stream, sequence: u64, feed: FeedId) -> Result<Self, PublishError> {
        match stream.get_raw_message(sequence).await {
            Ok(message) => Self::of(&message, feed),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(Self::Empty),
            Err(error) => Err(broker(error)),
        }
    }

    fn of(message: &StreamMessage, feed: FeedId) -> Result<Self, PublishError> {
        let sequence = message.sequence;
        let broken = |reason| PublishError::Broken { sequence, reason };
        let mark = Mark::parse(&message.headers).map_err(|error: MalformedMark| broken(error.to_string()))?;
        let mark = match mark {
            Some(mark) if mark.is_of(feed) => mark,
            other => return Ok(Self::Foreign(other.map(|mark| mark.owner))),
        };
        let event: StoredEvent = json::parse(&message.payload).map_err(|error| broken(error.to_string()))?;
        Ok(Self::Ours(Box::new(Stored {
            sequence,
            mark,
            time: DateTime::from_timestamp(message.time.unix_timestamp(), 0).unwrap_or_default(),
            key: EventKey { event_id: event.event, execution_id: event.execution },
            tx_id: event.transaction.and_then(|id| id.parse().ok()),
        })))
    }
}

pub(super) fn created(info: &Info) -> i64 {
    i64::try_from(info.created.unix_timestamp_nanos()).unwrap_or(i64::MAX)
}

/// Returns true if messages between the first and the last one were deleted.
fn has_gaps(state: &State) -> bool {
    state.messages < (state.last_sequence + 1).saturating_sub(state.first_sequence)
}

/// Returns whether the broker responded that the stream does not exist as an error of its own, else the other error.
fn missing_or<'a>(error: &'a InfoError, other: impl FnOnce(&'a InfoError) -> PublishError) -> PublishError {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<jetstream::Error>());
    let missing = cause.is_some_and(|cause| cause.error_code() == ErrorCode::STREAM_NOT_FOUND);
    if missing { PublishError::Recreated } else { other(error) }
}

/// Subject of an event's type, reused for consecutive events of the same type.
struct TypeSubject {
    event_type: String,
    subject: Subject,
}

/// Returns the mark of the event with this index in the batch that is fixed in the cursor.
fn mark(cursor: &TailCursor, index: u64) -> Mark {
    let &TailCursor { feed_epoch: epoch, batch, batch_id: id, owner, .. } = cursor;
    let target = cursor.target.as_ref().filter(|_| index == 0);
    let span = target.map(|target| (cursor.done.clone(), target.clone()));
    let discard = cursor.overlap.filter(|_| index == 0).and_then(discard);
    Mark { epoch, batch, id, index, span, owner, discard }
}

/// Returns the messages that readers must discard, if there are any.
pub(super) fn discard(overlap: Overlap) -> Option<Discard> {
    let (from, to) = (overlap.discard_from.cast_unsigned(), overlap.discard_to.cast_unsigned());
    (from <= to).then_some(Discard { from, to })
}

fn message_id(event: &EventPayload, epoch: i32, distinct: bool) -> String {
    if distinct { format!("{}.{}.{epoch}", event.event_id, event.execution_id) } else { event.event_id.to_string() }
}
