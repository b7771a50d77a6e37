//! Request ids, by which an operator finds the log lines and spans of a request.
//!
//! A caller may choose the id of an HTTP request. The id appears in logs and responses, so it is kept only if it is
//! short and has only plain characters. Otherwise the server generates one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tracing::{Span, info_span};

/// The header that carries the id, in requests and in responses.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum number of bytes in an id that a caller chose.
const MAX_BYTES: usize = 128;
/// Maximum number of characters that the id of an operation on its socket adds.
const MAX_OPERATION_BYTES: usize = 64;

/// An id of letters, digits and `-_.:/+=@`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestId(Arc<str>);

impl RequestId {
    /// Returns the caller's id if the headers have exactly one and it is well formed; otherwise a fresh one.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut given = headers.get_all(HEADER).iter();
        let only = given.next().filter(|_| given.next().is_none());
        let text = only.and_then(|value| value.to_str().ok());
        match text {
            Some(text) if (1..=MAX_BYTES).contains(&text.len()) && text.chars().all(is_plain) => Self(text.into()),
            _ => Self::fresh(),
        }
    }

    /// Generates an id that is unique over all replicas.
    pub(super) fn fresh() -> Self {
        static PROCESS: LazyLock<u64> =
            LazyLock::new(|| getrandom::u64().unwrap_or_else(|_| std::process::id().into()));
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self(format!("{:016x}-{:x}", *PROCESS, COUNT.fetch_add(1, Ordering::Relaxed)).into())
    }

    /// Returns the id of an operation on the socket that this request opened.
    pub(super) fn operation(&self, id: &str) -> Self {
        let plain = id.chars().map(|c| if is_plain(c) { c } else { '_' }).take(MAX_OPERATION_BYTES);
        Self(self.0.chars().chain(['/']).chain(plain).collect::<String>().into())
    }

    /// Returns the span that adds the id to log lines. It is not exported: traces have a more detailed span.
    pub(super) fn log_span(&self) -> Span {
        info_span!("request", request_id = self.as_str())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the value of the response's header.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.:/+=@".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        values.iter().map(|value| (HEADER, HeaderValue::from_bytes(value).unwrap())).collect()
    }

    #[test]
    fn plain_id_is_kept() {
        for id in ["a", "7f1c-42", "Root=1-67891233-abcdef012345678912345678", &"x".repeat(MAX_BYTES)] {
            assert_eq!(RequestId::of(&headers(&[id.as_bytes()])).as_str(), id);
        }
    }

    #[test]
    fn malformed_id_is_replaced_by_a_fresh_one() {
        let long = "x".repeat(MAX_BYTES + 1);
        for id in ["", "a b", "a\tb", "\"a\"", "<script>", "a;b", "%0d%0a", &long, "h\u{e9}"] {
            let kept = RequestId::of(&headers(&[id.as_bytes()]));
            assert!(kept.as_str().len() <= 33 && kept.as_str().chars().all(is_plain), "{id:?} gave {kept}");
            assert_ne!(kept.as_str(), id);
        }
        let twice = RequestId::of(&headers(&[b"one", b"two"]));
        assert!(!["one", "two"].contains(&twice.as_str()));
    }

    #[test]
    fn fresh_ids_differ() {
        assert_ne!(RequestId::fresh(), RequestId::fresh());
    }

    #[test]
    fn operation_id_is_plain_and_bounded() {
        let socket = RequestId::of(&headers(&[b"socket"]));
        assert_eq!(socket.operation("op 1\n").as_str(), "socket/op_1_");
        assert_eq!(socket.operation(&"é".repeat(256)).as_str().len(), "socket/".len() + MAX_OPERATION_BYTES);
    }
}
