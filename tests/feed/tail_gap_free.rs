//! Every committed event reaches the stream and its live readers once, even if transactions commit late or in another
//! order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use noetl_testkit::feed::{Key, Reader, assert_exactly, assert_in_order, insert, run};
use noetl_testkit::writer::Writer;
use noetl_testkit::{Deployment, Server, eventually};
use sqlx::PgConnection;

const WRITERS: usize = 4;

/// Transactions that are not finished: on each shard one open and one prepared transaction, both with rows.
struct Unfinished {
    open: Vec<PgConnection>,
    prepared: Vec<String>,
    rows: BTreeSet<Key>,
}

impl Unfinished {
    async fn begin(deployment: &Deployment) -> Self {
        let mut unfinished = Self { open: Vec::new(), prepared: Vec::new(), rows: BTreeSet::new() };
        for shard in 0..deployment.shard_dsns.len() {
            let mut open = deployment.shard(shard).await;
            let mut prepared = deployment.shard(shard).await;
            let name = format!("t{}", uuid::Uuid::new_v4().simple());
            run(&mut open, "BEGIN").await;
            run(&mut prepared, "BEGIN").await;
            for execution in deployment.ids_on(shard, 1000, 2) {
                for (connection, event) in [(&mut open, 1), (&mut prepared, 2)] {
                    insert(&mut *connection, (execution, event)).await;
                    unfinished.rows.insert((execution, event));
                }
            }
            run(&mut prepared, &format!("PREPARE TRANSACTION '{name}'")).await;
            unfinished.open.push(open);
            unfinished.prepared.push(name);
        }
        unfinished
    }

    async fn commit(&mut self) {
        for (open, name) in self.open.iter_mut().zip(&self.prepared) {
            run(open, "COMMIT").await;
            run(open, &format!("COMMIT PREPARED '{name}'")).await;
        }
    }
}

fn ordered_logs(deployment: &Deployment) -> Vec<i64> {
    (0..WRITERS).map(|index| Writer::new(deployment, index).ordered).collect()
}

async fn check(deployment: &Deployment, readers: &[&Reader]) {
    let committed = deployment.committed().await;
    for reader in readers {
        reader.assert_saw_exactly(&committed);
        assert_in_order(&reader.seen, ordered_logs(deployment));
    }
    let stored = deployment.stored_everywhere().await;
    assert_exactly(&stored, &committed);
    assert_in_order(&stored, ordered_logs(deployment));
}

/// Inserts one more event on each shard, after all others, and waits for it. Then checks that readers have every event
/// once.
async fn finish(deployment: &Deployment, readers: &mut [&mut Reader]) {
    for shard in 0..deployment.shard_dsns.len() {
        insert(&mut deployment.shard(shard).await, (deployment.ids_on(shard, 1, 1)[0], 1)).await;
    }
    let committed = deployment.committed().await;
    for reader in &mut *readers {
        assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    }
    let readers: Vec<&Reader> = readers.iter().map(|reader| &**reader).collect();
    check(deployment, &readers).await;
}

async fn every_commit_arrives_once(batch: &str) {
    let deployment = Deployment::start(2).await;
    let settings = [("NOETL_EVENT_STREAM_BATCH", batch)];
    let (one, other) = tokio::join!(deployment.feed_replica_with(&settings), deployment.feed_replica_with(&settings));
    deployment.feeds_begun().await;
    let mut first = Reader::from_latest(&one).await;
    let mut second = Reader::from_beginning(&other).await;

    let mut unfinished = Unfinished::begin(&deployment).await;
    let enough = AtomicBool::new(true);
    join_all((0..WRITERS).map(|index| Writer::new(&deployment, index).write(&enough))).await;
    let committed = deployment.committed().await;
    assert!(committed.is_disjoint(&unfinished.rows));
    for reader in [&mut first, &mut second] {
        assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    }
    check(&deployment, &[&first, &second]).await;

    unfinished.commit().await;
    finish(&deployment, &mut [&mut first, &mut second]).await;
    let mut late = Reader::from_beginning(&other).await;
    finish_replay(&deployment, &mut late).await;
}

/// Panics unless a reader that started with the oldest event had all events when it caught up.
async fn finish_replay(deployment: &Deployment, reader: &mut Reader) {
    check(deployment, &[reader]).await;
    assert_eq!(reader.items.last().unwrap()["__typename"], "CaughtUp");
}

#[tokio::test]
async fn every_commit_is_delivered_once_and_an_open_transaction_delays_only_its_own_rows() {
    every_commit_arrives_once("500").await;
}

#[tokio::test]
async fn every_commit_is_delivered_once_in_tiny_batches() {
    every_commit_arrives_once("3").await;
}

#[tokio::test]
async fn a_large_transaction_equal_ids_and_a_backlog_are_delivered_once_and_in_order() {
    let deployment = Deployment::start(1).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let mut reader = Reader::from_latest(&server).await;
    one_transaction_of_2_500_events_is_delivered_once(&deployment, &mut reader).await;
    events_of_different_logs_with_equal_ids_are_all_delivered(&deployment, &mut reader).await;
    reader.disconnect().await;
    assert!(server.stop().await.success());
    a_backlog_is_published_in_commit_order(&deployment).await;
}

async fn one_transaction_of_2_500_events_is_delivered_once(deployment: &Deployment, reader: &mut Reader) {
    let rows = "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
        SELECT 7 + n % 10, n, 'call.done', jsonb_build_object('text', repeat('x', 500))
        FROM generate_series(2500, 1, -1) AS n";
    run(&mut deployment.shard(0).await, rows).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    insert(&mut deployment.shard(0).await, (1, 6000)).await;
    assert!(reader.until_seen([(1, 6000)]).await, "the feed ended");
    let committed = deployment.committed().await;
    reader.assert_saw_exactly(&committed);
    assert_in_order(&reader.seen, 7..17);
    assert_exactly(&deployment.stored(0).await, &committed);
}

/// The broker recognises duplicates by message id. An event of another log with the same event id is not a duplicate.
async fn events_of_different_logs_with_equal_ids_are_all_delivered(deployment: &Deployment, reader: &mut Reader) {
    for execution in 1..=3 {
        deployment.commit(execution, 1..=100).await;
    }
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;
    assert_exactly(&deployment.stored(0).await, &committed);
}

/// A backlog is published in commit order, even if the transaction that commits last began first. No replica runs when
/// the events are committed.
async fn a_backlog_is_published_in_commit_order(deployment: &Deployment) {
    let (mut early, mut between) = (deployment.shard(0).await, deployment.shard(0).await);
    for log in 100..120 {
        run(&mut early, "BEGIN").await;
        insert(&mut early, (log + 1000, 1)).await;
        insert(&mut between, (log, 1)).await;
        insert(&mut early, (log, 2)).await;
        run(&mut early, "COMMIT").await;
    }
    let server = deployment.feed_replica_with(&[("NOETL_EVENT_STREAM_BATCH", "1")]).await;
    let mut reader = Reader::from_beginning(&server).await;
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;
    assert_in_order(&reader.seen, 100..120);
    assert_exactly(&deployment.stored(0).await, &committed);
}

/// A replica with the maximum number of its events in flight.
type Replica = (&'static str, Server);

/// Returns the replicas with the leader of shard 0 first.
async fn leader_first(deployment: &Deployment, mut replicas: Vec<Replica>) -> Vec<Replica> {
    let leader = eventually("a replica that runs leads shard 0", async || {
        let leader = deployment.leader(0).await?;
        for (index, (_, server)) in replicas.iter().enumerate() {
            if server.name().await == leader {
                return Some(index);
            }
        }
        None
    })
    .await;
    replicas.swap(0, leader);
    replicas
}

/// The leaders publish in large and in tiny batches in turn.
#[tokio::test]
async fn a_leader_that_is_killed_repeatedly_loses_and_repeats_no_event() {
    let deployment = Deployment::start(2).await;
    let start = async |batch: &'static str| deployment.feed_replica_with(&[("NOETL_EVENT_STREAM_BATCH", batch)]).await;
    let (one, other) = tokio::join!(start("500"), start("3"));
    deployment.feeds_begun().await;
    let mut reader = Reader::from_latest(&one).await;
    let mut replicas = vec![("500", one), ("3", other)];

    let enough = AtomicBool::new(false);
    let writing = join_all((0..WRITERS).map(|index| Writer::new(&deployment, index).write(&enough)));
    let killing = async {
        for _ in 0..3 {
            replicas = leader_first(&deployment, std::mem::take(&mut replicas)).await;
            reader.reconnect(&replicas[0].1).await;
            assert!(reader.next_event().await, "the feed ended");
            replicas[0].1.kill_9().await;
            // Items that are still in the socket were delivered.
            while reader.step().await.is_some() {}
            reader.reconnect(&replicas[1].1).await;
            replicas[0].1 = start(replicas[0].0).await;
        }
        enough.store(true, Ordering::Relaxed);
        reader
    };
    let (_, mut reader) = tokio::join!(writing, killing);
    finish(&deployment, &mut [&mut reader]).await;
}
