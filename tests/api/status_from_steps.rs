//! Statuses of ended executions with failed events, by the setting that NoETL has too.

use noetl_testkit::projections::NO_PROJECTOR_NO_STREAM;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

const CANCEL: &str = "mutation { cancelExecution(input: { executionId: \"3000\" }) {
    cancelled execution { status } userErrors { code } } }";

/// Writes the log of an execution: types of events, with their steps and statuses.
async fn write(shard: &mut PgConnection, id: i64, events: &[(&str, Option<&str>, &str)]) {
    for (offset, &(event_type, step, status)) in (1_i64..).zip(events) {
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
    let (started, failed) = (("playbook_started", None, "STARTED"), ("command.failed", Some("a"), "FAILED"));
    let (done, ended) = (("command.completed", Some("a"), "success"), ("playbook.completed", None, "COMPLETED"));
    write(&mut shard, 1000, &[started, failed, done, ended]).await;
    write(&mut shard, 2000, &[started, done, ended]).await;
    write(&mut shard, 3000, &[started, failed, ("step.enter", Some("b"), "ENTERED")]).await;
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
            assert_eq!(lists(&server).await["FAILED"], json!(["3000", "1000"]));
        }
        assert!(server.stop().await.success());
    }
}
