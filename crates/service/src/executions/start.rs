//! Execution that a valid request starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_domain::execution::Creation;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::Executed;

/// Results of requests, by their position in the batch.
pub(super) type Results = BTreeMap<usize, Result<Executed, ServiceError>>;

/// The execution that a valid request starts, unless its dedup key belongs to another one.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) position: usize,
    pub(super) creation: Arc<Creation>,
    /// Whether the catalog entry is the newest of its path only according to the cache.
    pub(super) must_be_newest: bool,
    pub(super) key: Option<DedupKey>,
    pub(super) window_seconds: i32,
    pub(super) request_hash: [u8; 32],
    pub(super) rejects_different: bool,
}

/// A dedup key within its scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DedupKey {
    /// The parent execution or subscription; 0 or a negative number if there is none (see [`dedup_scope`]).
    ///
    /// [`dedup_scope`]: noetl_domain::execution::dedup_scope
    pub(super) scope: i64,
    pub(super) key: String,
}
