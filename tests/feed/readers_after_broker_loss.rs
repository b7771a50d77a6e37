//! If the broker lost acknowledged events, the tailer detects this and publishes them again in a new epoch. Connected
//! and returning readers get a `StreamGap` and every event.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::feed::{Key, Reader, assert_exactly, insert};
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::writer::Writer;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// The largest event id. Its event is the last of its batch.
const LAST: i64 = i64::MAX;

/// Four readers on two replicas that have seen all events so far. Two stay connected, two disconnect and keep their
/// cursors.
struct Readers {
    here: [Reader; 2],
    away: [Reader; 2],
}

impl Readers {
    async fn open(one: &Server, other: &Server) -> Self {
        let open = async |server| Reader::from_beginning(server).await;
        Self { here: [open(one).await, open(other).await], away: [open(one).await, open(other).await] }
    }

    async fn see_everything(&mut self, deployment: &Deployment) {
        let committed = deployment.committed().await;
        for reader in self.here.iter_mut().chain(&mut self.away) {
            assert!(reader.until_seen(committed.clone()).await, "the feed ended");
        }
    }

    /// Panics unless each reader got one gap per shard and has every event once, including the readers that reconnect
    /// after the loss.
    async fn check(mut self, deployment: &Deployment, servers: [&Server; 2]) {
        for (reader, server) in self.away.iter_mut().zip(servers) {
            reader.reconnect(server).await;
        }
        for shard in 0..2 {
            insert(&mut deployment.shard(shard).await, (deployment.ids_on(shard, 1, 1)[0], LAST)).await;
        }
        let committed = deployment.committed().await;
        for reader in self.here.iter_mut().chain(&mut self.away) {
            let last = |shard| (deployment.ids_on(shard, 1, 1)[0], LAST);
            assert!(reader.until_seen([last(0), last(1)]).await, "the feed ended");
            reader.assert_kept_exactly(&committed);
            for shard in 0..2 {
                let told = reader.gaps().into_iter().filter(|gap| gap.0 == shard && gap.3 == "EPOCH_CHANGED").count();
                assert_eq!((told, reader.position(shard).epoch), (1, 2), "{:?}", reader.gaps());
            }
        }
        Box::pin(check_streams(deployment, servers[0], &committed)).await;
    }
}

/// Panics unless the streams and a reader from the beginning have every event once, in the second epoch.
async fn check_streams(deployment: &Deployment, server: &Server, committed: &BTreeSet<Key>) {
    let mut reader = Reader::from_beginning(server).await;
    reader.read_exactly(committed).await;
    assert_exactly(&deployment.stored_everywhere().await, committed);
    assert_eq!(server.feed_epochs().await, [2, 2]);
}

async fn start() -> (Deployment, Server, Server) {
    let deployment = Deployment::start(2).await;
    let (one, other) = tokio::join!(deployment.feed_replica(), deployment.feed_replica());
    deployment.feeds_begun().await;
    deployment.commit_on_every_shard(1..=50).await;
    deployment.until_all_published().await;
    (deployment, one, other)
}

#[tokio::test]
async fn readers_get_a_gap_and_every_event_after_the_broker_lost_all_data() {
    let (mut deployment, one, other) = start().await;
    let mut readers = Readers::open(&one, &other).await;
    readers.see_everything(&deployment).await;
    deployment.kill_broker_and_delete_store().await;
    deployment.nats.restart().await.unwrap();
    one.until_feed_epoch(2).await;
    readers.check(&deployment, [&other, &one]).await;
}

/// Restarts the broker without its last writes. Commits `more` events on each shard, the first `meanwhile` of them
/// before the restart and the others after the tailers have found the loss.
async fn the_last_writes_go(meanwhile: i64, more: i64) {
    let (mut deployment, one, other) = start().await;
    let earlier = deployment.copy_broker_store().await;
    let mut readers = Readers::open(&one, &other).await;
    deployment.commit_on_every_shard(51..=60).await;
    readers.see_everything(&deployment).await;
    deployment.commit_on_every_shard(61..=100).await;
    deployment.until_all_published().await;
    readers.see_everything(&deployment).await;
    deployment.kill_broker_and_restore_store(&earlier).await;
    deployment.commit_on_every_shard(101..=100 + meanwhile).await;
    deployment.nats.restart().await.unwrap();
    one.until_feed_epoch(2).await;
    deployment.commit_on_every_shard(101 + meanwhile..=100 + more).await;
    readers.check(&deployment, [&other, &one]).await;
}

#[tokio::test]
async fn readers_get_a_gap_and_every_event_after_the_broker_lost_its_last_writes() {
    the_last_writes_go(0, 10).await;
}

#[tokio::test]
async fn readers_get_a_gap_even_if_events_are_committed_meanwhile_and_the_lost_sequences_are_reused() {
    the_last_writes_go(20, 300).await;
}

/// The first cursor of a fresh replica has the epoch of the feed.
#[tokio::test]
async fn readers_get_a_gap_and_every_event_after_a_stream_was_deleted_also_with_the_first_cursor_of_a_replica() {
    let (deployment, one, other) = start().await;
    let mut readers = Readers::open(&one, &other).await;
    readers.see_everything(&deployment).await;
    let fresh = deployment.feed_replica().await;
    let mut first = Reader::from_latest(&fresh).await;
    for shard in 0..2 {
        assert_eq!((first.position(shard).epoch, first.position(shard).sequence), (1, 50));
    }
    for shard in 0..2 {
        let (context, stream) = deployment.stream(shard).await;
        context.delete_stream(&stream.cached_info().config.name).await.unwrap();
        if shard == 1 {
            context.create_stream(stream.cached_info().config.clone()).await.unwrap();
        }
    }
    deployment.commit_on_every_shard(51..=60).await;
    one.until_feed_epoch(2).await;
    first.reconnect(&fresh).await;
    let all = deployment.committed().await;
    assert!(first.until_seen(all.clone()).await, "the feed ended");
    first.assert_kept_exactly(&all);
    readers.check(&deployment, [&other, &one]).await;
}

#[tokio::test]
async fn readers_get_every_event_if_the_broker_loses_data_during_writes() {
    let (mut deployment, one, other) = start().await;
    let earlier = deployment.copy_broker_store().await;
    let readers = Readers::open(&one, &other).await;
    let enough = AtomicBool::new(false);
    let writers: Vec<Writer> = (0..4).map(|index| Writer::new(&deployment, index)).collect();
    let writing = join_all(writers.into_iter().map(|writer| writer.write(&enough)));
    let mut readers = readers;
    let losing = async {
        for reader in readers.here.iter_mut().chain(&mut readers.away) {
            for _ in 0..20 {
                assert!(reader.next_event().await, "the feed ended");
            }
        }
        deployment.kill_broker_and_restore_store(&earlier).await;
        deployment.nats.restart().await.unwrap();
        one.until_feed_epoch(2).await;
        enough.store(true, Ordering::Relaxed);
    };
    tokio::join!(writing, losing);
    readers.check(&deployment, [&other, &one]).await;
}

/// Drops the messages below a sequence, as retention does.
async fn drop_below(deployment: &Deployment, sequence: u64) {
    deployment.stream(0).await.1.purge().sequence(sequence).await.unwrap();
}

#[tokio::test]
async fn a_reader_whose_events_were_dropped_by_retention_gets_a_gap() {
    let deployment = Deployment::start(1).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let execution = deployment.ids_on(0, 1, 1)[0];
    let open = async |start: Value| Reader::open(&server, start, Value::Null).await;
    // The first reader starts on the empty stream, the second in the middle, the third at the end.
    let mut first = open(json!({ "latest": true })).await;
    deployment.commit_on_every_shard(1..=3).await;
    deployment.until_all_published().await;
    let mut middle = open(json!({ "latest": true })).await;
    deployment.commit_on_every_shard(4..=10).await;
    deployment.until_all_published().await;
    let mut last = open(json!({ "latest": true })).await;
    drop_below(&deployment, 6).await;
    for (reader, gap) in [(&mut first, Some((0, 1, 5, "RETENTION"))), (&mut middle, Some((0, 4, 5, "RETENTION")))] {
        reader.seen.clear();
        reader.reconnect(&server).await;
        reader.caught_up().await;
        assert_eq!(reader.gaps(), Vec::from_iter(gap));
        assert_eq!(reader.seen, (6..=10).map(|event| (execution, event)).collect::<Vec<_>>());
    }
    // A reader gets the gap even if all messages were dropped and no new event comes.
    drop_below(&deployment, 11).await;
    middle.cursor = noetl_feed::wire::cursor::StreamCursor::unnamed(vec![noetl_feed::wire::cursor::Position {
        epoch: 1,
        sequence: 7,
    }])
    .to_text();
    middle.reconnect(&server).await;
    middle.caught_up().await;
    assert_eq!(middle.gaps(), [(0, 8, 10, "RETENTION")]);
    last.reconnect(&server).await;
    last.caught_up().await;
    assert_eq!(last.gaps(), []);
    deployment.commit_on_every_shard(11..=12).await;
    for reader in [&mut first, &mut middle, &mut last] {
        assert!(reader.until_seen([(execution, 12)]).await, "the feed ended");
    }
}

/// To find the beginning of the epoch, the reader's replica sends requests one after the other, together for longer than
/// an answer of the broker may take.
#[tokio::test]
async fn a_reader_crosses_an_epoch_through_a_slow_network() {
    let deployment = Deployment::start(1).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=1000).await;
    let committed = deployment.committed().await;
    let mut reader = Reader::from_beginning(&server).await;
    reader.until_seen(committed.clone()).await;
    let (context, _) = deployment.stream(0).await;
    context.delete_stream("noetl_events").await.unwrap();
    server.until_feed_epoch(2).await;
    deployment.commit(7, 1001..=1001).await;
    let committed = deployment.committed().await;
    deployment.until_published(committed.len()).await;

    let network = Proxy::start(deployment.nats.port()).await;
    let broker = format!("nats://127.0.0.1:{}", network.port);
    let only_reads = [("NOETL_NATS_URL", &*broker), ("NOETL_EVENT_STREAM_ENABLED", "false")];
    let slow = deployment.feed_replica_with(&only_reads).await;
    network.set(ForwardingMode::Delayed(Duration::from_millis(500)));
    reader.reconnect(&slow).await;
    reader.until_kept(&committed).await;
}
