//! Benchmark of `execute` with a dedup key, compared with its three bare statements.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use noetl_testkit::{Deployment, Server, execute_input};
use serde_json::json;
use sqlx::postgres::PgPoolOptions;

use crate::report::Report;

const CLIENTS: usize = 16;
const REQUESTS: usize = 6_000;

pub async fn measure(deployment: &Deployment, server: &Server, report: &mut Report) {
    server.register_entry("bench/run", &json!({ "kind": "playbook", "workload": { "a": 1 } })).await;
    let bare = bare(deployment).await;
    let begun = Instant::now();
    let times: Vec<Duration> = stream::iter(0..REQUESTS)
        .map(async |number| {
            let asked = Instant::now();
            let input =
                json!({ "path": "bench/run", "workload": { "n": number }, "dedup": { "key": number.to_string() } });
            let payload = server.execute(input).await;
            assert_eq!(payload["outcome"], "STARTED", "{payload}");
            asked.elapsed()
        })
        .buffer_unordered(CLIENTS)
        .collect()
        .await;
    let rate = REQUESTS as f64 / begun.elapsed().as_secs_f64();
    report.figure("execute with dedup, 16 clients", rate, "per s", None);
    report.figure("the same as bare claim, create and settle over the driver", bare, "per s", None);
    report.figure("execute / bare statements", rate / bare, "ratio", None);
    report.quantiles("execute with dedup, 16 clients", times.iter().map(Duration::as_secs_f64).collect(), None);
    batch(server, report).await;
}

async fn batch(server: &Server, report: &mut Report) {
    let query = "mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) { results { outcome } } }";
    let begun = Instant::now();
    for round in 0..20 {
        let one = |n: u32| json!({ "path": "bench/run", "dedup": { "key": format!("{round}-{n}") } });
        let requests: Vec<_> = (0..500).map(one).map(execute_input).collect();
        server.data(query, json!({ "input": { "requests": requests } })).await;
    }
    report.figure(
        "executeBatch of 500 with dedup, one client",
        10_000.0 / begun.elapsed().as_secs_f64(),
        "per s",
        None,
    );
}

/// Runs the statements alone on the same databases. Returns the executions per second.
async fn bare(deployment: &Deployment) -> f64 {
    let connect = |dsn: String| async move { PgPoolOptions::new().max_connections(8).connect(&dsn).await.unwrap() };
    let cluster = connect(deployment.cluster_dsn.clone()).await;
    let shards = [connect(deployment.shard_dsns[0].clone()).await, connect(deployment.shard_dsns[1].clone()).await];
    let begun = Instant::now();
    stream::iter(0..REQUESTS)
        .for_each_concurrent(CLIENTS, async |number| {
            let id = i64::try_from(number).unwrap() + 1;
            sqlx::query(
                "INSERT INTO noetl.subscription_dedup (subscription_id, dedup_key, execution_id, state, request)
                 VALUES (-1, $1, $2, 0, '{}') ON CONFLICT (subscription_id, dedup_key) DO UPDATE SET state = 0",
            )
            .bind(number.to_string())
            .bind(id)
            .execute(&cluster)
            .await
            .unwrap();
            sqlx::query(
                "WITH made AS (INSERT INTO noetl.execution (execution_id, catalog_id, status) VALUES ($1, 0, 'RUNNING')
                               RETURNING execution_id),
                      told AS (INSERT INTO noetl.event (execution_id, event_id, event_type, context, meta)
                               SELECT execution_id, execution_id, 'playbook_started', '{\"workload\": {\"n\": 1}}', '{}' FROM made)
                 INSERT INTO noetl.outbox (execution_id, event_id, subject, payload) SELECT execution_id, execution_id, 's', '{}' FROM made",
            )
            .bind(id)
            .execute(&shards[number % 2])
            .await
            .unwrap();
            sqlx::query("UPDATE noetl.subscription_dedup SET state = 1, request = NULL WHERE state = 0 AND execution_id = $1")
                .bind(id)
                .execute(&cluster)
                .await
                .unwrap();
        })
        .await;
    REQUESTS as f64 / begun.elapsed().as_secs_f64()
}
