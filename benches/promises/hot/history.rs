//! The history of executions: the time of a read, and of the task that computes its rows.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use super::Stage;
use super::growth::times;
use crate::report::{Point, Report, Spread};

/// Limit of the computation of a whole history.
const LONGEST: Duration = Duration::from_mins(30);
const QUERY: &str = "query($interval: HistoryInterval!, $from: DateTime!, $to: DateTime!, $paths: [String!]) {
    executionHistory(interval: $interval, from: $from, to: $to, filter: { paths: $paths }) {
        buckets { from started completed failed cancelled durationSeconds { p50 p95 p99 } } } }";

/// Computes the history of `count` executions, of which the newest started at `newest`, and measures reads before that
/// time.
pub async fn measure(stage: &Stage, report: &mut Report, count: i64, newest: DateTime<Utc>) {
    let x = count as f64;
    let micros = computed(stage).await * 1e6 / x;
    let y = Spread { median: micros, low: micros, high: micros };
    report.point(Point { plot: "history-task", series: "the task, for each execution", x, unit: "µs", y });
    let path = Some(["area7/path7"]);
    for (series, interval, time, paths) in [
        ("24 hours, by hour", "HOUR", TimeDelta::days(1), None),
        ("24 hours of a path, by hour", "HOUR", TimeDelta::days(1), path),
        ("30 days, by day", "DAY", TimeDelta::days(30), None),
    ] {
        let variables = json!({ "interval": interval, "from": newest - time, "to": newest, "paths": paths });
        let data = stage.server.data(QUERY, variables.clone()).await;
        let buckets = data["executionHistory"]["buckets"].as_array().unwrap();
        let started: i64 = buckets.iter().map(|bucket| bucket["started"].as_i64().unwrap()).sum();
        assert!(started > 0, "{data}");
        let y = times(&stage.server, QUERY, &variables).await;
        report.point(Point { plot: "history", series, x, unit: "ms", y });
    }
}

/// Forgets the history and computes it. Returns the time in seconds.
async fn computed(stage: &Stage) -> f64 {
    let reset = "DELETE FROM noetl.execution_history; DELETE FROM noetl.execution_history_late;
                 UPDATE noetl.execution_history_progress SET closed_to = NULL";
    stage.deployment.on_shard(0, reset).await;
    let begun = Instant::now();
    while stage.deployment.has_open_history().await {
        stage.deployment.maintain(&[]).await;
        assert!(begun.elapsed() < LONGEST, "the history is not computed after {LONGEST:?}");
    }
    let seconds = begun.elapsed().as_secs_f64();
    stage.deployment.on_shard(0, "VACUUM ANALYZE noetl.execution_history").await;
    seconds
}
