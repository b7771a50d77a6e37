//! The workers' notifications on the broker: none is lost because of another deployment, another history of the database, a
//! move of buckets, a full or lost stream, or a lost broker of a cluster.

use std::collections::BTreeSet;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use async_nats::jetstream::{self, Context};
use noetl_local::Postgres;
use noetl_testkit::broker_cluster::BrokerCluster;
use noetl_testkit::copies::{back_up, own_server, restore_back_up, standby, until_replayed};
use noetl_testkit::feed::run;
use noetl_testkit::mover::{buckets, moved};
use noetl_testkit::outbox::RelayedMessage;
use noetl_testkit::worker::event;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::Value;
use tempfile::TempDir;

const STREAM: &str = "noetl_executions";

async fn context(url: &str) -> Context {
    jetstream::new(async_nats::connect(url).await.unwrap())
}

/// Panics unless the stream has a message of each execution `times` times, each with another id.
fn assert_times(messages: &[RelayedMessage], executions: usize, times: usize) {
    let ids: BTreeSet<&String> = messages.iter().map(|(id, ..)| id).collect();
    let subjects: BTreeSet<&String> = messages.iter().map(|(_, subject, _)| subject).collect();
    assert_eq!((messages.len(), ids.len(), subjects.len()), (executions * times, executions * times, executions));
}

/// Returns a deployment on a PostgreSQL server of its own, and the server.
async fn on_own_server() -> (Deployment, Postgres, TempDir) {
    let (postgres, folder) = own_server().await;
    (Deployment::on(&postgres.dsn("postgres"), 1).await, postgres, folder)
}

/// Publishes a row of each execution and dies before the rows are settled.
async fn published_without_settlement(deployment: &Deployment, executions: &[i64]) {
    let mut doomed = deployment.replica_with(&[("NOETL_FAULT_POINT", "relay.published")]).await;
    deployment.fill_outbox(0, executions, 1).await;
    assert!(!doomed.ended().await.success());
    let rows = i64::try_from(executions.len()).unwrap();
    assert_eq!(deployment.outbox_rows("status = 'IN_FLIGHT'").await, rows);
}

#[tokio::test]
async fn deployments_with_different_prefixes_share_a_broker_without_sharing_notifications() {
    let (one, other) = tokio::join!(Deployment::start(1), Deployment::start(1));
    let url = one.nats.url();
    let settings = [("NOETL_NATS_URL", url.as_str()), ("NOETL_EVENT_STREAM_PREFIX", "other")];
    for deployment in [&one, &other] {
        deployment.fill_outbox(0, &(1..=40).collect::<Vec<_>>(), 1).await;
        // A subject that both deployments use.
        let shared = "INSERT INTO noetl.outbox (event_id, subject, payload) VALUES (1, 'shared.a', '1')";
        deployment.on_shard(0, shared).await;
    }
    let shared = Config { name: "shared".to_owned(), subjects: vec!["shared.>".to_owned()], ..Config::default() };
    context(&url).await.create_stream(shared).await.unwrap();
    let (_first, _second) = tokio::join!(one.replica(), other.replica_with(&settings));
    tokio::join!(one.until_relayed(41), other.until_relayed(41));
    assert_times(&one.relayed(STREAM).await, 40, 1);
    let others = one.relayed("other_executions").await;
    assert_times(&others, 40, 1);
    assert!(others.iter().all(|(_, subject, _)| subject.starts_with("other.executions.test.")), "{others:?}");
    assert_eq!(one.relayed("shared").await.len(), 2);
}

/// The database is a copy from before the rows were claimed. The workers of before may have run what is lost.
#[tokio::test]
async fn rows_of_a_restored_copy_are_published_again() {
    let (deployment, mut postgres, folder) = on_own_server().await;
    deployment.fill_outbox(0, &(1..=40).collect::<Vec<_>>(), 1).await;
    let (data, copy) = (folder.path().join("postgres").join("data"), folder.path().join("copy"));
    back_up(&postgres, &data, &copy).await;
    let server = deployment.replica().await;
    deployment.until_relayed(40).await;
    restore_back_up(&mut postgres, &data, &copy).await;
    deployment.until_relayed(40).await;
    assert_times(&deployment.relayed(STREAM).await, 40, 2);
    assert!(server.stop().await.success());
}

/// The standby has the claims of rows that the stream has, and lacks their settlement.
#[tokio::test]
async fn rows_in_flight_at_a_failover_are_published_again() {
    let (mut deployment, mut postgres, folder) = on_own_server().await;
    let standby = standby(&postgres, &folder.path().join("standby")).await;
    published_without_settlement(&deployment, &(1..=40).collect::<Vec<_>>()).await;
    until_replayed(&deployment, &standby).await;
    postgres.kill_9().await;
    deployment.move_to(&standby);
    run(&mut deployment.shard(0).await, "SELECT pg_promote()").await;
    deployment.leases_pass().await;
    let _server = deployment.replica().await;
    deployment.until_relayed(40).await;
    assert_times(&deployment.relayed(STREAM).await, 40, 2);
}

#[tokio::test]
async fn a_row_that_is_published_again_after_its_bucket_moved_is_a_duplicate() {
    let deployment = Deployment::start(2).await;
    let executions = deployment.ids_on(0, 1, 10);
    published_without_settlement(&deployment, &executions).await;
    // Otherwise, the move waits for 15 s: the dead replica could use the earlier map.
    run(&mut deployment.cluster().await, "UPDATE noetl.machine_lease SET expires_at = now()").await;
    moved(&deployment, &buckets(&executions), 1, &[]).await;
    assert_eq!(deployment.outbox(1).await.len(), 10);
    deployment.leases_pass().await;
    let _server = deployment.replica().await;
    deployment.until_relayed(10).await;
    assert_times(&deployment.relayed(STREAM).await, 10, 1);
}

async fn waiting(server: &Server, rows: u32) -> Option<()> {
    let scaler: Value = server.get("/scaler/outbox").await.unwrap().json().await.unwrap();
    let gauge = server.metric(r#"noetl_outbox_waiting{shard="0"}"#).await;
    let age = server.metric(r#"noetl_outbox_oldest_waiting_seconds{shard="0"}"#).await;
    (scaler["pending"] == rows && (gauge - f64::from(rows)).abs() < 0.5 && age > 0.0).then_some(())
}

/// A refusal for reasons of the broker is no attempt of the row. The waiting rows are in the numbers.
#[tokio::test]
async fn rows_wait_while_the_stream_is_full_or_gone() {
    let deployment = Deployment::start(1).await;
    let context = context(&deployment.nats.url()).await;
    let mut config = Config {
        name: STREAM.to_owned(),
        subjects: vec!["noetl.executions.>".to_owned()],
        max_messages: 5,
        discard: DiscardPolicy::New,
        ..Config::default()
    };
    context.create_stream(&config).await.unwrap();
    let server = deployment.replica_with(&[("NOETL_OUTBOX_MAX_ATTEMPTS", "1")]).await;
    deployment.fill_outbox(0, &(1..=20).collect::<Vec<_>>(), 1).await;
    deployment.until_relayed(5).await;
    // More refusals than attempts.
    let before = server.metric("noetl_outbox_relay_pauses_total").await;
    eventually("the relay has paused several times", async || {
        (server.metric("noetl_outbox_relay_pauses_total").await > before + 1.0).then_some(())
    })
    .await;
    eventually("the waiting rows are counted", async || waiting(&server, 15).await).await;
    let refused = "attempts <= 1 AND status IN ('PENDING', 'IN_FLIGHT')";
    assert_eq!(deployment.outbox_rows(refused).await, 15);
    assert!(deployment.outbox_rows("last_error LIKE '%maximum messages exceeded%'").await > 0);

    config.max_messages = 100;
    context.update_stream(&config).await.unwrap();
    deployment.until_relayed(20).await;

    context.delete_stream(STREAM).await.unwrap();
    deployment.fill_outbox(0, &(21..=40).collect::<Vec<_>>(), 1).await;
    deployment.until_relayed(40).await;
    assert_eq!(deployment.outbox_rows("attempts > 1").await, 0);
}

async fn stored(deployment: &Deployment, messages: u64) {
    let context = context(&deployment.nats.url()).await;
    eventually("the stream has the messages", async || {
        let stream = context.get_stream(STREAM).await.ok()?;
        (stream.get_info().await.ok()?.state.messages == messages).then_some(())
    })
    .await;
}

/// Notifications that the broker lost are delivered again, unless a worker has touched their execution.
#[tokio::test]
async fn notifications_that_the_broker_lost_are_delivered_again() {
    let mut deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    let mut executions = Vec::new();
    for _ in 0..10 {
        executions.push(server.start_execution().await);
    }
    deployment.until_relayed(10).await;
    stored(&deployment, 10).await;
    for execution in &executions[..3] {
        assert_eq!(server.project(&[event(*execution, execution + 1_000_001)]).await["projected"], 1);
    }
    eventually("the rows of the executions that have begun are purged", async || {
        deployment.maintain(&[("NOETL_OUTBOX_RETENTION_SECS", "1")]).await;
        (deployment.outbox_rows("true").await == 7).then_some(())
    })
    .await;
    deployment.kill_broker_and_delete_store().await;
    deployment.nats.restart().await.unwrap();
    stored(&deployment, 7).await;
    let again: BTreeSet<String> = deployment.relayed(STREAM).await.into_iter().map(|(_, subject, _)| subject).collect();
    let expected = executions[3..].iter().map(|id| format!("noetl.executions.shared.{id}")).collect();
    assert_eq!(again, expected);

    // An operator deletes the messages of the stream.
    let stream = context(&deployment.nats.url()).await.get_stream(STREAM).await.unwrap();
    stream.purge().await.unwrap();
    stored(&deployment, 7).await;
    let redelivered =
        async |shard: usize| server.metric(&format!(r#"noetl_outbox_redelivered_total{{shard="{shard}"}}"#)).await;
    assert!((redelivered(0).await + redelivered(1).await - 14.0).abs() < 0.5);
}

/// A stream with fewer copies, from before the setting or from an earlier version, gets more.
#[tokio::test]
async fn the_stream_has_the_replicas_and_the_retention_of_the_settings() {
    let mut cluster = BrokerCluster::start();
    let deployment = Deployment::start(1).await;
    let urls = cluster.urls().join(",");
    let with = |replicas| [("NOETL_NATS_URL", urls.as_str()), ("NOETL_EVENT_STREAM_REPLICAS", replicas)];
    let server = deployment.replica_with(&with("1")).await;
    deployment.fill_outbox(0, &[1], 1).await;
    deployment.until_relayed(1).await;
    let info = cluster.stream(STREAM, 0).await;
    assert_eq!((info.config.num_replicas, info.config.max_age.as_secs()), (1, 7 * 86_400));
    assert!(server.stop().await.success());

    let server = deployment.replica_with(&with("3")).await;
    assert_eq!(cluster.stream(STREAM, 2).await.config.num_replicas, 3);
    deployment.fill_outbox(0, &[2], 1).await;
    deployment.until_relayed(2).await;
    assert!(server.stop().await.success());

    // A stream of nats-server 2.9 that has just got more replicas can be without a leader for more than 45 s after its first
    // one was killed. So the leader of a stream is killed that has had all replicas from the beginning.
    context(&cluster.urls()[0]).await.delete_stream(STREAM).await.unwrap();
    let server = deployment.replica_with(&with("3")).await;
    cluster.stream(STREAM, 2).await;
    let leader = cluster.leader(STREAM).await;
    cluster.kill(leader).await;
    deployment.fill_outbox(0, &(3..=40).collect::<Vec<_>>(), 1).await;
    deployment.until_relayed(40).await;
    assert!(server.stop().await.success());
}
