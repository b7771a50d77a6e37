//! JSON that is carried as its text.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// JSON as the text that a database or a message holds. It is copied unchanged to where it goes, so depth, numbers and
/// keys don't matter; it is read only where something looks inside.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(Arc<str>);

/// JSON that this program can't read: it is nested too deeply, or has a number beyond 64-bit floats.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("JSON that can't be read: {0}")]
pub struct Unreadable(String);

impl Text {
    /// The text, which must be JSON.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the text.
    pub fn read(&self) -> Result<Value, Unreadable> {
        super::read(&self.0).map_err(|error| Unreadable(error.to_string()))
    }

    /// Whether the text is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }
}

impl From<&Value> for Text {
    fn from(value: &Value) -> Self {
        Self::new(value.to_string())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
