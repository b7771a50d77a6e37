//! Bounds on the values that callers send: a maximum size, and no NUL character. JSON can contain NUL, but PostgreSQL's
//! text and jsonb can't.

use serde_json::Value;

use super::error::{Rejection, RejectionCode};

/// Maximum size of a reason in bytes.
const MAX_REASON_BYTES: usize = 4096;
/// Maximum nesting depth of JSON. Readers' parsers stop at 128 levels, and they receive stored JSON inside other JSON:
/// an event, a snapshot or a response.
const MAX_JSON_DEPTH: usize = 100;

/// Checks that a text can be stored and searched for.
pub fn check_text(field: &str, text: &str) -> Result<(), Rejection> {
    if text.contains('\0') { Err(nul(field)) } else { Ok(()) }
}

/// Checks the number of items of a list before the items are read: 1 to `most`.
pub fn check_count(field: &str, count: usize, most: usize) -> Result<(), Rejection> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(Rejection::invalid(field, format!("{field} has {count} items; 1 to {most} are allowed")))
}

/// Checks the reason that a caller gives for an action.
pub(super) fn check_reason(reason: Option<&str>) -> Result<(), Rejection> {
    let reason = reason.unwrap_or_default();
    if reason.len() > MAX_REASON_BYTES {
        return Err(Rejection::invalid("reason", format!("a reason has at most {MAX_REASON_BYTES} bytes")));
    }
    check_text("reason", reason)
}

/// Checks that JSON has at most `max_bytes`, and can be stored and read again.
pub(super) fn check_json(field: &str, value: &Value, max_bytes: usize) -> Result<(), Rejection> {
    json_text(field, value, max_bytes).map(drop)
}

/// Returns the JSON text of a value that has at most `max_bytes`, and can be stored and read again.
pub(super) fn json_text(field: &str, value: &Value, max_bytes: usize) -> Result<String, Rejection> {
    let text = value.to_string();
    if text.len() > max_bytes {
        let message = format!("{field} has {} bytes as JSON; at most {max_bytes} are allowed", text.len());
        return Err(Rejection::new(RejectionCode::PayloadTooLarge, field, message));
    }
    if is_deeper_than(MAX_JSON_DEPTH, value) {
        let message = format!("{field} has maps or lists nested more than {MAX_JSON_DEPTH} levels deep");
        return Err(Rejection::invalid(field, message));
    }
    // Most JSON does not contain this escape sequence, so it is not walked.
    if text.contains("\\u0000") && holds_nul(value) { Err(nul(field)) } else { Ok(text) }
}

fn is_deeper_than(levels: usize, value: &Value) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|inner| is_deeper_than(levels - 1, inner)),
        Value::Object(map) => levels == 0 || map.values().any(|inner| is_deeper_than(levels - 1, inner)),
        _ => false,
    }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

fn nul(field: &str) -> Rejection {
    Rejection::invalid(field, format!("{field} contains a NUL character, which can't be stored"))
}
