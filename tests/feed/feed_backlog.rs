//! A backlog of any size is published in bounded pieces: without a sort of the whole backlog, resumable, and with a
//! correct status. Every read has a deadline.

use std::collections::BTreeSet;
use std::time::Duration;

use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::tail;
use noetl_testkit::feed::{Key, assert_exactly, assert_in_order, run};
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::{Deployment, eventually, sleep_in_scenario};

/// Commits events with contexts of `bytes` in one transaction: `count` events of ten executions in descending order of
/// their ids, which begin at `first`.
async fn commit_backlog(deployment: &Deployment, first: i64, count: i64, bytes: usize) {
    let rows = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
         SELECT 7 + n % 10, n, 'call.done', jsonb_build_object('text', repeat('x', {bytes}))
         FROM generate_series({}, {first}, -1) AS n",
        first + count - 1
    );
    run(&mut deployment.shard(0).await, &rows).await;
}

async fn messages(deployment: &Deployment) -> u64 {
    let (_, stream) = deployment.stream(0).await;
    stream.get_info().await.unwrap().state.messages
}

#[tokio::test]
async fn batches_after_empty_transactions_and_batches_larger_than_the_memory_of_a_sort_are_published_once() {
    let deployment = Deployment::start(1).await;
    let _server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    the_start_of_a_batch_moves_only_over_transactions_without_events(&deployment).await;
    a_backlog_larger_than_the_memory_of_a_sort_is_published_without_temporary_files(&deployment).await;
}

/// Between the events, transactions end that wrote none, or that were rolled back.
async fn the_start_of_a_batch_moves_only_over_transactions_without_events(deployment: &Deployment) {
    let mut open = deployment.shard(0).await;
    let mut empty = deployment.shard(0).await;
    run(&mut open, "BEGIN; INSERT INTO noetl.event (execution_id, event_id) VALUES (1, 1)").await;
    for event in 2..20 {
        run(&mut empty, "BEGIN; SELECT pg_current_xact_id(); COMMIT").await;
        sleep_in_scenario(Duration::from_millis(20)).await;
        deployment.commit(2, event..=event).await;
        run(&mut empty, "BEGIN; INSERT INTO noetl.event (execution_id, event_id) VALUES (3, 1); ROLLBACK").await;
    }
    run(&mut open, "COMMIT").await;
    deployment.until_all_published().await;
    assert_exactly(&deployment.stored(0).await, &deployment.committed().await);
}

async fn a_backlog_larger_than_the_memory_of_a_sort_is_published_without_temporary_files(deployment: &Deployment) {
    // A sort of their rows needs more than the 4 MB of PostgreSQL's `work_mem`.
    const EVENTS: i64 = 11_000;
    commit_backlog(deployment, 1, EVENTS, 400).await;
    let written = "SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database()";
    let before = deployment.sum_over_shards(written).await;
    deployment.until_all_published().await;
    // The database publishes its counts at most once a second, with the next statement of the leader.
    sleep_in_scenario(Duration::from_secs(2)).await;
    let temporary = deployment.sum_over_shards(written).await - before;
    // Other tasks and the test itself write small ones.
    assert!(
        temporary < EVENTS * 100,
        "{temporary} bytes of temporary files for {EVENTS} events of more than 400 bytes"
    );
    let stored = deployment.stored(0).await;
    assert_exactly(&stored, &deployment.committed().await);
    assert_in_order(&stored, 7..17);
}

/// A large batch whose events lie between events of other batches, with late events of low ids.
#[tokio::test]
async fn a_large_batch_is_continued_after_its_last_stored_event_by_the_next_leader() {
    let deployment = Deployment::start(1).await;
    let settings = [("NOETL_EVENT_STREAM_BATCH", "100")];
    let mut server = deployment.feed_replica_with(&settings).await;
    deployment.feeds_begun().await;
    let mut late = deployment.shard(0).await;
    run(
        &mut late,
        "BEGIN; INSERT INTO noetl.event (execution_id, event_id) SELECT 7 + n % 10, n FROM generate_series(1, 40) AS n",
    )
    .await;
    commit_backlog(&deployment, 20_000, 10_000, 1).await;
    deployment.commit(1, 100_000..=100_000).await;
    let published: BTreeSet<Key> =
        (20_000..30_000).map(|event| (7 + event % 10, event)).chain([(1, 100_000)]).collect();
    eventually("the first batches are published", async || {
        (messages(&deployment).await == published.len() as u64).then_some(())
    })
    .await;
    let (before, after) = ("generate_series(100, 6000)", "generate_series(40000, 50000)");
    for numbers in [before, after] {
        run(
            &mut late,
            &format!("INSERT INTO noetl.event (execution_id, event_id) SELECT 7 + n % 10, n FROM {numbers} AS n"),
        )
        .await;
    }
    run(&mut late, "COMMIT").await;
    for enough in [published.len() + 3_000, published.len() + 9_000] {
        eventually("a part of the batch is published", async || {
            (messages(&deployment).await > enough as u64).then_some(())
        })
        .await;
        server.kill_9().await;
        assert!(
            deployment.sum_over_shards("SELECT count(target) FROM noetl.tail_cursor").await == 1,
            "the batch is complete"
        );
        server = deployment.feed_replica_with(&settings).await;
    }
    deployment.until_all_published().await;
    let stored = deployment.stored(0).await;
    assert_exactly(&stored, &deployment.committed().await);
    assert_in_order(&stored[published.len()..], 7..17);
}

#[tokio::test]
async fn the_status_follows_a_large_batch_while_it_is_published() {
    const EVENTS: i64 = 18_000;
    let mut deployment = Deployment::start(1).await;
    let network = Proxy::start(deployment.nats.port()).await;
    deployment.env.push(("NOETL_NATS_URL".to_owned(), format!("nats://127.0.0.1:{}", network.port)));
    let _server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let shard = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 2);
    commit_backlog(&deployment, 1, EVENTS, 100).await;
    eventually("two thirds of the batch are published", async || {
        (messages(&deployment).await > EVENTS.cast_unsigned() / 3 * 2).then_some(())
    })
    .await;
    network.set(ForwardingMode::Closed);
    let status = tail::status(&shard).await.unwrap().unwrap();
    assert_eq!(status.published_events + status.lag_events, EVENTS, "{status:?}");
    let stored = messages(&deployment).await.cast_signed();
    assert!((stored - 11_000..=stored).contains(&status.published_events), "{status:?}, {stored} messages");
    assert!(status.lag_seconds > 0.0, "{status:?}");
    network.set(ForwardingMode::Normal);
    deployment.until_all_published().await;
    let status = tail::status(&shard).await.unwrap().unwrap();
    assert_eq!((status.published_events, status.lag_events), (EVENTS, 0));
}

/// The connection over which the leader reads a batch is lost without notice, as after the crash of a router.
#[tokio::test]
async fn a_leader_whose_connection_is_half_open_reads_the_batch_over_another_one() {
    // The first page of the batch, 5,000 events, is larger than the buffers of the connections.
    const EVENTS: i64 = 5_200;
    let mut deployment = Deployment::start(1).await;
    let postgres = deployment.shard_behind_proxy(0).await;
    let broker = Proxy::start(deployment.nats.port()).await;
    deployment.env.push(("NOETL_NATS_URL".to_owned(), format!("nats://127.0.0.1:{}", broker.port)));
    let _server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    deployment.commit(1, 1..=1).await;
    deployment.until_all_published().await;
    // The broker acknowledges nothing, so the leader stops reading in the middle of the batch.
    broker.set(ForwardingMode::Stalled);
    commit_backlog(&deployment, 2, EVENTS, 8_000).await;
    let writing = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event = 'ClientWrite' AND query LIKE 'SELECT execution_id AS %'";
    eventually("the leader reads the batch", async || (deployment.sum_over_shards(writing).await == 1).then_some(()))
        .await;
    postgres.freeze();
    broker.set(ForwardingMode::Normal);
    deployment.until_all_published().await;
    assert_exactly(&deployment.stored(0).await, &deployment.committed().await);
}
