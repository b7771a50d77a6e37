//! The projector keeps snapshots and the list of executions current although replicas are killed, and
//! `executionUpdates` delivers every change.

use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::projections::insert_step_event;
use noetl_testkit::{Deployment, NOT_DURABLE, Server, WAIT_TIMEOUT, eventually, own_postgres, sleep_in_scenario};
use serde_json::{Value, json};
use sqlx::Connection;

const CHANGES: &str = "subscription($id: ID!) {
        executionUpdates(executionId: $id) { kind execution { id status context steps { nodes { name status } } } } }";

/// Writes `rounds` events to each execution, one after another, to all executions concurrently.
async fn write_all(deployment: &Deployment, ids: &[i64], rounds: i64) {
    join_all(ids.iter().map(async |id| {
        let mut database = deployment.shard(usize::from(shard_of(deployment, *id))).await;
        for n in 0..rounds {
            let command = format!(r#"{{"command_id": "c{n}"}}"#);
            insert_step_event(&mut database, *id, 100 + n, "command.completed", &command, "{}").await;
            sleep_in_scenario(Duration::from_millis(20)).await;
        }
    }))
    .await;
}

fn shard_of(deployment: &Deployment, id: i64) -> u16 {
    let shards = u16::try_from(deployment.shard_dsns.len()).unwrap();
    noetl_domain::shard::ShardMap::even(shards).shard_of(noetl_domain::ids::Id::new(id))
}

/// Waits until the execution's snapshot includes all `applied` events.
async fn current(server: &Server, id: i64, applied: i64) -> Value {
    let applied = applied.to_string();
    eventually("the projector has advanced it", async || {
        let state = server.execution_state(id).await;
        let snapshot = &state["snapshot"];
        (snapshot["behindBy"] == "0" && snapshot["appliedCount"] == *applied).then_some(state)
    })
    .await
}

#[tokio::test]
async fn the_projector_keeps_executions_current_and_their_updates_deliver_each_change() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    the_projector_keeps_snapshots_and_the_execution_list_current(&deployment, &server).await;
    execution_updates_deliver_the_current_state_and_then_each_change(&deployment, &server).await;
    execution_updates_of_an_unknown_or_invalid_id_are_an_error(&server).await;
}

/// The snapshot of an execution and its row in the list become current.
async fn the_projector_keeps_snapshots_and_the_execution_list_current(deployment: &Deployment, server: &Server) {
    let id = server.start_execution().await;
    current(server, id, 1).await;
    let mut shard = deployment.shard(usize::from(shard_of(deployment, id))).await;
    insert_step_event(&mut shard, id, 5, "ctx.updated", "{}", r#"{"values": {"page": 2}}"#).await;
    insert_step_event(&mut shard, id, 6, "playbook.completed", "{}", "{}").await;
    current(server, id, 3).await;
    let list = "{ executions(filter: {statuses: [COMPLETED]}) { nodes { id endedAt } } }";
    let listed = server.data(list, json!({})).await["executions"]["nodes"].clone();
    assert_eq!(listed[0]["id"], json!(id.to_string()));
    assert!(listed[0]["endedAt"].is_string());
    deployment.until_projected().await;
}

#[tokio::test]
async fn a_backlog_of_many_transactions_and_of_a_large_one_is_projected() {
    const EVENTS: i64 = 16_000;
    let deployment = Deployment::start(0).await;
    let writer = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(writer.start_execution().await);
    }
    let backlog = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name)
                   SELECT $1, $1 + 100 + n, 'step.enter', 'step' || n % 10 FROM generate_series(1, $2) AS n";
    sqlx::query(backlog).bind(ids[0]).bind(EVENTS).execute(&mut deployment.shard(0).await).await.unwrap();
    let server = deployment.replica().await;
    deployment.until_projected().await;
    current(&server, ids[0], EVENTS + 1).await;
    assert_eq!(deployment.sum_over_shards("SELECT count(*) FROM noetl.projection_snapshot").await, 30);
}

/// Its id is smaller than those of transactions that were projected before its commit.
#[tokio::test]
async fn an_event_that_commits_late_is_projected() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica().await;
    let (late, other) = (server.start_execution().await, server.start_execution().await);
    let (mut open, mut shard) = (deployment.shard(0).await, deployment.shard(0).await);
    let mut transaction = open.begin().await.unwrap();
    insert_step_event(&mut *transaction, late, 5, "step.enter", "{}", "{}").await;
    insert_step_event(&mut shard, other, 5, "step.enter", "{}", "{}").await;
    current(&server, other, 2).await;
    deployment.until_projected().await;
    transaction.commit().await.unwrap();
    current(&server, late, 2).await;
}

#[tokio::test]
async fn every_snapshot_becomes_current_although_replicas_are_killed() {
    const ROUNDS: i64 = 60;
    let deployment = Deployment::start(2).await;
    let steady = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(steady.start_execution().await);
    }
    let kills = async {
        for round in 0..5 {
            let mut doomed = deployment.replica().await;
            sleep_in_scenario(Duration::from_millis(100 + 40 * round)).await;
            doomed.kill_9().await;
        }
    };
    tokio::join!(write_all(&deployment, &ids, ROUNDS), kills);
    for id in &ids {
        let state = current(&steady, *id, ROUNDS + 1).await;
        assert_eq!(state["steps"]["nodes"][0]["attempt"], json!(ROUNDS), "every command is applied once");
    }
    assert_eq!(deployment.sum_over_shards("SELECT count(*) FROM noetl.projection_snapshot").await, 8);
}

#[tokio::test]
async fn another_replica_takes_over_and_needs_no_broker() {
    let deployment = Deployment::start(0).await;
    let mut first = deployment.replica().await;
    let id = first.start_execution().await;
    current(&first, id, 1).await;
    let no_broker = [("NOETL_NATS_URL", ""), ("NOETL_EVENT_STREAM_ENABLED", "false"), NO_RELAY];
    let second = deployment.replica_with(&no_broker).await;
    let mut shard = deployment.shard(0).await;
    for events in 2..4 {
        first.kill_9().await;
        insert_step_event(&mut shard, id, events, "step.enter", "{}", "{}").await;
        current(&second, id, events).await;
        first = deployment.replica().await;
    }
}

#[tokio::test]
async fn the_position_is_stored_only_after_the_states() {
    let deployment = Deployment::start(0).await;
    let started = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    let id = started.start_execution().await;
    for (point, stored) in [("projector.taken", 0), ("projector.advanced", 1)] {
        let doomed = deployment.command("serve").env("NOETL_FAULT_POINT", point).status();
        let status = tokio::time::timeout(WAIT_TIMEOUT, doomed).await.unwrap().unwrap();
        assert!(!status.success(), "{point}");
        let snapshots = deployment.sum_over_shards("SELECT count(*) FROM noetl.projection_snapshot").await;
        assert_eq!((snapshots, deployment.unprojected().await), (stored, 1), "{point}");
    }
    let server = deployment.replica().await;
    current(&server, id, 1).await;
    deployment.until_projected().await;
}

/// Starts of another server name no labels, so these are read from the catalog.
#[tokio::test]
async fn executions_wait_for_a_database_that_is_down() {
    const EXECUTIONS: i64 = 10;
    let mut deployment = Deployment::unmigrated(1).await;
    let (_folder, mut cluster) = own_postgres(&[NOT_DURABLE]).await;
    deployment.cluster_dsn = cluster.dsn("own");
    deployment.env.retain(|(name, _)| name != "NOETL_CLUSTER_DSN");
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), deployment.cluster_dsn.clone()));
    deployment.migrate().await;
    let server = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    let entry = server.register_entry("run", &json!({ "kind": "playbook" })).await;
    assert!(server.stop().await.success());
    let server = deployment.replica().await;
    cluster.kill_9().await;
    let insert = "INSERT INTO noetl.event (execution_id, event_id, catalog_id, event_type)
                  SELECT n, n, $1, 'playbook_started' FROM generate_series(1, $2) AS n";
    let insert = sqlx::query(insert).bind(entry.parse::<i64>().unwrap()).bind(EXECUTIONS);
    insert.execute(&mut deployment.shard(0).await).await.unwrap();
    eventually("every execution was tried several times", async || {
        let attempts = server.metric("noetl_projector_deferred_total").await;
        (attempts >= 3.0 * 10.0).then_some(())
    })
    .await;
    assert_eq!(deployment.unprojected().await, EXECUTIONS);
    cluster.restart().await.unwrap();
    deployment.until_projected().await;
    assert_eq!(deployment.sum_over_shards("SELECT count(*) FROM noetl.projection_snapshot").await, EXECUTIONS);
}

/// It is stored with the position, so that another replica tries it again.
#[tokio::test]
async fn an_execution_that_can_t_be_stored_is_tried_again_also_after_a_restart() {
    let deployment = Deployment::start(0).await;
    let mut server = deployment.replica().await;
    deployment
        .on_shard(0, "ALTER TABLE noetl.projection_snapshot ADD CONSTRAINT closed CHECK (version < 0) NOT VALID")
        .await;
    let id = server.start_execution().await;
    let deferred = "SELECT coalesce(sum(cardinality(deferred)), 0)::bigint FROM noetl.projection_cursor";
    eventually("it is deferred", async || (deployment.sum_over_shards(deferred).await == 1).then_some(())).await;
    server.kill_9().await;
    deployment.on_shard(0, "ALTER TABLE noetl.projection_snapshot DROP CONSTRAINT closed").await;
    let server = deployment.replica().await;
    current(&server, id, 1).await;
    deployment.until_projected().await;
}

/// In a restored dump, the position is that of other transactions. What was committed before is found by the fill.
#[tokio::test]
async fn in_another_database_the_projector_begins_anew_and_the_list_is_filled() {
    for of_another in ["system_identifier = 1", "done = '9000000000:9000000000:'"] {
        let deployment = Deployment::start(0).await;
        let server = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
        let id = server.start_execution().await;
        let ended = "SELECT 1 - count(*) FROM noetl.read_model_fill WHERE after_feed AND ended_at IS NOT NULL";
        maintain_until_none(&deployment, ended).await;
        insert_step_event(&mut deployment.shard(0).await, id, 5, "step.enter", "{}", "{}").await;
        deployment.on_shard(0, &format!("UPDATE noetl.projection_cursor SET {of_another}")).await;
        let server = deployment.replica().await;
        let due = "SELECT count(*) FROM noetl.read_model_fill";
        maintain_until_none(&deployment, ended).await;
        current(&server, id, 2).await;
        assert_eq!(deployment.sum_over_shards(due).await, 1);
        insert_step_event(&mut deployment.shard(0).await, id, 6, "step.exit", "{}", "{}").await;
        current(&server, id, 3).await;
    }
}

/// Has passes over the logs carried out, which a server does every minute, until a query returns 0.
async fn maintain_until_none(deployment: &Deployment, count: &str) {
    eventually(count, async || {
        deployment.maintain(&[]).await;
        (deployment.sum_over_shards(count).await == 0).then_some(())
    })
    .await;
}

/// The first item is the current state, and each change leads to another one.
async fn execution_updates_deliver_the_current_state_and_then_each_change(deployment: &Deployment, server: &Server) {
    let (id, other) = (server.start_execution().await, server.start_execution().await);
    // Otherwise, the change of the start event could be delivered with the state after the first step.
    deployment.until_all_published().await;
    let mut live = server.live(CHANGES, json!({ "id": id.to_string() })).await;
    let mut next = async || live.next().await.unwrap()["executionUpdates"]["execution"].clone();
    let now = next().await;
    assert_eq!(
        (&now["id"], &now["status"], &now["steps"]["nodes"]),
        (&json!(id.to_string()), &json!("PENDING"), &json!([]))
    );
    let mut shard = deployment.shard(usize::from(shard_of(deployment, id))).await;
    let mut elsewhere = deployment.shard(usize::from(shard_of(deployment, other))).await;
    for (offset, event_type, step) in [
        (10, "step.enter", "ENTERED"),
        (11, "command.issued", "COMMAND_ISSUED"),
        (12, "command.claimed", "COMMAND_CLAIMED"),
        (13, "command.completed", "COMPLETED"),
    ] {
        insert_step_event(&mut elsewhere, other, offset, event_type, r#"{"command_id": "c"}"#, "{}").await;
        insert_step_event(&mut shard, id, offset, event_type, r#"{"command_id": "c"}"#, "{}").await;
        let mut changed = next().await;
        // The change of the start event may be delivered late.
        while changed["steps"]["nodes"] == json!([]) {
            changed = next().await;
        }
        assert_eq!((&changed["id"], &changed["steps"]["nodes"][0]["status"]), (&json!(id.to_string()), &json!(step)));
    }
    // Several changes of a burst may be combined into one item. The last item has the final state.
    for n in 0..200 {
        insert_step_event(&mut shard, id, 20 + n, "ctx.updated", "{}", &format!(r#"{{"values": {{"n": {n}}}}}"#)).await;
    }
    let mut told = 1;
    while next().await["context"]["n"] != json!(199) {
        told += 1;
    }
    assert!(told <= 200, "{told}");
}

/// A subscription to no execution ends with an error.
async fn execution_updates_of_an_unknown_or_invalid_id_are_an_error(server: &Server) {
    for (id, code) in [("12345", "NOT_FOUND"), ("abc", "INVALID_INPUT")] {
        let mut live = server.live(CHANGES, json!({ "id": id })).await;
        let errors = live.errors().await;
        assert_eq!(errors[0]["extensions"]["code"], json!(code), "{errors}");
    }
}
