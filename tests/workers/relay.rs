//! The built-in relay delivers every outbox row to a stream, at least once. After a crash, the stream recognises
//! duplicates by their message id.

use std::collections::{BTreeMap, BTreeSet};

use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use noetl_testkit::feed::run;
use noetl_testkit::outbox::RelayedMessage;
use noetl_testkit::{Deployment, Server, eventually, own_postgres};
use serde_json::{Value, json};

const STREAM: &str = "noetl_executions";

async fn broker(deployment: &Deployment) -> Context {
    jetstream::new(async_nats::connect(deployment.nats.url()).await.unwrap())
}

async fn fill(deployment: &Deployment, executions: usize, rows: i64) -> i64 {
    let shards = deployment.shard_dsns.len();
    for shard in 0..shards {
        deployment.fill_outbox(shard, &deployment.ids_on(shard, 1, executions), rows).await;
    }
    i64::try_from(shards * executions).unwrap() * rows
}

/// Panics unless each row is in the stream once and the rows of each execution are in outbox order.
fn check(messages: &[RelayedMessage], rows: i64) {
    let ids: BTreeSet<&String> = messages.iter().map(|(id, ..)| id).collect();
    assert_eq!((ids.len(), messages.len()), (usize::try_from(rows).unwrap(), usize::try_from(rows).unwrap()));
    let mut last: BTreeMap<&String, i64> = BTreeMap::new();
    for (id, subject, payload) in messages {
        let n = payload["n"].as_i64().unwrap();
        assert!(last.insert(subject, n).unwrap_or_default() < n, "{subject}: {id} is out of order");
    }
}

#[tokio::test]
async fn every_row_is_delivered_once_and_in_the_order_of_its_execution() {
    let deployment = Deployment::start(2).await;
    let rows = fill(&deployment, 20, 50).await;
    let (one, _other) = tokio::join!(deployment.replica(), deployment.replica());
    deployment.until_relayed(rows).await;
    check(&deployment.relayed(STREAM).await, rows);

    // The workers are notified of an execution that a client starts.
    one.register_entry("process", &json!({ "kind": "playbook" })).await;
    let started = one.execute(json!({ "path": "process", "executionPool": "gpu" })).await;
    let id = started["execution"]["id"].as_str().unwrap();
    deployment.until_relayed(rows + 1).await;
    let (_, subject, payload) = deployment.relayed(STREAM).await.pop().unwrap();
    assert_eq!((subject, &payload["execution_id"]), (format!("noetl.executions.gpu.{id}"), &json!(id)));
}

#[tokio::test]
async fn an_existing_stream_is_used_without_changing_its_settings() {
    let deployment = Deployment::start(1).await;
    let config = Config {
        name: "theirs".to_owned(),
        subjects: vec!["noetl.executions.>".to_owned()],
        max_messages: 1_000,
        ..Config::default()
    };
    let context = broker(&deployment).await;
    let before = context.create_stream(config).await.unwrap().cached_info().config.clone();
    let rows = fill(&deployment, 3, 3).await;
    let _server = deployment.replica().await;
    deployment.until_relayed(rows).await;
    check(&deployment.relayed("theirs").await, rows);
    assert_eq!(context.get_stream("theirs").await.unwrap().cached_info().config, before);
    assert!(context.get_stream(STREAM).await.is_err());
}

#[tokio::test]
async fn a_relay_that_is_killed_repeatedly_loses_and_repeats_no_row() {
    let deployment = Deployment::start(2).await;
    let rows = fill(&deployment, 100, 30).await;
    for kill in 1..=4 {
        let mut server = deployment.replica().await;
        eventually("some more rows are published", async || {
            (deployment.outbox_rows("status = 'PUBLISHED'").await >= (kill * 500).min(rows)).then_some(())
        })
        .await;
        server.kill_9().await;
        deployment.leases_pass().await;
    }
    let _server = deployment.replica().await;
    deployment.until_relayed(rows).await;
    check(&deployment.relayed(STREAM).await, rows);
}

/// The rows are in the stream but not settled. The relay publishes them again, and the stream recognises them by their
/// ids.
#[tokio::test]
async fn a_relay_that_dies_between_publish_and_settle_repeats_no_row() {
    let deployment = Deployment::start(1).await;
    let mut doomed = deployment.replica_with(&[("NOETL_FAULT_POINT", "relay.published")]).await;
    let rows = fill(&deployment, 10, 10).await;
    assert!(!doomed.ended().await.success());
    assert!(deployment.outbox_rows("status = 'IN_FLIGHT'").await > 0);
    assert!(!deployment.relayed(STREAM).await.is_empty());
    deployment.leases_pass().await;
    let _server = deployment.replica().await;
    deployment.until_relayed(rows).await;
    check(&deployment.relayed(STREAM).await, rows);
}

/// Lets statements that mark rows as published wait for an advisory lock. The locks of logs have other keys, because ids
/// of executions are not negative.
const SETTLEMENTS_WAIT: &str = "
    CREATE FUNCTION wait_for_lock() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock(-1); RETURN new; END';
    CREATE TRIGGER wait_for_lock BEFORE UPDATE ON noetl.outbox
        FOR EACH ROW WHEN (new.status = 'PUBLISHED') EXECUTE FUNCTION wait_for_lock()";

/// The claim has committed and the stream has the rows, but the shard dies before they are settled. The relay publishes
/// them again, and the stream recognises them by their ids.
#[tokio::test]
async fn a_shard_that_dies_between_claim_and_settlement_loses_no_row() {
    let (mut deployment, (_folder, mut postgres)) = tokio::join!(Deployment::unmigrated(0), own_postgres(&[]));
    deployment.shard_dsns = vec![postgres.dsn("own")];
    deployment.configure_shards(&[postgres.dsn("own")]);
    deployment.migrate().await;
    deployment.on_shard(0, SETTLEMENTS_WAIT).await;
    let mut holder = deployment.shard(0).await;
    run(&mut holder, "SELECT pg_advisory_lock(-1)").await;
    let rows = fill(&deployment, 10, 10).await;
    let server = deployment.replica().await;
    eventually("every row is in the stream", async || {
        let stream = broker(&deployment).await.get_stream(STREAM).await.ok()?;
        (stream.cached_info().state.messages == rows.unsigned_abs()).then_some(())
    })
    .await;
    assert_eq!(deployment.outbox_rows("status = 'IN_FLIGHT'").await, rows);

    let pauses = server.metric("noetl_outbox_relay_pauses_total").await;
    postgres.kill_9().await;
    eventually("the relay pauses", async || {
        (server.metric("noetl_outbox_relay_pauses_total").await > pauses).then_some(())
    })
    .await;
    postgres.restart().await.unwrap();
    deployment.leases_pass().await;
    deployment.until_relayed(rows).await;
    assert_eq!(deployment.outbox_rows("attempts < 2").await, 0, "a row was settled without a second claim");
    check(&deployment.relayed(STREAM).await, rows);
}

#[tokio::test]
async fn a_stopped_relay_leaves_no_row_in_flight() {
    let deployment = Deployment::start(1).await;
    fill(&deployment, 100, 50).await;
    let server = deployment.replica().await;
    eventually("some rows are published", async || {
        (deployment.outbox_rows("status = 'PUBLISHED'").await > 0).then_some(())
    })
    .await;
    assert!(server.stop().await.success());
    assert_eq!(deployment.outbox_rows("status = 'IN_FLIGHT'").await, 0);
}

async fn connected(server: &Server, wanted: bool) {
    eventually("the server has noticed the state of the broker", async || {
        let status = server.data("{ eventStream { connected } }", Value::Null).await;
        let is_up = server.metric("noetl_broker_up").await > 0.5;
        (status["eventStream"]["connected"] == wanted && is_up == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn rows_are_not_claimed_while_the_broker_is_down() {
    let mut deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    let first = fill(&deployment, 10, 1).await;
    deployment.until_relayed(first).await;
    deployment.nats.kill_9().await;
    connected(&server, false).await;
    deployment.fill_outbox(0, &deployment.ids_on(0, 1000, 40), 5).await;
    // The relay has checked the broker and claims no row.
    let looked = server.metric("noetl_outbox_relay_pauses_total").await;
    eventually("the relay checks the broker again", async || {
        (server.metric("noetl_outbox_relay_pauses_total").await > looked + 1.0).then_some(())
    })
    .await;
    assert_eq!(deployment.outbox_rows("attempts > 0").await, first);
    deployment.nats.restart().await.unwrap();
    deployment.until_relayed(first + 200).await;
    connected(&server, true).await;
    check(&deployment.relayed(STREAM).await[10..], 200);
}

/// An undeliverable row shows the reason, backs off longer after each attempt, and delays only its own execution.
#[tokio::test]
async fn an_undeliverable_row_fails_with_a_reason_and_delays_only_its_execution() {
    let deployment = Deployment::start(1).await;
    let bad = "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_codec) VALUES
        (1, 1, 'noetl executions', '{}', 'json'),
        (2, 1, 'noetl.executions.*', '{}', 'json'),
        (3, 1, '$JS.API.STREAM.DELETE.noetl_executions', '{}', 'json'),
        (4, 1, 'nobody.listens', '{}', 'json'),
        (5, 1, 'noetl.executions.a.5', 'null', 'json'),
        (6, 1, 'noetl.executions.a.6', jsonb_build_object('a', repeat('x', 2000000)), 'json'),
        (1, 2, 'noetl.executions.a.1', '{\"n\": 2}', 'json'),
        (7, 1, 'noetl.executions.a.7', '{\"n\": 1}', 'json')";
    deployment.on_shard(0, bad).await;
    let _server = deployment.replica().await;
    // The relay settles the rows of a claim in three statements: the published, the refused, then the untried.
    let rows = eventually("all rows are tried and settled", async || {
        let rows = deployment.outbox(0).await;
        let tried = rows[..6].iter().all(|row| row.last_error.is_some()) && rows[7].status == "PUBLISHED";
        (tried && rows.iter().all(|row| row.status != "IN_FLIGHT")).then_some(rows)
    })
    .await;
    let reasons =
        ["can't be published", "can't be published", "can't be published", "no stream", "no payload", "over 1048576"];
    for (row, reason) in rows.iter().zip(reasons) {
        assert!(row.last_error.as_ref().unwrap().contains(reason), "{row:?}");
    }
    assert_eq!(
        (rows[6].status.as_str(), rows[6].attempts),
        ("PENDING", 0),
        "it waits for the earlier row of its execution"
    );
    let early = "status = 'FAILED' AND available_at < updated_at + interval '1 second' * power(2, attempts - 1)";
    assert_eq!(deployment.outbox_rows(early).await, 0);
    let messages = deployment.relayed(STREAM).await;
    assert_eq!(messages.iter().map(|(_, subject, _)| subject.as_str()).collect::<Vec<_>>(), ["noetl.executions.a.7"]);

    deployment.on_shard(0, "UPDATE noetl.outbox SET subject = 'noetl.executions.a.1' WHERE outbox_id = 1").await;
    eventually("the rows of the execution are published", async || {
        (deployment.outbox_rows("execution_id = 1 AND status = 'PUBLISHED'").await == 2).then_some(())
    })
    .await;
}
