//! Publishes outbox rows; a stream acknowledges each of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::context::{
    ContextBuilder, CreateStreamError, GetStreamByNameError, PublishError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, Context};
use bytes::Bytes;

use crate::service::outbox::ClaimedRow;
use noetl_domain::outbox::is_publishable;

/// Time to wait for an acknowledgement. It is short enough to settle a batch within its lease and within the grace
/// period of a shutdown.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Stream of the workers' notifications. It is created if no stream captures their subjects; an existing one is left
/// unchanged. Workers that only listen remove no messages, so messages expire by age.
const STREAM: &str = "noetl_executions";
const SUBJECTS: &str = "noetl.executions.>";
const RETENTION: Duration = Duration::from_hours(24);
/// Dedup window, longer than a lease and the longest backoff, so that the stream recognises a row that is published
/// again.
const DEDUP: Duration = Duration::from_mins(10);

/// Reason why no message can be published now.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReady {
    #[error("the broker is not connected")]
    Disconnected,
    #[error(transparent)]
    FindStream(#[from] GetStreamByNameError),
    #[error(transparent)]
    CreateStream(#[from] CreateStreamError),
}

/// Reason why a row was not published.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublishRefusal {
    #[error("the row has no subject")]
    NoSubject,
    #[error("subject {0:?} can't be published to")]
    Subject(String),
    #[error("{0}")]
    Unreadable(String),
    #[error("the payload is not JSON; its codec is {0:?}")]
    Codec(String),
    #[error("no stream captures {0}; create one")]
    NoStream(String),
    #[error("no stream acknowledged {0} in time")]
    TimedOut(String),
    #[error("the broker accepts no message over {0} bytes")]
    TooLarge(usize),
    #[error("broker error: {0}")]
    Broker(PublishError),
}

/// Publisher over the replica's connection.
#[derive(Debug)]
pub(super) struct Publisher {
    client: Client,
    context: Context,
    /// Number of connects at the last time that the stream was seen.
    seen_on: Option<u64>,
}

impl Publisher {
    pub(super) fn new(client: Client) -> Self {
        let context = ContextBuilder::new().timeout(ACK_TIMEOUT).ack_timeout(ACK_TIMEOUT).build(client.clone());
        Self { client, context, seen_on: None }
    }

    /// Checks that the broker is connected, and creates the stream of notifications after each connect if none exists.
    pub(super) async fn ready(&mut self) -> Result<(), NotReady> {
        if self.client.connection_state() != State::Connected {
            return Err(NotReady::Disconnected);
        }
        let connects = self.client.statistics().connects.load(Ordering::Relaxed);
        if self.seen_on != Some(connects) {
            self.ensure_stream().await?;
            self.seen_on = Some(connects);
        }
        Ok(())
    }

    /// Makes [`Self::ready`] check the stream again, because it may be gone.
    pub(super) fn invalidate_stream(&mut self) {
        self.seen_on = None;
    }

    async fn ensure_stream(&self) -> Result<(), NotReady> {
        use jetstream::context::GetStreamByNameErrorKind::NotFound;
        match self.context.stream_by_subject(SUBJECTS).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let config = Config {
            name: STREAM.to_owned(),
            subjects: vec![SUBJECTS.to_owned()],
            storage: StorageType::File,
            max_age: RETENTION,
            duplicate_window: DEDUP,
            allow_direct: true,
            ..Config::default()
        };
        self.context.get_or_create_stream(config).await?;
        tracing::info!(stream = STREAM, "the stream of the workers' notifications is ready");
        Ok(())
    }

    /// Publishes a row and waits until a stream has acknowledged it.
    pub(super) async fn publish(&self, leased: &ClaimedRow) -> Result<(), PublishRefusal> {
        let row = &leased.row;
        let subject = row.subject.as_deref().ok_or(PublishRefusal::NoSubject)?;
        if !is_publishable(subject) {
            return Err(PublishRefusal::Subject(subject.to_owned()));
        }
        let payload = row.payload.0.as_ref().map_err(|error| PublishRefusal::Unreadable(error.to_string()))?;
        if row.payload_codec != "json" || payload.is_null() {
            return Err(PublishRefusal::Codec(row.payload_codec.clone()));
        }
        let payload = Bytes::copy_from_slice(payload.as_str().as_bytes());
        let max_payload = self.client.server_info().max_payload;
        let message = PublishMessage::build().message_id(leased.id.to_string()).payload(payload);
        let refusal = |error: PublishError| match error.kind() {
            PublishErrorKind::StreamNotFound => PublishRefusal::NoStream(subject.to_owned()),
            PublishErrorKind::TimedOut => PublishRefusal::TimedOut(subject.to_owned()),
            PublishErrorKind::MaxPayloadExceeded => PublishRefusal::TooLarge(max_payload),
            _ => PublishRefusal::Broker(error),
        };
        let sent = self.context.send_publish(subject.to_owned(), message).await;
        let ack = sent.map_err(refusal)?;
        // A duplicate counts as published, too.
        ack.await.map_err(refusal)?;
        Ok(())
    }
}
