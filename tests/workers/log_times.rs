//! The times of a log's events increase along the log, also if a writer had to wait for the log's lock.

use chrono::NaiveDateTime;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, eventually};
use serde_json::{Value, json};
use sqlx::PgConnection;

const WAITING: &str = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
                       WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted";

async fn times(shard: &mut PgConnection, log: i64) -> Vec<NaiveDateTime> {
    let times = "SELECT created_at FROM noetl.event WHERE execution_id = $1 ORDER BY event_id";
    sqlx::query_scalar(times).bind(log).fetch_all(shard).await.unwrap()
}

/// Takes the lock of a log.
async fn locked(deployment: &Deployment, log: i64) -> PgConnection {
    let mut holder = deployment.shard(0).await;
    run(&mut holder, &format!("BEGIN; SELECT pg_advisory_xact_lock({log})")).await;
    holder
}

/// Waits until a mutation waits for the lock of a log, then writes the log's next event and releases the lock.
async fn write_while_waiting(deployment: &Deployment, mut holder: PgConnection, log: i64) {
    let mut observer = deployment.shard(0).await;
    eventually("the mutation waits", async || {
        let waiting: i64 = sqlx::query_scalar(WAITING).fetch_one(&mut observer).await.unwrap();
        (waiting == 1).then_some(())
    })
    .await;
    let insert = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, created_at)
         SELECT {log}, max(event_id) + 1, 'call.done', clock_timestamp() AT TIME ZONE 'UTC'
         FROM noetl.event WHERE execution_id = {log};
         COMMIT"
    );
    run(&mut holder, &insert).await;
}

#[tokio::test]
async fn the_time_of_an_event_is_taken_while_the_log_is_locked() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    let inbox = server.subscribe("inbox").await;
    let flow = server.started(json!({ "path": "flow" })).await;
    let cancel =
        format!("mutation {{ cancelExecution(input: {{executionId: \"{flow}\"}}) {{ execution {{ status }} }} }}");
    let mut shard = deployment.shard(0).await;

    let log: i64 = inbox.parse().unwrap();
    let holder = locked(&deployment, log).await;
    let (activated, ()) =
        tokio::join!(server.transition("activate", &inbox, None), write_while_waiting(&deployment, holder, log));
    assert_eq!(activated["subscription"]["status"], "ACTIVE", "{activated}");
    let found = times(&mut shard, log).await;
    assert!(found.len() == 3 && found.is_sorted(), "{found:?}");

    let log: i64 = flow.parse().unwrap();
    let holder = locked(&deployment, log).await;
    let (cancelled, ()) =
        tokio::join!(server.data(&cancel, Value::Null), write_while_waiting(&deployment, holder, log));
    assert_eq!(cancelled["cancelExecution"]["execution"]["status"], "CANCELLED", "{cancelled}");
    let found = times(&mut shard, log).await;
    assert!(found.len() == 3 && found.is_sorted(), "{found:?}");
    let ended = "SELECT end_time AT TIME ZONE 'UTC' FROM noetl.execution WHERE execution_id = $1";
    let ended: NaiveDateTime = sqlx::query_scalar(ended).bind(log).fetch_one(&mut shard).await.unwrap();
    assert_eq!(Some(&ended), found.last(), "the list's row has the time of the event");
}
