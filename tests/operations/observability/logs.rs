//! The log on standard error.

use std::fs;

use noetl_testkit::{Deployment, Server, TokenFile, eventually, http_client};
use serde_json::json;
use sha2::{Digest, Sha256};
use sqlx::Connection;
use tempfile::NamedTempFile;

use super::{break_projections, logging_replica};

/// The last part breaks the database of the others.
#[tokio::test]
async fn slow_operations_lifecycle_changes_and_failures_of_background_work_are_logged() {
    let deployment = Deployment::start(0).await;
    let (server, log) = logging_replica(&deployment, &[("NOETL_SLOW_OPERATION_MS", "1")]).await;
    Box::pin(a_slow_operation_is_logged_without_its_variables_and_without_colours(&deployment, &server, &log)).await;
    Box::pin(each_lifecycle_change_writes_an_info_line(&server, &log)).await;
    Box::pin(the_line_of_a_lifecycle_change_names_the_caller(&deployment)).await;
    Box::pin(an_execution_that_can_t_be_advanced_is_logged_with_the_cause(&deployment, &log)).await;
    assert!(server.stop().await.success());
}

/// A slow operation is logged without its variables and without colours.
async fn a_slow_operation_is_logged_without_its_variables_and_without_colours(
    deployment: &Deployment,
    server: &Server,
    log: &NamedTempFile,
) {
    let query = "query Stalled($path: String!) { catalogEntry(by: {path: $path}) { id } }";
    let (mut holder, mut watcher) = (deployment.cluster().await, deployment.cluster().await);
    let mut held = holder.begin().await.unwrap();
    sqlx::query("LOCK TABLE noetl.catalog IN ACCESS EXCLUSIVE MODE").execute(&mut *held).await.unwrap();
    let request = http_client().post(format!("{}/graphql", server.url)).header("x-request-id", "stalled-1");
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

/// Each change of the lifecycle of a source subscription writes a line of level INFO, and a refused one writes none.
async fn each_lifecycle_change_writes_an_info_line(server: &Server, log: &NamedTempFile) {
    let id = server.subscribe("orders/in").await;
    server.register("orders/in").await;
    for action in ["activate", "pause", "resume", "drain", "deactivate", "activate"] {
        server.transition(action, &id, None).await;
    }
    let refused = server.transition("resume", "1", None).await;
    assert_eq!(refused["userErrors"][0]["code"], "NOT_FOUND", "{refused}");
    let all =
        "mutation { transitionSubscriptions(input: { action: PAUSE, select: { all: true }, reason: \"night\", dryRun: false }) {
        results { applied } } }";
    server.data(all, json!({})).await;

    let log = fs::read_to_string(log.path()).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("source subscription changed")).collect();
    let events = ["registered", "activated", "paused", "resumed", "draining", "deactivated", "activated", "paused"];
    let states = ["REGISTERED", "ACTIVE", "PAUSED", "ACTIVE", "DRAINING", "DEACTIVATED", "ACTIVE", "PAUSED"];
    assert_eq!(lines.len(), events.len(), "{lines:#?}");
    for ((line, event), state) in lines.iter().zip(events).zip(states) {
        for part in [" INFO ", "orders/in", &id, &format!("subscription.{event}"), &format!("state={state}")] {
            assert!(line.contains(part), "no {part} in {line}");
        }
    }
    assert!(lines[7].contains("reason=\"night\""), "{}", lines[7]);
}

/// The line of a lifecycle change names the caller, if the server knows it.
async fn the_line_of_a_lifecycle_change_names_the_caller(deployment: &Deployment) {
    let file = TokenFile::new();
    let token = file.add(&["--role", "admin", "--subject", "ann"]);
    let (name, path) = file.setting();
    let (server, log) = logging_replica(deployment, &[(name, path.as_str())]).await;
    let query = "mutation { registerCatalogEntry(input: { path: \"orders/of-ann\", content: \"kind: subscription\" }) {
        userErrors { message } } registerSubscription(input: { path: \"orders/of-ann\" }) { userErrors { message } } }";
    let answer = server.send_as(&token, query, json!({})).await;
    assert_eq!(answer["data"]["registerSubscription"]["userErrors"], json!([]), "{answer}");
    let log = fs::read_to_string(log.path()).unwrap();
    let line = log.lines().find(|line| line.contains("source subscription changed"));
    assert!(line.is_some_and(|line| line.contains("actor=\"ann\"")), "{line:?}");
    assert!(server.stop().await.success());
}

/// An execution that can't be advanced is logged with the cause.
async fn an_execution_that_can_t_be_advanced_is_logged_with_the_cause(deployment: &Deployment, log: &NamedTempFile) {
    deployment.feeds_begun().await;
    break_projections(deployment).await;
    deployment.commit(4711, 1..=1).await;
    let line = eventually("the projector has tried", async || {
        let log = fs::read_to_string(log.path()).unwrap();
        log.lines().find(|line| line.contains("an execution can't be advanced now")).map(str::to_owned)
    })
    .await;
    for part in [" WARN ", "execution=4711 ", "relation \"noetl.projection_snapshot\" does not exist", "attempts=1"] {
        assert!(line.contains(part), "no {part} in {line}");
    }
}
