//! Executions that have only a log get a row in the list: by `maintain`, by a server in the background, and after a
//! crash from where the work was interrupted.

use noetl_testkit::feed::{insert_typed, run};
use noetl_testkit::projections::NO_PROJECTOR_NO_STREAM;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};
use sqlx::PgConnection;

const LIST: &str = "{ executions(first: 100) { nodes { id path status endedAt } } }";

/// Writes the log of an execution as NoETL's server does: without a row in the list.
async fn log_of_noetl(shard: &mut PgConnection, id: i64, ending: Option<&str>) {
    let started = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status, context)
         VALUES ({id}, {id} + 1, 'playbook_started', 'theirs', 'STARTED', '{{\"path\": \"theirs\"}}')"
    );
    run(shard, &started).await;
    insert_typed(&mut *shard, (id, id + 2), "step.enter").await;
    if let Some(ending) = ending {
        insert_typed(&mut *shard, (id, id + 3), ending).await;
    }
}

async fn listed(server: &Server) -> Value {
    server.data(LIST, Value::Null).await["executions"]["nodes"].clone()
}

const ROWS: &str = "SELECT count(*) FROM noetl.execution";
const SNAPSHOTS: &str = "SELECT count(*) FROM noetl.projection_snapshot";

#[tokio::test]
async fn maintain_lists_the_executions_that_have_only_a_log() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&NO_PROJECTOR_NO_STREAM).await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    server.register("inbox").await;
    let own = server.start_execution().await;
    assert!(server.stop().await.success());
    // As before the first pass: the server has just ended one.
    for mut shard in [deployment.shard(0).await, deployment.shard(1).await] {
        run(&mut shard, "DELETE FROM noetl.read_model_fill").await;
    }
    let (zero, one) = (deployment.ids_on(0, 1_000_000, 2), deployment.ids_on(1, 1_000_000, 1));
    let (mut first, mut second) = (deployment.shard(0).await, deployment.shard(1).await);
    log_of_noetl(&mut first, zero[0], Some("playbook.completed")).await;
    log_of_noetl(&mut first, zero[1], Some("playbook.failed")).await;
    log_of_noetl(&mut second, one[0], None).await;
    // Not an execution: no event of it starts one, ends one or belongs to a step.
    insert_typed(&mut first, (deployment.ids_on(0, 5_000_000, 1)[0], 1), "unknown").await;

    let (output, said) = deployment.try_maintain(&[]).await;
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("shard 0: execution list: checked") && said.contains("added or updated 2 executions"),
        "{said}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("filling the list of executions"),
        "no progress is logged"
    );
    assert_eq!(deployment.sum_over_shards(ROWS).await, 4);
    assert_eq!(deployment.sum_over_shards(SNAPSHOTS).await, 3, "the snapshot of an execution with a row is not needed");

    let server = deployment.replica_with(&NO_PROJECTOR_NO_STREAM).await;
    let found = listed(&server).await;
    let statuses: Vec<(&Value, &Value)> =
        found.as_array().unwrap().iter().map(|node| (&node["id"], &node["status"])).collect();
    let mut expected = vec![(own, "PENDING"), (zero[0], "COMPLETED"), (zero[1], "FAILED"), (one[0], "PENDING")];
    expected.reverse();
    let expected: Vec<(Value, Value)> =
        expected.into_iter().map(|(id, status)| (json!(id.to_string()), json!(status))).collect();
    assert!(statuses.into_iter().eq(expected.iter().map(|(id, status)| (id, status))), "{found}");
    let (_, said) = deployment.try_maintain(&[]).await;
    assert!(said.contains("shard 0: execution list: no pass over the logs is due"), "{said}");
}

#[tokio::test]
async fn a_fill_continues_after_a_crash_where_it_was_interrupted() {
    let deployment = Deployment::start(0).await;
    let mut shard = deployment.shard(0).await;
    // More than one page of 200 logs.
    let logs = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, context)
                SELECT n, 1, 'playbook_started', 'theirs', '{\"path\": \"theirs\"}' FROM generate_series(1, 450) AS n";
    run(&mut shard, logs).await;
    let position = "SELECT position FROM noetl.read_model_fill";
    let (output, _) = deployment.try_maintain(&[("NOETL_FAULT_POINT", "fill.advanced")]).await;
    assert!(!output.status.success(), "the fault point was not reached");
    assert_eq!((deployment.in_cluster(position).await, deployment.in_cluster(ROWS).await), (-1, 200));
    // The first page is repeated without effect, as its position was not stored. Those after a stored one are not.
    run(&mut shard, "UPDATE noetl.read_model_fill SET position = 200, checked = 200, filled = 200").await;
    run(&mut shard, "DELETE FROM noetl.execution WHERE execution_id = 7").await;
    let (output, said) = deployment.try_maintain(&[]).await;
    assert!(output.status.success(), "{said}");
    assert!(said.contains("checked 450 logs and added or updated 450 executions"), "{said}");
    assert_eq!(deployment.in_cluster(ROWS).await, 449, "a log before the stored position was read again");
}

#[tokio::test]
async fn a_server_fills_the_list_in_the_background_and_repeats_the_pass_once_the_feed_has_begun() {
    let deployment = Deployment::start(0).await;
    let mut shard = deployment.shard(0).await;
    log_of_noetl(&mut shard, 1_000, Some("playbook_completed")).await;
    let server = deployment.replica_with(&NO_PROJECTOR_NO_STREAM).await;
    let filled = async |id: &str| {
        let list = listed(&server).await;
        list.as_array().unwrap().iter().any(|node| node["id"] == id && node["status"] == "COMPLETED").then_some(())
    };
    eventually("the execution is in the list", async || filled("1000").await).await;
    eventually("the fill is counted", async || {
        (server.metric("noetl_read_model_filled_total").await > 0.5).then_some(())
    })
    .await;
    let ended = "SELECT count(*) FROM noetl.read_model_fill WHERE ended_at IS NOT NULL";
    eventually("the pass has ended", async || (deployment.in_cluster(ended).await == 1).then_some(())).await;

    // Written after the pass and before the feed begins, so no projector receives it.
    log_of_noetl(&mut shard, 2_000, Some("playbook_completed")).await;
    assert!(server.stop().await.success());
    let (_, said) = deployment.try_maintain(&[]).await;
    assert!(said.contains("execution list: no pass over the logs is due"), "{said}");
    let server = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    deployment.feeds_begun().await;
    assert!(server.stop().await.success());
    deployment.try_maintain(&[]).await;
    let last = "SELECT count(*) FROM noetl.read_model_fill WHERE ended_at IS NOT NULL AND after_feed";
    assert_eq!((deployment.in_cluster(ROWS).await, deployment.in_cluster(last).await), (2, 1));
}
