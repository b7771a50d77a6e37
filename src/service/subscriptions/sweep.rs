//! Housekeeping of registrations: fulfilling the intents of crashed callers.

use super::Subscriptions;
use crate::service::error::ServiceError;
use noetl_storage::registry;

/// Age in seconds from which the sweeper finishes an intent.
const STALE_INTENT_SECONDS: f64 = 5.0;
/// Number of intents that one query of the sweeper reads.
const SWEEP_PAGE: i64 = 100;

impl Subscriptions {
    /// Finishes the intents of crashed callers. One that can't be finished does not delay the others. Returns the
    /// number of intents found.
    #[tracing::instrument(level = "debug", name = "subscriptions.sweep", skip_all)]
    pub async fn sweep(&self) -> Result<usize, ServiceError> {
        let (mut found, mut last) = (0, String::new());
        loop {
            let paths = registry::stale(self.databases.cluster(), STALE_INTENT_SECONDS, &last, SWEEP_PAGE).await?;
            for path in &paths {
                match self.finish(path).await {
                    Ok(()) => tracing::info!(path, "finished an abandoned registration"),
                    Err(error) => tracing::warn!(path, %error, "could not finish an abandoned registration"),
                }
            }
            found += paths.len();
            let Some(path) = paths.into_iter().next_back() else {
                metrics::counter!("noetl_registry_swept_total").increment(found as u64);
                return Ok(found);
            };
            last = path;
        }
    }

    async fn finish(&self, path: &str) -> Result<(), ServiceError> {
        let entry = self.entry(path).await?;
        self.activator.finish(&entry).await
    }
}
