//! The server beside programs that a user could choose instead: `PostGraphile` for reads, graphile-worker for claiming and
//! settling. npm installs them into the build's folder.
//!
//! `PostGraphile` reads tables of its own with exactly the columns that it needs: it has no fold of events, so the steps
//! are rows. All programs have pools of the same size.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use noetl_testkit::Server;
use serde_json::{Value, json};
use tokio::process::Command;

use super::load::{Callers, Load, Side, in_turns};
use super::reads::{self, reader};
use super::{CONNECTIONS, Stage, outbox};
use crate::report::{self, Comparison, Limit, Report};

/// Jobs of one measurement of graphile-worker.
const JOBS: usize = 20_000;
const TABLES: &str = "
    CREATE SCHEMA peer;
    CREATE TABLE peer.execution AS
        SELECT execution_id, path, status, start_time, end_time FROM noetl.execution;
    ALTER TABLE peer.execution ADD PRIMARY KEY (execution_id);
    CREATE TABLE peer.step (
        execution_id BIGINT NOT NULL REFERENCES peer.execution, position INT NOT NULL, name TEXT, status TEXT,
        PRIMARY KEY (execution_id, position));
    INSERT INTO peer.step
        SELECT execution_id, position, name, 'COMPLETED' FROM peer.execution
        CROSS JOIN unnest(ARRAY['start', 'check', 'charge', 'confirm']) WITH ORDINALITY AS t (name, position)
        WHERE path = 'bench/project';
    VACUUM ANALYZE peer.execution;
    VACUUM ANALYZE peer.step";

/// Installs the programs unless they are installed, and returns their folder.
async fn installed() -> PathBuf {
    let folder = report::target().join("peers");
    std::fs::create_dir_all(&folder).unwrap();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers");
    for file in ["package.json", "postgraphile.cjs", "worker.cjs"] {
        std::fs::copy(format!("{sources}/{file}"), folder.join(file)).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel", "error"]).current_dir(&folder);
    assert!(npm.status().await.unwrap().success(), "npm install");
    folder
}

fn node(folder: &std::path::Path, script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(folder.join(script)).env("NODE_ENV", "production").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Measures the reads and the outbox.
pub async fn measure(stage: &Stage, report: &mut Report) {
    let folder = installed().await;
    reads::fill(stage).await;
    let details = reads::details(stage).await;
    for statement in TABLES.split(';') {
        stage.deployment.on_shard(0, statement).await;
    }
    let mut command = node(&folder, "postgraphile.cjs");
    let postgraphile = Server::spawn({
        command.arg(&stage.deployment.shard_dsns[0]).arg("peer").arg(CONNECTIONS.to_string());
        command
    })
    .await;
    let list = json!({ "query": "{ allExecutions(first: 50, orderBy: PRIMARY_KEY_DESC) {
        nodes { executionId path status startTime endTime } } }" });
    let lists = (vec![reads::LIST.to_owned()], vec![list.to_string()], r#""status""#);
    let detail = |body: &String| {
        let id = serde_json::from_str::<Value>(body).unwrap()["variables"]["id"].take();
        let query = "query($id: BigInt!) { executionByExecutionId(executionId: $id) {
            status stepsByExecutionId { nodes { name status } } } }";
        json!({ "query": query, "variables": { "id": id } }).to_string()
    };
    let steps = details.iter().map(detail).collect();
    let works = [
        ("executions(first: 50) { nodes { 5 fields } }", lists),
        ("execution { status steps { nodes { name status } } }", (details, steps, r#""name":"confirm""#)),
    ];
    for (work, (own, other, expected)) in works {
        let (own, other) = (Arc::new(own), Arc::new(other));
        for callers in [16, 64] {
            let sides = &mut [
                Side::new(
                    "the server",
                    stage.of_server(),
                    reader(&stage.server.url, "/graphql", &own, expected, callers).await,
                ),
                Side::new(
                    "PostGraphile 4",
                    stage.of_process(&postgraphile),
                    reader(&postgraphile.url, "/graphql", &other, expected, callers).await,
                ),
            ];
            let comparison = Comparison {
                ratio: (callers == 16).then_some(Limit::AtLeast(3.0)),
                ..stage.comparison("peers", work, "requests/s", callers)
            };
            stage.compare(report, comparison, sides).await;
        }
    }
    drop(postgraphile);
    jobs(stage, report, folder).await;
}

/// Measures the outbox beside graphile-worker, with and without its queue in the process.
async fn jobs(stage: &Stage, report: &mut Report, folder: PathBuf) {
    let dsn = &stage.deployment.shard_dsns[0];
    let worker = |queue: i32| Worker { folder: folder.clone(), dsn: dsn.clone(), queue };
    let sides = &mut [
        Side::new("claimOutbox, markOutboxPublished", stage.of_server(), outbox::callers(stage, 1).await),
        Side {
            name: "graphile-worker, local queue of 500",
            processes: stage.of_driver(),
            callers: Box::new(worker(500)),
        },
        Side {
            name: "graphile-worker, 16 jobs at a time",
            processes: stage.of_driver(),
            callers: Box::new(worker(-1)),
        },
    ];
    let samples = in_turns(stage.pace, sides, async || outbox::fill(stage).await).await;
    report.compared(stage.comparison("peers", "claim and settle", "rows/s", 1), samples);
}

/// A process of graphile-worker, which adds jobs and runs them.
struct Worker {
    folder: PathBuf,
    dsn: String,
    /// Jobs that it claims at once; -1: each on its own.
    queue: i32,
}

impl Callers for Worker {
    fn run(&mut self, _: Duration) -> BoxFuture<'_, Load> {
        async move {
            let mut command = node(&self.folder, "worker.cjs");
            command.arg(&self.dsn).args([JOBS.to_string(), CONNECTIONS.to_string(), self.queue.to_string()]);
            let output = command.output().await.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let result: Value = serde_json::from_slice(&output.stdout).unwrap();
            let seconds = result["seconds"].as_f64().unwrap();
            Load { items: JOBS, seconds, latencies: vec![seconds], cpu: result["cpuSeconds"].as_f64() }
        }
        .boxed()
    }
}
