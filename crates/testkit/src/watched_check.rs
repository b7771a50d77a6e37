//! The command `check` with a watch on its memory.

use std::time::Duration;

use serde_json::Value;

use super::{Deployment, memory};

/// Result of a command `check`.
pub struct Checked {
    /// Exit code.
    pub code: i32,
    /// Its JSON document.
    pub document: Value,
    /// The largest resident memory that it had, in bytes.
    pub peak: u64,
}

impl Deployment {
    /// Runs `check` as [`Self::check`] does, and watches its memory.
    pub async fn watched_check(&self, options: &[&str]) -> Checked {
        let mut command = self.command("check");
        command.args(["--format", "json"]).args(options).stdout(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        let pid = child.id().unwrap();
        let mut ended = std::pin::pin!(child.wait_with_output());
        let mut largest = 0;
        let output = loop {
            tokio::select! {
                output = &mut ended => break output.unwrap(),
                () = tokio::time::sleep(Duration::from_millis(5)) => largest = largest.max(memory::peak(pid).unwrap_or_default()),
            }
        };
        let document = serde_json::from_slice(&output.stdout).unwrap();
        Checked { code: output.status.code().unwrap(), document, peak: largest }
    }
}
