//! History of executions.

use async_graphql::{Enum, InputObject, SimpleObject};
use chrono::{DateTime, Utc};

use super::inputs::check_named;
use crate::filters::{checked_text, time_bound};
use crate::labels::LabelFilter;
use crate::scalars::{Time, to_graphql_int};
use noetl_domain::history::{Durations, Interval};
use noetl_domain::shard::ShardIndex;
use noetl_storage::execution_history;
use noetl_use_cases::error::Rejection;
use noetl_use_cases::executions::{self, HistoryRequest, HistorySpan};

/// Length of an item of a history. Items begin at multiples of it in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Interval")]
pub enum HistoryInterval {
    /// 60 seconds. Minutes are kept for 7 days.
    Minute,
    /// 60 minutes. Hours are kept for 400 days.
    Hour,
    /// 24 hours. Days are kept for 400 days.
    Day,
}

/// Filter for the executions of a history. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct ExecutionHistoryFilter {
    /// Only executions of one of these catalog paths (at most 100).
    paths: Option<Vec<String>>,
    /// Only executions that name one of these pools (at most 100). Executions of the default pool name none.
    execution_pools: Option<Vec<String>>,
    /// Only executions of this tenant.
    tenant_id: Option<String>,
    /// Only executions of this organization.
    organization_id: Option<String>,
    /// Only executions whose labels meet all these conditions (1 to 5). Those that the retention of events has deleted
    /// are not counted. If more than 20000 executions of a shard meet each condition, and more than 20000 starts and ends
    /// of all its executions are in the time, the request is refused with `LIMIT_EXCEEDED`.
    labels: Option<Vec<LabelFilter>>,
}

impl ExecutionHistoryFilter {
    /// Converts the arguments of the field to a request at `now`.
    pub(super) fn request(
        self,
        interval: HistoryInterval,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        now: DateTime<Utc>,
    ) -> Result<HistoryRequest, Rejection> {
        let filter = execution_history::HistoryFilter {
            paths: check_named("filter.paths", self.paths)?,
            execution_pools: check_named("filter.executionPools", self.execution_pools)?,
            tenant_id: checked_text("filter.tenantId", self.tenant_id)?,
            organization_id: checked_text("filter.organizationId", self.organization_id)?,
            labels: LabelFilter::parse_all("filter.labels", self.labels)?,
        };
        HistoryRequest::new(interval.into(), (time_bound(from), time_bound(to)), filter, now)
    }
}

/// Numbers of executions over a time, as the list of executions shows them. Executions that the retention of events has
/// deleted stay counted, unless the filter has labels.
#[derive(Debug, Clone, SimpleObject)]
pub struct ExecutionHistory {
    /// Numbers of each interval from the one that contains `from`, oldest first. Intervals without executions are included.
    buckets: Vec<ExecutionHistoryBucket>,
    /// Shards that could not be reached. Their executions are not counted.
    unavailable_shards: Vec<ShardIndex>,
}

/// Numbers of executions of an interval.
#[derive(Debug, Clone, SimpleObject)]
pub struct ExecutionHistoryBucket {
    /// Start of the interval.
    #[graphql(name = "from")]
    start: Time,
    /// End of the interval, which is not a part of it.
    #[graphql(name = "to")]
    end: Time,
    /// Number of executions that started in the interval.
    started: i32,
    /// Number of executions that were completed in the interval.
    completed: i32,
    /// Number of executions that failed in the interval.
    failed: i32,
    /// Number of executions that were cancelled in the interval.
    cancelled: i32,
    /// Durations of the executions that ended in the interval, from start to end; null if none did.
    duration_seconds: Option<DurationPercentiles>,
    /// Waits of the executions that ended in the interval: from their start until their first step began, while they were
    /// PENDING. Executions without a step do not count; null if none had one.
    wait_seconds: Option<DurationPercentiles>,
}

/// Percentiles of durations in seconds. Each is within 5 % of the exact one, or within a millisecond.
#[derive(Debug, Clone, SimpleObject)]
pub struct DurationPercentiles {
    /// Duration that half of the executions do not exceed, in seconds.
    pub(super) p50: f64,
    /// Duration that 95 % of the executions do not exceed, in seconds.
    pub(super) p95: f64,
    /// Duration that 99 % of the executions do not exceed, in seconds.
    pub(super) p99: f64,
}

impl DurationPercentiles {
    fn of(durations: &Durations) -> Option<Self> {
        let percentile = |share| durations.percentile(share);
        Some(Self { p50: percentile(0.5)?, p95: percentile(0.95)?, p99: percentile(0.99)? })
    }
}

impl From<HistorySpan> for ExecutionHistoryBucket {
    fn from(span: HistorySpan) -> Self {
        Self {
            start: Time(span.from),
            end: Time(span.to),
            started: to_graphql_int(span.started),
            completed: to_graphql_int(span.completed),
            failed: to_graphql_int(span.failed),
            cancelled: to_graphql_int(span.cancelled),
            duration_seconds: DurationPercentiles::of(&span.durations),
            wait_seconds: DurationPercentiles::of(&span.waits),
        }
    }
}

impl From<executions::ExecutionHistory> for ExecutionHistory {
    fn from(history: executions::ExecutionHistory) -> Self {
        let buckets = history.spans.into_iter().map(Into::into);
        Self { buckets: buckets.collect(), unavailable_shards: history.unavailable }
    }
}
