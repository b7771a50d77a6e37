//! The work for an event depends on the readers that follow it, not on all readers. Readers that need the same stored
//! messages, or the same row after a change, share one read.

use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use noetl_testkit::feed::{Reader, insert_typed, run};
use noetl_testkit::{Deployment, Live, QUIET, Server, eventually};
use serde_json::{Value, json};

/// Number of readers in most tests.
const READERS: i64 = 60;

/// Starts a deployment with a replica that publishes and one that only delivers, so that its metrics count only the
/// work for readers.
async fn start(shards: usize) -> (Deployment, Server, Server) {
    let deployment = Deployment::start(shards).await;
    let leader = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let server = deployment.replica_with(&QUIET).await;
    (deployment, leader, server)
}

async fn open(server: &Server, filter: Value) -> Reader {
    Reader::open(server, json!({ "latest": true }), filter).await
}

/// Waits until the readers of an earlier part are gone, so that the next part counts only the work for its own readers.
async fn until_no_readers(server: &Server) {
    eventually("no reader is left", async || (server.metric("noetl_stream_readers").await < 0.5).then_some(())).await;
}

#[tokio::test]
async fn the_work_for_a_change_depends_on_the_readers_that_follow_it_and_is_shared_by_them() {
    let (deployment, leader, server) = start(1).await;
    Box::pin(an_event_is_taken_only_by_the_readers_that_follow_it(&deployment, &server)).await;
    until_no_readers(&server).await;
    Box::pin(readers_of_one_execution_share_the_queries_after_a_change(&deployment, &server)).await;
    until_no_readers(&server).await;
    let server = Box::pin(readers_that_resume_together_share_the_fetches(&deployment, server)).await;
    until_no_readers(&server).await;
    Box::pin(readers_of_a_list_share_the_query_after_a_change(&leader, &server)).await;
}

#[tokio::test]
async fn shards_without_the_execution_are_not_read_and_readers_with_other_cursors_share_the_text_of_an_event() {
    let (deployment, _leader, server) = start(2).await;
    Box::pin(execution_updates_reads_only_the_shard_of_the_execution(&deployment, &server)).await;
    until_no_readers(&server).await;
    Box::pin(readers_share_the_text_of_an_event_although_their_cursors_differ(&deployment, &server)).await;
}

async fn an_event_is_taken_only_by_the_readers_that_follow_it(deployment: &Deployment, server: &Server) {
    let by_execution = join_all((1..=READERS).map(|id| open(server, json!({ "executionIds": [id.to_string()] }))));
    let mut by_execution = by_execution.await;
    let other_filters = [
        json!({ "types": ["wanted"] }),
        json!({ "types": ["want*"] }),
        json!({ "parentExecutionId": "7000" }),
        json!({ "nodeNames": ["fetch"] }),
        json!({ "tenantId": "acme" }),
        json!({ "executionIds": [] }),
    ];
    let mut others = Vec::new();
    for filter in &other_filters {
        others.push(open(server, filter.clone()).await);
    }
    let before = server.metric("noetl_stream_taken_events_total").await;
    deployment.commit(1, 1..=50).await;
    assert!(by_execution[0].until_seen((1..=50).map(|event| (1, event))).await);
    // The other readers follow none of these events. The last event reaches each of them but the last, which has a
    // filter that no event matches.
    let last = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, parent_execution_id, tenant_id)
        VALUES (9000, 1, 'wanted', 'fetch', 7000, 'acme')";
    run(&mut deployment.shard(0).await, last).await;
    let (_, followed) = others.split_last_mut().unwrap();
    for reader in followed {
        assert!(reader.until_seen([(9000, 1)]).await);
        assert_eq!(reader.seen, [(9000, 1)]);
    }
    let taken = server.metric("noetl_stream_taken_events_total").await - before;
    assert!((55.0..60.0).contains(&taken), "{taken} events were taken");
}

async fn execution_updates_reads_only_the_shard_of_the_execution(deployment: &Deployment, server: &Server) {
    let execution = deployment.ids_on(1, 50, 1)[0];
    insert_typed(&mut deployment.shard(1).await, (execution, 1), "playbook_started").await;
    let mut live = watch(server, execution).await;
    assert!(live.next().await.is_some());
    let consumers = async |shard| deployment.stream(shard).await.1.get_info().await.unwrap().state.consumer_count;
    assert_eq!((consumers(0).await, consumers(1).await), (0, 1));
}

async fn watch(server: &Server, execution: i64) -> Live {
    let query =
        "subscription($id: ID!) { executionUpdates(executionId: $id) { kind execution { id status endedAt } } }";
    server.live(query, json!({ "id": execution.to_string() })).await
}

async fn readers_of_one_execution_share_the_queries_after_a_change(deployment: &Deployment, server: &Server) {
    const EXECUTION: i64 = 100;
    insert_typed(&mut deployment.shard(0).await, (EXECUTION, 1), "playbook_started").await;
    let mut readers = join_all((0..READERS).map(|_| watch(server, EXECUTION))).await;
    for reader in &mut readers {
        assert_eq!(reader.next().await.unwrap()["executionUpdates"]["execution"]["status"], "PENDING");
    }
    deployment.until_all_published().await;
    for reader in &mut readers {
        while reader.next().now_or_never().is_some() {}
    }
    let before = server.metric("noetl_sql_statements_total").await;
    insert_typed(&mut deployment.shard(0).await, (EXECUTION, 2), "playbook_completed").await;
    for reader in &mut readers {
        while reader.next().await.unwrap()["executionUpdates"]["execution"]["status"] != "COMPLETED" {}
    }
    let statements = server.metric("noetl_sql_statements_total").await - before;
    // Each of the 60 readers would need at least one. Background tasks need a few in each second.
    assert!(statements < 60.0, "{statements} statements for one change");
}

async fn readers_of_a_list_share_the_query_after_a_change(leader: &Server, server: &Server) {
    let id = leader.subscribe("a").await;
    let query = "subscription { subscriptionUpdates { kind subscription { id status } } }";
    let mut readers = join_all((0..READERS).map(|_| server.live(query, Value::Null))).await;
    for reader in &mut readers {
        assert_eq!(reader.next().await.unwrap()["subscriptionUpdates"]["subscription"]["status"], "REGISTERED");
        assert_eq!(reader.next().await.unwrap()["subscriptionUpdates"]["kind"], "CAUGHT_UP");
    }
    let before = server.metric("noetl_sql_statements_total").await;
    leader.transition("activate", &id, None).await;
    for reader in &mut readers {
        assert_eq!(reader.next().await.unwrap()["subscriptionUpdates"]["subscription"]["status"], "ACTIVE");
    }
    let statements = server.metric("noetl_sql_statements_total").await - before;
    // Each of the 60 readers would need at least one. Background tasks need a few in each second.
    assert!(statements < 60.0, "{statements} statements for one change");
}

/// The two readers have different cursors, because the second one joined after an event of the other shard.
async fn readers_share_the_text_of_an_event_although_their_cursors_differ(deployment: &Deployment, server: &Server) {
    let ids = [deployment.ids_on(0, 500, 1)[0], deployment.ids_on(1, 500, 1)[0]];
    let filter = json!({ "types": ["wanted"] });
    let mut early = open(server, filter.clone()).await;
    let mut all = open(server, Value::Null).await;
    insert_typed(&mut deployment.shard(1).await, (ids[1], 1), "other").await;
    assert!(all.until_seen([(ids[1], 1)]).await);
    let mut late = open(server, filter).await;
    // Two threads may begin with the same event at the same time. So not each event is rendered once.
    let mut times = Vec::new();
    for event in 2..22 {
        let before = server.metric("noetl_stream_rendered_events_total").await;
        insert_typed(&mut deployment.shard(0).await, (ids[0], event), "wanted").await;
        for reader in [&mut early, &mut late, &mut all] {
            assert!(reader.until_seen([(ids[0], event)]).await);
        }
        if early.cursor == late.cursor {
            break; // A heartbeat has moved it.
        }
        assert_eq!(late.cursor, all.cursor);
        times.push(server.metric("noetl_stream_rendered_events_total").await - before);
    }
    assert!(times.iter().any(|times| (0.5..1.5).contains(times)), "an event was rendered this often: {times:?}");
}

/// Returns the replica to which the readers have resumed.
async fn readers_that_resume_together_share_the_fetches(deployment: &Deployment, server: Server) -> Server {
    /// Execution of the events.
    const EXECUTION: i64 = 200;
    /// Number of events. They need three pages of the stream (256 messages).
    const EVENTS: i64 = 600;
    /// Number of readers.
    const RESUMED: i64 = 30;
    deployment.until_all_published().await;
    let before = deployment.committed().await.len();
    let mut readers = join_all((0..RESUMED).map(|_| open(&server, Value::Null))).await;
    // The readers stop at different positions.
    for round in 1..=RESUMED {
        deployment.commit(EXECUTION, round..=round).await;
        let reader = &mut readers[usize::try_from(round - 1).unwrap()];
        assert!(reader.until_seen([(EXECUTION, round)]).await);
    }
    drop(server);
    deployment.commit(EXECUTION, RESUMED + 1..=EVENTS).await;
    deployment.until_stored(before + usize::try_from(EVENTS).unwrap()).await;
    let server = deployment.replica_with(&QUIET).await;
    let client = async_nats::connect(deployment.nats.url()).await.unwrap();
    let mut created = client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.CREATED.noetl_events.>").await.unwrap();
    client.flush().await.unwrap();
    let resuming = readers.iter_mut().map(async |reader| {
        reader.reconnect(&server).await;
        assert!(reader.until_seen([(EXECUTION, EVENTS)]).await);
        reader.seen.clone()
    });
    for (stopped, seen) in (1..).zip(join_all(resuming).await) {
        assert_eq!(seen, (1..=EVENTS).map(|event| (EXECUTION, event)).collect::<Vec<_>>(), "reader {stopped}");
    }
    client.flush().await.unwrap();
    let mut count = 0;
    while created.next().now_or_never().flatten().is_some() {
        count += 1;
    }
    assert!((1..=10).contains(&count), "{count} consumers were created for {RESUMED} readers");
    eventually("no replay is waiting", async || {
        (server.metric("noetl_stream_replays_waiting").await < 0.5).then_some(())
    })
    .await;
    server
}
