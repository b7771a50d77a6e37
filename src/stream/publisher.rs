//! Appending batches to a shard's stream, exactly once.
//!
//! Each publish carries the sequence that it must follow, so the broker refuses everything behind a message that it lost,
//! and everything of a leader that was replaced. It carries the id of the message that it must follow too, or somebody
//! else's message in the place of a refused one would let the next through. After any doubt, [`Publisher::end`] tells what
//! is stored.

use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_MESSAGE_ID, NATS_EXPECTED_LAST_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::stream::{Config, RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, Subject};
use futures::{Stream as EventSource, StreamExt};

use super::acks::Acks;
use super::envelope::{MalformedMark, Mark};
use super::trace_links::TraceLinks;
use super::{names, payload};
use crate::domain::event::EventKey;
use crate::domain::shard::ShardIndex;
use crate::domain::tx_snapshot::TxSnapshot;
use crate::storage::error::StorageError;
use crate::storage::tail_session::EventText;

/// How streams are created; one that exists is left as it is.
#[derive(Debug, Clone, Copy)]
pub struct StreamSettings {
    /// For how long the broker recognises a message id.
    pub dedup: Duration,
    /// For how long events stay in the stream.
    pub retention: Duration,
    /// How many servers of a cluster keep it.
    pub replicas: usize,
}

/// Why a batch, or the look at the stream, failed.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The broker can't be reached, or said no.
    #[error("the broker: {0}")]
    Broker(String),
    /// The stream is not where it should be: somebody else appended, or a message was lost. Look, and go on from there.
    #[error("the stream did not stand at the expected sequence")]
    OutOfStep,
    /// The broker took the event that was to get this sequence for one that it has.
    #[error("the broker took the event for sequence {0} for a repetition")]
    Repetition(u64),
    /// The batch could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An event has no JSON form.
    #[error("an event has no JSON form")]
    Unserialisable(#[from] serde_json::Error),
    /// A message of the stream says that it is a tailer's, but can't be.
    #[error("message {sequence} of the event stream is broken: {reason}; publishing stops until it is deleted")]
    Broken {
        /// Which one.
        sequence: u64,
        /// What is wrong.
        reason: String,
    },
}

/// A fixed batch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The feed's epoch.
    pub epoch: i32,
    /// Counts batches.
    pub number: i64,
    /// Where it begins.
    pub done: TxSnapshot,
    /// Where it ends.
    pub target: TxSnapshot,
}

/// A tailer's message in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Where it stands.
    pub sequence: u64,
    /// Its place in the feed.
    pub mark: Mark,
    /// Which event it carries.
    pub key: EventKey,
}

/// The end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEnd {
    /// The last sequence that was given out.
    pub sequence: u64,
    /// The last message of a tailer. `None`: none after the sequence that was asked about is left.
    pub last: Option<Stored>,
    /// Messages behind it, or after the sequence that was asked about, that are no tailer's.
    pub foreign: u64,
    /// Sequences after the one that was asked about whose messages the stream no longer keeps.
    pub expired: u64,
}

impl StreamEnd {
    /// A stream that ends at this sequence, with nothing behind the place that was asked about.
    #[must_use]
    pub fn at(sequence: u64) -> Self {
        Self { sequence, last: None, foreign: 0, expired: 0 }
    }
}

/// Where to go on in a batch.
#[derive(Debug, Clone, Copy)]
pub struct Resume {
    /// The place in the batch of the next event.
    pub index: u64,
    /// The sequence to append behind.
    pub after: u64,
    /// From this sequence on, message ids name the log and the epoch too, as the broker has seen the event's id before.
    pub distinct: Option<u64>,
}

/// Appends to one shard's stream.
#[derive(Debug)]
pub struct Publisher {
    shard: ShardIndex,
    client: Client,
    stream: Stream,
    acks: Acks,
}

impl Publisher {
    /// Opens the shard's stream, and creates it first if there is none. About `window` messages will be on their way at a
    /// time.
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

    /// The last sequence that was given out.
    pub async fn sequence(&self) -> Result<u64, PublishError> {
        Ok(self.stream.get_info().await.map_err(broker)?.state.last_sequence)
    }

    /// Where the stream ends, looking for a tailer's message back to the one after `floor`.
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

    /// The last message of a tailer in a range of sequences, and how many messages behind it are no tailer's.
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
                let key = payload::key(&message.payload).map_err(|error| broken(error.to_string()))?;
                return Ok((Some(Stored { sequence, mark, key }), foreign));
            }
            foreign += 1;
        }
        Ok((None, foreign))
    }

    /// Appends a batch's events. Answers the last sequence. The span is linked to the traces that the events belong to.
    #[tracing::instrument(
        level = "debug", name = "publish", skip_all,
        fields(shard = self.shard, batch = batch.number, epoch = batch.epoch, otel.kind = "producer")
    )]
    pub async fn append(
        &mut self,
        batch: &Batch,
        events: impl EventSource<Item = Result<EventText, StorageError>> + Send,
        from: Resume,
    ) -> Result<u64, PublishError> {
        let max_payload = self.client.server_info().max_payload;
        let mut events = std::pin::pin!(events.peekable());
        let (mut index, mut sequence) = (from.index, from.after);
        let mut previous: Option<String> = None;
        let mut subject = TypeSubject::of(self.shard, "");
        let mut links = TraceLinks::of_current_span();
        self.acks.begin();
        while let Some(event) = events.next().await {
            let event = event?;
            links.add(event.meta.as_deref());
            let mut headers = mark(batch, index).headers();
            headers.insert(NATS_EXPECTED_LAST_SEQUENCE, sequence.to_string());
            if let Some(previous) = previous.take() {
                headers.insert(NATS_EXPECTED_LAST_MESSAGE_ID, previous);
            }
            let id = message_id(&event, batch.epoch, from.distinct.is_some_and(|first| sequence + 1 >= first));
            headers.insert(NATS_MESSAGE_ID, id.clone());
            previous = Some(id);
            let (payload, omitted) = payload::encode(&event, max_payload)?;
            if omitted {
                metrics::counter!("noetl_stream_oversize_events_total", "shard" => self.shard.to_string()).increment(1);
            }
            let last = events.as_mut().peek().await.is_none();
            (index, sequence) = (index + 1, sequence + 1);
            if subject.event_type != event.event_type {
                subject = TypeSubject::of(self.shard, &event.event_type);
            }
            self.acks.publish(subject.subject.clone(), headers, payload, sequence, last).await?;
        }
        self.acks.finish().await?;
        Ok(sequence)
    }
}

/// The subject of an event's type, kept from one event to the next of the same type.
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

fn message_id(event: &EventText, epoch: i32, distinct: bool) -> String {
    if distinct { format!("{}.{}.{epoch}", event.event_id, event.execution_id) } else { event.event_id.to_string() }
}

pub(super) fn broker(error: impl std::fmt::Display) -> PublishError {
    PublishError::Broker(error.to_string())
}
