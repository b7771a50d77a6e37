//! Unusual conditions of the broker end in the correct state: limits of the stream, a purge, a stream that was created
//! again, and data that is lost while nothing is committed.

use async_nats::jetstream::stream::Config;
use noetl_testkit::feed::{Reader, assert_exactly, run};
use noetl_testkit::{Deployment, Server, eventually};

/// Returns the configuration of shard 0's stream.
fn config() -> Config {
    Config { name: "noetl_events".into(), subjects: vec!["noetl.events.>".into()], ..Config::default() }
}

async fn create_stream(deployment: &Deployment, config: Config) {
    let client = async_nats::connect(deployment.nats.url()).await.unwrap();
    async_nats::jetstream::new(client).create_stream(config).await.unwrap();
}

/// Inserts event `event` of execution 7 with a context of this many bytes.
async fn commit_large(deployment: &Deployment, event: i64, bytes: usize) {
    let row = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
         VALUES (7, {event}, 'call.done', jsonb_build_object('text', repeat('x', {bytes})))"
    );
    run(&mut deployment.shard(0).await, &row).await;
}

/// The limit is reduced while the feed runs, so the next events are larger than allowed. A leader that starts later
/// finds the limit.
#[tokio::test]
async fn events_larger_than_the_maximum_message_size_of_the_stream_are_published_without_their_large_fields() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    commit_large(&deployment, 1, 50_000).await;
    deployment.until_published(1).await;
    let (context, stream) = deployment.stream(0).await;
    let current = stream.get_info().await.unwrap().config;
    context.update_stream(Config { max_message_size: 16 << 10, ..current }).await.unwrap();
    for event in 2..=4 {
        commit_large(&deployment, event, 50_000).await;
    }
    deployment.assert_published_once().await;
    assert_eq!(server.feed_epochs().await, [1]);
    assert!(server.stop().await.success());

    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut reader = Reader::from_beginning(&server).await;
    for (event, bytes) in [(5, 1), (6, 50_000), (7, 15_000), (8, 1)] {
        commit_large(&deployment, event, bytes).await;
    }
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;
    deployment.assert_published_once().await;
    assert_eq!((server.feed_epochs().await, deployment.last_error().await), (vec![1], None));
}

#[tokio::test]
async fn a_purge_of_the_stream_repeats_no_event_and_readers_get_a_gap_for_what_they_missed() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut live = Reader::from_beginning(&server).await;
    deployment.commit(7, 1..=50).await;
    assert!(live.until_seen([(7, 50)]).await, "the feed ended");
    let mut away = Reader::from_beginning(&server).await;
    assert!(away.until_seen([(7, 50)]).await, "the feed ended");
    deployment.commit(7, 51..=100).await;
    deployment.until_published(100).await;
    deployment.until_batch_finished().await;
    assert!(live.until_seen([(7, 100)]).await, "the feed ended");
    deployment.stream(0).await.1.purge().await.unwrap();
    deployment.commit(7, 101..=110).await;
    assert!(live.until_seen([(7, 110)]).await, "the feed ended");
    live.assert_saw_exactly(&deployment.committed().await);
    assert_eq!(live.gaps(), []);

    for reader in [&mut live, &mut away] {
        reader.disconnect().await;
    }
    assert!(server.stop().await.success());
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 111..=120).await;
    away.seen.clear();
    away.reconnect(&server).await;
    assert!(away.until_seen([(7, 120)]).await, "the feed ended");
    away.assert_saw_exactly(&(101..=120).map(|event| (7, event)).collect());
    assert_eq!(away.gaps(), [(0, 51, 100, "RETENTION")]);
    assert_eq!(server.feed_epochs().await, [1]);
    assert_exactly(&deployment.published().await, &(101..=120).map(|event| (7, event)).collect());
}

/// Waits until a new epoch has every event, and commits events of another execution in it.
async fn every_event_is_stored_again(deployment: &Deployment, server: &Server, epoch: i64, execution: i64) {
    server.until_feed_epoch(epoch).await;
    deployment.assert_published_once().await;
    deployment.commit(execution, 1..=5).await;
    deployment.assert_published_once().await;
    assert_eq!(server.feed_epochs().await, [epoch]);
}

#[tokio::test]
async fn a_stream_that_is_deleted_or_created_again_gets_every_event_again() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut reader = Reader::from_beginning(&server).await;
    deployment.commit(7, 1..=100).await;
    assert!(reader.until_seen([(7, 100)]).await, "the feed ended");
    deployment.until_batch_finished().await;
    // The broker is not restarted and nothing is committed: the idle leader finds the loss by itself.
    let (context, _) = deployment.stream(0).await;
    context.delete_stream("noetl_events").await.unwrap();
    every_event_is_stored_again(&deployment, &server, 2, 8).await;
    assert!(reader.until_seen([(8, 5)]).await, "the feed ended");
    reader.assert_kept_exactly(&deployment.committed().await);

    // The next sequence of the stream that is created again is larger than the last one of the old stream, as with
    // `first_seq` in its configuration.
    deployment.until_batch_finished().await;
    reader.disconnect().await;
    assert!(server.stop().await.success());
    context.delete_stream("noetl_events").await.unwrap();
    create_stream(&deployment, config()).await;
    for _ in 0..150 {
        context.publish("noetl.events.filler", "{}".into()).await.unwrap().await.unwrap();
    }
    deployment.stream(0).await.1.purge().await.unwrap();
    let server = deployment.replica().await;
    every_event_is_stored_again(&deployment, &server, 3, 9).await;
    reader.seen.clear();
    reader.reconnect(&server).await;
    assert!(reader.until_seen([(9, 5)]).await, "the feed ended");
    reader.assert_saw_exactly(&deployment.committed().await);
    assert_eq!(reader.gaps().last().unwrap().3, "EPOCH_CHANGED");
}

/// The limit is too small for every event. The feed can't continue, and says so once.
#[tokio::test]
async fn a_failure_that_lasts_is_logged_once() {
    let deployment = Deployment::start(1).await;
    create_stream(&deployment, Config { max_message_size: 200, ..config() }).await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.env("NOETL_LOG_FORMAT", "json").stderr(log.reopen().unwrap());
    let server = Server::spawn(command).await;
    deployment.feeds_begun().await;
    commit_large(&deployment, 1, 1).await;
    eventually("the feed reports the failure", async || deployment.last_error().await).await;
    let fence = deployment.sum_over_shards("SELECT fence FROM noetl.tail_cursor").await;
    eventually("the leader tries again", async || {
        let now = deployment.sum_over_shards("SELECT fence FROM noetl.tail_cursor").await;
        (now > fence + 5).then_some(())
    })
    .await;
    let text = std::fs::read_to_string(log.path()).unwrap();
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("stopped being the leader"), 1, "{text}");
    assert!(lines("became the leader") <= 2, "{text}");
    drop(server);
}
