//! Observability of a server: request ids, traces and logs.

mod collector;
mod logs;
mod request_ids;
mod traces;

use std::process::Stdio;

use noetl_testkit::{Deployment, Server};

/// Starts a replica with additional settings and writes its log to a file.
async fn logging_replica(deployment: &Deployment, settings: &[(&str, &str)]) -> (Server, tempfile::NamedTempFile) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.envs(settings.iter().copied()).stderr(Stdio::from(log.reopen().unwrap()));
    (Server::spawn(command).await, log)
}

/// Makes every read of a projection fail with an internal error.
async fn break_projections(deployment: &Deployment) {
    let mut shard = deployment.shard(0).await;
    sqlx::query("ALTER TABLE noetl.projection_snapshot RENAME TO gone").execute(&mut shard).await.unwrap();
}
