//! Requests to start executions, and their validation, which comes before all other steps.

use serde_json::{Map, Value, json};

use crate::service::bounds::{check_json, check_text};
use crate::service::catalog::check_path;
use crate::service::error::Rejection;
use noetl_domain::execution::{Creation, is_pool_name, request_hash};
use noetl_domain::ids::Id;

/// Maximum number of requests in one batch.
pub const MAX_BATCH: usize = 1000;
/// Maximum size in bytes of a workload or a trace as JSON.
pub const MAX_WORKLOAD_BYTES: usize = 4 << 20;
/// Maximum size of a dedup key in bytes.
const MAX_KEY_BYTES: usize = 1024;
/// Longest dedup window in seconds: 30 days.
const MAX_WINDOW_SECONDS: i64 = 30 * 24 * 3600;

/// A request to start an execution.
#[derive(Debug, Clone, Default)]
pub struct ExecuteRequest {
    /// Path of the catalog entry, of which the newest version runs. Exactly one of `path` and `catalog_id` is set.
    pub path: Option<String>,
    /// Id of the catalog entry to run.
    pub catalog_id: Option<Id>,
    /// Map that overlays the catalog entry's workload, key by key.
    pub workload: Option<Value>,
    /// The parent: a subscription or an execution.
    pub parent_execution_id: Option<Id>,
    /// Pool of the workers that run the execution; absent: the default pool.
    pub execution_pool: Option<String>,
    /// W3C trace context; absent: the parent's, else that of the current span.
    pub trace: Option<Value>,
    /// Dedup key and window; absent: no deduplication.
    pub dedup: Option<Dedup>,
}

/// A dedup key with its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dedup {
    /// Key that identifies a message within its parent (1 to 1024 bytes).
    pub key: String,
    /// Time in seconds for which the key is kept (1 to 2592000, default: the subscription's `dedup.window_secs`, else
    /// 300).
    pub window_seconds: Option<i64>,
}

/// Reference to the catalog entry to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Path(String),
    Catalog(Id),
}

/// A valid request.
#[derive(Debug, Clone)]
pub(super) struct ValidRequest {
    pub(super) target: Target,
    pub(super) workload: Map<String, Value>,
    pub(super) parent: Option<Id>,
    pub(super) pool: Option<String>,
    pub(super) trace: Option<Value>,
    pub(super) dedup: Option<Dedup>,
    /// Hash of the request before the catalog entry is resolved, so a later catalog version does not change it.
    pub(super) hash: [u8; 32],
}

/// A resolved request with the ids of its execution.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) position: usize,
    pub(super) creation: Creation,
    pub(super) dedup: Option<Dedup>,
    pub(super) window_seconds: i32,
    pub(super) hash: [u8; 32],
}

impl ExecuteRequest {
    pub(super) fn validate(self) -> Result<ValidRequest, Rejection> {
        let target = target(self.path, self.catalog_id)?;
        let workload = workload(self.workload)?;
        self.trace.as_ref().map_or(Ok(()), |trace| check_json("trace", trace, MAX_WORKLOAD_BYTES))?;
        if self.trace.as_ref().is_some_and(|trace| !trace.is_object()) {
            return Err(Rejection::invalid("trace", "trace must be a map, such as {\"traceparent\": \"00-…\"}"));
        }
        if self.execution_pool.as_ref().is_some_and(|pool| !is_pool_name(pool)) {
            let message = "a pool's name has 1 to 64 letters, digits, - and _";
            return Err(Rejection::invalid("executionPool", message));
        }
        self.dedup.as_ref().map(check_dedup).transpose()?;
        let named = match &target {
            Target::Path(path) => json!({ "path": path }),
            Target::Catalog(id) => json!({ "catalog_id": id }),
        };
        // Without the trace, which can differ when the same message is delivered again.
        let hash = request_hash(&json!([named, workload, self.parent_execution_id, self.execution_pool]));
        Ok(ValidRequest {
            target,
            workload,
            parent: self.parent_execution_id,
            pool: self.execution_pool,
            trace: self.trace,
            dedup: self.dedup,
            hash,
        })
    }
}

fn target(path: Option<String>, catalog_id: Option<Id>) -> Result<Target, Rejection> {
    match (path, catalog_id) {
        (Some(path), None) => check_path(&path).map(|()| Target::Path(path)),
        (None, Some(id)) => Ok(Target::Catalog(id)),
        (Some(_), Some(_)) => Err(Rejection::invalid("path", "give either path or catalogId, not both")),
        (None, None) => Err(Rejection::invalid("path", "give path or catalogId")),
    }
}

fn workload(given: Option<Value>) -> Result<Map<String, Value>, Rejection> {
    let given = given.unwrap_or_default();
    check_json("workload", &given, MAX_WORKLOAD_BYTES)?;
    match given {
        Value::Null => Ok(Map::new()),
        Value::Object(map) => Ok(map),
        _ => Err(Rejection::invalid("workload", "workload must be a map")),
    }
}

fn check_dedup(dedup: &Dedup) -> Result<(), Rejection> {
    if dedup.key.is_empty() || dedup.key.len() > MAX_KEY_BYTES {
        let message = format!("a dedup key has 1 to {MAX_KEY_BYTES} bytes, this one has {}", dedup.key.len());
        return Err(Rejection::invalid("dedup.key", message));
    }
    check_text("dedup.key", &dedup.key)?;
    match dedup.window_seconds {
        Some(seconds) if !(1..=MAX_WINDOW_SECONDS).contains(&seconds) => {
            let message = format!("a dedup window has 1 to {MAX_WINDOW_SECONDS} seconds, not {seconds}");
            Err(Rejection::invalid("dedup.windowSeconds", message))
        }
        _ => Ok(()),
    }
}
