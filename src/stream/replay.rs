//! Messages of a shard's stream as events.

use std::sync::Arc;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, Message};

use super::cursor::Position;
use super::envelope::{Envelope, Mark};
use super::names;
use crate::domain::event::Event;
use crate::domain::shard::ShardIndex;
use crate::storage::error::StorageError;
use crate::storage::events;
use crate::storage::pools::Databases;

/// A message of a stream, decoded once and shared by all readers.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// Which shard's.
    pub shard: ShardIndex,
    /// Its place.
    pub position: Position,
    /// `None`: not a tailer's message; only its place counts.
    pub event: Option<Arc<Event>>,
}

/// Why a stream can't be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The broker can't be reached, or has no such stream (yet).
    #[error("the event stream of shard {shard} can't be read: {reason}")]
    Broker {
        /// Which shard's.
        shard: ShardIndex,
        /// For the log.
        reason: String,
    },
    /// The large fields of an event could not be fetched.
    #[error("a large event of shard {shard} can't be read")]
    Storage {
        /// Which shard's.
        shard: ShardIndex,
        /// Why.
        #[source]
        source: Arc<StorageError>,
    },
}

/// Reads the stream of one shard.
#[derive(Debug, Clone)]
pub struct ShardStream {
    /// Which shard's.
    pub shard: ShardIndex,
    stream: Stream,
    databases: Databases,
}

/// The sequences that a stream holds: from the first to the last; empty when `first > last`.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// The first sequence that is still there.
    pub first: u64,
    /// The last that was given out.
    pub last: u64,
}

impl ShardStream {
    /// Opens the shard's stream, which must exist.
    pub async fn open(client: async_nats::Client, databases: Databases, shard: ShardIndex) -> Result<Self, ReadError> {
        let stream = jetstream::new(client).get_stream(names::stream(shard)).await;
        Ok(Self { shard, stream: stream.map_err(|error| broker(shard, error))?, databases })
    }

    /// What the stream holds.
    pub async fn extent(&self) -> Result<Extent, ReadError> {
        let info = self.stream.get_info().await.map_err(|error| broker(self.shard, error))?;
        Ok(Extent { first: info.state.first_sequence.max(1), last: info.state.last_sequence })
    }

    /// The messages from a sequence on, without end.
    pub async fn from(&self, start_sequence: u64) -> Result<Ordered, ReadError> {
        let config = OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: start_sequence.max(1) },
            ..OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(|error| broker(self.shard, error))?;
        consumer.messages().await.map_err(|error| broker(self.shard, error))
    }

    /// Decodes a message; fetches from the shard what was too large for the stream.
    pub async fn decode(&self, message: &Message) -> Result<Delivered, ReadError> {
        let shard = self.shard;
        let sequence = message.info().map_err(|error| broker(shard, error))?.stream_sequence;
        let mark = message.headers.as_ref().and_then(Mark::read);
        let envelope = mark.as_ref().and_then(|_| serde_json::from_slice::<Envelope>(&message.payload).ok());
        let epoch = mark.map_or(0, |mark| mark.epoch.cast_unsigned());
        let event = match envelope {
            None => {
                tracing::warn!(shard, sequence, subject = %message.subject, "a foreign message in the event stream");
                None
            }
            Some(envelope) => Some(Arc::new(self.complete(envelope).await?)),
        };
        Ok(Delivered { shard, position: Position { epoch, sequence }, event })
    }

    async fn complete(&self, envelope: Envelope) -> Result<Event, ReadError> {
        let Envelope { event, payload_omitted } = envelope;
        if !payload_omitted {
            return Ok(event);
        }
        let shard = self.databases.shard_of(event.execution_id);
        let whole = events::get(shard, event.execution_id, event.event_id).await;
        let whole = whole.map_err(|source| ReadError::Storage { shard: self.shard, source: Arc::new(source) })?;
        Ok(whole.unwrap_or(event))
    }
}

pub(super) fn broker(shard: ShardIndex, error: impl std::fmt::Display) -> ReadError {
    ReadError::Broker { shard, reason: error.to_string() }
}
