//! Cost as the data grows: events of one execution, rows of the list, and live readers. These measurements take long and
//! fill several gigabytes, so they run only on request.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use noetl_testkit::Server;
use noetl_testkit::projections::ADVANCE_PROJECTIONS;
use serde_json::{Value, json};

use super::http::Http;
use super::{Database, Stage, execute, history, project};
use crate::fanout::{self, Delays};
use crate::projection::WRITE;
use crate::report::{Point, Report, Spread};

/// Repetitions of a read; the median and the quartiles are reported.
const READS: usize = 41;

/// Age of the oldest execution, if there are 10,000,000; of fewer, the newest is as much older.
const AGE: TimeDelta = TimeDelta::days(100);

/// Adds executions, the newest last, 100,000 for each day. `$1` is the first id, `$2` and `$3` the range of numbers, and
/// `$4` the time of number 0. One in a thousand failed, with a failed step and an error with one of 100 hosts, and as many
/// are reruns of the first one. Each of the 1,000 paths has as many. One in ten has labels, and as many have no parent. Nine
/// in ten name one of 90 pools.
const EXECUTIONS: &str = "
    INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, path, execution_pool, rerun_of,
                                 failed_steps, status, last_event_type, last_event_id, start_time, end_time, error,
                                 labels)
    SELECT $1 + n, 1, CASE WHEN n % 10 <> 1 THEN 1000 + n % 1000 END, 'area' || n % 10 || '/path' || n % 1000,
           CASE WHEN n % 100 < 90 THEN 'pool' || n % 100 END, CASE WHEN n % 1000 = 9 THEN $1 END, (n % 1000 = 7)::integer,
           CASE WHEN n % 1000 = 7 THEN 'FAILED' WHEN n % 100 = 3 THEN 'RUNNING' ELSE 'COMPLETED' END,
           'playbook.completed', $1 + n, $4 + n * interval '864 ms',
           CASE WHEN n % 100 <> 3 THEN $4 + n * interval '864 ms' + interval '5 s' END,
           CASE WHEN n % 1000 = 7 THEN 'no connection to host ' || n % 100000 END,
           CASE WHEN n % 10 = 0 THEN jsonb_build_object('order_id', n::text, 'team', 't' || n / 10 % 100) END
    FROM generate_series($2::bigint, $3::bigint) AS n";

/// Adds settled dedup claims.
const CLAIMS: &str = "
    INSERT INTO noetl.subscription_dedup (subscription_id, dedup_key, execution_id, request_hash, state, seen_at,
                                          expires_at)
    SELECT 0, 'old-' || n, $1 + n, decode(repeat('ab', 32), 'hex'), 1, now(), now() + interval '1 day'
    FROM generate_series($2::bigint, $3::bigint) AS n";

/// Lists whose pages are measured: name, order, and filter.
fn lists(begin: DateTime<Utc>) -> [(&'static str, &'static str, Value); 26] {
    let oldest = (begin + AGE / 10_000_000 * 5_000).to_rfc3339();
    let rare = json!({ "name": "team", "equals": "t7" });
    let completed = json!({ "labels": [{ "name": "team", "exists": true }], "statuses": ["COMPLETED"] });
    [
        ("all", "NEWEST", json!({})),
        ("statuses: [FAILED], 1 in 1,000", "NEWEST", json!({ "statuses": ["FAILED"] })),
        ("statuses: [COMPLETED]", "NEWEST", json!({ "statuses": ["COMPLETED"] })),
        ("path, 1 in 1,000", "NEWEST", json!({ "path": "area7/path7" })),
        ("paths, 2 in 1,000", "NEWEST", json!({ "paths": ["area7/path7", "area8/path808"] })),
        ("pathPrefix, 1 in 10", "NEWEST", json!({ "pathPrefix": "area3/" })),
        ("parentExecutionId, 1 in 1,000", "NEWEST", json!({ "parentExecutionId": "1500" })),
        ("rootsOnly, 1 in 10", "NEWEST", json!({ "rootsOnly": true })),
        ("startedBefore, the oldest 5,000", "NEWEST", json!({ "startedBefore": oldest })),
        ("endedBefore, the oldest 5,000", "NEWEST", json!({ "endedBefore": oldest })),
        ("labels: 1 in 1,000", "NEWEST", json!({ "labels": [rare] })),
        ("labels: 1 in 10, and statuses: [COMPLETED]", "NEWEST", completed),
        ("labels: one execution", "NEWEST", json!({ "labels": [{ "name": "order_id", "equals": "5000" }] })),
        ("executionPools, 1 in 100", "NEWEST", json!({ "executionPools": ["pool7"] })),
        ("hasFailedSteps, 1 in 1,000", "NEWEST", json!({ "hasFailedSteps": true })),
        ("errorContains, all failed executions", "NEWEST", json!({ "errorContains": "no connection" })),
        ("errorContains, 1 in 100 failed executions", "NEWEST", json!({ "errorContains": "host 5007" })),
        ("isRerun, 1 in 1,000", "NEWEST", json!({ "isRerun": true })),
        ("rerunOf, 1 in 1,000", "NEWEST", json!({ "rerunOf": "1000000" })),
        ("idPrefix, at most 1,100", "NEWEST", json!({ "idPrefix": "10050" })),
        ("dedupKey, one execution", "NEWEST", json!({ "dedupKey": "old-5000" })),
        ("OLDEST", "OLDEST", json!({})),
        ("OLDEST, path, 1 in 1,000", "OLDEST", json!({ "path": "area7/path7" })),
        ("LONGEST", "LONGEST", json!({})),
        ("LAST_ENDED", "LAST_ENDED", json!({})),
        ("LAST_ENDED, statuses: [FAILED]", "LAST_ENDED", json!({ "statuses": ["FAILED"] })),
    ]
}

/// Measures the growth of events, executions and live readers.
pub async fn measure(report: &mut Report, largest: i64, pace: super::Pace) {
    let durable = Database::start(true).await;
    report.machine("growth", &super::machine(&durable).await);
    let stage = Stage::new(&durable, 1, false, pace).await;
    events(&stage, report, largest.min(1_000_000)).await;
    drop(stage);
    rows(&durable, report, largest, pace).await;
    for readers in [1, 10, 100, 1_000] {
        let Delays { p50, p99, cpu } = fanout::delays(async || durable.deployment(1).await, readers).await;
        let x = readers as f64;
        report.point(Point { plot: "readers", series: "p50", x, unit: "ms", y: p50 });
        report.point(Point { plot: "readers", series: "p99", x, unit: "ms", y: p99 });
        report.point(Point { plot: "readers-cpu", series: "CPU of the server", x, unit: "µs", y: cpu });
    }
}

/// Measures only the growth of executions.
pub async fn measure_rows(report: &mut Report, largest: i64, pace: super::Pace) {
    let durable = Database::start(true).await;
    report.machine("growth", &super::machine(&durable).await);
    rows(&durable, report, largest, pace).await;
}

/// Measures an execution with 10^3 to `largest` events.
async fn events(stage: &Stage, report: &mut Report, largest: i64) {
    let server = &stage.server;
    for count in powers(1_000, largest) {
        let id = project::executions(stage, 1).await[0];
        let mut shard = stage.deployment.shard(0).await;
        sqlx::query(WRITE).bind(id).bind(10_i64).bind(10 + count).execute(&mut shard).await.unwrap();
        sqlx::query("VACUUM ANALYZE noetl.event").execute(&mut shard).await.unwrap();
        server.data(ADVANCE_PROJECTIONS, json!({ "ids": [id.to_string()] })).await;
        let mut point = |series, y| report.point(Point { plot: "events", series, x: count as f64, unit: "ms", y });
        let variables = json!({ "id": id.to_string() });
        let steps = "query($id: ID!) { execution(id: $id) { status steps { nodes { name status } } } }";
        point("status and steps", times(server, steps, &variables).await);
        let first = "query($id: ID!) { execution(id: $id) { events(first: 50) { nodes { eventId type } } } }";
        point("first 50 events", times(server, first, &variables).await);
        let last = "query($id: ID!) { execution(id: $id) { events(last: 50) { nodes { eventId type } } } }";
        point("last 50 events", times(server, last, &variables).await);
        let more = sqlx::query(WRITE).bind(id).bind(11 + count).bind(110 + count);
        more.execute(&mut shard).await.unwrap();
        point("status and steps after 100 more events", times(server, steps, &variables).await);
        project::measure_into(stage, report, id, count).await;
    }
}

/// Measures lists and the history of 10^4 to `largest` executions, and `execute` beside as many executions and dedup
/// claims.
async fn rows(database: &Database, report: &mut Report, largest: i64, pace: super::Pace) {
    let stage = &Stage::new(database, 1, false, pace).await;
    let mut shard = stage.deployment.shard(0).await;
    let mut cluster = stage.deployment.cluster().await;
    let (first, begin, mut written) = (1_000_000_i64, Utc::now() - AGE, 0);
    for count in powers(10_000, largest) {
        while written < count {
            let to = count.min(written + 500_000);
            let executions = sqlx::query(EXECUTIONS).bind(first).bind(written + 1).bind(to).bind(begin);
            executions.execute(&mut shard).await.unwrap();
            sqlx::query(CLAIMS).bind(first).bind(written + 1).bind(to).execute(&mut cluster).await.unwrap();
            written = to;
        }
        sqlx::query("VACUUM ANALYZE noetl.execution, noetl.execution_label").execute(&mut shard).await.unwrap();
        sqlx::query("VACUUM ANALYZE noetl.subscription_dedup").execute(&mut cluster).await.unwrap();
        let x = count as f64;
        for (name, order, filter) in lists(begin) {
            let (first, hundredth) = pages(&stage.server, order, &filter).await;
            report.point(Point { plot: "rows-first", series: name, x, unit: "ms", y: first });
            if let Some(y) = hundredth {
                report.point(Point { plot: "rows-hundredth", series: name, x, unit: "ms", y });
            }
        }
        history::measure(stage, report, count, begin + AGE / 10_000_000 * i32::try_from(count).unwrap()).await;
        execute::measure_beside(stage, report, count).await;
    }
}

/// Returns the times of the first page and of the hundredth page, if the list has so many.
async fn pages(server: &Server, order: &str, filter: &Value) -> (Spread, Option<Spread>) {
    let query = "query($order: ExecutionOrder, $filter: ExecutionFilter, $after: String) {
        executions(order: $order, filter: $filter, first: 50, after: $after) {
            nodes { id } pageInfo { endCursor hasNextPage } } }";
    let variables = |after: &Value| json!({ "order": order, "filter": filter, "after": after });
    let first = times(server, query, &variables(&Value::Null)).await;
    let mut after = Value::Null;
    for _ in 0..99 {
        let data = server.data(query, variables(&after)).await;
        let page = &data["executions"]["pageInfo"];
        if page["hasNextPage"] != true {
            return (first, None);
        }
        after = page["endCursor"].clone();
    }
    (first, Some(times(server, query, &variables(&after)).await))
}

/// Returns the median and the quartiles of the times of a read in milliseconds. The read must succeed; one that takes
/// longer than its limit is reported with the time until it was refused.
pub async fn times(server: &Server, query: &str, variables: &Value) -> Spread {
    let mut http = Http::connect(&server.url, "/graphql").await;
    let body = json!({ "query": query, "variables": variables }).to_string();
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < READS && (times.is_empty() || begun.elapsed() < Duration::from_secs(20)) {
        let sent = Instant::now();
        http.post(&body).await;
        times.push(sent.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    let quartile = |quarter: usize| times[(times.len() - 1) * quarter / 4];
    Spread { median: quartile(2), low: quartile(1), high: quartile(3) }
}

/// Returns the powers of ten from `from` to `to`.
fn powers(from: i64, to: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(from), |count| Some(count * 10)).take_while(move |count| *count <= to)
}
