//! Events as workers send them, and their validation.

use plain_json::RawJson;
use serde_json::{Map, Value};

use super::values::{id, known_id, number, seconds, text, time, value};
use crate::bounds::{check_raw_json, check_text};
use crate::error::{Rejection, RejectionCode};
use noetl_domain::actor::{Actor, META_KEY};
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::is_lifecycle;
use noetl_domain::node_id::NodeId;
use noetl_storage::ingest::{NewEvent, OtherColumns};

/// Maximum total size in bytes of one event's JSON values and texts.
pub const MAX_EVENT_BYTES: usize = 8 << 20;
/// Maximum size of an event's type in bytes.
const MAX_NAME_BYTES: usize = 255;
/// Maximum size of an event's key in bytes.
const MAX_KEY_BYTES: usize = 255;
/// Key of `meta` for the fields that the table has no column for.
const EXTRA: &str = "extra";
/// Key of `extra` for a caller that a worker sent. Only the server sets the caller of an event.
const SENT_ACTOR: &str = "sent_actor";
/// Key under which a value that is not a map is stored where a map is required.
const BARE: &str = "value";

/// An event from a worker, not validated. An empty text counts as absent for ids, durations and times. A JSON null
/// counts as absent for every field.
#[derive(Debug, Clone, Default)]
pub struct EventDraft {
    /// Id of the event; required without a key.
    pub event_id: Option<String>,
    /// Key of an event whose id the server gives, unique in its execution.
    pub idempotency_key: Option<String>,
    /// Id of the execution; required.
    pub execution_id: Option<String>,
    /// Catalog entry; absent or 0: the execution's if known, else 0.
    pub catalog_id: Option<String>,
    /// Event that caused this one.
    pub parent_event_id: Option<String>,
    /// Parent execution or subscription; absent: the execution's if known.
    pub parent_execution_id: Option<String>,
    /// Type; required. Lifecycle events of source subscriptions are not allowed.
    pub event_type: Option<String>,
    /// Id of the node at which the event happened.
    pub node_id: Option<String>,
    /// Name of the node.
    pub node_name: Option<String>,
    /// Kind of the node.
    pub node_type: Option<String>,
    /// Status after the event.
    pub status: Option<String>,
    /// Duration in seconds: a number, or its decimal text.
    pub duration: Option<Value>,
    /// Time of the event as RFC 3339 text; absent: `created_at`, else the database's time.
    pub timestamp: Option<Value>,
    /// Time of the event if `timestamp` is absent.
    pub created_at: Option<Value>,
    /// Input of the node.
    pub context: Option<RawJson>,
    /// Output of the node.
    pub result: Option<RawJson>,
    /// Metadata of the event. A value that is not a map is stored as `{"value": …}`.
    pub meta: Option<RawJson>,
    /// Error message.
    pub error: Option<String>,
    /// Stack trace of the error.
    pub stack_trace: Option<String>,
    /// Stored like a value of `extra` with this name.
    pub trace_component: Option<Value>,
    /// Map of additional values. A value whose name is a column of the table is stored there, the others under
    /// `meta.extra`.
    pub extra: Option<Value>,
    /// Tenant; absent: the caller's, else the execution's if known, else `default`.
    pub tenant_id: Option<String>,
    /// Organization; absent: the execution's if known, else `default`.
    pub organization_id: Option<String>,
}

impl EventDraft {
    /// Returns the execution if the event has additional values, which may belong in columns of its table.
    #[must_use]
    pub fn execution_of_extra(&self) -> Option<Id> {
        let has_extra = self.extra.is_some() || self.trace_component.is_some();
        self.execution_id.as_ref().filter(|_| has_extra)?.parse().ok()
    }

    /// Validates the event and adds the caller to its meta. `columns_of` returns the columns that the table of an
    /// execution's shard has in addition.
    pub fn read<'a>(
        self,
        by: Option<&Actor>,
        columns_of: impl Fn(Id) -> Option<&'a OtherColumns>,
    ) -> Result<NewEvent, Rejection> {
        // A new field does not compile until it is read below.
        let Self {
            event_id,
            idempotency_key,
            execution_id,
            catalog_id,
            parent_event_id,
            parent_execution_id,
            event_type,
            node_id,
            node_name,
            node_type,
            status,
            duration,
            timestamp,
            created_at,
            context,
            result,
            meta,
            error,
            stack_trace,
            trace_component,
            extra,
            tenant_id,
            organization_id,
        } = self;
        let execution_id = id("executionId", execution_id)?.ok_or_else(|| missing("executionId"))?;
        let event_id = number("eventId", event_id, |text| NodeId::event(text, Some(execution_id)))?;
        let (event_id, key) = identity(id("eventId", event_id)?, idempotency_key)?;
        let mut unknown = unknown_fields(extra, trace_component)?;
        let others = take_columns(&mut unknown, columns_of(execution_id));
        let mut event = NewEvent {
            execution_id,
            event_id,
            key,
            catalog_id: known_id("catalogId", number("catalogId", catalog_id, NodeId::catalog_entry)?)?,
            parent_event_id: id(
                "parentEventId",
                number("parentEventId", parent_event_id, |text| NodeId::event(text, None))?,
            )?,
            parent_execution_id: id("parentExecutionId", parent_execution_id)?,
            created_at: time("timestamp", timestamp)?.or(time("createdAt", created_at)?),
            event_type: check_type(event_type)?,
            node_id: text("nodeId", node_id)?,
            node_name: text("nodeName", node_name)?,
            node_type: text("nodeType", node_type)?,
            status: text("status", status)?,
            duration: seconds("durationSeconds", duration)?,
            context: json("context", context)?,
            result: json("result", result)?,
            meta: json("meta", whole_meta(meta, unknown, by.is_some())?)?,
            error: text("error", error)?,
            stack_trace: text("stackTrace", stack_trace)?,
            tenant_id: text("tenantId", tenant_id)?.filter(|tenant| !tenant.is_empty()),
            organization_id: text("organizationId", organization_id)?.filter(|organization| !organization.is_empty()),
            others: json("extra", (!others.is_empty()).then(|| RawJson::from(&Value::from(others))))?,
            claim: None,
        };
        check_size(&event)?;
        if let Some(actor) = by {
            event.meta = Some(actor.sign(event.meta.as_deref()).into());
        }
        Ok(event)
    }
}

/// Checks that an event has either an id or a key. The id of an event with a key is 0 until it is given.
fn identity(event_id: Option<Id>, key: Option<String>) -> Result<(Id, Option<String>), Rejection> {
    match (event_id, key) {
        (Some(id), None) if id.can_be_followed() => Ok((id, None)),
        (Some(_), None) => {
            Err(Rejection::invalid("eventId", "eventId is too large: no id of a later event could follow it"))
        }
        (None, Some(key)) if (1..=MAX_KEY_BYTES).contains(&key.len()) => {
            check_text("idempotencyKey", &key)?;
            Ok((Id::new(0), Some(key)))
        }
        (None, Some(key)) => {
            let message = format!("idempotencyKey has {} bytes; 1 to {MAX_KEY_BYTES} are allowed", key.len());
            Err(Rejection::invalid("idempotencyKey", message))
        }
        (Some(_), Some(_)) => {
            Err(Rejection::invalid("idempotencyKey", "an event has eventId or idempotencyKey, and not both"))
        }
        (None, None) => Err(Rejection::invalid("eventId", "an event needs eventId or idempotencyKey")),
    }
}

fn missing(field: &str) -> Rejection {
    Rejection::invalid(field, format!("an event needs {field}"))
}

fn check_type(given: Option<String>) -> Result<String, Rejection> {
    let given = text("type", given)?.filter(|given| !given.trim().is_empty()).ok_or_else(|| missing("type"))?;
    if given.len() > MAX_NAME_BYTES {
        let message = format!("type has {} bytes; at most {MAX_NAME_BYTES} are allowed", given.len());
        return Err(Rejection::invalid("type", message));
    }
    if is_lifecycle(&given) {
        let message = format!("only transitions of source subscriptions write {given} events");
        return Err(Rejection::invalid("type", message));
    }
    Ok(given)
}

fn json(field: &str, json: Option<RawJson>) -> Result<Option<RawJson>, Rejection> {
    let json = json.filter(|json| !json.is_null());
    json.map(|json| check_raw_json(field, &json, MAX_EVENT_BYTES).map(|()| json)).transpose()
}

/// Returns the fields that the input has no field for.
fn unknown_fields(extra: Option<Value>, trace_component: Option<Value>) -> Result<Map<String, Value>, Rejection> {
    let mut unknown = match extra.unwrap_or_default() {
        Value::Null => Map::new(),
        Value::Object(extra) => extra,
        _ => return Err(Rejection::invalid("extra", "extra must be a map")),
    };
    if let Some(component) = trace_component.filter(|component| !component.is_null()) {
        unknown.insert("trace_component".to_owned(), component);
    }
    Ok(unknown)
}

/// Moves the values of the table's other columns out of the unknown fields. A null counts as absent.
fn take_columns(unknown: &mut Map<String, Value>, columns: Option<&OtherColumns>) -> Map<String, Value> {
    let Some(columns) = columns else { return Map::new() };
    let (others, rest) = std::mem::take(unknown).into_iter().partition(|(name, _)| columns.names.contains(name));
    *unknown = rest;
    let others: Map<String, Value> = others;
    others.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// Returns `meta` with the fields that the table has no column for. No value of the worker is lost. If nothing has to be
/// added or moved, `meta` is returned as it arrived.
fn whole_meta(
    meta: Option<RawJson>,
    mut unknown: Map<String, Value>,
    signed: bool,
) -> Result<Option<RawJson>, Rejection> {
    let meta = meta.filter(|meta| !meta.is_null());
    if unknown.is_empty() {
        let kept = |meta: &RawJson| meta.is_object() && !(signed && meta.may_have_key(META_KEY));
        if meta.as_ref().is_none_or(kept) {
            return Ok(meta);
        }
    }
    let mut meta = as_map(meta.map(|meta| value("meta", &meta)).transpose()?);
    if signed && let Some(sent) = meta.remove(META_KEY) {
        unknown.insert(SENT_ACTOR.to_owned(), sent);
    }
    if !unknown.is_empty() {
        let mut kept = as_map(meta.remove(EXTRA));
        kept.extend(unknown);
        meta.insert(EXTRA.to_owned(), kept.into());
    }
    Ok(Some(RawJson::from(&Value::from(meta))))
}

fn as_map(value: Option<Value>) -> Map<String, Value> {
    match value.unwrap_or_default() {
        Value::Null => Map::new(),
        Value::Object(map) => map,
        other => Map::from_iter([(BARE.to_owned(), other)]),
    }
}

/// Checks the total size of an event. Space between the tokens of its JSON does not count.
fn check_size(event: &NewEvent) -> Result<(), Rejection> {
    let texts = [
        &event.node_id,
        &event.node_name,
        &event.node_type,
        &event.status,
        &event.tenant_id,
        &event.organization_id,
        &event.error,
        &event.stack_trace,
    ];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    let json = [&event.context, &event.result, &event.meta, &event.others].into_iter().flatten();
    if texts + json.clone().map(|json| json.len()).sum::<usize>() <= MAX_EVENT_BYTES {
        return Ok(());
    }
    let bytes = texts + json.map(RawJson::compact_len).sum::<usize>();
    if bytes <= MAX_EVENT_BYTES {
        return Ok(());
    }
    let message = format!("an event has at most {MAX_EVENT_BYTES} bytes of JSON and texts, this one has {bytes}");
    Err(Rejection::new(RejectionCode::PayloadTooLarge, "", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_an_id_or_a_key() {
        let (id, longest) = (Id::new(1), "k".repeat(MAX_KEY_BYTES));
        assert_eq!(identity(Some(id), None), Ok((id, None)));
        assert_eq!(identity(None, Some(longest.clone())), Ok((Id::new(0), Some(longest.clone()))));
        for (event_id, key, field) in [
            (None, None, "eventId"),
            (Some(Id::new(i64::MAX)), None, "eventId"),
            (Some(id), Some("k".to_owned()), "idempotencyKey"),
            (None, Some(String::new()), "idempotencyKey"),
            (None, Some(longest + "k"), "idempotencyKey"),
            (None, Some("k\0".to_owned()), "idempotencyKey"),
        ] {
            let rejection = identity(event_id, key.clone()).unwrap_err();
            assert_eq!(rejection.field, [field], "{event_id:?} {key:?}");
        }
    }
}
