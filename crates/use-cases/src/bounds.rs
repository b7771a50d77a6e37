//! Bounds on the values that callers send: a maximum size, and no NUL character. JSON can contain NUL, but PostgreSQL's
//! text and jsonb can't.

use plain_json::{RawJson, Unstorable};
use serde_json::Value;

use crate::error::{Rejection, RejectionCode};

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
pub fn check_reason(reason: Option<&str>) -> Result<(), Rejection> {
    let reason = reason.unwrap_or_default();
    if reason.len() > MAX_REASON_BYTES {
        return Err(Rejection::invalid("reason", format!("a reason has at most {MAX_REASON_BYTES} bytes")));
    }
    check_text("reason", reason)
}

/// Checks that JSON has at most `max_bytes`, and can be stored and read again.
pub fn check_json(field: &str, value: &Value, max_bytes: usize) -> Result<(), Rejection> {
    check_raw_json(field, &value.into(), max_bytes)
}

/// Checks that JSON has at most `max_bytes`, and can be stored and read again. Space between its tokens does not count.
pub(crate) fn check_raw_json(field: &str, json: &RawJson, max_bytes: usize) -> Result<(), Rejection> {
    // A text within the limit is not parsed.
    let bytes = if json.len() > max_bytes { json.compact_len() } else { json.len() };
    if bytes > max_bytes {
        let message = format!("{field} has {bytes} bytes as JSON; at most {max_bytes} are allowed");
        return Err(Rejection::new(RejectionCode::PayloadTooLarge, field, message));
    }
    json.check_storable(MAX_JSON_DEPTH).map_err(|reason| match reason {
        Unstorable::Depth => {
            let message = format!("{field} has maps or lists nested more than {MAX_JSON_DEPTH} levels deep");
            Rejection::invalid(field, message)
        }
        Unstorable::Nul => nul(field),
    })
}

fn nul(field: &str) -> Rejection {
    Rejection::invalid(field, format!("{field} contains a NUL character, which can't be stored"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_the_maximum_size_is_accepted_and_space_between_its_tokens_does_not_count() {
        for text in [r#"["a",1]"#, r#" [ "a",   1 ]"#] {
            let check = |most| check_raw_json("input", &text.to_owned().into(), most).map_err(|refusal| refusal.code);
            assert_eq!((check(7), check(6)), (Ok(()), Err(RejectionCode::PayloadTooLarge)), "{text}");
        }
    }
}
