//! The answer to one operation, in the form that every transport sends. Bytes in its data are JSON text.
//!
//! Each error carries an `extensions.code`. What a resolver coded is kept. An error without a code and without a path was
//! found by the executor in the request itself. An error without a code that has a path comes from a resolver that did not
//! mean it for the client: it is logged here, once, and told as `INTERNAL`.

use async_graphql::{ErrorExtensionValues, Response, ServerError, Value};
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::invalid::Invalid;
use super::request_id::RequestId;
use super::size;
use noetl_json as json;

/// Errors of one answer. Those of validation are bounded by [`errors`](super::Limits::errors).
const MAX_ERRORS: usize = 100;
/// Bytes of an error's message: the parser's messages quote the line.
const MAX_MESSAGE: usize = 1_000;
/// Bytes around the data of a response without errors.
const ENVELOPE: usize = r#"{"data":}"#.len();

/// An answer; without `data` the operation did not run, or did not run to its end.
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
    /// The operation ran into its deadline.
    pub(super) fn timeout() -> Self {
        Self::fault("TIMEOUT", "The operation did not finish in time; ask for less, or try again later.")
    }

    /// A mutation ran into its deadline: it may have had its effect. `advice` says how to find out.
    pub(super) fn outcome_unknown(advice: &[&str]) -> Self {
        let unknown = "The mutation did not finish in time, so its outcome is unknown: it may have taken effect.";
        let mut reply = Self::fault("TIMEOUT", [&[unknown], advice].concat().join(" "));
        for error in &mut reply.errors {
            error.extensions.get_or_insert_default().set("outcomeUnknown", true);
        }
        reply
    }

    /// The caller's admission has ended.
    pub(super) fn expired() -> Self {
        Self::fault("UNAUTHENTICATED", "The token has expired or was withdrawn; connect again with a valid one.")
    }

    /// The operation failed for no fault of the client's.
    pub(super) fn internal() -> Self {
        Self::fault("INTERNAL", INTERNAL)
    }

    /// An answer that is one error.
    pub(super) fn fault(code: &str, message: impl Into<String>) -> Self {
        let mut error = ServerError::new(message, None);
        set_code(&mut error, code);
        Self { errors: vec![error], ..Self::default() }
    }

    /// Says in each error `INTERNAL` the request whose log lines tell the cause.
    pub(super) fn name_request(&mut self, id: &RequestId) {
        for error in self.errors.iter_mut().filter(|error| code(error) == Some("INTERNAL")) {
            error.extensions.get_or_insert_default().set("requestId", id.as_str());
        }
    }

    /// Whether the response has at most `limit` bytes.
    pub(super) fn fits(&self, limit: usize) -> bool {
        let bare = self.errors.is_empty() && self.extensions.is_empty();
        let small = |data: &Value| size::at_most(data) + ENVELOPE <= limit;
        bare && self.data.as_ref().is_none_or(small) || size::fits(self, limit)
    }

    /// Whether the operation ran.
    pub(super) fn executed(&self) -> bool {
        self.data.is_some()
    }

    /// The code of the first error.
    pub(super) fn code(&self) -> Option<&str> {
        self.errors.first().and_then(code)
    }

    /// The status under `application/graphql-response+json` (GraphQL over HTTP, section 6.4.2).
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

    /// The answer as JSON. A value that JSON can't hold is a fault of the schema.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| {
            tracing::error!(%error, "an answer could not be written as JSON");
            format!(r#"{{"errors":[{{"message":"{INTERNAL}","extensions":{{"code":"INTERNAL"}}}}]}}"#)
        })
    }
}

impl From<Invalid> for Reply {
    fn from(invalid: Invalid) -> Self {
        let mut errors = invalid.into_errors();
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

const INTERNAL: &str = "The server failed to answer; the fault is logged. Try again later.";

/// Gives an error of the executor its code.
fn settle(error: &mut ServerError) {
    if code(error).is_none() && error.path.is_empty() {
        set_code(error, "GRAPHQL_VALIDATION_FAILED");
    } else if code(error).is_none() {
        tracing::error!(message = %error.message, path = ?error.path, "a resolver failed without a code");
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
    error.extensions.get_or_insert_with(ErrorExtensionValues::default).set("code", code);
}

fn shorten(message: &mut String) {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push('…');
    }
}
