//! Requests to run executions again, and their results.

use serde_json::Value;

use super::request::{Dedup, check_dedup, check_labels, check_pool, check_workload};
use super::start::Executed;
use crate::error::{Rejection, ServiceError};
use noetl_domain::ids::Id;
use noetl_domain::labels::Label;
use noetl_domain::trace_context::TraceContext;

/// Maximum size in bytes of the part of a dedup key that several reruns share. A colon and the id of the origin follow.
const MAX_SHARED_KEY_BYTES: usize = 1000;

/// Manner in which executions, the origins, are run again.
#[derive(Debug, Clone, Default)]
pub struct Rerunning {
    /// Map that overlays the workload of the origin, key by key.
    pub workload: Option<Value>,
    /// Whether to run the newest version of the origin's catalog path, and not the version that the origin ran, which must
    /// not be retired.
    pub newest_version: bool,
    /// Pool of the workers; absent: that of the origin.
    pub execution_pool: Option<String>,
    /// Trace context; absent: that of the current span.
    pub trace: Option<TraceContext>,
    /// Labels of the new execution; absent: those of the origin.
    pub labels: Option<Vec<Label>>,
    /// Dedup key and window; absent: no deduplication.
    pub dedup: Option<RerunDedup>,
}

/// Dedup keys of reruns.
#[derive(Debug, Clone)]
pub enum RerunDedup {
    /// The key of one rerun.
    One(Dedup),
    /// Each of several reruns has its own key: this key, a colon and the id of its origin.
    Each(Dedup),
}

impl RerunDedup {
    /// Returns the key and the window of the rerun of an execution.
    #[must_use]
    pub fn of(&self, origin: Id) -> Dedup {
        match self {
            Self::One(dedup) => dedup.clone(),
            Self::Each(shared) => Dedup { key: format!("{}:{origin}", shared.key), ..shared.clone() },
        }
    }

    /// Returns the length of the window in seconds, if the request has it.
    #[must_use]
    pub const fn window_seconds(&self) -> Option<i64> {
        match self {
            Self::One(dedup) | Self::Each(dedup) => dedup.window_seconds,
        }
    }

    fn check(&self) -> Result<(), Rejection> {
        match self {
            Self::Each(shared) if shared.key.len() > MAX_SHARED_KEY_BYTES => {
                let message = format!(
                    "the dedup key of several reruns has 1 to {MAX_SHARED_KEY_BYTES} bytes, this one has {}",
                    shared.key.len()
                );
                Err(Rejection::invalid("dedup.key", message))
            }
            Self::One(dedup) | Self::Each(dedup) => check_dedup(dedup),
        }
    }
}

impl Rerunning {
    /// Checks every field that can be checked without the origins.
    pub fn check(&self) -> Result<(), Rejection> {
        check_workload(self.workload.as_ref())?;
        check_pool(self.execution_pool.as_deref())?;
        check_labels(self.labels.as_deref().unwrap_or_default())?;
        self.dedup.as_ref().map_or(Ok(()), RerunDedup::check)
    }
}

/// Result for one of several executions.
#[derive(Debug, Clone)]
pub struct RerunOne {
    /// The execution to run again.
    pub origin: Id,
    /// The rerun, or the reason that none was started. `Ok(None)`: this is a dry run, and a rerun would be started.
    pub outcome: Result<Option<Executed>, ServiceError>,
}
