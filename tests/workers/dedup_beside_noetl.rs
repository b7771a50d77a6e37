//! Dedup claims of this server and of NoETL's own server in one table: each server respects the claims of the other.

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Server, execute_input};
use serde_json::{Value, json};
use sqlx::PgConnection;

const PARENT: i64 = 7;

async fn replica(deployment: &Deployment) -> Server {
    let server = deployment.replica().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    server
}

async fn execute(server: &Server, key: &str, window: i64) -> Value {
    let query = "mutation($input: ExecuteInput!) { execute(input: $input) {
        executionId outcome differs execution { id } userErrors { code } } }";
    let input = json!({ "path": "process", "dedup": { "key": key, "windowSeconds": window } });
    server.data(query, json!({ "input": execute_input(input) })).await["execute"].clone()
}

/// Claims a key as NoETL's server (3.15.4) does. Returns the execution that owns the key.
async fn claim_as_noetl(cluster: &mut PgConnection, scope: i64, key: &str, window: f64, execution: i64) -> i64 {
    sqlx::query(
        "DELETE FROM noetl.subscription_dedup
         WHERE subscription_id = $1 AND seen_at < now() - make_interval(secs => $2)",
    )
    .bind(scope)
    .bind(window)
    .execute(&mut *cluster)
    .await
    .unwrap();
    let inserted = sqlx::query(
        "INSERT INTO noetl.subscription_dedup (subscription_id, dedup_key, execution_id, seen_at)
         VALUES ($1, $2, $3, now()) ON CONFLICT (subscription_id, dedup_key) DO NOTHING",
    )
    .bind(scope)
    .bind(key)
    .bind(execution)
    .execute(&mut *cluster)
    .await
    .unwrap();
    if inserted.rows_affected() == 1 {
        return execution;
    }
    let owner = "SELECT execution_id FROM noetl.subscription_dedup WHERE subscription_id = $1 AND dedup_key = $2";
    sqlx::query_scalar(owner).bind(scope).bind(key).fetch_one(cluster).await.unwrap()
}

/// Moves all claims into the past, as if this number of seconds had passed.
async fn age(cluster: &mut PgConnection, seconds: u32) {
    let age = format!(
        "UPDATE noetl.subscription_dedup SET seen_at = seen_at - interval '{seconds} seconds',
                                             expires_at = expires_at - interval '{seconds} seconds'"
    );
    run(cluster, &age).await;
}

#[tokio::test]
async fn each_server_respects_the_claims_of_the_other() {
    let deployment = Deployment::start(1).await;
    // Without a server of this project, which would finish the claim.
    noetl_does_not_delete_a_reserved_claim(&deployment).await;
    let server = replica(&deployment).await;
    a_claim_of_noetl_is_checked_against_the_window_of_the_request(&deployment, &server).await;
    noetl_returns_the_execution_of_a_claim_until_the_claims_own_window_ends(&deployment, &server).await;
}

/// A claim of NoETL has no window of its own.
async fn a_claim_of_noetl_is_checked_against_the_window_of_the_request(deployment: &Deployment, server: &Server) {
    let mut cluster = deployment.cluster().await;
    for (key, execution) in [("short", 101), ("long", 102)] {
        assert_eq!(claim_as_noetl(&mut cluster, 0, key, 300.0, execution).await, execution);
    }
    age(&mut cluster, 600).await;
    let long = execute(server, "long", 3600).await;
    assert_eq!((&long["outcome"], &long["executionId"]), (&json!("DUPLICATE"), &json!("102")), "{long}");
    // NoETL stores no request to compare with, and has not created the execution yet.
    assert_eq!((&long["differs"], &long["execution"]), (&Value::Null, &Value::Null), "{long}");
    let short = execute(server, "short", 599).await;
    assert_eq!(short["outcome"], "STARTED", "{short}");
    assert_eq!(execute(server, "short", 599).await["executionId"], short["executionId"]);
}

/// A claim of this server outlasts the window with which NoETL deletes claims.
async fn noetl_returns_the_execution_of_a_claim_until_the_claims_own_window_ends(
    deployment: &Deployment,
    server: &Server,
) {
    let mut cluster = deployment.cluster().await;
    let ours = execute(server, "m-1", 3600).await["executionId"].as_str().unwrap().parse::<i64>().unwrap();
    age(&mut cluster, 600).await;
    // NoETL deletes the claims of a scope that are older than its own window.
    assert_eq!(claim_as_noetl(&mut cluster, 0, "other", 300.0, 201).await, 201);
    assert_eq!(claim_as_noetl(&mut cluster, 0, "m-1", 300.0, 202).await, ours);
    assert_eq!(execute(server, "m-1", 3600).await["executionId"], ours.to_string());
    age(&mut cluster, 3100).await;
    assert_eq!(claim_as_noetl(&mut cluster, 0, "m-1", 300.0, 203).await, 203);
}

/// A reserved claim stays until its execution exists, although its window has ended.
async fn noetl_does_not_delete_a_reserved_claim(deployment: &Deployment) {
    let mut cluster = deployment.cluster().await;
    let reserve = format!(
        "INSERT INTO noetl.subscription_dedup
             (subscription_id, dedup_key, execution_id, request_hash, state, request, seen_at, expires_at)
         VALUES ({PARENT}, 'm-1', 301, '\\x00', 0, '{{}}', now() - interval '1 hour', now() - interval '1 minute')"
    );
    run(&mut cluster, &reserve).await;
    assert_eq!(claim_as_noetl(&mut cluster, PARENT, "m-1", 300.0, 302).await, 301);
    run(&mut cluster, "TRUNCATE noetl.subscription_dedup").await;
}
