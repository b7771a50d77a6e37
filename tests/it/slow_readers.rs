//! Readers that do not read: memory stays within its bound, nobody else is delayed, and nothing is skipped silently.

use serde_json::{Value, json};

use crate::common::feed::{Key, Reader, insert, run};
use crate::common::{Deployment, Server, eventually};

/// Bytes of an event's context.
const SIZE: usize = 500_000;
/// Enough for a reader to fall out of the ring while its socket holds what it can.
const EVENTS: i64 = 160;
/// Far more than a replica may keep.
const MANY: i64 = 500;
/// The ring, what the broker sends ahead, one event for each reader, and what an allocator does not give back.
const BOUND_MIB: f64 = 120.0;

/// A replica that reads and does not publish, so that its memory is the readers'.
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
    let leader = deployment.replica().await;
    deployment.feeds_begun().await;
    let server = deployment.replica_with(&[("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
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
    /// Large events, which the fast reader gets while the slow one does not read.
    async fn flood(&mut self, count: i64) {
        let rows = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
             SELECT 5, n, 'call.done', jsonb_build_object('text', repeat('x', {SIZE})) FROM generate_series(1, {count}) AS n"
        );
        run(&mut self.deployment.shard(0).await, &rows).await;
        assert!(self.fast.until_seen(keys(count)).await, "a slow reader ended another one");
    }

    /// Reads on until this event has come, also when the server has given up meanwhile.
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
async fn readers_that_do_not_read_take_no_memory_for_what_they_miss() {
    let mut setup = start().await;
    let more = [latest(&setup.server).await, latest(&setup.server).await, latest(&setup.server).await];
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
async fn a_reader_that_pauses_is_caught_up_without_gap_or_repetition() {
    let mut setup = start().await;
    setup.flood(EVENTS).await;
    let whole = setup.slow_until(EVENTS).await;
    assert_eq!(setup.slow.seen, keys(EVENTS));
    assert_eq!(setup.slow.gaps(), []);
    assert_eq!(setup.fast.seen, keys(EVENTS));
    // On a slow machine the flood takes longer than the server waits for a reader, and the reader connects again instead.
    assert!(!whole || setup.server.metric("noetl_stream_readers_lagged_total").await > 0.0);
}

/// The broker forgets a replay's consumer when it restarts; what that one had not given yet is not gone.
#[tokio::test]
async fn a_reader_that_pauses_in_a_replay_misses_nothing_when_the_broker_restarts() {
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
async fn what_a_slow_reader_can_no_longer_have_is_said() {
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
async fn a_reader_that_never_reads_is_closed_and_goes_on_from_its_cursor() {
    let mut setup = start().await;
    setup.flood(EVENTS).await;
    let server = &setup.server;
    eventually("it is given up", async || (server.metric("noetl_stream_readers").await <= 1.0).then_some(())).await;
    while setup.slow.step().await.is_some() {}
    assert_eq!(setup.slow.close_code(), Some(1013));
    setup.slow.reconnect(&setup.server).await;
    assert!(setup.slow.until_seen(keys(EVENTS)).await, "the feed ended");
    assert_eq!(setup.slow.seen, keys(EVENTS));
    assert_eq!(setup.slow.gaps(), []);
}
