//! If a leader dies in the middle of a batch, another replica takes over and continues at the same event.

use std::collections::BTreeSet;

use noetl_testkit::feed::{Key, assert_exactly, run};
use noetl_testkit::{Deployment, Server, eventually};
use sqlx::{Connection, Executor};

/// Size of a transaction that is large enough to interrupt its publishing, and to be read in pages.
const EVENTS: i64 = 2_500;
/// Settings with one event in flight at a time, so that publishing takes long.
const SLOW: [(&str, &str); 2] = [("NOETL_EVENT_STREAM_BATCH", "1"), ("NOETL_EVENT_STREAM_BACKFILL", "true")];

/// Starts a leader and kills it in the middle of a batch.
async fn killed_in_a_batch(deployment: &Deployment) {
    deployment.commit(7, 1..=EVENTS).await;
    let mut server = deployment.feed_replica_with(&SLOW).await;
    let (_, stream) = deployment.stream(0).await;
    let stored = async || i64::try_from(stream.get_info().await.unwrap().state.messages).unwrap();
    eventually("some events are published", async || (stored().await > 200).then_some(())).await;
    server.kill_9().await;
    assert!(stored().await < EVENTS, "all events were published before the kill");
}

#[tokio::test]
async fn rows_deleted_between_two_leaders_do_not_shift_the_batch() {
    let deployment = Deployment::start(1).await;
    killed_in_a_batch(&deployment).await;
    let all = deployment.committed().await;
    run(&mut deployment.shard(0).await, "DELETE FROM noetl.event WHERE event_id <= 100").await;
    let _next = deployment.feed_replica().await;
    deployment.until_batch_finished().await;
    assert_exactly(&deployment.published().await, &all);
}

#[tokio::test]
async fn events_of_a_batch_that_retention_dropped_are_not_published_again() {
    let deployment = Deployment::start(1).await;
    killed_in_a_batch(&deployment).await;
    let (_, stream) = deployment.stream(0).await;
    stream.purge().await.unwrap();
    // The broker may have stored the last message of the killed leader after the kill.
    let first = i64::try_from(stream.get_info().await.unwrap().state.first_sequence).unwrap();
    let _next = deployment.feed_replica().await;
    deployment.until_batch_finished().await;
    let rest: BTreeSet<Key> = (first..=EVENTS).map(|event| (7, event)).collect();
    assert_exactly(&deployment.published().await, &rest);
}

#[tokio::test]
async fn a_feed_says_who_leads_it_and_why_it_stops_and_continues_when_it_can() {
    let deployment = Deployment::start(1).await;
    let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=10).await;
    deployment.until_published(10).await;
    the_error_of_a_feed_is_removed_when_it_works_again_also_if_no_event_follows(&deployment).await;
    let server = a_metric_says_which_replica_leads_a_feed(one, other).await;
    let server = another_replica_takes_over_from_a_killed_leader(&deployment, server).await;
    a_broken_message_stops_the_feed_with_an_error_until_it_is_deleted(&deployment, server).await;
}

async fn the_error_of_a_feed_is_removed_when_it_works_again_also_if_no_event_follows(deployment: &Deployment) {
    let mut shard = deployment.shard(0).await;
    let mut locked = shard.begin().await.unwrap();
    locked.execute("LOCK TABLE noetl.event IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let error = eventually("a statement of the feed fails", async || deployment.last_error().await).await;
    assert!(error.contains("did not finish a statement in time"), "{error}");
    locked.rollback().await.unwrap();
    eventually("the feed works again", async || deployment.last_error().await.is_none().then_some(())).await;
    assert_eq!(deployment.published().await.len(), 10);
}

/// Returns the replica that leads after the other one was stopped.
async fn a_metric_says_which_replica_leads_a_feed(first: Server, second: Server) -> Server {
    let leads = async |server: &Server| server.metric(r#"noetl_tailer_is_leader{shard="0"}"#).await > 0.5;
    let first_leads = eventually("one of them leads", async || match (leads(&first).await, leads(&second).await) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    })
    .await;
    let (leader, other) = if first_leads { (first, second) } else { (second, first) };
    assert!(leader.stop().await.success());
    eventually("the other one leads", async || leads(&other).await.then_some(())).await;
    other
}

/// Returns the replica that takes over.
async fn another_replica_takes_over_from_a_killed_leader(deployment: &Deployment, mut leader: Server) -> Server {
    let other = deployment.replica().await;
    assert_eq!(deployment.leader(0).await, Some(leader.name().await));
    leader.kill_9().await;
    deployment.commit(7, 11..=20).await;
    deployment.until_published(20).await;
    assert_eq!(deployment.leader(0).await, Some(other.name().await));
    assert_exactly(&deployment.published().await, &deployment.committed().await);
    other
}

async fn a_broken_message_stops_the_feed_with_an_error_until_it_is_deleted(deployment: &Deployment, server: Server) {
    deployment.until_batch_finished().await;
    assert!(server.stop().await.success());
    let (context, stream) = deployment.stream(0).await;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Noetl-Place", "1 x 3");
    headers.insert("Noetl-Feed", "1 1 1");
    let ack = context.publish_with_headers("noetl.events.call.done", headers, "{}".into()).await.unwrap();
    let broken = ack.await.unwrap().sequence;
    deployment.commit(7, 21..=30).await;

    let _next = deployment.replica().await;
    eventually("the feed reports the broken message", async || {
        let error = deployment.last_error().await?;
        error.contains(&format!("message {broken} of the event stream is broken")).then_some(())
    })
    .await;
    assert_eq!(deployment.published().await.len(), 20);
    stream.delete_message(broken).await.unwrap();
    deployment.until_published(30).await;
    assert_exactly(&deployment.published().await, &deployment.committed().await);
}
