//! Order of the events of an execution: in one batch by event id, over several batches in commit order. A batch contains
//! everything that was committed between two polls of the tailer.

use noetl_testkit::feed::{Key, Reader, insert, run};
use noetl_testkit::{Deployment, Server};
use serde_json::json;

/// Opens a reader of these executions.
async fn reader(server: &Server, executions: &[i64]) -> Reader {
    let executions: Vec<String> = executions.iter().map(i64::to_string).collect();
    Reader::open(server, json!({ "beginning": true }), json!({ "executionIds": executions })).await
}

#[tokio::test]
async fn two_commits_in_one_batch_are_delivered_by_their_ids_and_two_in_different_batches_by_their_commits() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let server = two_commits_in_one_batch_are_delivered_in_the_order_of_their_ids(&deployment, server).await;
    a_commit_after_the_batch_of_another_one_is_delivered_after_it(&deployment, &server).await;
    events_of_one_commit_are_delivered_in_the_order_of_their_ids(&deployment, &server).await;
    an_event_is_delivered_after_the_events_that_its_worker_had_read(&deployment, &server).await;
}

/// Both commits are in one batch, because no tailer runs meanwhile. They are delivered in the order of their ids, also
/// if the later commit has the smaller id.
async fn two_commits_in_one_batch_are_delivered_in_the_order_of_their_ids(
    deployment: &Deployment,
    server: Server,
) -> Server {
    assert!(server.stop().await.success());
    let (mut one, mut other) = (deployment.shard(0).await, deployment.shard(0).await);
    run(&mut other, "BEGIN").await;
    insert(&mut other, (7, 5)).await;
    insert(&mut one, (7, 6)).await;
    run(&mut other, "COMMIT").await;
    insert(&mut other, (8, 2)).await;
    insert(&mut one, (8, 1)).await;
    let server = deployment.replica().await;
    let mut reader = reader(&server, &[7, 8]).await;
    assert!(reader.until_seen([(7, 5), (7, 6), (8, 1), (8, 2)]).await, "the feed ended");
    assert_eq!(events(&reader, 7), [5, 6]);
    assert_eq!(events(&reader, 8), [1, 2]);
    server
}

/// Worker A commits event 6, then worker B commits event 5, which has the smaller id.
async fn a_commit_after_the_batch_of_another_one_is_delivered_after_it(deployment: &Deployment, server: &Server) {
    let mut reader = reader(server, &[9]).await;
    let (mut one, mut other) = (deployment.shard(0).await, deployment.shard(0).await);
    run(&mut other, "BEGIN").await;
    insert(&mut other, (9, 5)).await;
    insert(&mut one, (9, 6)).await;
    assert!(reader.until_seen([(9, 6)]).await, "the feed ended");
    run(&mut other, "COMMIT").await;
    assert!(reader.until_seen([(9, 5)]).await, "the feed ended");
    assert_eq!(reader.seen, [(9, 6), (9, 5)]);
}

/// Events that one transaction inserts in any order are delivered together, in the order of their ids.
async fn events_of_one_commit_are_delivered_in_the_order_of_their_ids(deployment: &Deployment, server: &Server) {
    let mut reader = reader(server, &[10]).await;
    let mut shard = deployment.shard(0).await;
    for round in 0..20 {
        run(&mut shard, "BEGIN").await;
        for event in [3, 1, 2] {
            insert(&mut shard, (10, round * 10 + event)).await;
        }
        run(&mut shard, "COMMIT").await;
    }
    assert!(reader.until_seen([(10, 191), (10, 192), (10, 193)]).await, "the feed ended");
    let all: Vec<Key> = (0..20).flat_map(|round| (1..=3).map(move |event| (10, round * 10 + event))).collect();
    assert_eq!(reader.seen, all);
}

/// Two workers take turns: each reads the last event of the log and appends one with a larger id, while other
/// transactions of both are open. Whatever the batches are, an event is delivered after the events that its worker had
/// read.
async fn an_event_is_delivered_after_the_events_that_its_worker_had_read(deployment: &Deployment, server: &Server) {
    let mut reader = reader(server, &[11]).await;
    let mut workers = [deployment.shard(0).await, deployment.shard(0).await];
    let append = "INSERT INTO noetl.event (execution_id, event_id, event_type)
                  SELECT 11, coalesce(max(event_id), 0) + 1, 'call.done' FROM noetl.event WHERE execution_id = 11";
    for turn in 0..100 {
        // The transaction id is assigned before the other worker's commit is read.
        let [one, other] = &mut workers;
        run(one, "BEGIN").await;
        insert(&mut *one, (12, turn + 1)).await;
        run(other, append).await;
        run(one, append).await;
        run(one, "COMMIT").await;
        workers.reverse();
    }
    assert!(reader.until_seen([(11, 200)]).await, "the feed ended");
    assert_eq!(events(&reader, 11), (1..=200).collect::<Vec<i64>>());
}

fn events(reader: &Reader, execution: i64) -> Vec<i64> {
    reader.seen.iter().filter(|key| key.0 == execution).map(|key| key.1).collect()
}
