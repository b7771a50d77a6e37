//! The history of executions over all shards.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::Executions;
use crate::fan_out;
use noetl_domain::tenant::Scope;
use noetl_storage::execution_history::{self, SpanCounts};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::{ExecutionHistory, HistoryRequest, HistorySpan, ReadHistory};

#[async_trait]
impl ReadHistory for Executions {
    #[tracing::instrument(level = "debug", name = "executions.history", skip_all)]
    async fn history(&self, request: &HistoryRequest, scope: &Scope) -> Result<ExecutionHistory, ServiceError> {
        let HistoryRequest { interval, spans, filter } = request;
        let query = |shard| execution_history::read(shard, scope, filter, *interval, spans);
        let (counts, unavailable) = fan_out::answers(&self.databases, query).await?;
        let empty = spans.starts.iter().map(|start| (*start, HistorySpan::empty(*start, *interval)));
        let mut by_start: BTreeMap<_, HistorySpan> = empty.collect();
        for counted in counts.into_iter().flatten() {
            if let Some(span) = by_start.get_mut(&counted.at) {
                add(span, &counted);
            }
        }
        Ok(ExecutionHistory { spans: by_start.into_values().collect(), unavailable })
    }
}

/// Adds the numbers of a shard.
fn add(span: &mut HistorySpan, counted: &SpanCounts) {
    span.started += counted.started;
    span.completed += counted.completed;
    span.failed += counted.failed;
    span.cancelled += counted.cancelled;
    for (class, count) in counted.classes.iter().zip(&counted.counts) {
        span.durations.add(*class, *count);
    }
    for (class, count) in counted.wait_classes.iter().zip(&counted.wait_counts) {
        span.waits.add(*class, *count);
    }
}
