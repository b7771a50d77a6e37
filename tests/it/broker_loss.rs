//! If the broker lost acknowledged events, the tailer detects this and publishes them again in a new epoch.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::feed::{Reader, assert_exactly, insert, run};
use crate::common::{Deployment, Server, eventually};

const STATUS: &str = "{ eventStream { shards { shard feedEpoch lastSequence lagEvents lastError } } }";

async fn epochs(server: &Server) -> Vec<i64> {
    let status = server.data(STATUS, Value::Null).await;
    let shards = status["eventStream"]["shards"].as_array().unwrap();
    shards.iter().map(|shard| shard["feedEpoch"].as_i64().unwrap()).collect()
}

pub async fn insert_many(deployment: &Deployment, events: std::ops::RangeInclusive<i64>) {
    let (first, last) = (events.start(), events.end());
    for shard in 0..deployment.shard_dsns.len() {
        let execution = deployment.ids_on(shard, 1, 1)[0];
        let rows = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type)
             SELECT {execution}, n, 'call.done' FROM generate_series({first}, {last}) AS n"
        );
        run(&mut deployment.shard(shard).await, &rows).await;
    }
}

pub async fn until_published(deployment: &Deployment) {
    let committed = deployment.committed().await.len();
    eventually("everything is published", async || {
        let query = "SELECT CASE WHEN target IS NULL THEN published_events ELSE 0 END FROM noetl.tail_cursor";
        let published = deployment.sum_over_shards(query).await;
        (published >= i64::try_from(committed).unwrap()).then_some(())
    })
    .await;
}

pub async fn until_epoch(server: &Server, epoch: i64) {
    eventually("the epoch increases", async || (epochs(server).await == [epoch, epoch]).then_some(())).await;
}

pub fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

#[tokio::test]
async fn a_broker_that_lost_all_data_gets_every_event_again_in_a_new_epoch() {
    let mut deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    for events in [1..=10, 11..=200, 201..=211] {
        insert_many(&deployment, events).await;
    }
    until_published(&deployment).await;
    assert_eq!(epochs(&server).await, [1, 1]);

    deployment.nats.kill_9().await;
    std::fs::remove_dir_all(deployment.broker_store()).unwrap();
    deployment.nats.restart().await.unwrap();

    // No writer is active: the leaders detect the loss by themselves.
    until_epoch(&server, 2).await;
    let mut reader = Reader::open(&server, json!({ "beginning": true }), Value::Null).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    insert_many(&deployment, 300..=310).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    reader.assert_saw_exactly(&committed);
    assert_exactly(&deployment.stored_everywhere().await, &committed);
    assert_eq!(epochs(&server).await, [2, 2]);
}

/// Restarts the broker with an earlier state of its store, as after a power failure or a restored disk.
async fn the_last_writes_go(writing: bool) {
    let mut deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    insert_many(&deployment, 1..=50).await;
    until_published(&deployment).await;
    deployment.nats.stop().await;
    let (store, earlier) = (deployment.broker_store(), deployment.broker_store().with_extension("earlier"));
    copy(&store, &earlier);
    deployment.nats.restart().await.unwrap();
    for events in [51..=60, 61..=100] {
        insert_many(&deployment, events).await;
    }
    until_published(&deployment).await;

    deployment.nats.kill_9().await;
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&earlier, &store).unwrap();
    if writing {
        insert_many(&deployment, 101..=120).await;
    }
    deployment.nats.restart().await.unwrap();
    until_epoch(&server, 2).await;
    insert_many(&deployment, 121..=130).await;
    let committed = deployment.committed().await;
    let mut reader = Reader::open(&server, json!({ "beginning": true }), Value::Null).await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    for shard in 0..2 {
        insert(&mut deployment.shard(shard).await, (deployment.ids_on(shard, 1, 1)[0], 999)).await;
    }
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    reader.assert_saw_exactly(&committed);
    assert_exactly(&deployment.stored_everywhere().await, &committed);
}

#[tokio::test]
async fn a_broker_that_lost_its_last_writes_gets_them_again_without_new_events() {
    the_last_writes_go(false).await;
}

#[tokio::test]
async fn a_broker_that_lost_its_last_writes_gets_them_again_during_new_writes() {
    the_last_writes_go(true).await;
}
