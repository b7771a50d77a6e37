//! From a commit to a GraphQL subscriber, and the tailer beside a raw JetStream publisher.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use serde_json::json;
use sqlx::postgres::PgConnection;

use crate::common::{Deployment, Live, Server};
use crate::report::{Limit, Report};

const EVENTS: i64 = 1_000;
const BACKLOG: i64 = 200_000;
/// The id of the first execution that the benchmark writes; ids below belong to others.
const FIRST: i64 = 1 << 40;

/// One writer at 200 events per second, without and with a transaction held open.
pub async fn measure_latency(deployment: &Deployment, server: &Server, report: &mut Report) {
    let plain = latencies(deployment, server, FIRST, 0).await;
    report.quantiles("commit to subscriber, 200/s", plain, Some((5.0, 25.0)));
    let mut holder = deployment.shard(0).await;
    sqlx::raw_sql("BEGIN; SELECT pg_current_xact_id()").execute(&mut holder).await.unwrap();
    let held = latencies(deployment, server, FIRST + 1, EVENTS).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    report.quantiles("the same with a transaction held open", held, Some((5.0, 25.0)));
}

/// `after`: event ids are larger than this, as no two logs share one.
async fn latencies(deployment: &Deployment, server: &Server, execution: i64, after: i64) -> Vec<f64> {
    let query = "subscription($id: ID!) { events(filter: {executionIds: [$id]}) {
        __typename ... on EventDelivery { event { id } } } }";
    let mut live = server.live(query, json!({ "id": execution.to_string() })).await;
    while live.next().await.unwrap()["events"]["__typename"] != "CaughtUp" {}
    let mut writer = deployment.shard(0).await;
    let writing = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        let mut committed = HashMap::new();
        for event in after + FIRST..after + FIRST + EVENTS {
            ticks.tick().await;
            insert(&mut writer, execution, event).await;
            committed.insert(event, Instant::now());
        }
        committed
    };
    let (committed, arrived) = tokio::join!(writing, arrivals(&mut live));
    // An event may arrive before its writer was told that it committed.
    arrived.iter().map(|(event, at)| at.saturating_duration_since(committed[event]).as_secs_f64()).collect()
}

async fn arrivals(live: &mut Live) -> Vec<(i64, Instant)> {
    let mut arrived = Vec::new();
    while arrived.len() < usize::try_from(EVENTS).unwrap() {
        let item = live.next().await.unwrap();
        if let Some(id) = item["events"]["event"]["id"].as_str() {
            arrived.push((id.parse().unwrap(), Instant::now()));
        }
    }
    arrived
}

async fn insert(writer: &mut PgConnection, execution: i64, event: i64) {
    sqlx::query("INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ($1, $2, 'call.done')")
        .bind(execution)
        .bind(event)
        .execute(writer)
        .await
        .unwrap();
}

/// A backlog of events of about 600 bytes, drained by the tailer and published raw, on one broker.
pub async fn measure_backlog(report: &mut Report) {
    let deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    let filler = "x".repeat(330);
    sqlx::query(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
         SELECT $1 + n % 1000, n, 'call.done', jsonb_build_object('filler', $2::text) FROM generate_series(1, $3) AS n",
    )
    .bind(FIRST)
    .bind(&filler)
    .bind(BACKLOG)
    .execute(&mut shard)
    .await
    .unwrap();
    let begun = Instant::now();
    let server = deployment.replica_with(&[("NOETL_EVENT_STREAM_BACKFILL", "true")]).await;
    let client = async_nats::connect(deployment.nats.url()).await.unwrap();
    let context = jetstream::new(client);
    let drained = BACKLOG.cast_unsigned();
    loop {
        if let Ok(stream) = context.get_stream("noetl_events").await
            && stream.cached_info().state.messages >= drained
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let tailer = BACKLOG as f64 / begun.elapsed().as_secs_f64();
    let bytes = context.get_stream("noetl_events").await.unwrap().cached_info().state.bytes / drained;
    assert!(server.stop().await.success());
    let raw = publish_raw(&context, usize::try_from(bytes).unwrap()).await;
    report.figure("tailer, backlog of 200,000 events: size of a stored event", bytes as f64, "bytes", None);
    report.figure(
        "tailer, backlog of 200,000 events (start included)",
        tailer,
        "per s",
        Some(Limit::AtLeast(20_000.0)),
    );
    report.figure("raw pipelined publisher, as many bytes", raw, "per s", None);
    report.figure("tailer / raw publisher", tailer / raw, "ratio", Some(Limit::AtLeast(0.6)));
}

async fn publish_raw(context: &jetstream::Context, bytes: usize) -> f64 {
    let config = jetstream::stream::Config {
        name: "raw".to_owned(),
        subjects: vec!["raw.>".to_owned()],
        ..jetstream::stream::Config::default()
    };
    context.create_stream(config).await.unwrap();
    let payload = bytes::Bytes::from(vec![b'x'; bytes]);
    let mut waiting = FuturesOrdered::new();
    let begun = Instant::now();
    for _ in 0..BACKLOG {
        waiting.push_back(context.publish("raw.event", payload.clone()).await.unwrap().into_future());
        if waiting.len() >= 500 {
            waiting.next().await.unwrap().unwrap();
        }
    }
    while let Some(ack) = waiting.next().await {
        ack.unwrap();
    }
    BACKLOG as f64 / begun.elapsed().as_secs_f64()
}
