//! Publishes outbox rows; a stream acknowledges each of them.
//!
//! A row without a subject is published to NoETL's subject for its event, and a payload in another codec than JSON as
//! the stored bytes with their media type. A notification of an execution is published under the prefix of the deployment.
//!
//! A stream recognises the message id of a row that is published again. No other row, deployment or history of the database
//! has the same id, so a message that the stream calls a duplicate is this one.

use std::error::Error;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::context::{GetStreamByNameError, GetStreamError, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::jetstream::{self, Context, ErrorCode};

use noetl_domain::outbox_message::is_publishable;
use noetl_feed::wire::names::SubjectPrefix;
use noetl_feed::wire::notifications::NotificationStream;
use noetl_feed::wire::streams::{self, UnusableStream};
use noetl_use_cases::outbox::ClaimedRow;

/// Time to wait for an acknowledgement.
pub(super) const ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Header with the media type of a message.
const CONTENT_TYPE: &str = "Content-Type";
/// Dedup window of the stream.
pub(super) const DEDUP: Duration = Duration::from_mins(10);

/// Reason why no message can be published now.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReady {
    #[error("the broker is not connected")]
    Disconnected,
    #[error(transparent)]
    FindStream(#[from] GetStreamByNameError),
    #[error(transparent)]
    GetStream(#[from] GetStreamError),
    #[error(transparent)]
    UnusableStream(#[from] UnusableStream),
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
    #[error("no stream captures {subject}; create one")]
    NoStream { subject: String, is_notification: bool },
    #[error("no stream acknowledged {subject} in time")]
    TimedOut { subject: String, is_notification: bool },
    #[error("the broker accepts no message over {0} bytes")]
    TooLarge(usize),
    #[error("broker error: {0}")]
    Broker(PublishError),
}

impl PublishRefusal {
    /// Returns whether the broker refuses for reasons of its own, and may accept the row later: the stream is full, has no
    /// leader or is gone, or the servers lack resources.
    pub(super) fn is_of_broker(&self) -> bool {
        match self {
            Self::Subject(_) | Self::Unreadable(_) | Self::NoPayload | Self::TooLarge(_) => false,
            // A stream that this deployment does not use may never exist.
            Self::NoStream { is_notification, .. } | Self::TimedOut { is_notification, .. } => *is_notification,
            Self::Broker(error) => {
                let cause = error.source().and_then(|cause| cause.downcast_ref::<jetstream::Error>());
                let of_message = [ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM, ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM];
                !cause.is_some_and(|cause| of_message.contains(&cause.error_code()))
            }
        }
    }
}

/// Publisher over the replica's connection.
#[derive(Debug)]
pub(super) struct Publisher {
    client: Client,
    context: Context,
    stream: NotificationStream,
    /// Prefix of the subjects of responses to the servers; `None`: `_INBOX`.
    inbox_prefix: Option<SubjectPrefix>,
    /// Number of connects at the last time that the stream was seen.
    seen_on: Option<u64>,
    /// Number of connects at the last time that the stream got its replicas, or that the broker refused them.
    replicated_on: Option<u64>,
}

impl Publisher {
    pub(super) fn new(client: Client, stream: NotificationStream, inbox_prefix: Option<SubjectPrefix>) -> Self {
        let mut context = streams::context(client.clone(), &stream.names);
        context.set_timeout(ACK_TIMEOUT);
        Self { client, context, stream, inbox_prefix, seen_on: None, replicated_on: None }
    }

    /// Checks that the broker is connected, and creates the stream of notifications after each connect if none exists.
    pub(super) async fn ready(&mut self) -> Result<(), NotReady> {
        if self.client.connection_state() != State::Connected {
            return Err(NotReady::Disconnected);
        }
        let connects = streams::connects(&self.client);
        if self.seen_on != Some(connects) {
            self.ensure_stream(self.replicated_on != Some(connects)).await?;
            (self.seen_on, self.replicated_on) = (Some(connects), Some(connects));
        }
        Ok(())
    }

    /// Makes [`Self::ready`] check the stream again, because it may be gone.
    pub(super) fn invalidate_stream(&mut self) {
        self.seen_on = None;
    }

    async fn ensure_stream(&self, replicates: bool) -> Result<(), NotReady> {
        use jetstream::context::GetStreamByNameErrorKind::NotFound;
        let NotificationStream { names, retention, max_bytes, replicas } = &self.stream;
        let (name, subjects) = (names.notifications(), names.notification_subjects());
        match self.context.stream_by_subject(&subjects).await {
            Ok(found) if found == name && replicates => return self.add_replicas(&name).await,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let config = Config {
            name: name.clone(),
            subjects: vec![subjects],
            storage: StorageType::File,
            max_age: *retention,
            max_bytes: max_bytes.unwrap_or_default(),
            discard: if max_bytes.is_some() { DiscardPolicy::New } else { DiscardPolicy::Old },
            duplicate_window: DEDUP,
            allow_direct: true,
            num_replicas: *replicas,
            ..Config::default()
        };
        streams::open_or_create(&self.context, names, config).await?;
        tracing::info!(stream = name, "the stream of the workers' notifications is ready");
        Ok(())
    }

    /// Adds replicas to a stream that has fewer than it should have. The stream is used if that fails.
    async fn add_replicas(&self, name: &str) -> Result<(), NotReady> {
        let mut config = self.context.get_stream(name).await?.cached_info().config.clone();
        if config.num_replicas >= self.stream.replicas {
            return Ok(());
        }
        config.num_replicas = self.stream.replicas;
        match self.context.update_stream(&config).await {
            Ok(_) => tracing::info!(stream = name, replicas = config.num_replicas, "the stream has more replicas now"),
            Err(error) => tracing::warn!(stream = name, %error, "the stream can't get more replicas"),
        }
        Ok(())
    }

    /// Returns whether a subject is one of requests to an imported JetStream, or of responses to the servers. A row with
    /// such a subject would be sent with the rights of the servers.
    fn is_reserved(&self, subject: &str) -> bool {
        let prefixes = [self.stream.names.api_prefix(), self.inbox_prefix.as_ref()];
        prefixes.into_iter().flatten().any(|prefix| prefix.covers(subject))
    }

    /// Publishes a row and waits until a stream has acknowledged it.
    pub(super) async fn publish(&self, leased: &ClaimedRow) -> Result<(), PublishRefusal> {
        let row = &leased.row;
        let stored = row.target();
        let notification = self.stream.names.notification(&stored);
        let is_notification = notification.is_some();
        let subject = notification.unwrap_or_else(|| stored.into_owned());
        if !is_publishable(&subject) || self.is_reserved(&subject) {
            return Err(PublishRefusal::Subject(subject));
        }
        let content = row.message().map_err(|error| PublishRefusal::Unreadable(error.to_string()))?;
        let payload = content.ok_or(PublishRefusal::NoPayload)?.to_bytes();
        let max_payload = self.client.server_info().max_payload;
        let message = PublishMessage::build()
            .message_id(row.message_id.to_string())
            .header(CONTENT_TYPE, &*row.content_type())
            .payload(payload);
        let refusal = |error: PublishError| match error.kind() {
            PublishErrorKind::StreamNotFound => PublishRefusal::NoStream { subject: subject.clone(), is_notification },
            PublishErrorKind::TimedOut => PublishRefusal::TimedOut { subject: subject.clone(), is_notification },
            PublishErrorKind::MaxPayloadExceeded => PublishRefusal::TooLarge(max_payload),
            _ => PublishRefusal::Broker(error),
        };
        let sent = self.context.send_publish(subject.clone(), message).await;
        let ack = sent.map_err(refusal)?;
        // A duplicate is this message.
        ack.await.map_err(refusal)?;
        Ok(())
    }
}
