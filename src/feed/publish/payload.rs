//! Payload of a message: the event's row as JSON. If that exceeds the broker's limit, large fields are left out.
//!
//! It is written from the texts that Postgres returns, so it can hold every value of a row: also deeply nested JSON,
//! large numbers and infinite times that a reader can't represent. A serializer would have to parse these texts first, so
//! the object is written here; only plain values go through `serde_json`.

use bytes::Bytes;
use serde::Serialize;

use noetl_domain::event::EventKey;
use noetl_storage::tail_session::EventText;
use plain_json as json;

/// Bytes of the broker's limit that are reserved for headers and protocol.
const HEADER_ROOM: usize = 4096;

/// Fields of an event that a payload leaves out.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum OmittedFields {
    Nothing,
    LargeFields,
    AllVariableSize,
}

/// Bytes that remain of each name in a payload that leaves out [`OmittedFields::AllVariableSize`].
const NAME_BYTES: usize = 1024;

/// Returns the payload of an event within the broker's `max_payload` bytes, and true if fields were left out.
pub fn encode(event: &EventText, max_payload: usize) -> serde_json::Result<(Bytes, bool)> {
    let room = max_payload.saturating_sub(HEADER_ROOM);
    for omitted in [OmittedFields::Nothing, OmittedFields::LargeFields] {
        if min_bytes(event, omitted) <= room {
            let whole = write(event, omitted)?;
            if whole.len() <= room {
                return Ok((whole.into(), omitted > OmittedFields::Nothing));
            }
        }
    }
    Ok((write(event, OmittedFields::AllVariableSize)?.into(), true))
}

/// Returns the key of the event in a payload.
pub fn key(payload: &[u8]) -> serde_json::Result<EventKey> {
    json::parse(payload)
}

/// Returns a lower bound for the size of the JSON in bytes.
fn min_bytes(event: &EventText, omitted: OmittedFields) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let large = length(&event.context) + length(&event.result) + length(&event.stack_trace);
    let rest = length(&event.meta) + length(&event.error);
    rest + if omitted == OmittedFields::Nothing { large } else { 0 }
}

/// Writes the fields in the order of `Event`. JSON columns are copied unchanged, because Postgres wrote them.
fn write(event: &EventText, omitted: OmittedFields) -> serde_json::Result<Vec<u8>> {
    let mut out = Object(Vec::with_capacity(640 + min_bytes(event, omitted)));
    let (large, rest) = (omitted == OmittedFields::Nothing, omitted < OmittedFields::AllVariableSize);
    // A new column does not compile until it is written below.
    let EventText {
        execution_id,
        event_id,
        catalog_id,
        parent_event_id,
        parent_execution_id,
        created_at,
        event_type,
        node_id,
        node_name,
        node_type,
        status,
        duration,
        context,
        result,
        meta,
        error,
        stack_trace,
        tenant_id,
        organization_id,
    } = event;
    out.plain("execution_id", execution_id)?;
    out.plain("event_id", event_id)?;
    out.plain("catalog_id", catalog_id)?;
    out.plain("parent_event_id", parent_event_id)?;
    out.plain("parent_execution_id", parent_execution_id)?;
    out.time("created_at", created_at)?;
    let named = if rest { usize::MAX } else { NAME_BYTES };
    out.plain("event_type", &begin(event_type, named))?;
    out.plain("node_id", &node_id.as_deref().map(|text| begin(text, named)))?;
    out.plain("node_name", &node_name.as_deref().map(|text| begin(text, named)))?;
    out.plain("node_type", &node_type.as_deref().map(|text| begin(text, named)))?;
    out.plain("status", &status.as_deref().map(|text| begin(text, named)))?;
    out.plain("duration", duration)?;
    out.json("context", context.as_ref().filter(|_| large));
    out.json("result", result.as_ref().filter(|_| large));
    out.json("meta", meta.as_ref().filter(|_| rest));
    out.plain("error", &error.as_ref().filter(|_| rest))?;
    out.plain("stack_trace", &stack_trace.as_ref().filter(|_| large))?;
    out.plain("tenant_id", &begin(tenant_id, named))?;
    out.plain("organization_id", &begin(organization_id, named))?;
    if omitted > OmittedFields::Nothing {
        out.plain("payload_omitted", &true)?;
    }
    out.0.push(b'}');
    Ok(out.0)
}

/// Returns the beginning of a text, at most `bytes` bytes.
fn begin(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// JSON object that is being written.
struct Object(Vec<u8>);

impl Object {
    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(if self.0.is_empty() { b"{\"" } else { b",\"" });
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn plain(&mut self, name: &str, value: &impl Serialize) -> serde_json::Result<()> {
        self.name(name);
        serde_json::to_writer(&mut self.0, value)
    }

    /// Writes a UTC time in Postgres's ISO form as RFC 3339. A time that RFC 3339 can't express stays unchanged.
    fn time(&mut self, name: &str, text: &str) -> serde_json::Result<()> {
        let is_plain =
            text.len() >= 19 && text.as_bytes()[4] == b'-' && text.ends_with(|last: char| last.is_ascii_digit());
        let Some((date, time)) = text.split_once(' ').filter(|_| is_plain) else {
            return self.plain(name, &text);
        };
        self.name(name);
        for part in ["\"", date, "T", time, "Z\""] {
            self.0.extend_from_slice(part.as_bytes());
        }
        Ok(())
    }

    fn json(&mut self, name: &str, text: Option<&String>) {
        self.name(name);
        self.0.extend_from_slice(text.map_or(b"null", |text| text.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(context: &str, created_at: &str) -> EventText {
        EventText {
            execution_id: 7,
            event_id: 9,
            created_at: created_at.to_owned(),
            event_type: "call.done".to_owned(),
            context: Some(context.to_owned()),
            error: Some("\"\u{1}ß".to_owned()),
            ..EventText::default()
        }
    }

    fn parsed(payload: &[u8]) -> Value {
        serde_json::from_slice(payload).unwrap()
    }

    #[test]
    fn payload_holds_every_field_of_the_row() {
        let text = event(r#"{"a": [1, 2.5, "x"]}"#, "2026-11-21 06:06:19.4734");
        let (payload, omitted) = encode(&text, 1 << 20).unwrap();
        let value = parsed(&payload);
        assert!(!omitted);
        assert_eq!(value["context"], json!({"a": [1, 2.5, "x"]}));
        assert_eq!(value["created_at"], "2026-11-21T06:06:19.4734Z");
        assert_eq!((&value["error"], &value["result"]), (&json!("\"\u{1}ß"), &Value::Null));
        assert_eq!(value.as_object().unwrap().len(), 19);
        assert_eq!(key(&payload).unwrap(), EventKey { event_id: 9, execution_id: 7 });
    }

    #[test]
    fn values_that_readers_can_t_represent_are_copied_unchanged() {
        let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        let wide = "9".repeat(400);
        for (context, created_at) in
            [(&*deep, "2026-11-21 06:06:19"), (&*wide, "infinity"), ("1", "4713-01-01 00:00:00 BC")]
        {
            let (payload, _) = encode(&event(context, created_at), 1 << 20).unwrap();
            assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&payload).is_ok());
            assert!(payload.windows(context.len()).any(|part| part == context.as_bytes()));
            assert_eq!(key(&payload).unwrap(), EventKey { event_id: 9, execution_id: 7 });
        }
    }

    #[test]
    fn fields_over_the_broker_s_limit_are_left_out() {
        let mut text = event(&format!("\"{}\"", "x".repeat(20_000)), "2026-11-21 06:06:19");
        let (payload, omitted) = encode(&text, 16_384).unwrap();
        assert!(omitted && payload.len() <= 16_384);
        assert_eq!(
            (parsed(&payload)["payload_omitted"].clone(), parsed(&payload)["error"].is_null()),
            (json!(true), false)
        );
        text.meta = text.context.take();
        let (payload, omitted) = encode(&text, 16_384).unwrap();
        assert!(omitted && payload.len() <= 16_384 && parsed(&payload)["error"].is_null());
    }
}
