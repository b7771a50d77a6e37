//! The response to one operation, in the form that every transport sends. Bytes in its data are JSON text.
//!
//! Each error has an `extensions.code` and `extensions.retryable`. Those that a resolver set are kept. An error without a
//! code and without a path comes from the executor, which found it in the request. An error without a code but with a
//! path is an unexpected error of a resolver: it is logged here, once, and the client gets `INTERNAL`.

use async_graphql::{ErrorExtensionValues, Response, ServerError, Value};
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::operation_error::OperationError;
use super::request_id::RequestId;
use super::size;
use plain_json as json;

/// Codes of this crate after which the same request can succeed later.
pub const RETRYABLE: [&str; 3] = ["OVERLOADED", "SHUTTING_DOWN", "TIMEOUT"];
/// Maximum number of errors in one response. [`errors`](super::Limits::errors) bounds those of validation.
const MAX_ERRORS: usize = 100;
/// Maximum number of bytes in an error's message. The parser's messages quote a line of the document.
const MAX_MESSAGE: usize = 1_000;
/// Number of bytes around the data in a response without errors.
const ENVELOPE: usize = r#"{"data":}"#.len();
/// Number of bytes for the names around the texts in a response.
const ROOM: usize = 64;

/// A GraphQL response. `data` is absent if the operation did not run, or did not run to its end.
#[derive(Debug, Default, Serialize)]
pub(super) struct Reply {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<ServerError>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "json::data")]
    data: Option<Value>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    extensions: serde_json::Map<String, serde_json::Value>,
    #[serde(skip)]
    pub(super) headers: HeaderMap,
}

impl Reply {
    /// Returns the reply for an operation that reached its deadline.
    pub(super) fn timeout() -> Self {
        Self::error("TIMEOUT", "The operation did not finish in time; ask for less, or try again later.")
    }

    /// Returns the reply for a mutation that reached its deadline and may have taken effect. `hints` tell how to find
    /// out.
    pub(super) fn outcome_unknown(hints: &[&str]) -> Self {
        let unknown = "The mutation did not finish in time, so its outcome is unknown: it may have taken effect.";
        let mut reply = Self::error("TIMEOUT", [&[unknown], hints].concat().join(" "));
        for error in &mut reply.errors {
            error.extensions.get_or_insert_default().set("outcomeUnknown", true);
        }
        reply
    }

    /// Returns the reply for a caller whose admission has ended.
    pub(super) fn expired() -> Self {
        Self::error("UNAUTHENTICATED", "The token has expired or was withdrawn; connect again with a valid one.")
    }

    /// Returns the reply for an operation that failed because of a server error.
    pub(super) fn internal() -> Self {
        Self::error("INTERNAL", INTERNAL)
    }

    /// Returns a reply with one error and no data.
    pub(super) fn error(code: &str, message: impl Into<String>) -> Self {
        let mut error = ServerError::new(message, None);
        set_code(&mut error, code);
        Self { errors: vec![error], ..Self::default() }
    }

    /// Adds the request id to each error `INTERNAL`, so that the cause can be found in the log.
    pub(super) fn name_request(&mut self, id: &RequestId) {
        for error in self.errors.iter_mut().filter(|error| code(error) == Some("INTERNAL")) {
            error.extensions.get_or_insert_default().set("requestId", id.as_str());
        }
    }

    /// Adds the cost of the document, and the allowed one.
    pub(super) fn add_cost(&mut self, actual: u64, allowed: u64) {
        self.extensions.insert("cost".to_owned(), serde_json::json!({ "actual": actual, "allowed": allowed }));
    }

    /// Returns whether the response has at most `limit` bytes.
    pub(super) fn fits(&self, limit: usize) -> bool {
        let bare = self.errors.is_empty() && self.extensions.is_empty();
        let small = |data: &Value| size::at_most(data) + ENVELOPE <= limit;
        bare && self.data.as_ref().is_none_or(small) || size::fits(self, limit)
    }

    fn write(&self, text: &mut Vec<u8>) -> serde_json::Result<()> {
        let (Some(data), true) = (&self.data, self.errors.is_empty() && self.extensions.is_empty()) else {
            return serde_json::to_writer(text, self);
        };
        text.extend_from_slice(br#"{"data":"#);
        json::append(data, text)?;
        text.push(b'}');
        Ok(())
    }

    /// Returns whether the operation ran.
    pub(super) fn executed(&self) -> bool {
        self.data.is_some()
    }

    /// Returns the code of the first error.
    pub(super) fn code(&self) -> Option<&str> {
        self.errors.first().and_then(code)
    }

    /// Returns the status under `application/graphql-response+json` (GraphQL over HTTP, section 6.4.2).
    pub(super) fn status(&self) -> StatusCode {
        match self.code() {
            _ if self.executed() => StatusCode::OK,
            Some("UNAUTHENTICATED") => StatusCode::UNAUTHORIZED,
            Some("FORBIDDEN") => StatusCode::FORBIDDEN,
            Some("TIMEOUT") => StatusCode::GATEWAY_TIMEOUT,
            Some("INTERNAL") => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the response as JSON.
    pub(super) fn to_json(&self) -> String {
        String::from_utf8(self.framed(b"", b"")).unwrap_or_else(|error| Self::unwritable(&error))
    }

    /// Returns the response as JSON between two texts.
    pub(super) fn framed(&self, before: &[u8], after: &[u8]) -> Vec<u8> {
        let data = self.data.as_ref().map_or(0, size::of_texts);
        let mut text = Vec::with_capacity(before.len() + ENVELOPE + data + after.len() + ROOM);
        text.extend_from_slice(before);
        if let Err(error) = self.write(&mut text) {
            text.truncate(before.len());
            text.extend_from_slice(Self::unwritable(&error).as_bytes());
        }
        text.extend_from_slice(after);
        text
    }

    /// Returns the response in place of one that can't be written as JSON, which is a defect of the schema.
    fn unwritable(error: &dyn std::error::Error) -> String {
        tracing::error!(%error, "a response could not be written as JSON");
        format!(r#"{{"errors":[{{"message":"{INTERNAL}","extensions":{{"code":"INTERNAL","retryable":false}}}}]}}"#)
    }
}

impl From<OperationError> for Reply {
    fn from(error: OperationError) -> Self {
        let mut errors = error.into_errors();
        for error in &mut errors {
            shorten(&mut error.message);
        }
        Self { errors, ..Self::default() }
    }
}

impl From<Response> for Reply {
    fn from(mut response: Response) -> Self {
        let refused = response.data == Value::Null
            && !response.errors.is_empty()
            && response.errors.iter().all(|error| error.path.is_empty());
        response.errors.truncate(MAX_ERRORS);
        response.errors.iter_mut().for_each(settle);
        let extensions = response.extensions.into_iter();
        Self {
            errors: response.errors,
            data: (!refused).then_some(response.data),
            extensions: extensions.filter_map(|(name, value)| Some((name, value.into_json().ok()?))).collect(),
            headers: response.http_headers,
        }
    }
}

const INTERNAL: &str = "The server failed to process the request; the error is logged. Try again later.";

/// Sets the code of an error of the executor, and shortens its message.
fn settle(error: &mut ServerError) {
    if code(error).is_none() && error.path.is_empty() {
        set_code(error, "GRAPHQL_VALIDATION_FAILED");
    } else if code(error).is_none() {
        tracing::error!(message = %error.message, path = ?error.path, "a resolver returned an error without a code");
        INTERNAL.clone_into(&mut error.message);
        set_code(error, "INTERNAL");
    }
    shorten(&mut error.message);
}

pub(super) fn code(error: &ServerError) -> Option<&str> {
    match error.extensions.as_ref()?.get("code")? {
        Value::String(code) => Some(code),
        Value::Enum(code) => Some(code),
        _ => None,
    }
}

pub(super) fn set_code(error: &mut ServerError, code: &str) {
    let extensions = error.extensions.get_or_insert_with(ErrorExtensionValues::default);
    extensions.set("code", code);
    extensions.set("retryable", RETRYABLE.contains(&code));
}

fn shorten(message: &mut String) {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push('…');
    }
}
