//! Appends batches to a shard's stream, exactly once.
//!
//! Each publish names the sequence that it must follow, so the broker refuses every message after a lost one, and every
//! message of a replaced leader. It also names the id of the message that it must follow. Otherwise, if a foreign
//! message took the sequence of a refused one, the next message would be accepted. So no other program may use the same
//! ids: where NoETL's tailer publishes, ids contain more than the event id. After any failure, [`Publisher::end`] returns
//! what is stored.

use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_MESSAGE_ID, NATS_EXPECTED_LAST_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::stream::{Config, RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, Subject};
use futures::{Stream as EventSource, StreamExt};

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
        Ok(Self { shard, client, stream, acks })
    }

    /// Returns the last sequence that was assigned.
    pub async fn sequence(&self) -> Result<u64, PublishError> {
        Ok(self.stream.get_info().await.map_err(broker)?.state.last_sequence)
    }

    /// Returns the end of the stream. Searches for a tailer's message from there back to the sequence after `floor`.
    pub async fn end(&self, floor: u64) -> Result<StreamEnd, PublishError> {
        let state = self.stream.get_info().await.map_err(broker)?.state;
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
        let held = self.stream.get_info().await.map_err(broker)?.state.first_sequence;
        for sequence in (first.max(held)..=last).rev() {
            let message = match self.stream.get_raw_message(sequence).await {
                Ok(message) => message,
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => continue,
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

    /// Returns the maximum size in bytes of an event's JSON: the broker's limit without the room for headers.
    #[must_use]
    pub fn payload_limit(&self) -> i32 {
        i32::try_from(self.client.server_info().max_payload.saturating_sub(HEADER_ROOM)).unwrap_or(i32::MAX)
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
