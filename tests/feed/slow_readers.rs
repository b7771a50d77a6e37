//! Slow readers: memory stays within its limit, other readers are not delayed, and no event is skipped silently.

use noetl_testkit::feed::{Key, Reader, insert, run};
use noetl_testkit::{Deployment, Server, eventually};

/// Size of an event's context in bytes.
const SIZE: usize = 500_000;
/// Number of events that is large enough for a reader to fall out of the ring (32 MiB) while its socket's buffers are
/// full.
const EVENTS: i64 = 120;
/// Number of events whose total size is larger than the limit of the memory growth.
const MANY: i64 = 400;
/// Limit of the memory growth: the ring, the broker's prefetched messages, one event per reader, and memory that the
/// allocator keeps (121 MiB was measured). If missed events were kept, it would be 190 MiB or more.
const BOUND_MIB: f64 = 160.0;

/// A replica that delivers events and does nothing else, so that its memory is used by the readers only.
struct Setup {
    deployment: Deployment,
    _leader: Server,
    server: Server,
    fast: Reader,
    slow: Reader,
}

async fn start() -> Setup {
    let deployment = Deployment::start(1).await;
    let leader = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let server = deployment.feed_replica_with(&[("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
    let (fast, slow) = (Reader::from_latest(&server).await, Reader::from_latest(&server).await);
    Setup { deployment, _leader: leader, server, fast, slow }
}

fn keys(count: i64) -> Vec<Key> {
    (1..=count).map(|event| (5, event)).collect()
}

impl Setup {
    /// Commits large events. The fast reader reads them while the slow reader does not read.
    async fn flood(&mut self, count: i64) {
        let rows = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
             SELECT 5, n, 'call.done', jsonb_build_object('text', repeat('x', {SIZE})) FROM generate_series(1, {count}) AS n"
        );
        run(&mut self.deployment.shard(0).await, &rows).await;
        assert!(self.fast.until_seen(keys(count)).await, "a slow reader ended another one");
    }

    /// Lets the slow reader read until the given event is delivered, and reconnects it if the server has closed it
    /// meanwhile. Returns `true` if no reconnect was necessary.
    async fn slow_until(&mut self, event: i64) -> bool {
        let whole = self.slow.until_seen([(5, event)]).await;
        if !whole {
            self.slow.reconnect(&self.server).await;
            assert!(self.slow.until_seen([(5, event)]).await, "the feed ended");
        }
        whole
    }
}

#[tokio::test]
async fn memory_does_not_grow_with_the_events_that_slow_readers_miss() {
    let mut setup = start().await;
    let _more = [Reader::from_latest(&setup.server).await, Reader::from_latest(&setup.server).await];
    let before = setup.server.resident_mib();
    setup.flood(MANY).await;
    let grown = setup.server.resident_mib() - before;
    assert!(grown < BOUND_MIB, "{grown} MiB for events of {} MiB", (SIZE * keys(MANY).len()) >> 20);
    assert_eq!(setup.fast.seen, keys(MANY));
}

/// One reader pauses and catches up. The server closes another one, which never reads, and which then continues from
/// its cursor.
#[tokio::test]
async fn readers_that_pause_or_are_closed_because_they_never_read_miss_and_repeat_no_event() {
    let mut setup = start().await;
    let mut never = Reader::from_latest(&setup.server).await;
    setup.flood(EVENTS).await;
    let whole = setup.slow_until(EVENTS).await;
    assert_eq!(setup.slow.seen, keys(EVENTS), "the reader that paused");
    assert_eq!(setup.slow.gaps(), [], "the reader that paused");
    assert_eq!(setup.fast.seen, keys(EVENTS), "the fast reader");
    // On a slow machine, the flood takes longer than the server waits for a reader. Then the reader reconnects instead.
    let server = &setup.server;
    assert!(!whole || server.metric("noetl_stream_readers_lagged_total").await > 0.0);

    eventually("the reader that never reads is closed", async || {
        (server.metric("noetl_stream_readers").await <= 2.0).then_some(())
    })
    .await;
    while never.step().await.is_some() {}
    // On a slow machine, the reader reaches the close frame only after the server has given up sending it.
    assert!(matches!(never.close_code(), Some(1013) | None), "{:?}", never.close_code());
    never.reconnect(server).await;
    assert!(never.until_seen(keys(EVENTS)).await, "the feed ended");
    assert_eq!(never.seen, keys(EVENTS), "the reader that was closed");
    assert_eq!(never.gaps(), [], "the reader that was closed");
}

/// A restarted broker forgets the consumer of a replay. The events that this consumer did not deliver yet are not lost.
#[tokio::test]
async fn a_reader_paused_during_a_replay_loses_no_event_if_the_broker_restarts() {
    let mut setup = start().await;
    setup.flood(EVENTS).await;
    setup.slow_until(30).await;
    setup.deployment.nats.kill_9().await;
    setup.deployment.nats.restart().await.unwrap();
    insert(&mut setup.deployment.shard(0).await, (5, EVENTS + 1)).await;
    assert!(setup.fast.until_seen(keys(EVENTS + 1)).await, "the feed ended");
    setup.slow_until(EVENTS + 1).await;
    assert_eq!(setup.slow.gaps(), []);
    assert_eq!(setup.slow.seen, keys(EVENTS + 1));
}

#[tokio::test]
async fn a_slow_reader_gets_a_gap_for_events_that_were_dropped() {
    let mut setup = start().await;
    setup.flood(EVENTS).await;
    setup.deployment.stream(0).await.1.purge().sequence(110).await.unwrap();
    let whole = setup.slow_until(EVENTS).await;
    let gaps = setup.slow.gaps();
    let [(0, from, 109, reason)] = gaps[..] else { panic!("{gaps:?}") };
    assert_eq!(reason, if whole { "SLOW_CONSUMER" } else { "RETENTION" });
    let expected: Vec<Key> = (1..from).chain(110..=EVENTS).map(|event| (5, event)).collect();
    assert_eq!(setup.slow.seen, expected);
}
