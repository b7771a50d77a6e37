//! The command `shards move` in tests, and rows that it moves.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use noetl_domain::ids::Id;
use noetl_domain::shard::bucket_of;
use serde_json::{Value, json};
use sqlx::PgConnection;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use super::feed::Key;
use super::worker::event_with;
use super::{Deployment, Server, WAIT_TIMEOUT, eventually};

/// Lines of the standard error of a running command.
pub type ErrorLines = Lines<BufReader<ChildStderr>>;

/// Returns the command `shards move` for these buckets.
pub fn mover(deployment: &Deployment, buckets: &BTreeSet<u16>, to: u16, options: &[&str]) -> Command {
    let buckets: Vec<String> = buckets.iter().map(u16::to_string).collect();
    let mut command = deployment.command("shards");
    command.args(["move", "--buckets", &buckets.join(","), "--to", &to.to_string()]).args(options);
    command
}

/// Runs `shards move` for these buckets, which must succeed. Returns its standard output.
pub async fn moved(deployment: &Deployment, buckets: &BTreeSet<u16>, to: u16, options: &[&str]) -> String {
    let output = mover(deployment, buckets, to, options).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Starts `shards move`, and returns the lines of its standard error.
pub fn started(deployment: &Deployment, buckets: &BTreeSet<u16>, to: u16) -> (Child, ErrorLines) {
    let mut child = mover(deployment, buckets, to, &[]).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    (child, lines)
}

/// Reads until a line that contains the text.
pub async fn until_line(lines: &mut ErrorLines, text: &str) {
    let read = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            // For the output of a failed test.
            eprintln!("{line}");
            if line.contains(text) {
                return;
            }
        }
        panic!("no line contains {text:?}");
    };
    timeout(WAIT_TIMEOUT, read).await.unwrap_or_else(|_| panic!("no line contained {text:?} in time"));
}

/// Waits until a session of the observer's database waits for a lock in a statement that is like a pattern. Returns its
/// process id.
pub async fn until_waiting(observer: &mut PgConnection, statement: &str) -> i32 {
    let query = "SELECT pid FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE $1 LIMIT 1";
    eventually("a session waits for a lock", async || {
        sqlx::query_scalar(query).bind(statement).fetch_optional(&mut *observer).await.unwrap()
    })
    .await
}

/// Returns the bucket of an execution.
pub fn bucket(execution: i64) -> u16 {
    bucket_of(Id::new(execution))
}

/// Returns the buckets of executions.
pub fn buckets(executions: &[i64]) -> BTreeSet<u16> {
    executions.iter().map(|id| bucket(*id)).collect()
}

/// Returns the keys of the events of executions on a shard, with their transaction ids.
pub async fn events(deployment: &Deployment, shard: usize, executions: &[i64]) -> BTreeMap<Key, String> {
    let query = "SELECT execution_id, event_id, tx_id::text FROM noetl.event WHERE execution_id = ANY($1)";
    let rows = sqlx::query_as::<_, (i64, i64, String)>(query).bind(executions);
    let rows = rows.fetch_all(&mut *deployment.shard_session(shard).await).await.unwrap();
    rows.into_iter().map(|(execution, event, tx)| ((execution, event), tx)).collect()
}

/// Returns the shards that the stored map names for buckets.
pub async fn owners(deployment: &Deployment, buckets: &BTreeSet<u16>) -> BTreeSet<i16> {
    let buckets: Vec<i16> = buckets.iter().map(|bucket| bucket.cast_signed()).collect();
    let query = "SELECT DISTINCT shard FROM noetl.shard_bucket WHERE bucket = ANY($1)";
    let mut cluster = deployment.cluster_session().await;
    let shards: Vec<i16> = sqlx::query_scalar(query).bind(buckets).fetch_all(&mut *cluster).await.unwrap();
    shards.into_iter().collect()
}

/// Starts executions on shard 0, each with one event and two outbox rows.
pub async fn with_executions(deployment: &Deployment, server: &Server, count: usize) -> Vec<i64> {
    with_executions_from(deployment, server, 1000, count).await
}

/// Starts executions as [`with_executions`] does, with the first ids from `from` on whose buckets shard 0 had at first.
pub async fn with_executions_from(deployment: &Deployment, server: &Server, from: i64, count: usize) -> Vec<i64> {
    let executions = deployment.ids_on(0, from, count);
    let started: Vec<Value> = executions.iter().map(|id| event_with(*id, 1, &json!({ "type": "call.done" }))).collect();
    let payload = server.project(&started).await;
    assert_eq!(payload["projected"], json!(count), "{payload}");
    deployment.fill_outbox(0, &executions, 2).await;
    executions
}

/// Kills a move of executions to shard 1 at a fault point.
pub async fn kill_at(deployment: &Deployment, executions: &[i64], point: &str) {
    let killed = mover(deployment, &buckets(executions), 1, &[]).env("NOETL_FAULT_POINT", point).output().await;
    assert!(!killed.unwrap().status.success(), "{point} was not reached");
}
