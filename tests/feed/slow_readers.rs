//! Slow readers: memory stays within its limit, other readers are not delayed, and no event is skipped silently.

use noetl_testkit::feed::{Key, Reader, insert, run};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

/// Size of an event's context in bytes.
const SIZE: usize = 500_000;
/// Number of events that is large enough for a reader to fall out of the ring while its socket buffers are full.
const EVENTS: i64 = 160;
/// Number of events whose total size is far larger than a replica's memory limit.
const MANY: i64 = 500;
/// Limit of the memory growth: the ring, the broker's prefetched messages, one event per reader, and memory that the
/// allocator keeps (121 MiB was measured). If missed events were kept, it would be 238 MiB or more.
const BOUND_MIB: f64 = 160.0;

const NO_PROJECTOR: (&str, &str) = ("NOETL_PROJECTOR", "false");

/// A replica that delivers events and does nothing else, so that its memory is used by the readers only.
struct Setup {
    deployment: Deployment,
    _leader: Server,
    server: Server,
    fast: Reader,
    slow: Reader,
}

async fn latest(server: &Server) -> Reader {
    Reader::open(server, json!({ "latest": true }), Value::Null).await
}

async fn start() -> Setup {
    let deployment = Deployment::start(1).await;
    let leader = deployment.replica_with(&[NO_PROJECTOR]).await;
    deployment.feeds_begun().await;
    let server = deployment.replica_with(&[NO_PROJECTOR, ("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
    let (fast, slow) = (latest(&server).await, latest(&server).await);
    Setup { deployment, _leader: leader, server, fast, slow }
}

fn resident_mib(server: &Server) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
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
    let more = [latest(&setup.server).await, latest(&setup.server).await];
    let before = resident_mib(&setup.server);
    setup.flood(MANY).await;
    let grown = resident_mib(&setup.server) - before;
    assert!(grown < BOUND_MIB, "{grown} MiB for events of {} MiB", (SIZE * keys(MANY).len()) >> 20);
    assert_eq!(setup.fast.seen, keys(MANY));
    for mut slow in more {
        while slow.seen.last() != Some(&(5, MANY)) {
            if slow.step().await.is_none() {
                slow.reconnect(&setup.server).await;
            }
        }
        assert_eq!(slow.seen, keys(MANY));
    }
}

#[tokio::test]
async fn a_reader_that_pauses_catches_up_without_gap_or_repetition() {
    let mut setup = start().await;
    setup.flood(EVENTS).await;
    let whole = setup.slow_until(EVENTS).await;
    assert_eq!(setup.slow.seen, keys(EVENTS));
    assert_eq!(setup.slow.gaps(), []);
    assert_eq!(setup.fast.seen, keys(EVENTS));
    // On a slow machine, the flood takes longer than the server waits for a reader. Then the reader reconnects instead.
    assert!(!whole || setup.server.metric("noetl_stream_readers_lagged_total").await > 0.0);
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
    setup.deployment.stream(0).await.1.purge().sequence(150).await.unwrap();
    let whole = setup.slow_until(EVENTS).await;
    let gaps = setup.slow.gaps();
    let [(0, from, 149, reason)] = gaps[..] else { panic!("{gaps:?}") };
    assert_eq!(reason, if whole { "SLOW_CONSUMER" } else { "RETENTION" });
    let expected: Vec<Key> = (1..from).chain(150..=EVENTS).map(|event| (5, event)).collect();
    assert_eq!(setup.slow.seen, expected);
}

#[tokio::test]
async fn a_reader_that_never_reads_is_closed_and_can_continue_from_its_cursor() {
    let mut setup = start().await;
    setup.flood(EVENTS).await;
    let server = &setup.server;
    eventually("the reader is closed", async || (server.metric("noetl_stream_readers").await <= 1.0).then_some(()))
        .await;
    while setup.slow.step().await.is_some() {}
    // On a slow machine, the reader reaches the close frame only after the server has given up sending it.
    assert!(matches!(setup.slow.close_code(), Some(1013) | None), "{:?}", setup.slow.close_code());
    setup.slow.reconnect(&setup.server).await;
    assert!(setup.slow.until_seen(keys(EVENTS)).await, "the feed ended");
    assert_eq!(setup.slow.seen, keys(EVENTS));
    assert_eq!(setup.slow.gaps(), []);
}
