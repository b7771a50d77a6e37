//! Fill of the executions' list from the logs of a shard.
//!
//! Executions that NoETL's own server wrote have only a log, and the projector does not read events from before its first
//! position, nor those of transactions of another server, as in a restored dump. A pass over all logs advances each execution that the list lacks, or has without its last event, which
//! stores its row and its snapshot. The pass is idempotent. Its position is stored after each page, so a crash repeats at
//! most one page. Executions that start after the feed began are left to the projector.

use std::collections::BTreeSet;

use super::projections::Projections;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::crash_point;
use noetl_storage::pools::Database;
use noetl_storage::read_model::{self, Fill, FillLog, FillProgress};
use noetl_storage::view::View;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::projections::AdvanceProjections;

/// Number of logs that are checked at a time.
const PAGE: i64 = 200;
/// Number of pages after which the progress is logged.
const PAGES_PER_REPORT: u64 = 25;
/// Time after which a shard without a feed is searched for new logs again, in seconds.
const REPEAT_SECONDS: f64 = 3600.0;

impl Projections {
    /// Makes a pass over the logs of a shard due.
    pub async fn request_fill(&self, index: ShardIndex) -> Result<(), ServiceError> {
        Ok(read_model::request(&self.databases.shards()[usize::from(index)]).await?)
    }

    /// Carries out the pass that is due on a shard, or continues it. Returns what was done. Fails if a database is
    /// unavailable; the next call continues at the stored position.
    #[tracing::instrument(level = "debug", name = "read_model.fill", skip_all, fields(shard = index))]
    pub async fn fill(&self, index: ShardIndex) -> Result<String, ServiceError> {
        let shard = &self.databases.shards()[usize::from(index)];
        let Some(mut fill) = Fill::take(shard).await? else {
            return Ok("another process fills the list of this shard".to_owned());
        };
        let Some(mut progress) = fill.begin(REPEAT_SECONDS).await? else {
            return Ok("no pass over the logs is due".to_owned());
        };
        for page in 0_u64.. {
            if page.is_multiple_of(PAGES_PER_REPORT) {
                report(shard, progress, fill.remaining(progress.position).await?);
            }
            let logs = fill.page(progress.position, PAGE).await?;
            let Some(last) = logs.last() else { break };
            let filled = self.advance_outdated(&logs, &self.databases.view(index)).await?;
            crash_point::reach("fill.advanced");
            metrics::counter!("noetl_read_model_filled_total").increment(filled.cast_unsigned());
            progress = FillProgress {
                position: last.execution_id,
                checked: progress.checked + i64::try_from(logs.len()).unwrap_or(PAGE),
                filled: progress.filled + filled,
            };
            fill.store(progress).await?;
        }
        report(shard, progress, 0);
        fill.end().await?;
        let FillProgress { checked, filled, .. } = progress;
        Ok(format!("checked {checked} logs and added or updated {filled} executions in the list"))
    }

    /// Advances the executions of a page that the list lacks, or has without their last events. Returns the number of
    /// rows that were stored. An execution that can't be advanced does not stop the pass; reads still find it in its log.
    async fn advance_outdated(&self, logs: &[FillLog], view: &View<'_>) -> Result<i64, ServiceError> {
        let own = logs.iter().filter(|log| log.outdated && view.shows(log.execution_id));
        let outdated: BTreeSet<Id> = own.map(|log| Id::new(log.execution_id)).collect();
        if outdated.is_empty() {
            return Ok(0);
        }
        let mut filled = 0;
        for (id, outcome) in self.advance(outdated, &Scope::Unrestricted).await {
            match outcome {
                Ok(_) => filled += 1,
                Err(error) if error.unavailable().is_some() => return Err(error),
                // The log is not an execution's.
                Err(error) if error.is_rejection() => {}
                Err(error) => {
                    tracing::warn!(execution_id = %id, error = %WithCauses(&error), "an execution can't be listed");
                }
            }
        }
        Ok(filled)
    }
}

/// Logs the progress of a pass, and sets the metric.
fn report(shard: &Database, progress: FillProgress, remaining: i64) {
    let FillProgress { position, checked, filled } = progress;
    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    metrics::gauge!("noetl_read_model_fill_remaining", "database" => shard.name().to_string()).set(remaining as f64);
    if checked > 0 || remaining > 0 {
        tracing::info!(
            database = %shard.name(), checked, filled, position, remaining,
            "filling the list of executions from their logs"
        );
    }
}
