//! Order of the events of an execution: in one batch by event id, over several batches in commit order. A batch contains
//! everything that was committed between two polls of the tailer.

use noetl_testkit::Deployment;
use noetl_testkit::feed::{Key, Reader, insert, run};
use serde_json::{Value, json};

async fn reader(server: &noetl_testkit::Server) -> Reader {
    Reader::open(server, json!({ "beginning": true }), Value::Null).await
}

/// Worker A commits event 6, then worker B commits event 5, which has the smaller id.
#[tokio::test]
async fn two_commits_are_delivered_in_commit_order_if_the_first_is_published_before_the_second_is_committed() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut reader = reader(&server).await;
    let (mut one, mut other) = (deployment.shard(0).await, deployment.shard(0).await);
    run(&mut other, "BEGIN").await;
    insert(&mut other, (7, 5)).await;
    insert(&mut one, (7, 6)).await;
    assert!(reader.until_seen([(7, 6)]).await, "the feed ended");
    run(&mut other, "COMMIT").await;
    assert!(reader.until_seen([(7, 5)]).await, "the feed ended");
    assert_eq!(reader.seen, [(7, 6), (7, 5)]);
}

/// Both commits are in one batch, because no tailer runs meanwhile. They are delivered in the order of their ids, also
/// if the later commit has the smaller id.
#[tokio::test]
async fn two_commits_in_one_batch_are_delivered_in_the_order_of_their_ids() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    assert!(server.stop().await.success());
    let (mut one, mut other) = (deployment.shard(0).await, deployment.shard(0).await);
    run(&mut other, "BEGIN").await;
    insert(&mut other, (7, 5)).await;
    insert(&mut one, (7, 6)).await;
    run(&mut other, "COMMIT").await;
    insert(&mut other, (8, 2)).await;
    insert(&mut one, (8, 1)).await;
    let server = deployment.replica().await;
    let mut reader = reader(&server).await;
    assert!(reader.until_seen([(7, 5), (7, 6), (8, 1), (8, 2)]).await, "the feed ended");
    assert_eq!(events(&reader, 7), [5, 6]);
    assert_eq!(events(&reader, 8), [1, 2]);
}

/// Events that one transaction inserts in any order are delivered together, in the order of their ids.
#[tokio::test]
async fn events_of_one_commit_are_delivered_in_the_order_of_their_ids() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut reader = reader(&server).await;
    let mut shard = deployment.shard(0).await;
    for round in 0..20 {
        run(&mut shard, "BEGIN").await;
        for event in [3, 1, 2] {
            insert(&mut shard, (7, round * 10 + event)).await;
        }
        run(&mut shard, "COMMIT").await;
    }
    assert!(reader.until_seen([(7, 191), (7, 192), (7, 193)]).await, "the feed ended");
    let all: Vec<Key> = (0..20).flat_map(|round| (1..=3).map(move |event| (7, round * 10 + event))).collect();
    assert_eq!(reader.seen, all);
}

/// Two workers take turns: each reads the last event of the log and appends one with a larger id, while other
/// transactions of both are open. Whatever the batches are, an event is delivered after the events that its worker had
/// read.
#[tokio::test]
async fn an_event_is_delivered_after_the_events_that_its_worker_had_read_if_it_has_a_larger_id() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut reader = reader(&server).await;
    let mut workers = [deployment.shard(0).await, deployment.shard(0).await];
    let append = "INSERT INTO noetl.event (execution_id, event_id, event_type)
                  SELECT 7, coalesce(max(event_id), 0) + 1, 'call.done' FROM noetl.event WHERE execution_id = 7";
    for turn in 0..200 {
        // The transaction id is assigned before the other worker's commit is read.
        let [one, other] = &mut workers;
        run(one, "BEGIN").await;
        insert(&mut *one, (8, turn + 1)).await;
        run(other, append).await;
        run(one, append).await;
        run(one, "COMMIT").await;
        workers.reverse();
    }
    assert!(reader.until_seen([(7, 400)]).await, "the feed ended");
    assert_eq!(events(&reader, 7), (1..=400).collect::<Vec<i64>>());
}

fn events(reader: &Reader, execution: i64) -> Vec<i64> {
    reader.seen.iter().filter(|key| key.0 == execution).map(|key| key.1).collect()
}
