//! The history of executions, as the housekeeping computes it.

use super::{Deployment, eventually};

impl Deployment {
    /// Runs the housekeeping once, with these settings.
    pub async fn maintain(&self, settings: &[(&str, &str)]) {
        let output = self.command("maintain").envs(settings.iter().copied()).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Runs the housekeeping with these settings until the history is computed.
    pub async fn close_history(&self, settings: &[(&str, &str)]) {
        eventually("the history is computed", async || {
            self.maintain(settings).await;
            (!self.has_open_history().await).then_some(())
        })
        .await;
    }

    /// Returns whether minutes that are old enough are not computed yet, or late changes are not counted.
    pub async fn has_open_history(&self) -> bool {
        let open = "SELECT (SELECT count(*) FROM noetl.execution_history_late) + count(*)
                    FROM noetl.execution_history_progress
                    WHERE closed_to IS NULL OR closed_to < now() - interval '10 minutes'";
        self.sum_over_shards(open).await > 0
    }
}
