//! Housekeeping of registrations: fulfilling the intents of crashed callers.

use super::Subscriptions;
use crate::sweep::Swept;
use noetl_runtime::causes::WithCauses;
use noetl_storage::pools::OPERATION_DEADLINE;
use noetl_storage::registry;
use noetl_use_cases::error::ServiceError;

/// Age in seconds from which the sweeper finishes an intent.
pub(crate) const STALE_INTENT_SECONDS: f64 = 5.0;
const _: () = assert!(
    STALE_INTENT_SECONDS > OPERATION_DEADLINE.as_secs_f64(),
    "the sweeper seldom repeats the work of a living caller"
);
/// Number of intents that one query of the sweeper reads.
const SWEEP_PAGE: i64 = 100;

impl Subscriptions {
    /// Finishes the intents of crashed callers. One that can't be finished does not delay the others.
    #[tracing::instrument(level = "debug", name = "subscriptions.sweep", skip_all)]
    pub async fn sweep(&self) -> Result<Swept, ServiceError> {
        self.finish_older_than(STALE_INTENT_SECONDS).await
    }

    /// Finishes all open intents, also recent ones. This is safe while their callers are alive, because each intent is
    /// fulfilled under the lock on its path.
    #[tracing::instrument(level = "debug", name = "subscriptions.finish_open", skip_all)]
    pub async fn finish_open(&self) -> Result<usize, ServiceError> {
        Ok(self.finish_older_than(0.0).await?.found)
    }

    async fn finish_older_than(&self, seconds: f64) -> Result<Swept, ServiceError> {
        let (mut swept, mut last) = (Swept::default(), String::new());
        loop {
            let paths = registry::stale(self.databases.cluster(), seconds, &last, SWEEP_PAGE).await?;
            for path in &paths {
                match self.finish(path).await {
                    Ok(()) => {
                        swept.finished += 1;
                        tracing::info!(path, "finished an abandoned registration");
                    }
                    Err(error) => {
                        tracing::warn!(path, error = %WithCauses(&error), "could not finish an abandoned registration");
                    }
                }
            }
            swept.found += paths.len();
            let Some(path) = paths.into_iter().next_back() else {
                metrics::counter!("noetl_registry_swept_total").increment(swept.found as u64);
                return Ok(swept);
            };
            last = path;
        }
    }

    async fn finish(&self, path: &str) -> Result<(), ServiceError> {
        let entry = self.entry_of_begun(path).await?;
        self.activator.finish(&entry).await
    }
}
