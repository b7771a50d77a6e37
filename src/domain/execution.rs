//! What it takes to start an execution, and the rows that say it started (SPEC, "Execute, with an opt-in dedup window").

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::actor::{Actor, META_KEY};
use super::ids::Id;
use noetl_json::{self as json, Typed};

/// The pool whose workers run an execution unless the request names another.
pub const DEFAULT_POOL: &str = "shared";
/// The dedup window in seconds when neither the request nor the subscription names one.
pub const DEFAULT_WINDOW_SECONDS: u32 = 300;
/// Who wrote the events of this server, as their `meta.emitter`.
pub const EMITTER: &str = "control_plane";
/// The first event of an execution.
pub const STARTED: &str = "playbook_started";
/// The event that ends an execution from outside.
pub const CANCELLED: &str = "playbook.cancelled";

/// Catalog kinds that can be executed.
pub const EXECUTABLE_KINDS: [&str; 2] = ["playbook", "agent"];

/// Where an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Accepted, not begun.
    Pending,
    /// Begun, not ended.
    Running,
    /// Ended as intended.
    Completed,
    /// Ended by a failure.
    Failed,
    /// Ended from outside.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// The name that this server stores.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.stored_names()[0]
    }

    /// The names that stored rows use for it, in capitals; the first is ours, the others are of NoETL's servers.
    #[must_use]
    pub const fn stored_names(self) -> &'static [&'static str] {
        match self {
            Self::Pending => &["PENDING", "INITIALIZED", "CREATED"],
            Self::Running => &["RUNNING", "STARTED", "IN_PROGRESS"],
            Self::Completed => &["COMPLETED", "SUCCESS"],
            Self::Failed => &["FAILED", "ERROR"],
            Self::Cancelled => &["CANCELLED", "CANCELED"],
        }
    }

    /// The status that a stored name means; an unknown name is read as running, as it does not say that it ended.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        let name = name.to_ascii_uppercase();
        let meant = |status: &Self| status.stored_names().contains(&name.as_str());
        Self::ALL.into_iter().find(meant).unwrap_or(Self::Running)
    }

    /// Whether nothing follows.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Everything that creates one execution. A dedup claim stores it, so that anybody can finish what its claimant began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Creation {
    /// Preallocated.
    pub execution_id: Id,
    /// Preallocated, of the started event.
    pub event_id: Id,
    /// The subscription or execution that it belongs to.
    pub parent_execution_id: Option<Id>,
    /// The resolved catalog entry.
    pub catalog_id: Id,
    /// The entry's path.
    pub path: String,
    /// The entry's workload overlaid by the request's.
    #[serde(deserialize_with = "json::map")]
    pub workload: Map<String, Value>,
    /// The pool that the request named.
    pub pool: Option<String>,
    /// W3C trace context, the request's or the parent's.
    #[serde(default, deserialize_with = "json::option")]
    pub trace: Option<Value>,
    /// When it was asked for.
    pub emitted_at: DateTime<Utc>,
    /// Caller that asked for it; `None`: it was not identified.
    #[serde(default)]
    pub actor: Option<Actor>,
}

impl Typed for Creation {}

impl Creation {
    /// The started event's context.
    #[must_use]
    pub fn context(&self) -> Value {
        json!({
            "catalog_id": self.catalog_id.to_string(),
            "execution_id": self.execution_id.to_string(),
            "path": self.path,
            "workload": self.workload,
        })
    }

    /// The started event's meta.
    #[must_use]
    pub fn meta(&self) -> Value {
        let mut meta = emitted(self.emitted_at, self.actor.as_ref());
        insert_present(&mut meta, "execution_pool", self.pool.clone().map(Value::from));
        insert_present(&mut meta, "trace", self.trace.clone());
        Value::Object(meta)
    }

    /// The subject that the pool's workers listen on.
    #[must_use]
    pub fn command_subject(&self) -> String {
        format!("noetl.commands.{}.{}", self.pool(), self.execution_id)
    }

    /// The workers' notification.
    #[must_use]
    pub fn command(&self) -> Value {
        let Value::Object(mut command) = json!({
            "execution_id": self.execution_id.to_string(),
            "event_id": self.event_id.to_string(),
            "catalog_id": self.catalog_id.to_string(),
            "path": self.path,
            "pool": self.pool(),
        }) else {
            return Value::Null;
        };
        insert_present(&mut command, "trace", self.trace.clone());
        Value::Object(command)
    }

    fn pool(&self) -> &str {
        self.pool.as_deref().unwrap_or(DEFAULT_POOL)
    }
}

fn insert_present(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value);
    }
}

/// The `meta` that every event of this server carries, with the caller that caused the event, if it is identified.
#[must_use]
pub fn emitted(at: DateTime<Utc>, by: Option<&Actor>) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("emitted_at".to_owned(), at.to_rfc3339_opts(SecondsFormat::Micros, true).into());
    meta.insert("emitter".to_owned(), EMITTER.into());
    insert_present(&mut meta, META_KEY, by.map(|actor| actor.subject().into()));
    meta
}

/// The catalog entry's `workload` map overlaid, key by key, by the request's.
#[must_use]
pub fn overlay(catalog_payload: Option<&Value>, request: Map<String, Value>) -> Map<String, Value> {
    let defaults = catalog_payload.and_then(|payload| payload.get("workload")).and_then(Value::as_object);
    let mut workload = defaults.cloned().unwrap_or_default();
    workload.extend(request);
    workload
}

/// The digest that tells whether two requests under one dedup key are the same: SHA-256 of the JSON with sorted keys.
#[must_use]
pub fn request_hash(request: &Value) -> [u8; 32] {
    Sha256::digest(request.to_string()).into()
}

/// A pool name becomes a token of a NATS subject: 1 to 64 letters, digits, `-` and `_`.
#[must_use]
pub fn is_pool_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn the_request_overlays_the_catalog_key_by_key() {
        let payload = json!({"workload": {"a": 1, "b": {"c": 2}}});
        let merged = overlay(Some(&payload), map(json!({"b": {"d": 3}, "e": 4})));
        assert_eq!(Value::Object(merged), json!({"a": 1, "b": {"d": 3}, "e": 4}));
        assert_eq!(overlay(None, map(json!({"x": 1}))), map(json!({"x": 1})));
    }

    #[test]
    fn the_hash_does_not_depend_on_the_order_of_keys() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":{"x":1,"y":2}}"#).unwrap();
        let same: Value = serde_json::from_str(r#"{"b":{"y":2,"x":1},"a":1}"#).unwrap();
        assert_eq!(request_hash(&one), request_hash(&same));
        assert_ne!(request_hash(&one), request_hash(&json!({"a": 1})));
    }

    #[test]
    fn unknown_stored_statuses_do_not_end_an_execution() {
        assert_eq!(Status::from_stored("started"), Status::Running);
        assert_eq!(Status::from_stored("whatever"), Status::Running);
        assert_eq!(Status::from_stored("Canceled"), Status::Cancelled);
    }
}
