//! The log on standard error.

use std::fs;

use noetl_testkit::{Deployment, eventually};
use serde_json::json;
use sha2::{Digest, Sha256};
use sqlx::Connection;

use super::logging_replica;

#[tokio::test]
async fn a_slow_operation_is_logged_without_its_variables_and_without_colours() {
    let deployment = Deployment::start(0).await;
    let (server, log) = logging_replica(&deployment, &[("NOETL_SLOW_OPERATION_MS", "1")]).await;
    let query = "query Stalled($path: String!) { catalogEntry(path: $path) { id } }";
    let (mut holder, mut watcher) = (deployment.cluster().await, deployment.cluster().await);
    let mut held = holder.begin().await.unwrap();
    sqlx::query("LOCK TABLE noetl.catalog IN ACCESS EXCLUSIVE MODE").execute(&mut *held).await.unwrap();
    let request = reqwest::Client::new().post(format!("{}/graphql", server.url)).header("x-request-id", "stalled-1");
    let body = json!({ "query": query, "variables": { "path": "secret/path" } });
    let stalled = request.json(&body).send();
    let releasing = async {
        eventually("the operation waits for the lock", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                           AND datname = current_database()";
            (sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut watcher).await.unwrap() > 0).then_some(())
        })
        .await;
        held.rollback().await.unwrap();
    };
    let (response, ()) = futures::future::join(stalled, releasing).await;
    assert!(response.unwrap().status().is_success());

    let line = eventually("the slow operation is logged", async || {
        let log = fs::read_to_string(log.path()).unwrap();
        log.lines().find(|line| line.contains("slow operation") && line.contains("Stalled")).map(str::to_owned)
    })
    .await;
    let hash = Sha256::digest(query).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    for part in ["WARN", "stalled-1", "query", "milliseconds=", "outcome=\"ok\"", &hash] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    let log = fs::read_to_string(log.path()).unwrap();
    assert!(!log.contains("secret/path") && !log.contains('\u{1b}'), "{log}");
}
