//! Statuses of ended executions with failed events, by the setting that NoETL has too.

use noetl_testkit::projections::{NO_PROJECTOR_NO_STREAM, fill_has_ended};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

const CANCEL: &str = "mutation { cancelExecution(input: { executionId: \"3000\" }) {
    cancelled execution { status } userErrors { code } } }";

/// An event: its type, step and status.
type Event = (&'static str, Option<&'static str>, &'static str);

const STARTED: Event = ("playbook_started", None, "STARTED");
const FAILED: Event = ("command.failed", Some("a"), "FAILED");
const DONE: Event = ("command.completed", Some("a"), "success");
const ENDED: Event = ("playbook.completed", None, "COMPLETED");

/// Writes events of an execution. The first one has the id of the execution plus `first`.
async fn write(shard: &mut PgConnection, id: i64, first: i64, events: &[Event]) {
    for (offset, &(event_type, step, status)) in (first..).zip(events) {
        let insert = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status)
                      VALUES ($1, $1 + $2, $3, $4, $5)";
        let insert = sqlx::query(insert).bind(id).bind(offset).bind(event_type).bind(step).bind(status);
        insert.execute(&mut *shard).await.unwrap();
    }
}

/// Returns the ids in the lists of all statuses; null if a list has another number of executions than it counts.
async fn lists(server: &Server) -> Value {
    let query = "query($status: ExecutionStatus!) { executions(filter: { statuses: [$status] }) {
        nodes { id status error } totalCount { value } } }";
    let mut found = Map::new();
    for status in ["RUNNING", "COMPLETED", "FAILED", "CANCELLED"] {
        let list = server.data(query, json!({ "status": status })).await["executions"].take();
        let nodes = list["nodes"].as_array().unwrap();
        assert!(nodes.iter().all(|node| node["status"] == status), "{list}");
        let ids: Vec<Value> = nodes.iter().map(|node| node["id"].clone()).collect();
        let is_counted = list["totalCount"]["value"] == nodes.len();
        found.insert(status.to_owned(), if is_counted { json!(ids) } else { Value::Null });
    }
    found.into()
}

#[tokio::test]
async fn a_changed_setting_gives_the_same_executions_the_other_statuses_in_all_reads() {
    let deployment = Deployment::start(0).await;
    let mut shard = deployment.shard(0).await;
    write(&mut shard, 1000, 1, &[STARTED, FAILED, DONE, ENDED]).await;
    write(&mut shard, 2000, 1, &[STARTED, DONE, ENDED]).await;
    write(&mut shard, 3000, 1, &[STARTED, FAILED, ("step.enter", Some("b"), "ENTERED")]).await;
    let by_end = json!({ "RUNNING": ["3000"], "COMPLETED": ["2000", "1000"], "FAILED": [], "CANCELLED": [] });
    let by_steps = json!({ "RUNNING": ["3000"], "COMPLETED": ["2000"], "FAILED": ["1000"], "CANCELLED": [] });
    let cancelled = json!({ "RUNNING": [], "COMPLETED": ["2000", "1000"], "FAILED": [], "CANCELLED": ["3000"] });
    for (setting, expected, status) in
        [("off", by_end, "COMPLETED"), ("on", by_steps, "FAILED"), ("off", cancelled, "COMPLETED")]
    {
        let [projector, stream] = NO_PROJECTOR_NO_STREAM;
        let settings = [projector, stream, ("NOETL_EXECUTION_STATUS_FROM_STEPS", setting)];
        let server = deployment.replica_with(&settings).await;
        // The fill of the list stores the statuses in the background, and exact reads do not wait for it.
        let exact = "{ execution(id: \"1000\") { status }
                       executionState(executionId: \"1000\", at: { eventId: \"1004\" }) { status } }";
        let exact = server.data(exact, Value::Null).await;
        let shown = json!({ "status": status });
        assert_eq!((&exact["execution"], &exact["executionState"]), (&shown, &shown), "{setting}");
        eventually("the lists have the statuses", async || (lists(&server).await == expected).then_some(())).await;
        if setting == "on" {
            for is_first in [true, false] {
                let payload = server.data(CANCEL, Value::Null).await["cancelExecution"].take();
                let expected = json!({ "cancelled": is_first, "execution": { "status": "FAILED" }, "userErrors": [] });
                assert_eq!(payload, expected, "a cancellation can be repeated");
            }
            let first = server.data("{ executions(first: 1) { nodes { id status } } }", Value::Null).await;
            assert_eq!(first["executions"]["nodes"], json!([{ "id": "3000", "status": "FAILED" }]));
            server.advance_projections(&[3000]).await;
            assert_eq!(lists(&server).await["FAILED"], json!(["3000", "1000"]));
        }
        assert!(server.stop().await.success());
    }
}

#[tokio::test]
async fn a_failed_event_after_the_end_shows_in_lists_that_no_projector_keeps_current() {
    let deployment = Deployment::start(0).await;
    let settings = [("NOETL_PROJECTOR", "false"), ("NOETL_EXECUTION_STATUS_FROM_STEPS", "on")];
    let server = deployment.replica_with(&settings).await;
    deployment.feeds_begun().await;
    let mut shard = deployment.shard(0).await;
    fill_has_ended(&mut shard).await;
    write(&mut shard, 1000, 1, &[STARTED, DONE, ENDED]).await;
    server.advance_projections(&[1000]).await;
    let query = "query($filter: ExecutionFilter) { executions(filter: $filter) { nodes { id status } } }";
    let live = "subscription { executionListUpdates { execution { id status } } }";
    for (late, status, left) in [(None, "COMPLETED", false), (Some(FAILED), "FAILED", true)] {
        write(&mut shard, 1000, 4, late.as_slice()).await;
        let row = json!({ "id": "1000", "status": status });
        let completed = if left { json!([]) } else { json!([row]) };
        for (filter, expected) in [(json!({}), json!([row])), (json!({ "statuses": ["COMPLETED"] }), completed)] {
            let found = server.data(query, json!({ "filter": filter })).await;
            assert_eq!(found["executions"]["nodes"], expected, "{filter}");
        }
        let first = server.live(live, Value::Null).await.next().await.unwrap()["executionListUpdates"].take();
        assert_eq!(first["execution"], row);
    }
}
