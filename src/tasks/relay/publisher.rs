//! Publishes outbox rows; a stream acknowledges each of them.
//!
//! A row without a subject is published to NoETL's subject for its event, and a payload in another codec than JSON as
//! the stored bytes with their media type.

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

use noetl_domain::outbox_message::is_publishable;
use noetl_use_cases::outbox::ClaimedRow;

/// Time to wait for an acknowledgement. It is short enough to settle a batch within its lease and within the grace
/// period of a shutdown.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Header with the media type of a message.
const CONTENT_TYPE: &str = "Content-Type";
/// Stream of the workers' notifications. It is created if no stream captures their subjects; an existing one is left
/// unchanged. Workers that only listen remove no messages, so messages expire by age.
const STREAM: &str = "noetl_executions";
const SUBJECTS: &str = "noetl.executions.>";
/// Age at which messages of the stream expire.
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
    #[error("subject {0:?} can't be published to")]
    Subject(String),
    #[error("{0}")]
    Unreadable(String),
    #[error("the row has no payload")]
    NoPayload,
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
        let subject = row.target();
        if !is_publishable(&subject) {
            return Err(PublishRefusal::Subject(subject.into_owned()));
        }
        let content = row.message().map_err(|error| PublishRefusal::Unreadable(error.to_string()))?;
        let payload = content.ok_or(PublishRefusal::NoPayload)?.to_bytes();
        let max_payload = self.client.server_info().max_payload;
        let message = PublishMessage::build()
            .message_id(leased.id.to_string())
            .header(CONTENT_TYPE, &*row.content_type())
            .payload(payload);
        let refusal = |error: PublishError| match error.kind() {
            PublishErrorKind::StreamNotFound => PublishRefusal::NoStream(subject.to_string()),
            PublishErrorKind::TimedOut => PublishRefusal::TimedOut(subject.to_string()),
            PublishErrorKind::MaxPayloadExceeded => PublishRefusal::TooLarge(max_payload),
            _ => PublishRefusal::Broker(error),
        };
        let sent = self.context.send_publish(subject.to_string(), message).await;
        let ack = sent.map_err(refusal)?;
        // A duplicate counts as published, too.
        ack.await.map_err(refusal)?;
        Ok(())
    }
}
