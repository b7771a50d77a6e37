//! The projector keeps snapshots and the list of executions current although replicas are killed, and
//! `executionUpdates` delivers every change.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, Config, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::Stream;
use futures::StreamExt;
use futures::future::join_all;
use noetl_testkit::projections::insert_step_event;
use noetl_testkit::{Deployment, NOT_DURABLE, Server, WAIT_TIMEOUT, eventually, own_postgres, sleep_in_scenario};
use serde_json::{Value, json};

const CONSUMER: &str = "noetl_graphql_projector";
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

async fn assert_all_acknowledged(deployment: &Deployment) {
    let client = async_nats::connect(deployment.nats.url()).await.unwrap();
    for shard in 0..deployment.shard_dsns.len() {
        let name = if shard == 0 { "noetl_events".to_owned() } else { format!("noetl_events_{shard}") };
        let stream = jetstream::new(client.clone()).get_stream(name).await.unwrap();
        eventually("every message is acknowledged", async || {
            let mut consumer: PullConsumer = stream.get_consumer(CONSUMER).await.ok()?;
            let info = consumer.info().await.ok()?;
            (info.num_pending == 0 && info.num_ack_pending == 0).then_some(())
        })
        .await;
    }
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
    assert_all_acknowledged(deployment).await;
}

/// A batch begins half a second after the one before it, unless that one was full. So the messages of a backlog must come
/// in full batches.
#[tokio::test]
async fn a_backlog_of_messages_is_processed_in_full_batches() {
    const EVENTS: i64 = 16_000;
    let deployment = Deployment::start(0).await;
    let publisher = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    deployment.feeds_begun().await;
    let id = publisher.start_execution().await;
    let backlog = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name)
                   SELECT $1, $1 + 100 + n, 'step.enter', 'step' || n % 10 FROM generate_series(1, $2) AS n";
    sqlx::query(backlog).bind(id).bind(EVENTS).execute(&mut deployment.shard(0).await).await.unwrap();
    deployment.until_all_published().await;
    let server = deployment.replica().await;
    // Batches of 128 messages would take 62 s, which is longer than this waits.
    assert_all_acknowledged(&deployment).await;
    current(&server, id, EVENTS + 1).await;
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
async fn a_message_is_acknowledged_only_after_its_projection_is_stored() {
    let deployment = Deployment::start(0).await;
    let started = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    deployment.feeds_begun().await;
    let id = started.start_execution().await;
    let stream = stream_of_shard_0(&deployment).await;
    for point in ["projector.taken", "projector.advanced"] {
        let doomed = deployment.command("serve").env("NOETL_FAULT_POINT", point).status();
        let status = tokio::time::timeout(WAIT_TIMEOUT, doomed).await.unwrap().unwrap();
        assert!(!status.success(), "{point}");
        // The execution has only one event.
        let consumer: PullConsumer = stream.get_consumer(CONSUMER).await.unwrap();
        assert_eq!(consumer.cached_info().num_ack_pending, 1, "the message was acknowledged before {point}");
        // Otherwise, the broker would deliver the message again after half a minute. The next replica corrects this.
        let impatient = pull::Config { ack_wait: Duration::from_millis(10), ..config() };
        stream.create_consumer(impatient).await.unwrap();
    }
    let server = deployment.replica().await;
    current(&server, id, 1).await;
    assert_all_acknowledged(&deployment).await;
}

/// If a failed message were returned to the broker, its next delivery would come after a pause that doubles each time.
#[tokio::test]
async fn messages_are_kept_while_a_shard_is_down_and_processed_when_it_returns() {
    const EXECUTIONS: u32 = 10;
    let (mut deployment, (_folder, mut shard)) = tokio::join!(Deployment::unmigrated(0), own_postgres(&[NOT_DURABLE]));
    deployment.shard_dsns = vec![shard.dsn("own")];
    deployment.configure_shards(&[shard.dsn("own")]);
    deployment.migrate().await;
    let publisher = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    deployment.feeds_begun().await;
    for _ in 0..EXECUTIONS {
        publisher.start_execution().await;
    }
    deployment.until_all_published().await;
    assert!(publisher.stop().await.success());

    shard.kill_9().await;
    let server = deployment.replica().await;
    eventually("every message was tried several times", async || {
        let attempts = server.metric("noetl_projector_deferred_messages_total").await;
        (attempts >= f64::from(3 * EXECUTIONS)).then_some(())
    })
    .await;
    shard.restart().await.unwrap();
    assert_all_acknowledged(&deployment).await;
    let snapshots = "SELECT count(*) FROM noetl.projection_snapshot";
    assert_eq!(deployment.sum_over_shards(snapshots).await, i64::from(EXECUTIONS));
    let consumer: PullConsumer = stream_of_shard_0(&deployment).await.get_consumer(CONSUMER).await.unwrap();
    let info = consumer.cached_info();
    assert_eq!((info.delivered.consumer_sequence, info.num_redelivered), (u64::from(EXECUTIONS), 0));
}

#[tokio::test]
async fn the_projector_continues_after_the_broker_lost_all_its_data() {
    let mut deployment = Deployment::start(0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let id = server.start_execution().await;
    current(&server, id, 1).await;
    deployment.kill_broker_and_delete_store().await;
    let mut shard = deployment.shard(0).await;
    insert_step_event(&mut shard, id, 5, "step.enter", "{}", "{}").await;
    deployment.nats.restart().await.unwrap();
    current(&server, id, 2).await;
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

async fn stream_of_shard_0(deployment: &Deployment) -> Stream {
    let client = async_nats::connect(deployment.nats.url()).await.unwrap();
    jetstream::new(client).get_stream("noetl_events").await.unwrap()
}

#[tokio::test]
async fn settings_of_the_consumer_that_another_program_changed_are_corrected() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let id = server.start_execution().await;
    current(&server, id, 1).await;
    let stream = stream_of_shard_0(&deployment).await;
    let consumer: PullConsumer = stream.get_consumer(CONSUMER).await.unwrap();
    let settings = consumer.get_info().await.unwrap().config;

    // A filter that excludes every event, and an acknowledgement of all earlier messages, which can't be updated.
    let filtered = pull::Config { filter_subject: "noetl.events.nothing".to_owned(), ..config() };
    stream.create_consumer(filtered).await.unwrap();
    corrected(&stream, &settings).await;
    let mut shard = deployment.shard(0).await;
    insert_step_event(&mut shard, id, 5, "step.enter", "{}", "{}").await;
    current(&server, id, 2).await;

    stream.delete_consumer(CONSUMER).await.unwrap();
    stream.create_consumer(pull::Config { deliver_policy: DeliverPolicy::New, ..config() }).await.unwrap();
    insert_step_event(&mut shard, id, 6, "step.exit", "{}", "{}").await;
    corrected(&stream, &settings).await;
    current(&server, id, 3).await;
}

fn config() -> pull::Config {
    pull::Config { durable_name: Some(CONSUMER.to_owned()), ack_policy: AckPolicy::Explicit, ..pull::Config::default() }
}

async fn corrected(stream: &Stream, settings: &Config) {
    eventually("the settings are corrected", async || {
        let consumer: PullConsumer = stream.get_consumer(CONSUMER).await.ok()?;
        (consumer.cached_info().config == *settings).then_some(())
    })
    .await;
}

/// Another program takes messages and acknowledges none, so the broker delivers no more.
#[tokio::test]
async fn a_projector_that_receives_nothing_while_the_stream_grows_is_not_ready() {
    // Maximum number of unacknowledged messages of the consumer.
    const TAKEN: u16 = 20_000;
    const EVENTS: i64 = 20_100;
    let deployment = Deployment::start(1).await;
    let _publisher = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=EVENTS).await;
    deployment.until_stored(usize::try_from(EVENTS).unwrap()).await;

    let stream = stream_of_shard_0(&deployment).await;
    let settings = pull::Config { max_ack_pending: TAKEN.into(), ..config() };
    let consumer = stream.create_consumer(settings).await.unwrap();
    let messages = consumer.stream().max_messages_per_batch(10_000).messages().await.unwrap();
    let taken: Vec<_> = messages.take(TAKEN.into()).map(|message| message.unwrap().split().1).collect().await;
    let server = deployment.replica().await;
    let writer = async {
        for id in EVENTS + 1.. {
            deployment.commit(7, id..=id).await;
            sleep_in_scenario(Duration::from_millis(300)).await;
        }
    };
    let reason = eventually("the replica is not ready", async || {
        let response = server.get("/readyz").await.ok()?;
        let (status, body) = (response.status(), response.text().await.ok()?);
        (status == 503 && body.contains("delivers nothing although the stream grows")).then_some(body)
    });
    let reason = tokio::select! {
        () = writer => unreachable!("the events do not end"),
        reason = reason => reason,
    };
    assert!(reason.contains("projector of shard 0"), "{reason}");
    for message in &taken {
        message.ack().await.unwrap();
    }
    eventually("the replica is ready again", async || {
        (server.get("/readyz").await.ok()?.status() == 200).then_some(())
    })
    .await;
}

/// Commits events of an execution without a projector, and has their messages expire before one runs.
async fn expired_before_a_projector_ran(deployment: &Deployment, id: i64, first: i64, events: &[&str]) {
    let publisher = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    let mut shard = deployment.shard(0).await;
    for (offset, event_type) in (first..).zip(events) {
        insert_step_event(&mut shard, id, offset, event_type, "{}", "{}").await;
    }
    deployment.until_all_published().await;
    assert!(publisher.stop().await.success());
    let client = async_nats::connect(deployment.nats.url()).await.unwrap();
    let (context, stream) = (jetstream::new(client), stream_of_shard_0(deployment).await);
    let kept = stream.get_info().await.unwrap().config;
    let mut short = kept.clone();
    (short.max_age, short.duplicate_window) = (Duration::from_millis(200), Duration::from_millis(200));
    context.update_stream(&short).await.unwrap();
    eventually("the messages have expired", async || (stream.get_info().await.ok()?.state.messages == 0).then_some(()))
        .await;
    context.update_stream(&kept).await.unwrap();
}

/// Has passes over the logs carried out, which a server does every minute, until a query returns 0.
async fn maintain_until_none(deployment: &Deployment, count: &str) {
    eventually(count, async || {
        deployment.maintain(&[]).await;
        (deployment.sum_over_shards(count).await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_list_is_filled_from_the_logs_if_messages_expired_before_a_projector_ran() {
    let deployment = Deployment::start(0).await;
    let first = deployment.replica_with(&[("NOETL_PROJECTOR", "false")]).await;
    deployment.feeds_begun().await;
    let id = first.start_execution().await;
    let due = "SELECT 1 - count(*) FROM noetl.read_model_fill WHERE after_feed AND ended_at IS NOT NULL";
    maintain_until_none(&deployment, due).await;
    assert!(first.stop().await.success());

    expired_before_a_projector_ran(&deployment, id, 5, &["step.enter", "step.exit"]).await;
    let behind = "SELECT count(*) FROM noetl.execution AS listed
                  WHERE last_event_id < (SELECT max(event_id) FROM noetl.event WHERE execution_id = listed.execution_id)";
    assert_eq!(deployment.sum_over_shards(behind).await, 1);
    let server = deployment.replica().await;
    maintain_until_none(&deployment, behind).await;
    assert!(server.stop().await.success());

    // The consumer exists now, and has received nothing of these.
    expired_before_a_projector_ran(&deployment, id, 7, &["ctx.updated", "playbook.completed"]).await;
    assert_eq!(deployment.sum_over_shards(behind).await, 1);
    let server = deployment.replica().await;
    maintain_until_none(&deployment, behind).await;
    let list = "{ executions(filter: { statuses: [COMPLETED] }) { nodes { id } } }";
    assert_eq!(server.data(list, json!({})).await["executions"]["nodes"], json!([{ "id": id.to_string() }]));
}
