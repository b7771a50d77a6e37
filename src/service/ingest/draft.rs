//! An event as a worker sent it, and the bounds within which it is one.

use serde_json::{Map, Value};

use super::values::{id, known_id, seconds, text, time};
use crate::domain::actor::{Actor, META_KEY};
use crate::domain::lifecycle::is_lifecycle;
use crate::service::bounds::json_text;
use crate::service::error::{Rejection, RejectionCode};
use crate::storage::ingest::NewEvent;

/// Bytes of one event's JSON and texts together.
pub const MAX_EVENT_BYTES: usize = 8 << 20;
/// Bytes of an event's type, and of the other texts by which events are looked for.
const MAX_NAME_BYTES: usize = 255;
/// What `meta` keeps that the table has no column for.
const EXTRA: &str = "extra";
/// Name under `extra` of what a worker sent as the caller: the server alone says which caller it was.
const SENT_ACTOR: &str = "sent_actor";
/// Where a value is kept that is no map where a map is needed.
const BARE: &str = "value";

/// What a worker says of an event; nothing of it is checked. Of ids, durations and times an empty text counts as absent,
/// and of every field a JSON null.
#[derive(Debug, Clone, Default)]
pub struct EventDraft {
    /// Needed.
    pub event_id: Option<String>,
    /// Needed.
    pub execution_id: Option<String>,
    /// Absent, or 0: the execution's, where that is known, else 0.
    pub catalog_id: Option<String>,
    /// The event that caused this one.
    pub parent_event_id: Option<String>,
    /// Absent: the execution's, where that is known.
    pub parent_execution_id: Option<String>,
    /// Needed; no lifecycle event of a source subscription.
    pub event_type: Option<String>,
    /// The node that it happened at.
    pub node_id: Option<String>,
    /// The node's name.
    pub node_name: Option<String>,
    /// The node's kind.
    pub node_type: Option<String>,
    /// The state after it.
    pub status: Option<String>,
    /// Seconds: a number, or its decimal text.
    pub duration: Option<Value>,
    /// When it happened, as RFC 3339 text; absent: `created_at`, else the database's time.
    pub timestamp: Option<Value>,
    /// See `timestamp`.
    pub created_at: Option<Value>,
    /// What it was given.
    pub context: Option<Value>,
    /// What it gave.
    pub result: Option<Value>,
    /// About the event itself; what is no map is kept as its `value`.
    pub meta: Option<Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// Where it went wrong.
    pub stack_trace: Option<String>,
    /// Kept as `meta.extra.trace_component`.
    pub trace_component: Option<Value>,
    /// A map, kept under `meta.extra`.
    pub extra: Option<Value>,
}

impl EventDraft {
    /// The event with its caller, or what is wrong with it.
    pub(super) fn read(self, by: Option<&Actor>) -> Result<NewEvent, Rejection> {
        let execution_id = id("executionId", self.execution_id)?.ok_or_else(|| missing("executionId"))?;
        let event_id = id("eventId", self.event_id)?.ok_or_else(|| missing("eventId"))?;
        if !event_id.can_be_followed() {
            return Err(Rejection::invalid("eventId", "eventId leaves no room for a later event of its log"));
        }
        let mut event = NewEvent {
            execution_id,
            event_id,
            catalog_id: known_id("catalogId", self.catalog_id)?,
            parent_event_id: id("parentEventId", self.parent_event_id)?,
            parent_execution_id: id("parentExecutionId", self.parent_execution_id)?,
            created_at: time("timestamp", self.timestamp)?.or(time("createdAt", self.created_at)?),
            event_type: event_type(self.event_type)?,
            node_id: text("nodeId", self.node_id)?,
            node_name: text("nodeName", self.node_name)?,
            node_type: text("nodeType", self.node_type)?,
            status: text("status", self.status)?,
            duration: seconds("duration", self.duration)?,
            context: json("context", self.context)?,
            result: json("result", self.result)?,
            meta: json("meta", meta(self.meta, self.extra, self.trace_component, by.is_some())?)?,
            error: text("error", self.error)?,
            stack_trace: text("stackTrace", self.stack_trace)?,
        };
        check_size(&event)?;
        if let Some(actor) = by {
            event.meta = Some(actor.sign(event.meta.as_deref()));
        }
        Ok(event)
    }
}

fn missing(field: &str) -> Rejection {
    Rejection::invalid(field, format!("an event needs {field}"))
}

fn event_type(given: Option<String>) -> Result<String, Rejection> {
    let given = text("type", given)?.filter(|given| !given.trim().is_empty()).ok_or_else(|| missing("type"))?;
    if given.len() > MAX_NAME_BYTES {
        let message = format!("type has {} bytes; at most {MAX_NAME_BYTES} are allowed", given.len());
        return Err(Rejection::invalid("type", message));
    }
    if is_lifecycle(&given) {
        let message = format!("{given} events are written by the transitions of source subscriptions alone");
        return Err(Rejection::invalid("type", message));
    }
    Ok(given)
}

fn json(field: &str, value: Option<Value>) -> Result<Option<String>, Rejection> {
    value.filter(|value| !value.is_null()).map(|value| json_text(field, &value, MAX_EVENT_BYTES)).transpose()
}

/// `meta` with what the table has no column for. Nothing that was sent is lost.
fn meta(
    meta: Option<Value>,
    extra: Option<Value>,
    trace_component: Option<Value>,
    signed: bool,
) -> Result<Option<Value>, Rejection> {
    let mut unknown = match extra.unwrap_or_default() {
        Value::Null => Map::new(),
        Value::Object(extra) => extra,
        _ => return Err(Rejection::invalid("extra", "extra must be a map")),
    };
    if let Some(component) = trace_component.filter(|component| !component.is_null()) {
        unknown.insert("trace_component".to_owned(), component);
    }
    if unknown.is_empty() && meta.as_ref().is_none_or(Value::is_null) {
        return Ok(None);
    }
    let mut meta = as_map(meta);
    if signed && let Some(sent) = meta.remove(META_KEY) {
        unknown.insert(SENT_ACTOR.to_owned(), sent);
    }
    if !unknown.is_empty() {
        let mut kept = as_map(meta.remove(EXTRA));
        kept.extend(unknown);
        meta.insert(EXTRA.to_owned(), kept.into());
    }
    Ok(Some(meta.into()))
}

fn as_map(value: Option<Value>) -> Map<String, Value> {
    match value.unwrap_or_default() {
        Value::Null => Map::new(),
        Value::Object(map) => map,
        other => Map::from_iter([(BARE.to_owned(), other)]),
    }
}

fn check_size(event: &NewEvent) -> Result<(), Rejection> {
    let names = [&event.node_id, &event.node_name, &event.node_type, &event.status];
    let texts = [&event.context, &event.result, &event.meta, &event.error, &event.stack_trace];
    let bytes: usize = names.into_iter().chain(texts).flatten().map(String::len).sum();
    if bytes <= MAX_EVENT_BYTES {
        return Ok(());
    }
    let message = format!("an event has at most {MAX_EVENT_BYTES} bytes of JSON and texts, this one has {bytes}");
    Err(Rejection::new(RejectionCode::PayloadTooLarge, "", message))
}
