//! Requests to start executions, and the checks that come before all other steps.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::bounds::{check_json, check_text};
use crate::catalog::check_path;
use crate::error::Rejection;
use crate::tenancy;
use noetl_domain::execution::{is_pool_name, request_hash};
use noetl_domain::ids::Id;
use noetl_domain::labels::{Label, Labels, MAX_LABELS, is_label_name, is_label_value};
use noetl_domain::tenant::NamedTenancy;
use noetl_domain::trace_context::TraceContext;

/// Maximum number of requests in one batch.
pub const MAX_BATCH: usize = 1000;
/// Maximum size in bytes of a workload as JSON, and of a trace that is inherited.
pub const MAX_WORKLOAD_BYTES: usize = 4 << 20;
/// Maximum size of a dedup key in bytes.
const MAX_KEY_BYTES: usize = 1024;
/// Longest dedup window in seconds: 30 days.
pub const MAX_WINDOW_SECONDS: i64 = 30 * 24 * 3600;

/// Catalog entry that an execution runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKey {
    /// The newest version of a path that is not retired.
    Path(String),
    /// The entry with this id, retired or not.
    CatalogId(Id),
}

impl EntryKey {
    /// Returns the path of the input field.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Path(_) => "entry.path",
            Self::CatalogId(_) => "entry.catalogId",
        }
    }

    /// Returns the catalog path, if the entry is named by it.
    #[must_use]
    pub fn path(&self) -> Option<&String> {
        match self {
            Self::Path(path) => Some(path),
            Self::CatalogId(_) => None,
        }
    }

    /// Returns the id of the entry, if it is named by it.
    #[must_use]
    pub const fn catalog_id(&self) -> Option<Id> {
        match self {
            Self::Path(_) => None,
            Self::CatalogId(id) => Some(*id),
        }
    }
}

/// A request to start an execution.
#[derive(Debug, Clone)]
pub struct ExecuteRequest {
    /// The catalog entry to run.
    pub entry: EntryKey,
    /// Map that overlays the catalog entry's workload, key by key.
    pub workload: Option<Value>,
    /// The parent: a subscription or an execution.
    pub parent_execution_id: Option<Id>,
    /// Pool of the workers that run the execution; absent: the default pool.
    pub execution_pool: Option<String>,
    /// Trace context; absent: the parent's, else that of the current span.
    pub trace: Option<TraceContext>,
    /// Dedup key and window; absent: no deduplication.
    pub dedup: Option<Dedup>,
    /// Tenant and organization of the execution; absent: the parent's, else the caller's.
    pub tenancy: NamedTenancy,
    /// Execution of which the new one is a rerun.
    pub rerun_of: Option<Id>,
    /// Labels that the request names.
    pub labels: Vec<Label>,
    /// Whether the execution also has the labels of its parent.
    pub inherit_labels: bool,
    /// Labels of the origin that a rerun keeps.
    pub labels_of_origin: Labels,
    /// Whether a rerun has another workload than its origin.
    pub changes_workload: bool,
}

/// A dedup key with its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dedup {
    /// Key that identifies a message within its parent (1 to 1024 bytes).
    pub key: String,
    /// Time in seconds for which the key is kept (1 to 2592000, default: the subscription's `dedup.window_secs`, else
    /// 300).
    pub window_seconds: Option<i64>,
    /// Whether a request that differs from the first one with this key is rejected. Otherwise it is a duplicate.
    pub reject_different: bool,
}

impl ExecuteRequest {
    /// Checks every field that can be checked without a database.
    pub fn check(&self) -> Result<(), Rejection> {
        if let EntryKey::Path(path) = &self.entry {
            check_path(path).map_err(|rejection| rejection.within("entry"))?;
        }
        check_workload(self.workload.as_ref())?;
        check_pool(self.execution_pool.as_deref())?;
        check_labels(&self.labels)?;
        if self.inherit_labels && self.parent_execution_id.is_none() {
            return Err(Rejection::invalid("inheritLabels", "inheritLabels needs parentExecutionId"));
        }
        tenancy::check(&self.tenancy)?;
        self.dedup.as_ref().map_or(Ok(()), check_dedup)
    }

    /// Returns the labels that the request names.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.labels.iter().cloned().collect()
    }

    /// Returns the hash by which different requests under one dedup key are detected. It is made before the catalog
    /// entry is resolved, so a later version of the entry does not change it. It leaves out the trace, which can differ
    /// when the same message is delivered again.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let entry = match &self.entry {
            EntryKey::Path(path) => json!({ "path": path }),
            EntryKey::CatalogId(id) => json!({ "catalog_id": id }),
        };
        let workload = self.workload.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        let mut parts = vec![entry, workload.into(), json!(self.parent_execution_id), json!(self.execution_pool)];
        let NamedTenancy { tenant_id, organization_id } = &self.tenancy;
        if tenant_id.is_some() || organization_id.is_some() {
            parts.push(json!([tenant_id, organization_id]));
        }
        parts.extend(self.labels().to_stored());
        if self.inherit_labels {
            parts.push(true.into());
        }
        request_hash(&parts.into())
    }
}

/// Checks the labels of a request.
pub(super) fn check_labels(labels: &[Label]) -> Result<(), Rejection> {
    if labels.len() > MAX_LABELS {
        let message = format!("an execution has at most {MAX_LABELS} labels, not {}", labels.len());
        return Err(Rejection::invalid("labels", message));
    }
    let mut names = BTreeSet::new();
    for (index, Label { name, value }) in labels.iter().enumerate() {
        let field = |part: &str| format!("labels.{index}.{part}");
        check_label_name(&field("name"), name)?;
        check_label_value(&field("value"), value)?;
        if !names.insert(name) {
            return Err(Rejection::invalid(&field("name"), format!("there are two labels with the name {name:?}")));
        }
    }
    Ok(())
}

/// Checks the name of a label.
pub fn check_label_name(field: &str, name: &str) -> Result<(), Rejection> {
    if is_label_name(name) {
        return Ok(());
    }
    let message = "a label's name has 1 to 63 characters: a to z, 0 to 9, and after the first one also . _ / and -";
    Err(Rejection::invalid(field, message))
}

/// Checks the value of a label.
pub fn check_label_value(field: &str, value: &str) -> Result<(), Rejection> {
    if is_label_value(value) {
        return Ok(());
    }
    Err(Rejection::invalid(field, "a label's value has 1 to 128 bytes, and no control characters"))
}

/// Checks a workload, or the changes of one.
pub(super) fn check_workload(workload: Option<&Value>) -> Result<(), Rejection> {
    let Some(workload) = workload else { return Ok(()) };
    check_json("workload", workload, MAX_WORKLOAD_BYTES)?;
    if workload.is_object() || workload.is_null() {
        return Ok(());
    }
    Err(Rejection::invalid("workload", "workload must be a map"))
}

/// Checks the name of a pool.
pub(super) fn check_pool(pool: Option<&str>) -> Result<(), Rejection> {
    if pool.is_none_or(is_pool_name) {
        return Ok(());
    }
    Err(Rejection::invalid("executionPool", "a pool's name has 1 to 64 letters, digits, - and _"))
}

/// Checks a dedup key and its window.
pub(super) fn check_dedup(dedup: &Dedup) -> Result<(), Rejection> {
    check_key("dedup.key", &dedup.key)?;
    match dedup.window_seconds {
        Some(seconds) if !(1..=MAX_WINDOW_SECONDS).contains(&seconds) => {
            let message = format!("a dedup window has 1 to {MAX_WINDOW_SECONDS} seconds, not {seconds}");
            Err(Rejection::invalid("dedup.windowSeconds", message))
        }
        _ => Ok(()),
    }
}

/// Checks a dedup key.
pub fn check_key(field: &str, key: &str) -> Result<(), Rejection> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let message = format!("a dedup key has 1 to {MAX_KEY_BYTES} bytes, this one has {}", key.len());
        return Err(Rejection::invalid(field, message));
    }
    check_text(field, key)
}
