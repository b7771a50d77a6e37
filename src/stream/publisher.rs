//! Appending batches to a shard's stream, exactly once.
//!
//! Each publish carries the sequence that it must follow, so the broker refuses everything behind a message that it lost,
//! and everything of a leader that was replaced. After any doubt, [`Publisher::end`] tells what is stored.

use std::future::IntoFuture;
use std::time::Duration;

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use futures::stream::FuturesOrdered;
use futures::{Stream as EventSource, TryStreamExt};

use super::envelope::{Mark, encode};
use super::names;
use crate::domain::event::Event;
use crate::domain::shard::ShardIndex;
use crate::domain::tx_snapshot::TxSnapshot;
use crate::storage::error::StorageError;

const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// How streams are created; one that exists is left as it is.
#[derive(Debug, Clone, Copy)]
pub struct StreamSettings {
    /// For how long the broker recognises a message id.
    pub dedup: Duration,
    /// For how long events stay in the stream.
    pub retention: Duration,
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
    /// The broker took the event of this index for one that it has.
    #[error("the broker took the event at {0} for a repetition")]
    Repetition(u64),
    /// The batch could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An event has no JSON form.
    #[error("an event has no JSON form")]
    Unserialisable(#[from] serde_json::Error),
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

/// The end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEnd {
    /// The last sequence that was given out.
    pub sequence: u64,
    /// The last message of a tailer, and its sequence. `None`: none after the sequence that was asked about is left.
    pub last: Option<(u64, Mark)>,
}

/// Appends to one shard's stream.
#[derive(Debug)]
pub struct Publisher {
    shard: ShardIndex,
    context: Context,
    stream: Stream,
    window: usize,
}

impl Publisher {
    /// Opens the shard's stream, and creates it first if there is none. At most `window` publishes will wait for their
    /// acknowledgement at a time.
    pub async fn open(
        client: async_nats::Client,
        shard: ShardIndex,
        settings: StreamSettings,
        window: usize,
    ) -> Result<Self, PublishError> {
        let context = jetstream::context::ContextBuilder::new().ack_timeout(ACK_TIMEOUT).build(client);
        let config = Config {
            name: names::stream(shard),
            subjects: vec![names::subjects(shard)],
            duplicate_window: settings.dedup,
            max_age: settings.retention,
            storage: jetstream::stream::StorageType::File,
            allow_direct: true,
            ..Config::default()
        };
        let stream = context.get_or_create_stream(config).await.map_err(broker)?;
        Ok(Self { shard, context, stream, window })
    }

    /// The last sequence that was given out.
    pub async fn sequence(&self) -> Result<u64, PublishError> {
        Ok(self.stream.get_info().await.map_err(broker)?.state.last_sequence)
    }

    /// Where the stream ends, looking for a tailer's message back to the one after `floor`.
    pub async fn end(&self, floor: u64) -> Result<StreamEnd, PublishError> {
        let state = self.stream.get_info().await.map_err(broker)?.state;
        let sequence = state.last_sequence;
        for candidate in ((floor + 1).max(state.first_sequence)..=sequence).rev() {
            if let Some(mark) = self.mark(candidate).await? {
                return Ok(StreamEnd { sequence, last: Some((candidate, mark)) });
            }
        }
        Ok(StreamEnd { sequence, last: None })
    }

    /// The mark of the message at a sequence. `None`: there is no message, or it is not a tailer's.
    pub async fn mark(&self, sequence: u64) -> Result<Option<Mark>, PublishError> {
        match self.stream.get_raw_message(sequence).await {
            Ok(message) => Ok(Mark::read(&message.headers)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(broker(error)),
        }
    }

    /// Appends a batch's events from index `from` on behind sequence `after`. Answers the last sequence and the number
    /// of events appended. `distinct`: from this index on, message ids name the log too, as the broker has seen the
    /// first event's id in another log.
    pub async fn append(
        &self,
        batch: &Batch,
        events: impl EventSource<Item = Result<Event, StorageError>> + Send,
        from: u64,
        after: u64,
        distinct: Option<u64>,
    ) -> Result<(u64, u64), PublishError> {
        let max_payload = self.context.client().server_info().max_payload;
        let mut events = std::pin::pin!(events);
        let mut waiting = FuturesOrdered::new();
        let (mut index, mut sequence) = (0, after);
        while let Some(event) = events.try_next().await? {
            if index >= from {
                let subject = names::subject(self.shard, &event.event_type);
                let message = message(batch, index, sequence, event, max_payload, distinct)?;
                let ack = self.context.send_publish(subject, message).await.map_err(|error| sort(&error))?;
                sequence += 1;
                waiting.push_back(confirm(ack, sequence, index));
            }
            index += 1;
            if waiting.len() >= self.window {
                waiting.try_next().await?;
            }
        }
        while waiting.try_next().await?.is_some() {}
        Ok((sequence, sequence - after))
    }
}

fn message(
    batch: &Batch,
    index: u64,
    after: u64,
    event: Event,
    max_payload: usize,
    distinct: Option<u64>,
) -> Result<PublishMessage, PublishError> {
    let span = (index == 0).then(|| (batch.done.clone(), batch.target.clone()));
    let mark = Mark { epoch: batch.epoch, batch: batch.number, index, span };
    let id = if distinct.is_some_and(|from| index >= from) {
        format!("{}.{}", event.event_id, event.execution_id)
    } else {
        event.event_id.to_string()
    };
    let message = PublishMessage::build().headers(mark.headers()).message_id(id).expected_last_sequence(after);
    Ok(message.payload(encode(event, max_payload)?))
}

async fn confirm(ack: jetstream::context::PublishAckFuture, sequence: u64, index: u64) -> Result<(), PublishError> {
    let ack = ack.into_future().await.map_err(|error| sort(&error))?;
    if ack.duplicate {
        return Err(PublishError::Repetition(index));
    }
    if ack.sequence == sequence { Ok(()) } else { Err(PublishError::OutOfStep) }
}

fn sort(error: &jetstream::context::PublishError) -> PublishError {
    match error.kind() {
        PublishErrorKind::WrongLastSequence => PublishError::OutOfStep,
        _ => broker(error),
    }
}

fn broker(error: impl std::fmt::Display) -> PublishError {
    PublishError::Broker(error.to_string())
}
