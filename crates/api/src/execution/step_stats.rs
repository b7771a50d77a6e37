//! Statistics of the steps of a path.

use async_graphql::{ID, SimpleObject};

use super::history::DurationPercentiles;
use crate::scalars::{Time, show_id, to_graphql_int};
use noetl_domain::shard::ShardIndex;
use noetl_domain::step_stats;
use noetl_use_cases::executions::PathSteps;

/// Times and failures of the steps of a path. They are computed from the states of single executions, so all numbers are
/// exact for these executions.
#[derive(Debug, Clone, SimpleObject)]
pub struct StepStats {
    /// Number of executions that were read. It is smaller than `last` if the path has fewer that have ended, or if a shard
    /// could not be reached.
    executions: i32,
    /// Time at which the earliest of these executions started; null if there are none.
    #[graphql(name = "from")]
    start: Option<Time>,
    /// Time at which the latest of these executions ended; null if there are none.
    #[graphql(name = "to")]
    end: Option<Time>,
    /// Steps that take the most time in all, the longest first (at most 200).
    steps: Vec<StepSummary>,
    /// Whether there are steps that `steps` does not contain.
    more_steps: bool,
    /// Shards that could not be reached. Their executions are missing.
    unavailable_shards: Vec<ShardIndex>,
}

/// Times and failures of a step over several executions. If an execution entered the step several times, its last run
/// counts.
#[derive(Debug, Clone, SimpleObject)]
pub struct StepSummary {
    /// Name of the step.
    name: String,
    /// Number of executions in which the step was run.
    executions: i32,
    /// Number of attempts of the step; in a loop, number of iterations.
    attempts: i32,
    /// Number of executions in which the step is failed.
    failed: i32,
    /// Number of executions in which the step was skipped.
    skipped: i32,
    /// Share of the durations of the step in the durations of all steps (0 to 1).
    share: f64,
    /// Durations of the step; null if it did not end in any execution.
    duration_seconds: Option<StepDurations>,
    /// Id of the execution in which the step took the longest time, the newest one of several; null if it did not end in
    /// any execution.
    slowest_execution_id: Option<ID>,
    /// Id of the newest execution in which the step is failed; null if there is none.
    last_failed_execution_id: Option<ID>,
}

/// Durations of a step over several executions in seconds, from the time at which it was entered to its end. A skipped step
/// has no duration.
#[derive(Debug, Clone, SimpleObject)]
pub struct StepDurations {
    #[graphql(flatten)]
    percentiles: DurationPercentiles,
    /// Longest duration, in seconds.
    max: f64,
    /// Sum of the durations, in seconds.
    total: f64,
}

impl From<PathSteps> for StepStats {
    fn from(PathSteps { stats, unavailable }: PathSteps) -> Self {
        Self {
            executions: to_graphql_int(stats.executions),
            start: stats.from.map(Time),
            end: stats.to.map(Time),
            steps: stats.steps.into_iter().map(Into::into).collect(),
            more_steps: stats.more_steps,
            unavailable_shards: unavailable,
        }
    }
}

impl From<step_stats::StepSummary> for StepSummary {
    fn from(step: step_stats::StepSummary) -> Self {
        Self {
            name: step.name,
            executions: to_graphql_int(step.executions),
            attempts: to_graphql_int(step.attempts),
            failed: to_graphql_int(step.failed),
            skipped: to_graphql_int(step.skipped),
            share: step.share,
            duration_seconds: step.durations.map(Into::into),
            slowest_execution_id: step.slowest.map(show_id),
            last_failed_execution_id: step.failed_in.map(show_id),
        }
    }
}

impl From<step_stats::StepDurations> for StepDurations {
    fn from(step_stats::StepDurations { p50, p95, p99, max, total }: step_stats::StepDurations) -> Self {
        Self { percentiles: DurationPercentiles { p50, p95, p99 }, max, total }
    }
}
