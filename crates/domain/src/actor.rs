//! Callers that cause events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Key of an event's `meta` for the caller that caused the event.
pub const META_KEY: &str = "actor";

/// Caller that causes events, identified by its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Actor(Arc<str>);

impl From<String> for Actor {
    fn from(subject: String) -> Self {
        Self(subject.into())
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> Self {
        actor.subject().to_owned()
    }
}

impl Actor {
    /// Returns the caller with this subject.
    #[must_use]
    pub fn new(subject: impl Into<Arc<str>>) -> Self {
        Self(subject.into())
    }

    /// Returns the subject of the caller.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0
    }

    /// Adds the caller to the JSON text of an event's `meta`, which must be a map without a caller.
    #[must_use]
    pub fn sign(&self, meta: Option<&str>) -> String {
        let subject = Value::from(self.subject());
        match meta.and_then(|text| text.trim_start().strip_prefix('{')).map(str::trim_start) {
            None | Some("}") => format!("{{\"{META_KEY}\":{subject}}}"),
            Some(members) => format!("{{\"{META_KEY}\":{subject},{members}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sign_adds_only_the_caller() {
        let actor = Actor::new("ann \"the\" worker");
        for meta in [json!({}), json!({"a": 1}), json!({"a": {"actor": 2}, "b": []})] {
            let mut expected = meta.clone();
            expected["actor"] = actor.subject().into();
            let signed: Value = serde_json::from_str(&actor.sign(Some(&meta.to_string()))).unwrap();
            assert_eq!(signed, expected);
        }
        assert_eq!(Actor::new("a").sign(None), r#"{"actor":"a"}"#);
    }

    #[test]
    fn stored_form_of_a_caller_is_its_subject() {
        let actor = Actor::new("ann");
        let stored = serde_json::to_string(&actor).unwrap();
        assert_eq!(stored, r#""ann""#);
        assert_eq!(serde_json::from_str::<Actor>(&stored).unwrap(), actor);
    }
}
