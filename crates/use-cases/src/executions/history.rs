//! History of executions: its request and its result.

use chrono::{DateTime, TimeDelta, Utc};

use crate::error::Rejection;
use noetl_domain::history::{Durations, Interval, Spans};
use noetl_domain::shard::ShardIndex;
use noetl_storage::execution_history::HistoryFilter;
use noetl_storage::execution_history_close::{DAYS_KEPT, MINUTES_KEPT};

/// Maximum number of spans of a request.
pub const MAX_SPANS: usize = 1500;

/// Request of a history.
#[derive(Debug, Clone)]
pub struct HistoryRequest {
    /// Length of a span.
    pub interval: Interval,
    /// The spans.
    pub spans: Spans,
    /// Conditions of the executions.
    pub filter: HistoryFilter,
}

impl HistoryRequest {
    /// Creates the request of the spans that cover a time. Refuses more than [`MAX_SPANS`], and spans that are not kept at
    /// `now`.
    pub fn new(
        interval: Interval,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        filter: HistoryFilter,
        now: DateTime<Utc>,
    ) -> Result<Self, Rejection> {
        if to <= from {
            return Err(Rejection::invalid("to", "to must be after from"));
        }
        if interval == Interval::Minute && from < now - MINUTES_KEPT {
            let message =
                format!("the history has minutes of the last {} days; ask for hours", MINUTES_KEPT.num_days());
            return Err(Rejection::invalid("from", message));
        }
        if from < now - TimeDelta::days(DAYS_KEPT.into()) {
            let message = format!("the history has the last {DAYS_KEPT} days; ask for a later time");
            return Err(Rejection::invalid("from", message));
        }
        let spans = interval.spans(from, to, MAX_SPANS);
        let message = format!("a history has at most {MAX_SPANS} items; ask for a shorter time or longer intervals");
        Ok(Self { interval, spans: spans.ok_or_else(|| Rejection::invalid("to", message))?, filter })
    }
}

/// Numbers of executions for each span of a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionHistory {
    /// The spans, oldest first.
    pub spans: Vec<HistorySpan>,
    /// Shards whose executions were not counted.
    pub unavailable: Vec<ShardIndex>,
}

/// Numbers of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistorySpan {
    /// Start.
    pub from: DateTime<Utc>,
    /// End, which is not a part of it.
    pub to: DateTime<Utc>,
    /// Executions that started in it.
    pub started: i64,
    /// Executions that were completed in it.
    pub completed: i64,
    /// Executions that failed in it.
    pub failed: i64,
    /// Executions that were cancelled in it.
    pub cancelled: i64,
    /// Durations of those that ended in it.
    pub durations: Durations,
    /// Times until the first step of those that ended in it, if they had one.
    pub waits: Durations,
}

impl HistorySpan {
    /// Returns a span without executions.
    #[must_use]
    pub fn empty(from: DateTime<Utc>, interval: Interval) -> Self {
        let to = from + TimeDelta::seconds(interval.seconds().into());
        let (durations, waits) = (Durations::default(), Durations::default());
        Self { from, to, started: 0, completed: 0, failed: 0, cancelled: 0, durations, waits }
    }
}
