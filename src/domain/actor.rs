//! Causes of events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Key of an event's `meta` that names the caller that caused the event.
pub const META_KEY: &str = "actor";

/// Caller that causes events, by its subject.
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

    /// Subject of the caller.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0
    }

    /// Names the caller in an event's `meta`.
    pub fn sign(&self, meta: &mut Map<String, Value>) {
        meta.insert(META_KEY.to_owned(), self.subject().into());
    }
}
