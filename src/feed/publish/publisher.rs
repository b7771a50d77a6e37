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
use async_nats::jetstream::stream::{
    Config, DeleteMessageErrorKind, Info, InfoError, RawMessageErrorKind, State, Stream,
};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, Subject};
use futures::{Stream as EventSource, StreamExt};
use tokio::time::sleep;

use crate::feed::publish::acks::Acks;
use crate::feed::publish::error::{PublishError, broker};
use crate::feed::publish::published::Published;
use crate::feed::publish::trace_links::TraceLinks;
use crate::feed::wire::envelope::{MalformedMark, Mark};
use crate::feed::wire::names;
use noetl_domain::event::EventKey;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_storage::error::StorageError;
use noetl_storage::tail_session::EventPayload;
use plain_json as json;

/// Bytes of the broker's limit that are reserved for headers and protocol.
const HEADER_ROOM: usize = 4096;
/// Time after which a stream's leader that can't reach the other servers gives up its role.
const LOST_QUORUM: Duration = Duration::from_secs(20);

/// Settings of streams that are created; an existing stream is left unchanged.
#[derive(Debug, Clone, Copy)]
pub struct StreamSettings {
    /// Time for which the broker recognises a message id.
    pub dedup: Duration,
    /// Time for which events stay in the stream.
    pub retention: Duration,
    /// Number of servers of a NATS cluster that store the stream.
    pub replicas: usize,
}

/// Batch that is fixed in the cursor.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Epoch of the feed.
    pub epoch: i32,
    /// Number of the batch.
    pub number: i64,
    /// Snapshot at which it starts.
    pub done: TxSnapshot,
    /// Snapshot at which it ends.
    pub target: TxSnapshot,
}

/// Message of a tailer in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Sequence in the stream.
    pub sequence: u64,
    /// Place in the feed.
    pub mark: Mark,
    /// Key of its event.
    pub key: EventKey,
}

/// End of a stream, found by searching back to a floor: the argument of [`Publisher::end`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEnd {
    /// Last sequence that was assigned.
    pub sequence: u64,
    /// Last message of a tailer; `None` if none is left after the floor.
    pub last: Option<Stored>,
    /// Number of foreign messages after `last`, or after the floor if that is `None`.
    pub foreign: u64,
    /// Number of sequences directly after the floor whose messages have expired.
    pub expired: u64,
}

impl StreamEnd {
    /// Returns an end at this sequence with no message after the floor.
    #[must_use]
    pub fn at(sequence: u64) -> Self {
        Self { sequence, last: None, foreign: 0, expired: 0 }
    }
}

/// Point in a batch at which publishing continues.
#[derive(Debug, Clone, Copy)]
pub struct Resume {
    /// Index of the next event in the batch.
    pub index: u64,
    /// Sequence after which the event is appended.
    pub after: u64,
    /// Sequence from which on message ids also contain the execution id and the epoch, because the broker has seen the
    /// event's id before, or NoETL's tailer may publish the event with this id.
    pub distinct: Option<u64>,
}

/// Publisher to one shard's stream.
#[derive(Debug)]
pub struct Publisher {
    shard: ShardIndex,
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
    pub async fn open(
        client: Client,
        shard: ShardIndex,
        settings: StreamSettings,
        window: usize,
    ) -> Result<Self, PublishError> {
        let context: Context = jetstream::new(client.clone());
        let config = Config {
            name: names::stream(shard),
            subjects: vec![names::subjects(shard)],
            duplicate_window: settings.dedup,
            max_age: settings.retention,
            num_replicas: settings.replicas,
            storage: jetstream::stream::StorageType::File,
            allow_direct: true,
            ..Config::default()
        };
        let stream = context.get_or_create_stream(config).await.map_err(broker)?;
        let acks = Acks::open(client.clone(), window).await?;
        let info = stream.cached_info();
        let created = created(info);
        // Without a limit, the stream's own is not positive.
        let max_message = usize::try_from(info.config.max_message_size).ok().filter(|max| *max > 0);
        Ok(Self { shard, client, stream, created, max_message: max_message.unwrap_or(usize::MAX), acks })
    }

    /// Returns the creation time of the stream in nanoseconds since 1970.
    #[must_use]
    pub fn created(&self) -> i64 {
        self.created
    }

    /// Returns the range of the sequences that the stream holds. Fails if the stream was deleted and created again.
    async fn state(&self) -> Result<State, PublishError> {
        let info = self.stream.get_info().await.map_err(|error| missing_or(&error, broker))?;
        if created(&info) == self.created { Ok(info.state) } else { Err(PublishError::Recreated) }
    }

    /// Returns the last sequence that was assigned, or `None` if the broker does not respond. Fails if the stream was
    /// deleted.
    pub async fn probe(&self) -> Result<Option<u64>, PublishError> {
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
    pub async fn settle(&self) -> Result<(), PublishError> {
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
    pub async fn sequence(&self) -> Result<u64, PublishError> {
        Ok(self.state().await?.last_sequence)
    }

    /// Returns the end of the stream. Searches for a tailer's message from there back to the sequence after `floor`.
    pub async fn end(&self, floor: u64) -> Result<StreamEnd, PublishError> {
        let state = self.state().await?;
        let first = (floor + 1).max(state.first_sequence);
        let mut end = StreamEnd {
            sequence: state.last_sequence,
            last: None,
            foreign: 0,
            expired: first.min(state.last_sequence + 1).saturating_sub(floor + 1),
        };
        (end.last, end.foreign) = self.last_stored(first, state.last_sequence).await?;
        Ok(end)
    }

    /// Returns the last message of a tailer in a range of sequences, and the number of foreign messages after it.
    pub async fn last_stored(&self, first: u64, last: u64) -> Result<(Option<Stored>, u64), PublishError> {
        let mut foreign = 0;
        let state = self.state().await?;
        for sequence in (first.max(state.first_sequence)..=last).rev() {
            let message = match self.stream.get_raw_message(sequence).await {
                Ok(message) => message,
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                    self.check_missing(sequence, &state).await?;
                    continue;
                }
                Err(error) => return Err(broker(error)),
            };
            let broken = |reason| PublishError::Broken { sequence, reason };
            let mark = Mark::parse(&message.headers).map_err(|error: MalformedMark| broken(error.to_string()))?;
            if let Some(mark) = mark {
                let key = json::parse::<EventKey>(&message.payload).map_err(|error| broken(error.to_string()))?;
                return Ok((Some(Stored { sequence, mark, key }), foreign));
            }
            foreign += 1;
        }
        Ok((None, foreign))
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
    #[must_use]
    pub fn payload_limit(&self) -> i32 {
        let max = self.client.server_info().max_payload.min(self.max_message);
        i32::try_from(max.saturating_sub(HEADER_ROOM)).unwrap_or(i32::MAX)
    }

    /// Appends a batch's events and returns the last sequence. The span is linked to the events' traces.
    #[tracing::instrument(
        level = "debug", name = "publish", skip_all,
        fields(shard = self.shard, batch = batch.number, epoch = batch.epoch, otel.kind = "producer")
    )]
    pub async fn append(
        &mut self,
        batch: &Batch,
        events: impl EventSource<Item = Result<EventPayload, StorageError>> + Send,
        from: Resume,
    ) -> Result<u64, PublishError> {
        let mut events = std::pin::pin!(events.peekable());
        let (mut index, mut sequence) = (from.index, from.after);
        let mut previous: Option<String> = None;
        let mut subject = TypeSubject::of(self.shard, "");
        let (mut links, mut published) = (TraceLinks::of_current_span(), Published::default());
        self.acks.begin();
        while let Some(event) = events.next().await {
            let event = event?;
            links.add(event.traceparent.as_deref());
            let mut headers = mark(batch, index).headers();
            headers.insert(NATS_EXPECTED_LAST_SEQUENCE, sequence.to_string());
            if let Some(previous) = previous.take() {
                headers.insert(NATS_EXPECTED_LAST_MESSAGE_ID, previous);
            }
            let id = message_id(&event, batch.epoch, from.distinct.is_some_and(|first| sequence + 1 >= first));
            headers.insert(NATS_MESSAGE_ID, id.clone());
            previous = Some(id);
            if event.omitted {
                metrics::counter!("noetl_stream_oversize_events_total", "shard" => self.shard.to_string()).increment(1);
            }
            let last = events.as_mut().peek().await.is_none();
            (index, sequence) = (index + 1, sequence + 1);
            if subject.event_type != event.event_type {
                subject = TypeSubject::of(self.shard, &event.event_type);
            }
            self.acks.publish(subject.subject.clone(), headers, event.json.into(), sequence, last).await?;
            published.add(&event.event_type, event.event_id);
        }
        self.acks.finish().await?;
        published.count(self.shard);
        Ok(sequence)
    }
}

fn created(info: &Info) -> i64 {
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

impl TypeSubject {
    fn of(shard: ShardIndex, event_type: &str) -> Self {
        Self { event_type: event_type.to_owned(), subject: names::subject(shard, event_type).into() }
    }
}

fn mark(batch: &Batch, index: u64) -> Mark {
    let span = (index == 0).then(|| (batch.done.clone(), batch.target.clone()));
    Mark { epoch: batch.epoch, batch: batch.number, index, span }
}

fn message_id(event: &EventPayload, epoch: i32, distinct: bool) -> String {
    if distinct { format!("{}.{}.{epoch}", event.event_id, event.execution_id) } else { event.event_id.to_string() }
}
