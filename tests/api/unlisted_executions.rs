//! Executions that have only a log, because NoETL's server started them and nothing has filled the list yet. Everything
//! that takes the id of an execution works for them.

use noetl_testkit::feed::{insert_typed, run};
use noetl_testkit::projections::NO_PROJECTOR_NO_STREAM;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

/// A server that fills the list never again: the pass has ended, as after the feed has begun.
async fn started(settings: &[(&str, &str)]) -> (Deployment, Server, PgConnection) {
    let deployment = Deployment::start(0).await;
    let mut shard = deployment.shard(0).await;
    run(&mut shard, "INSERT INTO noetl.read_model_fill (after_feed, ended_at) VALUES (true, now())").await;
    let server = deployment.replica_with(settings).await;
    (deployment, server, shard)
}

async fn log_of_noetl(shard: &mut PgConnection, id: i64, rest: &[&str]) {
    let started = format!(
        "INSERT INTO noetl.event (execution_id, event_id, catalog_id, event_type, node_name, status, context)
         VALUES ({id}, {id} + 1, 7, 'playbook_started', 'theirs', 'STARTED', '{{\"path\": \"theirs\"}}')"
    );
    run(&mut *shard, &started).await;
    for (event, event_type) in (id + 2..).zip(rest) {
        insert_typed(&mut *shard, (id, event), event_type).await;
    }
}

const LISTED: &str = "SELECT count(*) FROM noetl.execution";

async fn cancel(server: &Server, id: i64) -> Value {
    let query = "mutation($id: ID!) { cancelExecution(input: {executionId: $id, reason: \"enough\"}) {
        execution { status path error catalogId } userErrors { code field } } }";
    server.data(query, json!({ "id": id.to_string() })).await["cancelExecution"].clone()
}

#[tokio::test]
async fn an_execution_that_has_only_a_log_can_be_cancelled_once() {
    let (deployment, server, mut shard) = started(&NO_PROJECTOR_NO_STREAM).await;
    log_of_noetl(&mut shard, 1_000, &["step.enter"]).await;
    let cancelled = cancel(&server, 1_000).await;
    let expected = json!({ "execution": { "status": "CANCELLED", "path": "theirs", "error": "enough", "catalogId": "7" },
        "userErrors": [] });
    assert_eq!(cancelled, expected);
    let row: (String, Option<String>, i64) =
        sqlx::query_as("SELECT status, error, last_event_id FROM noetl.execution").fetch_one(&mut shard).await.unwrap();
    assert_eq!((row.0.as_str(), row.1.as_deref()), ("CANCELLED", Some("enough")));
    let event = "SELECT node_name, catalog_id, event_id FROM noetl.event WHERE event_type = 'playbook.cancelled'";
    let event: (String, i64, i64) = sqlx::query_as(event).fetch_one(&mut shard).await.unwrap();
    assert_eq!(event, ("theirs".to_owned(), 7, row.2));
    assert_eq!(cancel(&server, 1_000).await, expected);
    let events = "SELECT count(*) FROM noetl.event WHERE event_type = 'playbook.cancelled'";
    assert_eq!(deployment.in_cluster(events).await, 1);

    // One that has ended is refused, and so is a log that is not an execution's.
    log_of_noetl(&mut shard, 2_000, &["playbook.completed"]).await;
    insert_typed(&mut shard, (3_000, 3_001), "subscription.registered").await;
    assert_eq!(
        cancel(&server, 2_000).await["userErrors"],
        json!([{ "code": "INVALID_TRANSITION", "field": ["executionId"] }])
    );
    for id in [3_000, 4_000] {
        assert_eq!(
            cancel(&server, id).await["userErrors"],
            json!([{ "code": "NOT_FOUND", "field": ["executionId"] }]),
            "{id}"
        );
    }
    assert_eq!(deployment.in_cluster(LISTED).await, 2);
}

#[tokio::test]
async fn an_execution_that_has_only_a_log_can_be_advanced() {
    let (deployment, server, mut shard) = started(&NO_PROJECTOR_NO_STREAM).await;
    log_of_noetl(&mut shard, 1_000, &["step.enter"]).await;
    let advanced = server.advance_projections(&[1_000]).await;
    assert_eq!((&advanced["failed"], &advanced["advanced"][0]["version"]), (&json!([]), &json!("1002")), "{advanced}");
    assert_eq!(deployment.in_cluster(LISTED).await, 1);
}

#[tokio::test]
async fn an_execution_that_has_only_a_log_shows_its_error() {
    let (deployment, server, mut shard) = started(&NO_PROJECTOR_NO_STREAM).await;
    log_of_noetl(&mut shard, 1_000, &["step.enter"]).await;
    let failed = "INSERT INTO noetl.event (execution_id, event_id, event_type, error)
                  VALUES (1000, 1003, 'playbook.failed', 'no such table')";
    run(&mut shard, failed).await;
    let read = server.data("{ execution(id: \"1000\") { status error } }", Value::Null).await;
    assert_eq!(read["execution"], json!({ "status": "FAILED", "error": "no such table" }));
    assert_eq!(deployment.in_cluster(LISTED).await, 0);
}

#[tokio::test]
async fn live_changes_of_an_execution_that_has_only_a_log_begin_with_its_state() {
    let (deployment, server, mut shard) = started(&[("NOETL_PROJECTOR", "false")]).await;
    deployment.feeds_begun().await;
    log_of_noetl(&mut shard, 1_000, &["step.enter"]).await;
    let query = "subscription { executionUpdates(executionId: \"1000\") { kind execution { id status path } } }";
    let mut live = server.live(query, Value::Null).await;
    let first = live.next().await.unwrap();
    assert_eq!(first["executionUpdates"]["execution"], json!({ "id": "1000", "status": "PENDING", "path": "theirs" }));
    insert_typed(&mut shard, (1_000, 1_003), "playbook.completed").await;
    loop {
        // The same state may be returned twice.
        let next = live.next().await.unwrap();
        if next["executionUpdates"]["execution"]["status"] == "COMPLETED" {
            break;
        }
        assert_eq!(next["executionUpdates"]["execution"]["status"], "PENDING", "{next}");
    }
    assert_eq!(deployment.in_cluster(LISTED).await, 0);
}
