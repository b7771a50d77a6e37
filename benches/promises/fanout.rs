//! Benchmark of many readers of the live events: 1,000 busy readers, 5,000 idle readers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use noetl_testkit::{Deployment, Live, Server};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::report::{Limit, Report, cpu_seconds, resident_mib};

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
    // All readers have the same address.
    let alone = [("NOETL_CALLER_SHARE_PERCENT", "100")];
    let server = deployment.replica_with(&alone).await;
    deployment.feeds_begun().await;
    working(&deployment, &server, report).await;
    // A second process, whose memory does not include the first measurement.
    let server = deployment.replica_with(&alone).await;
    idle(&server, report).await;
}

async fn working(deployment: &Deployment, server: &Server, report: &mut Report) {
    let before = resident_mib(server);
    let readers = connect(server, WORKING).await;
    let memory = resident_mib(server) - before;
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
    report.figure("fan-out, 1,000 readers, 100 events/s: delivered", times.len() as f64 / seconds, "per s", None);
    report.quantiles("fan-out, 1,000 readers: commit to reader", times, None);
    report.figure("fan-out: server's CPU", (cpu_seconds(server) - cpu) / seconds, "cores", None);
    report.figure("fan-out: memory per reader, before", memory * 1024.0 / WORKING as f64, "KiB", None);
    let after = (resident_mib(server) - before) * 1024.0 / WORKING as f64;
    report.figure("fan-out: memory per reader, after", after, "KiB", None);
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
