//! Executions: their statuses, and the data that starts one.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::actor::{Actor, META_KEY};
use super::ids::Id;
use super::labels::Labels;
use super::tenant::{DEFAULT, Tenancy};
use plain_json::{self as json, Typed};

/// Pool of the workers that run an execution if the request names none.
pub const DEFAULT_POOL: &str = "shared";
/// Dedup window in seconds if neither the request nor the subscription sets one.
pub const DEFAULT_WINDOW_SECONDS: u32 = 300;
/// Value of `meta.emitter` in the events of this server.
pub const EMITTER: &str = "control_plane";
/// Type of an execution's first event.
pub const STARTED: &str = "playbook_started";
/// Type of the first event of an execution that NoETL's Python engine started.
pub const INITIALIZED: &str = "playbook.initialized";
/// Type of the event that cancels an execution.
pub const CANCELLED: &str = "playbook.cancelled";

/// Types of the events that end an execution, with the status after each. This server writes only [`CANCELLED`].
///
/// Statements repeat this list, because an index on these types is used only by queries that name them; a test of the
/// storage layer compares the lists.
pub const ENDINGS: [(&str, Status); 9] = [
    ("playbook_completed", Status::Completed),
    ("playbook.completed", Status::Completed),
    ("workflow.completed", Status::Completed),
    ("playbook_failed", Status::Failed),
    ("playbook.failed", Status::Failed),
    ("workflow.failed", Status::Failed),
    (CANCELLED, Status::Cancelled),
    ("playbook_cancelled", Status::Cancelled),
    ("execution.cancelled", Status::Cancelled),
];

/// Returns the status after an event that ends an execution; `None`: an event of this type ends none.
#[must_use]
pub fn ended_by(event_type: &str) -> Option<Status> {
    ENDINGS.iter().find(|(name, _)| *name == event_type).map(|(_, status)| *status)
}

/// Source of the status of an execution that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatusSource {
    /// The event that ended it.
    #[default]
    End,
    /// Its events: it is failed if one of them has the status of a failure, independent of the event that ended it.
    /// NoETL's setting `NOETL_EXECUTION_STATUS_FROM_STEPS`.
    Steps,
}

/// Catalog kinds that can be executed.
pub const EXECUTABLE_KINDS: [&str; 2] = ["playbook", "agent"];

/// Status of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// No step has begun: no worker has taken the first command.
    Pending,
    /// A step has begun, and the execution has not ended.
    Running,
    /// Ended successfully.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Cancelled by a caller or another server.
    Cancelled,
    /// Stored under a name that this server does not know.
    Unknown,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::Cancelled, Self::Unknown];

    /// Returns the name that this server stores.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.stored_names()[0]
    }

    /// Returns the names of the status in stored rows, in capitals. This server writes the first one; NoETL's servers
    /// also write the others.
    #[must_use]
    pub const fn stored_names(self) -> &'static [&'static str] {
        match self {
            Self::Pending => &["PENDING", "INITIALIZED", "CREATED"],
            Self::Running => &["RUNNING", "STARTED", "IN_PROGRESS"],
            Self::Completed => &["COMPLETED", "SUCCESS"],
            Self::Failed => &["FAILED", "ERROR"],
            Self::Cancelled => &["CANCELLED", "CANCELED"],
            Self::Unknown => &["UNKNOWN"],
        }
    }

    /// Returns the status with a stored name, in any case. An unknown name is not an error, because other servers write
    /// to the same tables.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        let name = name.to_ascii_uppercase();
        let meant = |status: &Self| status.stored_names().contains(&name.as_str());
        Self::ALL.into_iter().find(meant).unwrap_or(Self::Unknown)
    }

    /// Returns whether the status is final.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// All data that creates one execution. A dedup claim stores it, so that any replica can finish the creation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Creation {
    /// Preallocated id of the execution.
    pub execution_id: Id,
    /// Preallocated id of the started event.
    pub event_id: Id,
    /// The parent: a subscription or an execution.
    pub parent_execution_id: Option<Id>,
    /// Id of the resolved catalog entry.
    pub catalog_id: Id,
    /// Path of the entry.
    pub path: String,
    /// Workload of the entry, overlaid with the request's.
    #[serde(deserialize_with = "json::map")]
    pub workload: Map<String, Value>,
    /// Pool that the request named.
    pub pool: Option<String>,
    /// W3C trace context: the request's, the parent's, or that of the span that started the execution.
    #[serde(default, deserialize_with = "json::option")]
    pub trace: Option<Value>,
    /// Time of the request.
    pub emitted_at: DateTime<Utc>,
    /// Caller of the request; `None`: it was not identified.
    #[serde(default)]
    pub actor: Option<Actor>,
    /// Tenant and organization of the execution.
    #[serde(default)]
    pub tenancy: Tenancy,
    /// Execution of which this one is a rerun.
    #[serde(default)]
    pub rerun_of: Option<Id>,
    /// Labels of the execution.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Dedup key under which the execution was claimed.
    #[serde(default)]
    pub dedup: Option<ClaimedKey>,
}

impl Typed for Creation {}

/// Dedup key of an execution, as its started event stores it. A claim that a restored cluster database lacks can be made
/// again from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedKey {
    /// The key. Its scope follows from the parent and the tenant of the execution ([`dedup_scope`]).
    pub key: String,
    /// Dedup window in seconds.
    pub window_seconds: i32,
    /// Hash of the request ([`request_hash`]), in hexadecimal.
    pub request_hash: String,
}

impl Typed for ClaimedKey {}

impl ClaimedKey {
    /// Name of the field in the meta of a started event.
    pub const META_KEY: &str = "dedup";

    /// Creates the stored form of a key.
    #[must_use]
    pub fn new(key: &str, window_seconds: i32, request_hash: [u8; 32]) -> Self {
        Self { key: key.to_owned(), window_seconds, request_hash: hexadecimal(&request_hash) }
    }

    /// Returns the hash of the request; `None` if the stored text is not a hash.
    #[must_use]
    pub fn hash(&self) -> Option<Vec<u8>> {
        let digits: Option<Vec<u32>> = self.request_hash.chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len() == 64)?;
        let bytes = digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok());
        bytes.collect()
    }
}

impl Creation {
    /// Returns the context of the started event.
    #[must_use]
    pub fn context(&self) -> Value {
        json!({
            "catalog_id": self.catalog_id.to_string(),
            "execution_id": self.execution_id.to_string(),
            "path": self.path,
            "workload": self.workload,
        })
    }

    /// Returns the meta of the started event.
    #[must_use]
    pub fn meta(&self) -> Value {
        let mut meta = emitted(self.emitted_at, self.actor.as_ref());
        insert_present(&mut meta, "execution_pool", self.pool.clone().map(Value::from));
        insert_present(&mut meta, "trace", self.trace.clone());
        insert_present(&mut meta, "rerun_of", self.rerun_of.map(|id| id.to_string().into()));
        insert_present(&mut meta, Labels::META_KEY, self.labels.to_stored());
        insert_present(&mut meta, ClaimedKey::META_KEY, self.dedup.as_ref().map(|claimed| json!(claimed)));
        Value::Object(meta)
    }

    /// Returns the subject to which the pool's workers listen.
    #[must_use]
    pub fn notification_subject(&self) -> String {
        format!("noetl.executions.{}.{}", self.pool(), self.execution_id)
    }

    /// Returns the message that notifies the workers.
    #[must_use]
    pub fn command(&self) -> Value {
        let Value::Object(mut command) = json!({
            "execution_id": self.execution_id.to_string(),
            "event_id": self.event_id.to_string(),
            "catalog_id": self.catalog_id.to_string(),
            "path": self.path,
            "pool": self.pool(),
            "tenant_id": self.tenancy.tenant_id,
            "organization_id": self.tenancy.organization_id,
        }) else {
            return Value::Null;
        };
        insert_present(&mut command, "trace", self.trace.clone());
        Value::Object(command)
    }

    /// Returns the approximate memory of the request in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        memory_of_map(&self.workload) + self.trace.as_ref().map_or(0, memory)
    }

    fn pool(&self) -> &str {
        self.pool.as_deref().unwrap_or(DEFAULT_POOL)
    }
}

/// Returns the approximate memory of a value in bytes.
fn memory(value: &Value) -> usize {
    let parts = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory).sum(),
        Value::Object(map) => memory_of_map(map),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + parts
}

fn memory_of_map(map: &Map<String, Value>) -> usize {
    map.iter().map(|(key, value)| size_of::<String>() + key.len() + memory(value)).sum()
}

fn insert_present(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value);
    }
}

/// Returns the `meta` that is common to the events of this server, with the caller if it is identified.
#[must_use]
pub fn emitted(at: DateTime<Utc>, by: Option<&Actor>) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("emitted_at".to_owned(), at.to_rfc3339_opts(SecondsFormat::Micros, true).into());
    meta.insert("emitter".to_owned(), EMITTER.into());
    insert_present(&mut meta, META_KEY, by.map(|actor| actor.subject().into()));
    meta
}

/// Returns the workload of a catalog entry's document, overlaid key by key with the request's.
#[must_use]
pub fn overlay(defaults: Option<&Value>, request: Map<String, Value>) -> Map<String, Value> {
    let defaults = defaults.and_then(Value::as_object);
    let mut workload = defaults.cloned().unwrap_or_default();
    workload.extend(request);
    workload
}

/// Returns the hash that distinguishes different requests under one dedup key: SHA-256 of the JSON with sorted keys.
#[must_use]
pub fn request_hash(request: &Value) -> [u8; 32] {
    Sha256::digest(request.to_string()).into()
}

/// Returns bytes in hexadecimal.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// Returns the scope in which a dedup key is unique: the parent, or without a parent the tenant. The tenant `default`
/// has the scope 0, as in NoETL. Another tenant has a negative number, the start of the SHA-256 hash of its name; no id
/// is negative.
#[must_use]
pub fn dedup_scope(parent: Option<Id>, tenant: &str) -> i64 {
    match parent {
        Some(parent) => parent.get(),
        None if tenant == DEFAULT => 0,
        None => {
            let hash: [u8; 32] = Sha256::digest(tenant).into();
            let (start, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
            i64::from_be_bytes(*start) | i64::MIN
        }
    }
}

/// Returns whether a text is a pool name: 1 to 64 ASCII letters, digits, `-` and `_`. It becomes a token of a NATS
/// subject.
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
    fn request_overlays_the_catalog_entry_key_by_key() {
        let defaults = json!({"a": 1, "b": {"c": 2}});
        let merged = overlay(Some(&defaults), map(json!({"b": {"d": 3}, "e": 4})));
        assert_eq!(Value::Object(merged), json!({"a": 1, "b": {"d": 3}, "e": 4}));
        assert_eq!(overlay(None, map(json!({"x": 1}))), map(json!({"x": 1})));
    }

    #[test]
    fn every_stored_name_has_its_status_and_any_other_name_is_unknown() {
        for status in Status::ALL {
            for name in status.stored_names() {
                assert_eq!(Status::from_stored(&name.to_lowercase()), status);
            }
        }
        for name in ["", "SUSPENDED", "done", "unknown"] {
            assert_eq!(Status::from_stored(name), Status::Unknown);
        }
        assert!(!Status::Unknown.is_terminal(), "it is not known to be an end");
    }

    #[test]
    fn hash_does_not_depend_on_the_order_of_keys() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":{"x":1,"y":2}}"#).unwrap();
        let same: Value = serde_json::from_str(r#"{"b":{"y":2,"x":1},"a":1}"#).unwrap();
        assert_eq!(request_hash(&one), request_hash(&same));
        assert_ne!(request_hash(&one), request_hash(&json!({"a": 1})));
    }

    #[test]
    fn completed_failed_and_cancelled_executions_have_ended() {
        let ended: Vec<Status> = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
        assert_eq!(ended, [Status::Completed, Status::Failed, Status::Cancelled]);
    }

    #[test]
    fn an_ending_event_determines_the_status() {
        for (event_type, status) in [
            ("playbook_completed", Some(Status::Completed)),
            ("playbook.failed", Some(Status::Failed)),
            ("playbook.cancelled", Some(Status::Cancelled)),
            ("playbook_started", None),
            ("command.failed", None),
            ("playbook", None),
        ] {
            assert_eq!(ended_by(event_type), status, "{event_type}");
        }
    }

    #[test]
    fn dedup_keys_without_a_parent_are_unique_within_a_tenant() {
        assert_eq!(dedup_scope(None, DEFAULT), 0);
        assert_eq!((dedup_scope(Some(Id::new(7)), "acme"), dedup_scope(Some(Id::new(7)), DEFAULT)), (7, 7));
        let (acme, globex) = (dedup_scope(None, "acme"), dedup_scope(None, "globex"));
        assert!(acme < 0 && globex < 0 && acme != globex);
        assert_eq!(acme, -9_067_096_604_380_411_744, "stored claims have this scope");
    }

    #[test]
    fn pool_names_are_1_to_64_letters_digits_hyphens_and_underscores() {
        for name in ["a", "Z", "0", "-", "_", "gpu-A100_2", &"x".repeat(64)] {
            assert!(is_pool_name(name), "{name:?}");
        }
        for name in ["", &"x".repeat(65), "a.b", "a b", "a*", ">", "a/b", "größe", "a\n"] {
            assert!(!is_pool_name(name), "{name:?}");
        }
    }
}
