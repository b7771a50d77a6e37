//! Benchmark of many readers of the live events: 1,000 busy readers, 5,000 idle readers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use noetl_testkit::{Deployment, Live, Server};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::report::{Limit, Report, Spread, cpu_seconds, quantile, resident_mib};

/// All readers have the same address.
const ALONE: [(&str, &str); 1] = [("NOETL_CALLER_SHARE_PERCENT", "100")];
const WORKING: usize = 1_000;
const IDLE: usize = 5_000;
const EVENTS: i64 = 1_000;
const GAP: Duration = Duration::from_millis(10);
const FIRST: i64 = 1 << 40;
/// Maximum time of a run.
const GIVE_UP: Duration = Duration::from_mins(1);

const QUERY: &str = "subscription { events { __typename
    ... on EventDelivery { cursor event { n: eventId executionId type nodeName status createdAt context } }
    ... on CaughtUp { cursor } ... on StreamGap { cursor reason } ... on StreamHeartbeat { cursor lagEvents } } }";

pub async fn measure(report: &mut Report) {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&ALONE).await;
    deployment.feeds_begun().await;
    working(&deployment, &server, report).await;
    // A second process, whose memory does not include the first measurement.
    let server = deployment.replica_with(&ALONE).await;
    idle(&server, report).await;
}

async fn working(deployment: &Deployment, server: &Server, report: &mut Report) {
    let Delivered { seconds, times, cpu, memory, memory_after } = deliver(deployment, server, WORKING).await;
    report.figure("fan-out, 1,000 readers, 100 events/s: delivered", times.len() as f64 / seconds, "per s", None);
    report.quantiles("fan-out, 1,000 readers: commit to reader", times, None);
    report.figure("fan-out: server's CPU", cpu / seconds, "cores", None);
    report.figure("fan-out: memory per reader, before", memory, "KiB", None);
    report.figure("fan-out: memory per reader, after", memory_after, "KiB", None);
}

/// Events that the readers received.
struct Delivered {
    seconds: f64,
    /// Times from commit to reader in seconds.
    times: Vec<f64>,
    /// CPU time of the server in seconds.
    cpu: f64,
    /// Memory per reader in KiB before the events and after them.
    memory: f64,
    memory_after: f64,
}

/// Commits events to so many readers.
async fn deliver(deployment: &Deployment, server: &Server, count: usize) -> Delivered {
    let before = resident_mib(server);
    let readers = connect(server, count).await;
    let memory = (resident_mib(server) - before) * 1024.0 / count as f64;
    let (cpu, begun) = (cpu_seconds(server), Instant::now());
    let mut tasks = JoinSet::new();
    for reader in readers {
        tasks.spawn(tokio::time::timeout(GIVE_UP, arrivals(reader)));
    }
    let committed = write(deployment).await;
    let (mut times, mut last) = (Vec::new(), begun);
    while let Some(arrived) = tasks.join_next().await {
        for (event, at) in arrived.unwrap().expect("every reader gets every event in time") {
            times.push(at.saturating_duration_since(committed[&event]).as_secs_f64());
            last = last.max(at);
        }
    }
    let seconds = last.duration_since(begun).as_secs_f64();
    let memory_after = (resident_mib(server) - before) * 1024.0 / count as f64;
    Delivered { seconds, times, cpu: cpu_seconds(server) - cpu, memory, memory_after }
}

/// Times from commit to reader for so many readers of all events, and the server's CPU time.
pub struct Delays {
    /// Median and 99th percentile in milliseconds, of three runs.
    pub p50: Spread,
    pub p99: Spread,
    /// CPU time in microseconds for one event and one reader.
    pub cpu: Spread,
}

/// Measures so many readers three times, each time with a new deployment.
pub async fn delays(start: impl AsyncFn() -> Deployment, readers: usize) -> Delays {
    let (mut p50, mut p99, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let deployment = start().await;
        let server = deployment.replica_with(&ALONE).await;
        deployment.feeds_begun().await;
        let mut delivered = deliver(&deployment, &server, readers).await;
        p50.push(quantile(&mut delivered.times, 50) * 1000.0);
        p99.push(quantile(&mut delivered.times, 99) * 1000.0);
        cpu.push(delivered.cpu * 1e6 / delivered.times.len() as f64);
    }
    Delays { p50: Spread::of(p50), p99: Spread::of(p99), cpu: Spread::of(cpu) }
}

async fn idle(server: &Server, report: &mut Report) {
    let before = resident_mib(server);
    let readers = connect(server, IDLE).await;
    let each = (resident_mib(server) - before) * 1024.0 / IDLE as f64;
    report.figure("5,000 idle readers: memory per reader", each, "KiB", Some(Limit::AtMost(40.0)));
    drop(readers);
}

/// Commits the events one by one and returns the time of each commit.
async fn write(deployment: &Deployment) -> HashMap<i64, Instant> {
    let mut writer = deployment.shard(0).await;
    let mut ticks = tokio::time::interval(GAP);
    let mut committed = HashMap::new();
    for event in FIRST..FIRST + EVENTS {
        ticks.tick().await;
        sqlx::query(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status, context)
             VALUES ($1, $2, 'call.done', 'fetch', 'COMPLETED', jsonb_build_object('filler', repeat('x', 300)))",
        )
        .bind(FIRST + event % 50)
        .bind(event)
        .execute(&mut writer)
        .await
        .unwrap();
        committed.insert(event, Instant::now());
    }
    committed
}

/// Connects `count` readers and waits until they have caught up.
async fn connect(server: &Server, count: usize) -> Vec<Live> {
    stream::iter(0..count).map(|_| open(server)).buffer_unordered(64).collect().await
}

async fn open(server: &Server) -> Live {
    let mut live = server.live(QUERY, Value::Null).await;
    while !live.text().await.expect("the socket stays open").contains("CaughtUp") {}
    live
}

async fn arrivals(mut live: Live) -> Vec<(i64, Instant)> {
    let mut arrived = Vec::new();
    while arrived.len() < usize::try_from(EVENTS).unwrap() {
        // The text is not parsed, so that the readers use little of the machine.
        let text = live.text_at_any_time().await.expect("the socket stays open");
        let at = Instant::now();
        if let Some((_, rest)) = text.split_once("\"n\":\"") {
            arrived.push((rest.split('"').next().unwrap().parse().unwrap(), at));
        }
    }
    arrived
}
