//! If the broker lost acknowledged events, the tailer detects this and publishes them again in a new epoch.

use noetl_testkit::Deployment;
use noetl_testkit::feed::{Reader, assert_exactly, insert};
use serde_json::{Value, json};

#[tokio::test]
async fn a_broker_that_lost_all_data_gets_every_event_again_in_a_new_epoch() {
    let mut deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    for events in [1..=10, 11..=200, 201..=211] {
        deployment.commit_on_every_shard(events).await;
    }
    deployment.until_all_published().await;
    assert_eq!(server.feed_epochs().await, [1, 1]);

    deployment.kill_broker_and_delete_store().await;
    deployment.nats.restart().await.unwrap();

    // No writer is active: the leaders detect the loss by themselves.
    server.until_feed_epoch(2).await;
    let mut reader = Reader::open(&server, json!({ "beginning": true }), Value::Null).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    deployment.commit_on_every_shard(300..=310).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    reader.assert_saw_exactly(&committed);
    assert_exactly(&deployment.stored_everywhere().await, &committed);
    assert_eq!(server.feed_epochs().await, [2, 2]);
}

/// Restarts the broker with an earlier state of its store, as after a power failure or a restored disk.
async fn the_last_writes_go(writing: bool) {
    let mut deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit_on_every_shard(1..=50).await;
    deployment.until_all_published().await;
    let earlier = deployment.copy_broker_store().await;
    for events in [51..=60, 61..=100] {
        deployment.commit_on_every_shard(events).await;
    }
    deployment.until_all_published().await;

    deployment.kill_broker_and_restore_store(&earlier).await;
    if writing {
        deployment.commit_on_every_shard(101..=120).await;
    }
    deployment.nats.restart().await.unwrap();
    server.until_feed_epoch(2).await;
    deployment.commit_on_every_shard(121..=130).await;
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
