//! Buckets have moved between shards whose event stream is off, is turned on later, or continues in a restored
//! database.

use std::collections::BTreeSet;

use noetl_domain::ids::Id;
use noetl_domain::shard::bucket_of;
use noetl_testkit::feed::{assert_exactly, insert, run};
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, QUIET, eventually};

/// Moves the buckets of these executions.
async fn moved(deployment: &Deployment, executions: &[i64], to: u16) {
    let buckets: BTreeSet<String> = executions.iter().map(|id| bucket_of(Id::new(*id)).to_string()).collect();
    let buckets: Vec<String> = buckets.into_iter().collect();
    let mut command = deployment.command("shards");
    command.args(["move", "--buckets", &buckets.join(","), "--to", &to.to_string()]);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_stream_that_is_turned_on_with_the_oldest_event_publishes_each_event_of_a_moved_bucket_once() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let executions = deployment.ids_on(0, 1, 3);
    for key in executions.iter().flat_map(|id| (1..=3).map(|event| (*id, event))) {
        insert(&mut deployment.shard(0).await, key).await;
    }
    moved(&deployment, &executions[..2], 1).await;
    moved(&deployment, &executions[..1], 0).await;
    // An id that the rows of a restored database have.
    let restored = format!("UPDATE noetl.event SET tx_id = '3' WHERE execution_id = {}", executions[2]);
    run(&mut deployment.shard(0).await, &restored).await;
    assert!(server.stop().await.success());

    let backfill = ("NOETL_EVENT_STREAM_BACKFILL", "true");
    let _server = deployment.feed_replica_with(&[backfill]).await;
    deployment.feeds_begun().await;
    insert(&mut deployment.shard(0).await, (executions[0], 4)).await;
    insert(&mut deployment.shard(1).await, (executions[1], 4)).await;
    let committed = deployment.committed().await;
    eventually("all events are published", async || {
        (deployment.stored_everywhere().await.len() >= committed.len()).then_some(())
    })
    .await;
    deployment.until_nothing_is_left().await;
    assert_exactly(&deployment.stored_everywhere().await, &committed);
}

#[tokio::test]
async fn the_feed_of_a_restored_dump_continues_although_a_bucket_has_left_the_shard() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.feeds_begun().await;
    let executions = deployment.ids_on(0, 1, 2);
    for key in executions.iter().flat_map(|id| (1..=3).map(|event| (*id, event))) {
        insert(&mut deployment.shard(0).await, key).await;
    }
    deployment.until_all_published().await;
    moved(&deployment, &executions[..1], 1).await;
    assert!(server.stop().await.success());
    // As in a restored dump: the rows have transaction ids of another server, and the cursor names that server.
    let dump = "SET noetl.moves_buckets = 'on'; UPDATE noetl.event SET tx_id = '100';
                UPDATE noetl.tail_cursor SET system_identifier = 1; UPDATE noetl.tail_anchor SET tx_id = '100'";
    run(&mut deployment.shard(0).await, dump).await;

    let server = deployment.replica_with(&[NO_RELAY]).await;
    eventually("the feed begins a new epoch", async || (server.feed_epochs().await == [2, 1]).then_some(())).await;
    insert(&mut deployment.shard(0).await, (executions[1], 4)).await;
    let stored = async || deployment.stored(0).await.contains(&(executions[1], 4)).then_some(());
    eventually("the event is published", stored).await;
    let foreign = "SELECT count(*) FROM noetl.event WHERE tx_id = '100'";
    assert_eq!(deployment.sum_over_shards(foreign).await, 0);
}
