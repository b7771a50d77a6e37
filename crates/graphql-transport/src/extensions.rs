//! The `extensions` of a request.

use std::fmt;

use async_graphql::{Extensions, Name, Value};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use plain_json::{self as json, Borrowed, Typed};

/// Entry that selects a document.
pub(super) const PERSISTED_QUERY: &str = "persistedQuery";
/// Key of the hash in that entry.
pub(super) const SHA256_HASH: &str = "sha256Hash";
/// Entry that identifies the caller's trace, and the name of the header that does.
pub(super) const TRACEPARENT: &str = "traceparent";

/// Entry that asks for the cost of the document; true or false.
pub(super) const COST: &str = "cost";

/// The entries of a request's `extensions` that the server reads. A value of another form becomes null.
#[derive(Debug, Default)]
pub(super) struct KnownExtensions(pub(super) Extensions);

impl Typed for KnownExtensions {}

impl<'de> Deserialize<'de> for KnownExtensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for KnownExtensions {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Self, A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            let text = match name.as_str() {
                PERSISTED_QUERY | TRACEPARENT | COST => members.next_value::<Box<RawValue>>()?,
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let text = text.get().as_bytes();
            let value = match name.as_str() {
                PERSISTED_QUERY => json::borrow(text).ok().map(|PersistedQuery { sha256_hash }| {
                    Value::Object([(Name::new(SHA256_HASH), sha256_hash.into())].into())
                }),
                COST => json::borrow(text).ok().map(|Flag(flag)| Value::Boolean(flag)),
                _ => json::borrow(text).ok().map(|Text(text)| Value::String(text)),
            };
            self.0.insert(name, value.unwrap_or_default());
        }
        Ok(self)
    }
}

/// The part of a persisted query that is read.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct PersistedQuery {
    sha256_hash: String,
}

impl Borrowed<'_> for PersistedQuery {}

#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text(String);

impl Borrowed<'_> for Text {}

#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Flag(bool);

impl Borrowed<'_> for Flag {}
