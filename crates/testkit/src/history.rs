//! The housekeeping, and the history of executions that it computes.

use std::process::Output;

use super::{Deployment, eventually};

impl Deployment {
    /// Runs the housekeeping once, with these settings. It must succeed. Returns what it wrote to standard output.
    pub async fn maintain(&self, settings: &[(&str, &str)]) -> String {
        let (output, said) = self.try_maintain(settings).await;
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    /// Runs the housekeeping once, with these settings. Returns its result, and what it wrote to standard output.
    pub async fn try_maintain(&self, settings: &[(&str, &str)]) -> (Output, String) {
        let output = self.command("maintain").envs(settings.iter().copied()).output().await.unwrap();
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        (output, said)
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
