//! Requests to run executions again.

use serde_json::Value;

use super::request::Dedup;
use noetl_domain::ids::Id;
use noetl_domain::trace_context::TraceContext;

/// A request to run an execution again.
#[derive(Debug, Clone)]
pub struct RerunRequest {
    /// The origin: the execution to run again.
    pub id: Id,
    /// Map that overlays the workload of the origin, key by key.
    pub workload: Option<Value>,
    /// Whether to run the newest version of the origin's catalog path, and not the version that the origin ran, which must
    /// not be retired.
    pub newest_version: bool,
    /// Pool of the workers; absent: that of the origin.
    pub execution_pool: Option<String>,
    /// Trace context; absent: that of the current span.
    pub trace: Option<TraceContext>,
    /// Dedup key and window; absent: no deduplication.
    pub dedup: Option<Dedup>,
}
