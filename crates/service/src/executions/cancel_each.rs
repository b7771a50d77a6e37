//! Cancelling each of several executions. A failure to cancel one does not hide the results of the others.

use futures::{StreamExt, stream};

use super::Executions;
use noetl_domain::ids::Id;
use noetl_use_cases::executions::{CancelledOne, Cancelling};

/// Number of executions that are cancelled at the same time.
const CONCURRENCY: usize = 8;

impl Executions {
    /// Cancels executions concurrently. The results have the order of the ids.
    pub(super) async fn cancel_each(&self, ids: Vec<Id>, cancelling: &Cancelling<'_>) -> Vec<CancelledOne> {
        let results = stream::iter(ids).map(async |id| {
            let outcome = if cancelling.dry_run {
                self.may_cancel(id, &cancelling.caller.scope).await
            } else {
                self.cancel(id, cancelling.reason.map(str::to_owned), cancelling.caller).await
            };
            CancelledOne { id, outcome }
        });
        results.buffered(CONCURRENCY).collect().await
    }
}
