//! A fold ends with its reader: when the item that needs it has timed out, when its replica dies, and at its time limit.
//! A fold that takes too long is a timeout, not a shard that is down.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use noetl_domain::tenant::Scope;
use noetl_storage::error::{DatabaseName, StorageError};
use noetl_storage::pools::Database;
use noetl_storage::snapshots;
use noetl_testkit::feed::run;
use noetl_testkit::projections::insert_step_event;
use noetl_testkit::{Deployment, Live, Server, eventually, http_client};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};

/// Time limit of a cancellation: one second, plus much for a busy machine. A fold that is not cancelled takes a minute.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);
/// Condition on the statements that fold a log, by their beginning. PostgreSQL shows only the beginning of a query.
const FOLDS: &str = "datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
                     AND (query LIKE '%FROM pg_control_system()%' OR query LIKE '%WITH base AS%')";

/// Makes each fold of an execution wait a minute for each event. Other statements on the log are not slower.
async fn slow_folds(connection: &mut PgConnection, execution: i64) {
    let view = format!(
        "ALTER TABLE noetl.event RENAME TO event_kept;
         CREATE VIEW noetl.event AS SELECT * FROM noetl.event_kept
         WHERE CASE WHEN execution_id = {execution} AND current_query() LIKE '%pg_snapshot_xip(base.as_of%'
                    THEN pg_sleep(60) IS NOT NULL ELSE true END"
    );
    run(connection, &view).await;
}

async fn quick_folds(connection: &mut PgConnection) {
    run(connection, "DROP VIEW noetl.event; ALTER TABLE noetl.event_kept RENAME TO event").await;
}

async fn until_folds(connection: &mut PgConnection, count: i64) {
    let query = format!("SELECT count(*) FROM pg_stat_activity WHERE {FOLDS}");
    eventually("the folds run or have ended", async || {
        let running: i64 = sqlx::query_scalar(AssertSqlSafe(&*query)).fetch_one(&mut *connection).await.unwrap();
        (running == count).then_some(())
    })
    .await;
}

/// Waits until a fold runs that started after `after`, cancels it in the database, and returns its start.
async fn cancel_fold(connection: &mut PgConnection, after: Option<DateTime<Utc>>) -> DateTime<Utc> {
    let query = format!(
        "SELECT query_start FROM pg_stat_activity
         WHERE CASE WHEN {FOLDS} AND wait_event = 'PgSleep' AND ($1::timestamptz IS NULL OR query_start > $1)
                    THEN pg_cancel_backend(pid) ELSE false END"
    );
    eventually("a fold is cancelled", async || {
        let cancel = sqlx::query_scalar(AssertSqlSafe(&*query)).bind(after);
        cancel.fetch_optional(&mut *connection).await.unwrap()
    })
    .await
}

/// Panics unless all folds end within [`CANCEL_LIMIT`].
async fn assert_abandoned_folds_end(connection: &mut PgConnection) {
    let begun = Instant::now();
    until_folds(connection, 0).await;
    assert!(begun.elapsed() < CANCEL_LIMIT, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_fold_of_an_item_that_timed_out_is_cancelled_and_the_subscription_continues() {
    let deployment = Deployment::start(0).await;
    let settings = [("NOETL_OPERATION_DEADLINE_SECS", "3"), ("NOETL_PROJECTOR", "false")];
    let server = deployment.replica_with(&settings).await;
    deployment.feeds_begun().await;
    let id = server.start_execution().await;
    let mut shard = deployment.shard(0).await;
    let query =
        "subscription($id: ID!) { executionUpdates(executionId: $id) { execution { steps { nodes { name } } } } }";
    let mut live = Live::open(&server.url, query, json!({ "id": id.to_string() })).await;
    let has_no_step = |data: &Value| assert_eq!(data["executionUpdates"]["execution"]["steps"]["nodes"], json!([]));
    has_no_step(&live.next().await.unwrap());

    slow_folds(&mut shard, id).await;
    insert_step_event(&mut shard, id, 100, "step.enter", "{}", "{}").await;
    until_folds(&mut shard, 1).await;
    // The events of the start can be a second item, which was read before the folds became slow.
    let errors = live.errors_after(has_no_step).await;
    assert_eq!(errors[0]["extensions"]["code"], "TIMEOUT", "{errors}");
    assert_abandoned_folds_end(&mut shard).await;

    quick_folds(&mut shard).await;
    insert_step_event(&mut shard, id, 101, "step.enter", "{}", "{}").await;
    // An event whose fold timed out may be tried again meanwhile.
    let next = live.next_after("TIMEOUT").await;
    assert_eq!(next["executionUpdates"]["execution"]["steps"]["nodes"], json!([{ "name": "a" }]));
}

#[tokio::test]
async fn the_folds_of_a_killed_replica_end() {
    let deployment = Deployment::start(0).await;
    let mut server = deployment.replica_without_projector().await;
    let id = server.start_execution().await;
    let mut shard = deployment.shard(0).await;
    slow_folds(&mut shard, id).await;
    let query = json!({ "query": format!("{{ execution(id: \"{id}\") {{ steps {{ nodes {{ name }} }} }} }}") });
    let request = http_client().post(format!("{}/graphql", server.url)).json(&query).send();
    let reader = tokio::spawn(request);
    until_folds(&mut shard, 1).await;
    server.kill_9().await;
    assert_abandoned_folds_end(&mut shard).await;
    assert!(reader.await.unwrap().is_err());
}

#[tokio::test]
async fn a_fold_that_is_ended_is_a_timeout_of_its_execution_only() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_projector().await;
    a_fold_ends_at_its_time_limit(&deployment, &server).await;
    // It leaves its folds slow.
    a_fold_that_the_database_ends_is_a_timeout_of_its_execution_only(&deployment, &server).await;
}

/// A fold that the database ends fails its execution, and no other one of the request.
async fn a_fold_that_the_database_ends_is_a_timeout_of_its_execution_only(deployment: &Deployment, server: &Server) {
    let (slow, quick) = (server.start_execution().await, server.start_execution().await);
    let (mut shard, mut observer) = tokio::join!(deployment.shard(0), deployment.shard(0));
    slow_folds(&mut shard, slow).await;
    // The database ends a statement in the same way when its statement timeout has passed: first that of both
    // executions, then that of the slow one.
    let cancelled = async {
        let first = cancel_fold(&mut observer, None).await;
        cancel_fold(&mut observer, Some(first)).await;
    };
    let both = [slow, quick];
    let ((), payload) = tokio::join!(cancelled, server.advance_projections(&both));
    let advanced = &payload["advanced"];
    assert_eq!((&advanced[0]["executionId"], &advanced[1]), (&json!(quick.to_string()), &Value::Null), "{payload}");
    let failed = &payload["failed"][0];
    assert_eq!((&failed["executionId"], &failed["code"]), (&json!(slow.to_string()), &json!("TIMEOUT")), "{payload}");
    assert_eq!(failed["retryable"], true);

    let query = "query($id: ID!) { execution(id: $id) { steps { nodes { name } } } }";
    let request = server.send(query, json!({ "id": slow.to_string() }));
    let (_, response) = tokio::join!(cancel_fold(&mut observer, None), request);
    assert_eq!(response.unwrap()["errors"][0]["extensions"]["code"], "TIMEOUT");
}

/// A fold that has reached its time limit leaves its connection usable.
async fn a_fold_ends_at_its_time_limit(deployment: &Deployment, server: &Server) {
    let id = server.start_execution().await;
    let mut shard = deployment.shard(0).await;
    slow_folds(&mut shard, id).await;
    let options = deployment.shard_dsns[0].parse().unwrap();
    let database = Database::new(DatabaseName::Cluster, options, 1);
    let limit = Duration::from_millis(300);
    let begun = Instant::now();
    let outcome = snapshots::read(&database, &Scope::Unrestricted, &[id], limit).await;
    assert!(matches!(outcome, Err(StorageError::TimedOut { .. })), "{outcome:?}");
    assert!(begun.elapsed() < CANCEL_LIMIT, "{:?}", begun.elapsed());
    assert_abandoned_folds_end(&mut shard).await;

    // The only connection of the pool is usable again.
    quick_folds(&mut shard).await;
    assert_eq!(snapshots::read(&database, &Scope::Unrestricted, &[id], CANCEL_LIMIT).await.unwrap().len(), 1);
}
