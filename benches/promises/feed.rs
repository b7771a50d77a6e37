//! Benchmark of the event feed: time from a commit to a GraphQL subscriber, and the tailer compared with a raw
//! JetStream publisher.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_nats::{HeaderMap, jetstream};
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use noetl_testkit::feed::insert;
use noetl_testkit::{Deployment, Live, Server, eventually};
use serde_json::json;

use crate::backlog::ONLY_PUBLISH;
use crate::report::{self, Limit, Report};

const EVENTS: i64 = 1_000;
const IDLING: Duration = Duration::from_secs(10);
pub const BACKLOG: i64 = 200_000;
/// Id of the first execution that the benchmark writes; smaller ids belong to other executions.
const FIRST: i64 = 1 << 40;

/// Measures the latency for one writer of 200 events per second that sends no wake-ups, without and with a transaction
/// held open.
pub async fn measure_latency(deployment: &Deployment, server: &Server, report: &mut Report) {
    let (first, plain) = latencies(deployment, server, FIRST, 0).await;
    report.figure("commit to subscriber, the first event after a pause", first * 1000.0, "ms", None);
    report.quantiles("commit to subscriber, 200/s", plain, Some((5.0, 25.0)));
    let mut holder = deployment.shard(0).await;
    sqlx::raw_sql("BEGIN; SELECT pg_current_xact_id()").execute(&mut holder).await.unwrap();
    let (_, held) = latencies(deployment, server, FIRST + 1, EVENTS).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    report.quantiles("the same with a transaction held open", held, Some((5.0, 25.0)));
}

/// Measures the work of an idle server with two shards.
pub async fn measure_idling(server: &Server, report: &mut Report) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (statements, cpu) = (server.metric("noetl_sql_statements_total").await, report::cpu_seconds(server));
    tokio::time::sleep(IDLING).await;
    let cpu = report::cpu_seconds(server) - cpu;
    let statements = server.metric("noetl_sql_statements_total").await - statements;
    report.figure("server of two shards, idle: statements", statements / IDLING.as_secs_f64(), "per s", None);
    report.figure("server of two shards, idle: CPU", 1000.0 * cpu / IDLING.as_secs_f64(), "ms per s", None);
}

/// Returns the latency in seconds of the first event, which includes up to the tailer's longest poll interval, and the
/// latencies of the others. `after` is added to the event ids, so that no two logs share one.
async fn latencies(deployment: &Deployment, server: &Server, execution: i64, after: i64) -> (f64, Vec<f64>) {
    let query = "subscription($id: ID!) { events(filter: {executionIds: [$id]}) {
        __typename ... on EventDelivery { event { id: eventId } } } }";
    let mut live = server.live(query, json!({ "id": execution.to_string() })).await;
    while live.next().await.unwrap()["events"]["__typename"] != "CaughtUp" {}
    let mut writer = deployment.shard(0).await;
    let begun = Instant::now();
    insert(&mut writer, (execution, after + FIRST)).await;
    arrivals(&mut live, 1).await;
    let first = begun.elapsed().as_secs_f64();
    let writing = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        let mut committed = HashMap::new();
        for event in after + FIRST + 1..after + FIRST + EVENTS {
            ticks.tick().await;
            insert(&mut writer, (execution, event)).await;
            committed.insert(event, Instant::now());
        }
        committed
    };
    let (committed, arrived) = tokio::join!(writing, arrivals(&mut live, EVENTS - 1));
    // An event may arrive before its writer receives the response to the commit.
    let latency = |(event, at): &(i64, Instant)| at.saturating_duration_since(committed[event]).as_secs_f64();
    (first, arrived.iter().map(latency).collect())
}

async fn arrivals(live: &mut Live, count: i64) -> Vec<(i64, Instant)> {
    let mut arrived = Vec::new();
    while arrived.len() < usize::try_from(count).unwrap() {
        let item = live.next().await.unwrap();
        if let Some(id) = item["events"]["event"]["id"].as_str() {
            arrived.push((id.parse().unwrap(), Instant::now()));
        }
    }
    arrived
}

/// Measures the time from the kill of the leader to the first event that another replica publishes.
pub async fn measure_takeover(report: &mut Report) {
    let deployment = Deployment::start(1).await;
    let mut longest = Duration::ZERO;
    for event in 0..3 {
        let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
        let leader = eventually("a replica is the leader", async || deployment.leader(0).await).await;
        let (mut leader, _other) = if one.name().await == leader { (one, other) } else { (other, one) };
        let begun = Instant::now();
        leader.kill_9().await;
        insert(&mut deployment.shard(0).await, (FIRST, event)).await;
        let published = usize::try_from(event).unwrap() + 1;
        eventually("it is published", async || (deployment.published().await.len() == published).then_some(())).await;
        longest = longest.max(begun.elapsed());
    }
    let longest = longest.as_secs_f64();
    report.figure("kill -9 of the leader to the next one's first event", longest, "s", Some(Limit::AtMost(5.0)));
}

/// Measures how fast the tailer drains a backlog that one transaction commits, compared with a raw publisher on the
/// same broker.
pub async fn measure_backlog(report: &mut Report, events: i64) {
    let deployment = Deployment::start(1).await;
    // Short polls, and no projector: the raw publisher's messages have no consumer either.
    let server = deployment.replica_with(&ONLY_PUBLISH).await;
    deployment.feeds_begun().await;
    let mut shard = deployment.shard(0).await;
    sqlx::raw_sql("BEGIN").execute(&mut shard).await.unwrap();
    sqlx::query(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
         SELECT $1 + n % 1000, n, 'call.done', jsonb_build_object('filler', $2::text) FROM generate_series(1, $3) AS n",
    )
    .bind(FIRST)
    .bind("x".repeat(330))
    .bind(events)
    .execute(&mut shard)
    .await
    .unwrap();
    let (context, stream) = deployment.stream(0).await;
    let idle = report::peak_mib(&server);
    let begun = Instant::now();
    sqlx::raw_sql("COMMIT").execute(&mut shard).await.unwrap();
    while stream.get_info().await.unwrap().state.messages < events.cast_unsigned() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let tailer = events as f64 / begun.elapsed().as_secs_f64();
    let memory = report::peak_mib(&server) - idle;
    let bytes = stream.get_info().await.unwrap().state.bytes / events.cast_unsigned();
    assert!(server.stop().await.success());
    let (bytes, count) = (usize::try_from(bytes).unwrap(), BACKLOG.cast_unsigned());
    let raw = publish_raw(&context, "raw", count, |_| (HeaderMap::new(), bytes)).await;
    let guarded = |sequence: u64| {
        let mut headers = HeaderMap::new();
        headers.insert("Noetl-Place", format!("1 1 {sequence}"));
        headers.insert("Nats-Msg-Id", sequence.to_string());
        headers.insert("Nats-Expected-Last-Sequence", sequence.to_string());
        if sequence > 0 {
            headers.insert("Nats-Expected-Last-Msg-Id", (sequence - 1).to_string());
        }
        (headers, bytes - 160)
    };
    let guarded = publish_raw(&context, "guarded", count, guarded).await;
    let name = format!("tailer, backlog of {events} events");
    report.figure(&format!("{name}: size of a stored event"), bytes as f64, "bytes", None);
    report.figure(&format!("{name}: memory above idle"), memory, "MiB", None);
    report.figure(&name, tailer, "per s", Some(Limit::AtLeast(20_000.0)));
    report.figure("raw pipelined publisher, as many bytes, no headers", raw, "per s", None);
    report.figure("the same with the tailer's headers", guarded, "per s", None);
    report.figure("tailer / raw publisher", tailer / raw, "ratio", Some(Limit::AtLeast(0.6)));
    report.figure("tailer / raw publisher with its headers", tailer / guarded, "ratio", None);
}

/// Publishes messages without the tailer and returns the messages per second. `message` returns the headers and the
/// payload size of the message after a sequence. At most 500 acknowledgements are pending, as many as the tailer has
/// messages in flight by default.
async fn publish_raw(
    context: &jetstream::Context,
    name: &str,
    events: u64,
    message: impl Fn(u64) -> (HeaderMap, usize),
) -> f64 {
    let config = jetstream::stream::Config {
        name: name.to_owned(),
        subjects: vec![format!("{name}.>")],
        ..jetstream::stream::Config::default()
    };
    context.create_stream(config).await.unwrap();
    let subject = async_nats::Subject::from(format!("{name}.event"));
    let filler = bytes::Bytes::from(vec![b'x'; 2_000]);
    let mut waiting = FuturesOrdered::new();
    let begun = Instant::now();
    for sequence in 0..events {
        let (headers, bytes) = message(sequence);
        let payload = filler.slice(..bytes);
        let sent = if headers.is_empty() {
            context.publish(subject.clone(), payload).await
        } else {
            context.publish_with_headers(subject.clone(), headers, payload).await
        };
        waiting.push_back(sent.unwrap().into_future());
        if waiting.len() >= 500 {
            waiting.next().await.unwrap().unwrap();
        }
    }
    while let Some(ack) = waiting.next().await {
        ack.unwrap();
    }
    events as f64 / begun.elapsed().as_secs_f64()
}
