//! Inputs of the mutations that run executions again.

use async_graphql::{ID, InputObject, MaybeUndefined};

use super::inputs::{DedupInput, ExecutionSelector, checked_dedup, parse_labels};
use crate::guards::WrittenInput;
use crate::labels::LabelInput;
use crate::scalars::{Json, parse_id};
use crate::trace::TraceContextInput;
use noetl_domain::ids::Id;
use noetl_use_cases::error::Rejection;
use noetl_use_cases::executions::{RerunDedup, Rerunning};

/// Execution to run again.
#[derive(Debug, InputObject)]
pub(super) struct RerunExecutionInput {
    /// Id of the execution, which need not have ended.
    pub(super) execution_id: ID,
    /// Map that overlays the workload of the execution, key by key (at most 4 MiB as JSON; default: no change).
    workload: Option<Json>,
    /// Whether to run the newest version of the catalog path that is not retired (default false: the version that the
    /// execution ran, which must not be retired).
    #[graphql(default = false)]
    newest_version: bool,
    /// Pool of workers that runs the new execution (1 to 64 letters, digits, `-` and `_`; default: the pool of the
    /// execution).
    execution_pool: Option<String>,
    /// Trace context (default: that of this request).
    trace: Option<TraceContextInput>,
    /// Labels of the new execution (at most 20; default: those of the execution, except that labels of the new workload
    /// replace those with the same name).
    labels: Option<Vec<LabelInput>>,
    /// Dedup window. If the field is left out, every request starts an execution; null, and a variable without a value,
    /// is refused.
    dedup: MaybeUndefined<DedupInput>,
}

impl RerunExecutionInput {
    /// Converts the input to a request of the use case and parses its id.
    pub(super) fn parse(self, written: &WrittenInput<'_>) -> Result<(Id, Rerunning), Rejection> {
        let id = parse_id("executionId", &self.execution_id)?;
        let rerunning = Rerunning {
            workload: self.workload.map(|workload| workload.0),
            newest_version: self.newest_version,
            execution_pool: self.execution_pool,
            trace: self.trace.map(TraceContextInput::parse).transpose()?,
            labels: parse_labels(self.labels),
            dedup: checked_dedup(self.dedup, written)?.map(RerunDedup::One),
        };
        Ok((id, rerunning))
    }
}

/// Executions to run again. Each rerun succeeds or fails independently.
#[derive(Debug, InputObject)]
pub(super) struct RerunExecutionsInput {
    /// Executions to run again, at most 1000, which need not have ended. `filter` and `all` select executions of every
    /// status, also earlier reruns.
    pub(super) select: ExecutionSelector,
    /// Map that overlays the workload of each execution, key by key (at most 4 MiB as JSON; default: no change).
    pub(super) workload: Option<Json>,
    /// Whether to run the newest version of each catalog path that is not retired (default false: the version that the
    /// execution ran, which must not be retired).
    #[graphql(default = false)]
    pub(super) newest_version: bool,
    /// Pool of workers that runs the new executions (1 to 64 letters, digits, `-` and `_`; default: the pool of each
    /// execution).
    pub(super) execution_pool: Option<String>,
    /// Labels of the new executions (at most 20; default: those of each execution, except that labels of the new workload
    /// replace those with the same name).
    pub(super) labels: Option<Vec<LabelInput>>,
    /// Dedup window, so that a repeated request starts nothing twice. Each rerun has its own key: `key` of this input (1
    /// to 1000 bytes), a colon, and the id of the execution that is run again. An execution that a request with the same
    /// `key` started is not run again. If the field is left out, every request starts executions; null, and a variable
    /// without a value, is refused.
    pub(super) dedup: MaybeUndefined<DedupInput>,
    /// Whether to change nothing and only return the result that is expected (default false). A dry run does not
    /// compare requests, so it returns `DUPLICATE` also where `dedup.rejectDifferent` would refuse the rerun.
    #[graphql(default = false)]
    pub(super) dry_run: bool,
}
