//! Executions that have only a log, because NoETL's server started them and nothing has filled the list yet. Everything
//! that takes the id of an execution works for them.

use noetl_testkit::feed::{insert_typed, run};
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

/// A server that fills the list never again: the pass has ended, as after the feed has begun.
async fn started() -> (Deployment, Server, PgConnection) {
    let deployment = Deployment::start(0).await;
    let mut shard = deployment.shard(0).await;
    run(&mut shard, "INSERT INTO noetl.read_model_fill (after_feed, ended_at) VALUES (true, now())").await;
    let server = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    deployment.feeds_begun().await;
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
async fn an_execution_that_has_only_a_log_is_followed_shown_advanced_and_cancelled() {
    let (deployment, server, mut shard) = started().await;
    Box::pin(live_changes(&deployment, &server, &mut shard)).await;
    error(&deployment, &server, &mut shard).await;
    advanced(&deployment, &server, &mut shard).await;
    cancelled_once(&deployment, &server, &mut shard).await;
}

/// It can be cancelled once.
async fn cancelled_once(deployment: &Deployment, server: &Server, shard: &mut PgConnection) {
    let listed = deployment.in_cluster(LISTED).await;
    log_of_noetl(shard, 5_000, &["step.enter"]).await;
    let cancelled = cancel(server, 5_000).await;
    let expected = json!({ "execution": { "status": "CANCELLED", "path": "theirs", "error": "enough", "catalogId": "7" },
        "userErrors": [] });
    assert_eq!(cancelled, expected);
    let row = "SELECT status, error, last_event_id FROM noetl.execution WHERE execution_id = 5000";
    let row: (String, Option<String>, i64) = sqlx::query_as(row).fetch_one(&mut *shard).await.unwrap();
    assert_eq!((row.0.as_str(), row.1.as_deref()), ("CANCELLED", Some("enough")));
    let event = "SELECT node_name, catalog_id, event_id FROM noetl.event WHERE event_type = 'playbook.cancelled'";
    let event: (String, i64, i64) = sqlx::query_as(event).fetch_one(&mut *shard).await.unwrap();
    assert_eq!(event, ("theirs".to_owned(), 7, row.2));
    assert_eq!(cancel(server, 5_000).await, expected);
    let events = "SELECT count(*) FROM noetl.event WHERE event_type = 'playbook.cancelled'";
    assert_eq!(deployment.in_cluster(events).await, 1);

    // One that has ended is refused, and so is a log that is not an execution's.
    log_of_noetl(shard, 6_000, &["playbook.completed"]).await;
    insert_typed(&mut *shard, (7_000, 7_001), "subscription.registered").await;
    assert_eq!(
        cancel(server, 6_000).await["userErrors"],
        json!([{ "code": "INVALID_TRANSITION", "field": ["executionId"] }])
    );
    for id in [7_000, 8_000] {
        assert_eq!(
            cancel(server, id).await["userErrors"],
            json!([{ "code": "NOT_FOUND", "field": ["executionId"] }]),
            "{id}"
        );
    }
    assert_eq!(deployment.in_cluster(LISTED).await, listed + 2);
}

/// It can be advanced.
async fn advanced(deployment: &Deployment, server: &Server, shard: &mut PgConnection) {
    let listed = deployment.in_cluster(LISTED).await;
    log_of_noetl(shard, 3_000, &["step.enter"]).await;
    let advanced = server.advance_projections(&[3_000]).await;
    assert_eq!((&advanced["failed"], &advanced["advanced"][0]["version"]), (&json!([]), &json!("3002")), "{advanced}");
    assert_eq!(deployment.in_cluster(LISTED).await, listed + 1);
}

/// It shows its error. No execution is listed.
async fn error(deployment: &Deployment, server: &Server, shard: &mut PgConnection) {
    log_of_noetl(shard, 2_000, &["step.enter"]).await;
    let failed = "INSERT INTO noetl.event (execution_id, event_id, event_type, error)
                  VALUES (2000, 2003, 'playbook.failed', 'no such table')";
    run(shard, failed).await;
    let read = server.data("{ execution(id: \"2000\") { status error } }", Value::Null).await;
    assert_eq!(read["execution"], json!({ "status": "FAILED", "error": "no such table" }));
    assert_eq!(deployment.in_cluster(LISTED).await, 0);
}

/// Live changes begin with its state. No execution is listed.
async fn live_changes(deployment: &Deployment, server: &Server, shard: &mut PgConnection) {
    log_of_noetl(shard, 1_000, &["step.enter"]).await;
    let query = "subscription { executionUpdates(executionId: \"1000\") { kind execution { id status path } } }";
    let mut live = server.live(query, Value::Null).await;
    let first = live.next().await.unwrap();
    assert_eq!(first["executionUpdates"]["execution"], json!({ "id": "1000", "status": "PENDING", "path": "theirs" }));
    insert_typed(&mut *shard, (1_000, 1_003), "playbook.completed").await;
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
