//! Trace context of a request (W3C Trace Context, Level 2, sections 3.2 and 3.3).

use serde_json::Value;

/// Maximum number of members of a trace state.
const MAX_MEMBERS: usize = 32;
/// Maximum size in bytes of a key or a value of a trace state.
const MAX_KEY_OR_VALUE: usize = 256;
/// Size in bytes of a `traceparent` of version 00.
const TRACEPARENT_BYTES: usize = 55;

/// A valid trace context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

/// A trace context that is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTraceContext {
    /// The parent is malformed.
    #[error(
        "traceparent must have the form of W3C Trace Context, \
         such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, in lower case and with ids that are not zero"
    )]
    Traceparent,
    /// The state is malformed.
    #[error("tracestate must have the form of W3C Trace Context: 1 to 32 different keys with values, such as a=1,b=2")]
    Tracestate,
}

impl InvalidTraceContext {
    /// Returns the name of the malformed field.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Traceparent => "traceparent",
            Self::Tracestate => "tracestate",
        }
    }
}

impl TraceContext {
    /// Checks the parts of a trace context.
    pub fn new(traceparent: String, tracestate: Option<String>) -> Result<Self, InvalidTraceContext> {
        if !is_traceparent(&traceparent) {
            return Err(InvalidTraceContext::Traceparent);
        }
        if !tracestate.as_deref().is_none_or(is_tracestate) {
            return Err(InvalidTraceContext::Tracestate);
        }
        Ok(Self { traceparent, tracestate })
    }

    /// Reads the map of a stored event. Other programs may have stored a map with further keys. `None`: it is not a
    /// valid trace context.
    #[must_use]
    pub fn of_stored(stored: &Value) -> Option<Self> {
        let traceparent = stored.get("traceparent")?.as_str()?.to_owned();
        let tracestate = stored.get("tracestate").and_then(Value::as_str).map(str::to_owned);
        Self::new(traceparent, tracestate).ok()
    }

    /// Returns the map that an event stores.
    #[must_use]
    pub fn to_stored(&self) -> Value {
        let state = self.tracestate.iter().map(|state| ("tracestate".to_owned(), Value::from(state.as_str())));
        let parent = ("traceparent".to_owned(), Value::from(self.traceparent.as_str()));
        std::iter::once(parent).chain(state).collect()
    }

    /// Returns the ids of the trace and of the calling span.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// Returns the data of tracing systems.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }
}

/// A later version than 00 may have further parts after those of version 00.
fn is_traceparent(text: &str) -> bool {
    let (known, rest) = text.split_at_checked(TRACEPARENT_BYTES).unwrap_or_default();
    let parts: Vec<&str> = known.split('-').collect();
    let [version, trace, parent, flags] = parts[..] else { return false };
    let id = |id: &str, bytes: usize| is_hex(id, bytes) && id.bytes().any(|digit| digit != b'0');
    let has_valid_rest = if version == "00" { rest.is_empty() } else { rest.is_empty() || rest.starts_with('-') };
    is_hex(version, 2) && version != "ff" && id(trace, 32) && id(parent, 16) && is_hex(flags, 2) && has_valid_rest
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == bytes && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_tracestate(text: &str) -> bool {
    let members = text.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty());
    let keys: Option<Vec<&str>> = members.take(MAX_MEMBERS + 1).map(member_key).collect();
    let Some(mut keys) = keys else { return false };
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    (1..=MAX_MEMBERS).contains(&count) && keys.len() == count
}

/// Returns the key of a valid member.
fn member_key(member: &str) -> Option<&str> {
    let (key, value) = member.split_once('=')?;
    (is_key(key) && is_value(value)).then_some(key)
}

fn is_key(key: &str) -> bool {
    let in_key = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let begins = key.bytes().next().is_some_and(|first| first.is_ascii_lowercase() || first.is_ascii_digit());
    begins && key.len() <= MAX_KEY_OR_VALUE && key.bytes().all(in_key)
}

fn is_value(value: &str) -> bool {
    let in_value = |byte: u8| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
    !value.is_empty() && value.len() <= MAX_KEY_OR_VALUE && value.bytes().all(in_value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn refusal(parent: &str, state: Option<&str>) -> Option<InvalidTraceContext> {
        TraceContext::new(parent.to_owned(), state.map(str::to_owned)).err()
    }

    #[test]
    fn a_parent_has_the_form_of_the_standard() {
        let later = PARENT.replace("00-4b", "cc-4b");
        for valid in [PARENT, &PARENT.replace("-01", "-ff"), &later, &format!("{later}-what-the-future-brings")] {
            assert_eq!(refusal(valid, None), None, "{valid}");
        }
        let invalid = [
            String::new(),
            "other".to_owned(),
            PARENT.to_uppercase(),
            PARENT.replace("00-4b", "ff-4b"),
            PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            PARENT.replace("-01", "-0g"),
            PARENT.replace('-', "_"),
            format!("{PARENT}-more"),
            format!("{later}more"),
            format!(" {PARENT}"),
            PARENT[..54].to_owned(),
            PARENT.replace("4736-", "47é-"),
        ];
        for invalid in invalid {
            assert_eq!(refusal(&invalid, None), Some(InvalidTraceContext::Traceparent), "{invalid}");
        }
    }

    #[test]
    fn a_state_has_the_form_of_the_standard() {
        let many = |count| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        let long = |key, value| format!("{}={}", "k".repeat(key), "v".repeat(value));
        let valid =
            ["a=1", "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE", "fw529a3039@dt=a b", "1a=!", "a=1,,b=2", &many(32)];
        for valid in valid.into_iter().chain([long(256, 256).as_str()]) {
            assert_eq!(refusal(PARENT, Some(valid)), None, "{valid}");
        }
        let invalid = ["", " ", "a", "a=", "=1", "A=1", "a=1=2", "a=1,a=2", "a=é", "a=\u{7f}", "_a=1", &many(33)];
        for invalid in invalid.into_iter().chain([long(257, 1).as_str(), long(1, 257).as_str()]) {
            assert_eq!(refusal(PARENT, Some(invalid)), Some(InvalidTraceContext::Tracestate), "{invalid}");
        }
    }

    #[test]
    fn a_stored_map_is_read_if_it_is_valid() {
        let stored = json!({ "traceparent": PARENT, "tracestate": "a=1", "baggage": { "b": 1 } });
        let read = TraceContext::of_stored(&stored).unwrap();
        assert_eq!((read.traceparent(), read.tracestate()), (PARENT, Some("a=1")));
        assert_eq!(read.to_stored(), json!({ "traceparent": PARENT, "tracestate": "a=1" }));
        let bare = TraceContext::of_stored(&json!({ "traceparent": PARENT, "tracestate": null })).unwrap();
        assert_eq!(bare.to_stored(), json!({ "traceparent": PARENT }));
        for other in
            [json!(null), json!("00"), json!({}), json!({ "traceparent": 5 }), json!({ "traceparent": "00-a" })]
        {
            assert_eq!(TraceContext::of_stored(&other), None, "{other}");
        }
    }
}
