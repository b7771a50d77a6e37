//! Benchmark of a dashboard's list over all shards, compared with the bare query of one shard.

use std::time::{Duration, Instant};

use noetl_testkit::{Deployment, Server};
use serde_json::json;

use crate::report::{Limit, Report};

const ROUNDS: usize = 500;

pub async fn measure(deployment: &Deployment, server: &Server, report: &mut Report) {
    let mut shard = deployment.shard(0).await;
    let (mut bare, mut plain, mut nested) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        sqlx::query("SELECT * FROM noetl.execution ORDER BY execution_id DESC LIMIT 26")
            .fetch_all(&mut shard)
            .await
            .unwrap();
        bare.push(begun.elapsed());
        plain.push(timed(server, "{ executions(first: 25) { nodes { id path status startedAt } } }").await);
        nested.push(
            timed(server, "{ executions(first: 25) { nodes { id status workload catalogEntry { version } events(first: 5) { nodes { type } } } } }")
                .await,
        );
    }
    let seconds = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect::<Vec<f64>>();
    report.quantiles("bare list query of one shard", seconds(&bare), None);
    report.quantiles("executions(first: 25) over 2 shards", seconds(&plain), None);
    report.quantiles("the same with workload, entry and 5 events each", seconds(&nested), None);
    let median = |times: &[Duration]| {
        let mut times = seconds(times);
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    report.figure("list / bare query, medians", median(&plain) / median(&bare), "ratio", None);
    report.figure("list, median", median(&plain) * 1000.0, "ms", Some(Limit::AtMost(10.0)));
}

async fn timed(server: &Server, query: &str) -> Duration {
    let begun = Instant::now();
    server.data(query, json!({})).await;
    begun.elapsed()
}
