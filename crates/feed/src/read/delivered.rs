//! Decoding of stream messages into events. Live messages are decoded once per replica, not again by each reader.
//!
//! The fields that were too large for the stream are read from the shard when a reader that follows the event needs
//! them, so only such readers wait. Readers that need them at the same time share the read.
//!
//! No message stops a feed. A field that can't be represented is replaced by its error or left out. A message that is
//! not an event only advances the position.

use std::sync::{Arc, Mutex, PoisonError};

use async_nats::jetstream::Message;
use bytestring::ByteString;
use chrono::{DateTime, NaiveDateTime, Utc};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::read::error::ReadError;
use crate::read::precedence::Precedence;
use crate::wire::cursor::Position;
use crate::wire::envelope::{Discard, Mark};
use noetl_domain::event::Event;
use noetl_domain::feed::FeedId;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{DEFAULT, Scope};
use noetl_runtime::causes::WithCauses;
use noetl_storage::budget::uncharged;
use noetl_storage::events;
use noetl_storage::pools::Databases;
use plain_json::{self as json, Borrowed, Text, Typed, Unreadable};

/// Message of a stream, shared by all readers.
#[derive(Debug, Clone)]
pub(super) struct Delivered {
    pub(super) shard: ShardIndex,
    pub(super) position: Position,
    /// Event in the message; `None` if it is not an event, so that only its position counts.
    pub(super) event: Option<LiveEvent>,
    /// Positions that a reader must pass before the event.
    pub(super) precedence: Precedence,
    /// Earlier messages that readers must discard, if the message begins an epoch.
    pub(super) discard: Option<Discard>,
    /// The complete event, if the message lacks its large fields.
    pub(super) complete: Option<Arc<CompleteEvent>>,
    /// Approximate size in memory in bytes.
    pub(super) bytes: usize,
}

/// Event as readers receive it.
#[derive(Debug, Clone)]
pub struct LiveEvent {
    /// The event.
    pub event: Arc<Event<Text>>,
    /// True if fields are left out or replaced by an error: they can't be represented, or they were too large for the
    /// broker and could not be read from the shard.
    pub partial: bool,
}

/// Event whose large fields are read from its shard.
#[derive(Debug)]
pub(super) struct CompleteEvent {
    databases: Databases,
    /// The event as the message holds it.
    published: LiveEvent,
    /// Read that readers wait for, or whose result they still use. The ring does not keep the result, because it may be
    /// large.
    running: Mutex<Option<WeakShared<BoxFuture<'static, LiveEvent>>>>,
}

impl CompleteEvent {
    fn new(databases: Databases, published: LiveEvent) -> Self {
        Self { databases, published, running: Mutex::default() }
    }

    /// Returns the complete event. If the shard can't be read, returns the event as the message holds it.
    pub(super) fn read(&self) -> Shared<BoxFuture<'static, LiveEvent>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = running.as_ref().and_then(WeakShared::upgrade);
        joined.unwrap_or_else(|| {
            let read = complete(self.databases.clone(), self.published.clone()).boxed().shared();
            *running = read.downgrade();
            read
        })
    }
}

/// Payload of a message. Its large fields are text, because jsonb can hold values that this program's JSON values
/// can't. They are parts of the message.
#[derive(Debug, Deserialize)]
struct Payload<'a> {
    execution_id: Id,
    event_id: Id,
    #[serde(default)]
    catalog_id: Option<Id>,
    parent_event_id: Option<Id>,
    parent_execution_id: Option<Id>,
    #[serde(borrow, default)]
    created_at: Option<&'a RawValue>,
    event_type: Option<String>,
    node_id: Option<String>,
    node_name: Option<String>,
    node_type: Option<String>,
    status: Option<String>,
    duration: Option<&'a RawValue>,
    context: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    meta: Option<&'a RawValue>,
    error: Option<String>,
    stack_trace: Option<String>,
    tenant_id: Option<String>,
    organization_id: Option<String>,
    #[serde(default, rename = "payload_omitted")]
    omitted: bool,
}

impl<'a> Borrowed<'a> for Payload<'a> {}

/// Decodes a message for a reader at `at`. A message of another feed than `feed` is no event.
pub(super) fn decode(
    databases: &Databases,
    shard: ShardIndex,
    feed: Option<FeedId>,
    at: Position,
    message: &Message,
) -> Result<Delivered, ReadError> {
    let info = message.info().map_err(|error| ReadError::of(shard, error))?;
    let sequence = info.stream_sequence;
    let published = DateTime::from_timestamp(info.published.unix_timestamp(), info.published.nanosecond());
    let mark = message.headers.as_ref().and_then(|headers| Mark::read_of(headers, feed));
    // A message without a mark of the feed belongs to the epoch of the message before it.
    let epoch = mark.as_ref().map_or(at.epoch, |mark| mark.epoch.cast_unsigned());
    let of_a_tailer = mark.is_some();
    let discard = mark.as_ref().and_then(|mark| mark.discard);
    let payload = mark.and_then(|_| parse(&message.payload));
    if payload.is_none() {
        note_foreign(shard, sequence, &message.subject, of_a_tailer);
    }
    let omitted = payload.as_ref().is_some_and(|payload| payload.omitted);
    let event = payload.map(|payload| payload.into_event(published.unwrap_or_default()));
    let complete = event.as_ref().filter(|_| omitted).map(|live| CompleteEvent::new(databases.clone(), live.clone()));
    let bytes =
        event.as_ref().map_or(0, |live| weight(&live.event)) + size_of::<Delivered>() + size_of::<Event<Text>>();
    let position = Position { epoch, sequence };
    let precedence = event
        .as_ref()
        .map_or(Precedence::Stream, |live| Precedence::of(&databases.map(), shard, position, live.event.execution_id));
    Ok(Delivered { shard, position, event, precedence, discard, complete: complete.map(Arc::new), bytes })
}

/// Counts a message that is not an event. The leader reports messages that no tailer published; where NoETL's tailer
/// publishes too, each event has one, so they are not logged one by one.
fn note_foreign(shard: ShardIndex, sequence: u64, subject: &str, of_a_tailer: bool) {
    metrics::counter!("noetl_stream_foreign_messages_total", "shard" => shard.to_string()).increment(1);
    if of_a_tailer {
        tracing::warn!(shard, sequence, subject, "a message in the event stream is not an event");
    } else {
        tracing::debug!(shard, sequence, subject, "skipped a foreign message in the event stream");
    }
}

fn parse(payload: &[u8]) -> Option<Payload<'_>> {
    json::borrow(payload).inspect_err(|error| tracing::warn!(%error, "an event can't be read")).ok()
}

/// Reads an event from its shard.
async fn complete(databases: Databases, published: LiveEvent) -> LiveEvent {
    let (execution, event) = (published.event.execution_id, published.event.event_id);
    // Readers compare the tenant of the event with their scope. Not charged to an operation, because several readers
    // wait for it.
    match uncharged(events::get(databases.shard_of(execution), &Scope::Unrestricted, execution, event)).await {
        Ok(Some(whole)) => LiveEvent { event: Arc::new(whole), partial: false },
        Ok(None) => published,
        Err(error) => {
            tracing::warn!(%execution, %event, error = %WithCauses(&error), "a large event is delivered without its large fields");
            metrics::counter!("noetl_stream_incomplete_events_total").increment(1);
            published
        }
    }
}

impl Payload<'_> {
    fn into_event(self, published: DateTime<Utc>) -> LiveEvent {
        let mut partial = self.omitted;
        let [context, result, meta] = carried([self.context, self.result, self.meta], &mut partial);
        let created_at = shown::<Time>(self.created_at, &mut partial).map_or(published, |time| time.0);
        let duration = shown(self.duration, &mut partial);
        let event = Event {
            execution_id: self.execution_id,
            event_id: self.event_id,
            catalog_id: self.catalog_id.unwrap_or(Id::new(0)),
            parent_event_id: self.parent_event_id,
            parent_execution_id: self.parent_execution_id,
            created_at,
            event_type: self.event_type.unwrap_or_default(),
            node_id: self.node_id,
            node_name: self.node_name,
            node_type: self.node_type,
            status: self.status,
            duration,
            context,
            result,
            meta,
            error: self.error,
            stack_trace: self.stack_trace,
            tenant_id: self.tenant_id.unwrap_or_else(|| DEFAULT.to_owned()),
            organization_id: self.organization_id.unwrap_or_else(|| DEFAULT.to_owned()),
        };
        LiveEvent { event: Arc::new(event), partial }
    }
}

/// Returns the JSON of fields. If one can't be parsed, returns its error in its place and sets `partial`.
///
/// The texts are copied together into memory of their own, because the message shares its memory with others.
fn carried(fields: [Option<&RawValue>; 3], partial: &mut bool) -> [Option<Text>; 3] {
    let fields = fields.map(|json| json.map(RawValue::get).filter(|json| *json != "null"));
    let all = ByteString::from(fields.map(Option::unwrap_or_default).concat());
    let mut rest = &*all;
    fields.map(|json| {
        let (text, after) = rest.split_at(json?.len());
        rest = after;
        let unreadable = |unreadable: Unreadable| {
            *partial = true;
            unreadable.to_error_value()
        };
        Some(Text::shared(all.slice_ref(text)).unwrap_or_else(unreadable))
    })
}

/// Returns a field's value. If this program can't represent it, returns `None` and sets `partial`.
fn shown<T: Typed>(text: Option<&RawValue>, partial: &mut bool) -> Option<T> {
    let parsed = json::parse::<Option<T>>(text?.get().as_bytes());
    *partial |= parsed.is_err();
    parsed.ok().flatten()
}

/// Time of an event: without an offset, as PostgreSQL writes it in UTC, or with one.
struct Time(DateTime<Utc>);

impl Typed for Time {}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let naive = text.parse::<NaiveDateTime>().map(|naive| naive.and_utc());
        naive.or_else(|_| text.parse()).map(Self).map_err(D::Error::custom)
    }
}

/// Returns the approximate size of an event's parts in memory in bytes.
fn weight(event: &Event<Text>) -> usize {
    let texts = [&event.node_id, &event.node_name, &event.node_type, &event.status, &event.error, &event.stack_trace];
    let texts: usize = texts.into_iter().flatten().map(String::capacity).sum();
    let values = [&event.context, &event.result, &event.meta];
    texts + event.event_type.capacity() + values.into_iter().flatten().map(|json| json.as_str().len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_fields_of_an_event_do_not_affect_the_others() {
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let text = format!(
            r#"{{"execution_id":1,"event_id":2,"created_at":"infinity","event_type":"a","context":{deep},
                "result":{{"n":1e999}},"meta":{{"kept":true}},"status":"OK","unknown":1}}"#
        );
        let LiveEvent { event, partial } = parse(text.as_bytes()).unwrap().into_event(DateTime::UNIX_EPOCH);
        assert!(partial);
        assert_eq!(event.created_at, DateTime::UNIX_EPOCH);
        for unreadable in [&event.context, &event.result] {
            assert_eq!(unreadable.as_ref().unwrap().read()["error"]["code"], "UNREADABLE");
        }
        assert_eq!(
            (event.meta.as_ref().unwrap().read()["kept"].as_bool(), event.status.as_deref()),
            (Some(true), Some("OK"))
        );
        assert!(parse(b"{\"event_id\":1}").is_none());
        for time in ["2026-11-21T06:06:19.4734", "2026-11-21T06:06:19.4734Z", "2026-11-21T07:06:19.4734+01:00"] {
            let text = format!(r#"{{"execution_id":1,"event_id":2,"created_at":"{time}"}}"#);
            let LiveEvent { event, partial } = parse(text.as_bytes()).unwrap().into_event(DateTime::UNIX_EPOCH);
            assert_eq!((event.created_at.to_rfc3339().as_str(), partial), ("2026-11-21T06:06:19.473400+00:00", false));
        }
        let plain = parse(br#"{"execution_id":1,"event_id":2,"context":null}"#).unwrap();
        assert!(!plain.into_event(DateTime::UNIX_EPOCH).partial);
    }
}
