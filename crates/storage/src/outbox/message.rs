//! Claimed rows and the messages that they hold.

use std::borrow::Cow;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use noetl_domain::outbox_message::{JSON_CODEC, JSON_MEDIA_TYPE, event_subject, media_type};
use plain_json::{Received, Text, Unreadable};

/// Largest payload that can be delivered, in bytes of its JSON text and of its base64 text: two of them fit into one
/// response.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;

/// A claimed row.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Id of the row in its shard.
    pub outbox_id: i64,
    /// Token that settles the row.
    pub lease_token: i64,
    /// Time at which the lease expires.
    pub lease_until: DateTime<Utc>,
    /// Execution of the event; `None` on rows without an order.
    pub execution_id: Option<i64>,
    /// Event that the message is about.
    pub event_id: i64,
    /// Message id under which it is published, also when it is published again.
    pub message_id: Uuid,
    /// Subject to publish to, as stored.
    pub subject: Option<String>,
    /// Payload as JSON, or its error if it can't be read. JSON null if the row has none.
    pub payload: Received,
    /// Codec in which the payload is published.
    pub payload_codec: String,
    /// Payload in a codec that is not JSON.
    pub bytes: Option<Vec<u8>>,
    /// Tenant: the stored one, or the one that the payload names.
    pub tenant_id: String,
    /// Organization: the stored one, or the one that the payload names.
    pub organization_id: String,
    /// Number of claims of the row, this one included.
    pub attempts: i32,
    /// Whether the row was in flight under an expired lease before this claim.
    pub retaken: bool,
    /// Whether that lease was the one of the row's last attempt.
    pub exhausted: bool,
}

/// Message of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Message<'a> {
    /// JSON text.
    Json(&'a Text),
    /// Bytes in the row's codec.
    Bytes(&'a [u8]),
}

impl Message<'_> {
    /// Returns the bytes to publish. JSON shares the memory of the row.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Json(text) => text.to_bytes(),
            Self::Bytes(bytes) => Bytes::copy_from_slice(bytes),
        }
    }
}

impl Claimed {
    /// Returns the message of the row; `Ok(None)` if it has none. NoETL stores JSON in every row, and in most rows also
    /// the same payload in another codec. That codec takes precedence.
    pub fn message(&self) -> Result<Option<Message<'_>>, &Unreadable> {
        match (&self.bytes, &self.payload.0) {
            (Some(bytes), _) if self.payload_codec != JSON_CODEC => Ok(Some(Message::Bytes(bytes))),
            (Some(bytes), Ok(json)) if json.is_null() => Ok(Some(Message::Bytes(bytes))),
            (None, Ok(json)) if json.is_null() => Ok(None),
            (_, Ok(json)) => Ok(Some(Message::Json(json))),
            (_, Err(unreadable)) => Err(unreadable),
        }
    }

    /// Returns the media type of the message.
    #[must_use]
    pub fn content_type(&self) -> Cow<'static, str> {
        match self.message() {
            Ok(Some(Message::Bytes(_))) => media_type(&self.payload_codec),
            _ => JSON_MEDIA_TYPE.into(),
        }
    }

    /// Returns the subject to publish to: the stored one, else NoETL's subject for the event.
    #[must_use]
    pub fn target(&self) -> Cow<'_, str> {
        self.subject.as_deref().map_or_else(
            || event_subject(Some(&self.tenant_id), Some(&self.organization_id), self.execution_id).into(),
            Cow::Borrowed,
        )
    }

    /// Returns the reason that the row can't be delivered as it is, if there is one.
    #[must_use]
    pub fn undeliverable(&self) -> Option<String> {
        if self.exhausted {
            return Some(format!(
                "attempt {} was the last one, and its lease expired before a settlement",
                self.attempts
            ));
        }
        if let Err(unreadable) = self.message() {
            return Some(unreadable.to_string());
        }
        let size = self.text_size();
        (size > MAX_PAYLOAD_BYTES).then(|| format!("the payload has {size} bytes; the maximum is {MAX_PAYLOAD_BYTES}"))
    }

    /// Returns the bytes of the payload in a response; 0 if the row can't be delivered.
    #[must_use]
    pub fn size(&self) -> usize {
        if self.undeliverable().is_some() { 0 } else { self.text_size() }
    }

    /// Returns the bytes of the JSON text and of the base64 text.
    fn text_size(&self) -> usize {
        let json = self.payload.0.as_ref().map_or(0, |text| text.as_str().len());
        json + self.bytes.as_ref().map_or(0, |bytes| bytes.len().div_ceil(3) * 4)
    }
}
