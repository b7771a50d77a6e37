//! Publishes outbox rows; a stream acknowledges each of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::context::{ContextBuilder, PublishErrorKind};
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
const STREAM: &str = "noetl_commands";
const SUBJECTS: &str = "noetl.commands.>";
const RETENTION: Duration = Duration::from_hours(24);
/// Dedup window, longer than a lease and the longest backoff, so that the stream recognises a row that is published
/// again.
const DEDUP: Duration = Duration::from_mins(10);

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
    /// `Err` is the reason why messages can't be published now.
    pub(super) async fn ready(&mut self) -> Result<(), String> {
        if self.client.connection_state() != State::Connected {
            return Err("the broker is not connected".to_owned());
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

    async fn ensure_stream(&self) -> Result<(), String> {
        use jetstream::context::GetStreamByNameErrorKind::NotFound;
        match self.context.stream_by_subject(SUBJECTS).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == NotFound => {}
            Err(error) => return Err(error.to_string()),
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
        self.context.get_or_create_stream(config).await.map_err(|error| error.to_string())?;
        tracing::info!(stream = STREAM, "the stream of the workers' notifications is ready");
        Ok(())
    }

    /// Publishes a row and waits until a stream has acknowledged it. `Err` is the reason why it was not published.
    pub(super) async fn publish(&self, leased: &ClaimedRow) -> Result<(), String> {
        let row = &leased.row;
        let subject = row.subject.as_deref().ok_or("the row has no subject")?;
        if !is_publishable(subject) {
            return Err(format!("subject {subject:?} can't be published to"));
        }
        let payload = row.payload.0.as_ref().map_err(ToString::to_string)?;
        if row.payload_codec != "json" || payload.is_null() {
            return Err(format!("the payload is not JSON; its codec is {:?}", row.payload_codec));
        }
        let payload = Bytes::copy_from_slice(payload.as_str().as_bytes());
        let max_payload = self.client.server_info().max_payload;
        let message = PublishMessage::build().message_id(leased.id.to_string()).payload(payload);
        let refusal = |kind: PublishErrorKind, error: &dyn std::fmt::Display| match kind {
            PublishErrorKind::StreamNotFound => format!("no stream captures {subject}; create one"),
            PublishErrorKind::TimedOut => format!("no stream acknowledged {subject} in time"),
            PublishErrorKind::MaxPayloadExceeded => format!("the broker accepts no message over {max_payload} bytes"),
            _ => format!("broker error: {error}"),
        };
        let sent = self.context.send_publish(subject.to_owned(), message).await;
        let ack = sent.map_err(|error| refusal(error.kind(), &error))?;
        // A duplicate counts as published, too.
        ack.await.map_err(|error| refusal(error.kind(), &error))?;
        Ok(())
    }
}
