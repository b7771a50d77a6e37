//! The budget of one operation: the bytes and rows that it may read from the databases, the bytes of its response, and the
//! caller whose share of the connections it uses.
//!
//! A budget is the current one while its operation is polled ([`Budget::enter`]). Each row that a statement returns
//! through a pool is charged to the current budget; work without a budget, such as a background task's, is not limited.
//! An operation that has exceeded a limit starts no further statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limits of one operation, or of one item of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Bytes of the values that the databases return.
    pub read_bytes: u64,
    /// Rows that the databases return.
    pub read_rows: u64,
    /// Bytes of the response as JSON.
    pub response_bytes: u64,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self { read_bytes: 64 << 20, read_rows: 100_000, response_bytes: 32 << 20 }
    }
}

/// An exceeded limit of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {} are limited to {allowed}, not {actual}; {}", limit.noun(), limit.advice())]
pub struct Exceeded {
    /// The limited resource.
    pub limit: Resource,
    /// Maximum amount, in the limit's unit.
    pub allowed: u64,
    /// Amount at which the operation was stopped. The whole operation would use more.
    pub actual: u64,
}

/// A limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Bytes of the values that the databases return.
    ReadBytes,
    /// Rows that the databases return.
    ReadRows,
    /// Bytes of the response.
    ResponseBytes,
    /// Executions that are read on a shard for a history with labels. It is no part of a budget.
    LabelledExecutions,
}

impl Resource {
    /// Returns the stable name for `extensions.limit`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadBytes => "read_bytes",
            Self::ReadRows => "read_rows",
            Self::ResponseBytes => "response_bytes",
            Self::LabelledExecutions => "labelled_executions",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::ReadBytes => "bytes read of one operation",
            Self::ReadRows => "rows read of one operation",
            Self::ResponseBytes => "bytes in the response of one operation",
            Self::LabelledExecutions => "executions with the rarest label on a shard",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::ReadBytes | Self::ReadRows | Self::ResponseBytes => "select less, or ask for smaller pages",
            Self::LabelledExecutions => "add a rarer label, or ask for a shorter time",
        }
    }
}

tokio::task_local! {
    static CURRENT: Option<Arc<Budget>>;
}

/// Runs work whose rows are not charged, because they are dropped as they are read, or are bounded otherwise.
pub async fn uncharged<T>(work: impl Future<Output = T>) -> T {
    CURRENT.scope(None, work).await
}

/// Limits of one operation and the resources that it has used.
#[derive(Debug)]
pub struct Budget {
    limits: BudgetLimits,
    /// Authenticated caller; `None`: its connections are not limited.
    caller: Option<Arc<str>>,
    read_bytes: AtomicU64,
    read_rows: AtomicU64,
    response_bytes: AtomicU64,
}

impl Budget {
    /// Creates an unused budget of an operation of this caller.
    #[must_use]
    pub fn new(limits: BudgetLimits, caller: Option<Arc<str>>) -> Arc<Self> {
        let (read_bytes, read_rows, response_bytes) = <(AtomicU64, AtomicU64, AtomicU64)>::default();
        Arc::new(Self { limits, caller, read_bytes, read_rows, response_bytes })
    }

    /// Returns the caller whose share of the connections the operation uses.
    pub(super) fn caller(&self) -> Option<&Arc<str>> {
        self.caller.as_ref()
    }

    /// Runs `poll` with this budget as the current one.
    pub fn enter<T>(self: &Arc<Self>, poll: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Some(Arc::clone(self)), poll)
    }

    /// Returns the budget of the operation that is being polled; `None` outside of operations.
    #[must_use]
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Clone::clone).ok().flatten()
    }

    /// Charges the bytes of a value of the response.
    pub fn charge_response(&self, bytes: usize) -> Result<(), Exceeded> {
        self.response_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.check()
    }

    /// Returns an error if the response can't have this many bytes more. They are charged only in that case.
    pub fn check_response(&self, bytes: usize) -> Result<(), Exceeded> {
        let used = self.response_bytes.load(Ordering::Relaxed).saturating_add(bytes as u64);
        if used > self.limits.response_bytes { self.charge_response(bytes) } else { Ok(()) }
    }

    /// Charges a row that a database returned, with the bytes of its values.
    pub fn charge_row(&self, bytes: usize) -> Result<(), Exceeded> {
        self.read_rows.fetch_add(1, Ordering::Relaxed);
        self.charge_bytes(bytes)
    }

    /// Charges bytes of values that the databases return, but no row.
    pub(super) fn charge_bytes(&self, bytes: usize) -> Result<(), Exceeded> {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.check()
    }

    /// Returns an error if a limit is exceeded.
    pub fn check(&self) -> Result<(), Exceeded> {
        let uses = [
            (Resource::ReadBytes, &self.read_bytes, self.limits.read_bytes),
            (Resource::ReadRows, &self.read_rows, self.limits.read_rows),
            (Resource::ResponseBytes, &self.response_bytes, self.limits.response_bytes),
        ];
        for (limit, used, allowed) in uses {
            let actual = used.load(Ordering::Relaxed);
            if actual > allowed {
                return Err(Exceeded { limit, allowed, actual });
            }
        }
        Ok(())
    }

    /// Sets all used amounts to zero, for the next item of a subscription.
    pub fn renew(&self) {
        for used in [&self.read_bytes, &self.read_rows, &self.response_bytes] {
            used.store(0, Ordering::Relaxed);
        }
    }
}
