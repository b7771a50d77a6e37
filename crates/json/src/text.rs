//! JSON that is carried as text.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde_json::{Value, json};

use crate::check::{Unrepresentable, readable};

/// JSON text of a database or a message that all common parsers can read. It is passed on unchanged, with every digit
/// of its numbers, and is parsed only by code that needs its content. Clones share their memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(ByteString);

/// JSON that parsers can't read: it is nested too deeply, has a number beyond 64-bit floats, or half a surrogate pair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("JSON that can't be read: {0}")]
pub struct Unreadable(Unrepresentable);

impl Text {
    /// Checks the text of JSON. The allowed depth is smaller than that of common parsers, because the text is embedded
    /// in a response or an event.
    pub fn new(json: &str) -> Result<Self, Unreadable> {
        Self::shared(json.into())
    }

    /// Checks the text of JSON as [`Self::new`] does. The result shares the memory of `json`.
    pub fn shared(json: ByteString) -> Result<Self, Unreadable> {
        readable(json.as_bytes()).map_err(Unreadable)?;
        // In valid JSON a line break is only space between tokens. It would end a line of an event stream.
        Ok(Self(if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json }))
    }

    /// Checks the text of JSON. Returns an error value in its place if parsers can't read it.
    #[must_use]
    pub fn or_error_value(json: &str) -> Self {
        Self::new(json).unwrap_or_else(|unreadable| unreadable.to_error_value())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as bytes that share its memory.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.as_bytes().clone()
    }

    /// Returns whether the text is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Parses the text and returns its value.
    #[must_use]
    pub fn read(&self) -> Value {
        super::read(&self.0).unwrap_or_else(|error| marker(&error.to_string()))
    }
}

impl Unreadable {
    /// Returns the value that replaces the JSON: `{"error": {"code": "UNREADABLE", "message": …}}`.
    #[must_use]
    pub fn to_error_value(&self) -> Text {
        Text(marker(&self.to_string()).to_string().into())
    }
}

fn marker(message: &str) -> Value {
    json!({ "error": { "code": "UNREADABLE", "message": message } })
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
