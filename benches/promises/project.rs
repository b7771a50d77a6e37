//! Benchmark of `projectEvents` in batches of 500, compared with the bare statement for the same rows over the same
//! driver. The events are not published meanwhile; the cost of that is measured separately.

use std::time::Instant;

use futures::future::join_all;
use noetl_testkit::worker::event_with;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::report::Report;

const BATCH: usize = 500;
const BATCHES: usize = 60;
/// Number of executions in a batch, over all shards.
const EXECUTIONS: usize = 50;

/// Row that both sides insert.
struct Row {
    key: (i64, i64),
    context: Value,
    result: Value,
    meta: Value,
}

fn row(execution: i64, event: usize) -> Row {
    Row {
        key: (execution, i64::try_from(event).unwrap() + 1),
        context: json!({ "step": "transform", "attempt": 1, "input": { "order": event, "note": "n".repeat(80) } }),
        result: json!({ "status": "ok", "data": { "rows": event, "text": "x".repeat(250) } }),
        meta: json!({ "command_id": format!("command-{event}"), "worker": "bench" }),
    }
}

/// Returns the batches, each split by shard.
fn batches(deployment: &Deployment, from: i64) -> Vec<Vec<Vec<Row>>> {
    let shards = deployment.shard_dsns.len();
    let ids: Vec<Vec<i64>> = (0..shards).map(|shard| deployment.ids_on(shard, from, EXECUTIONS / shards)).collect();
    let batch = |number: usize| {
        let rows = |shard: usize| {
            let event = |n: usize| row(ids[shard][n % ids[shard].len()], number * BATCH + n);
            (0..BATCH / shards).map(event).collect()
        };
        (0..shards).map(rows).collect()
    };
    (0..BATCHES).map(batch).collect()
}

pub async fn measure(report: &mut Report) {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
    // Both sides are warmed up before they are measured.
    bare(&deployment, &batches(&deployment, 1 << 39)[..5]).await;
    project(&server, &batches(&deployment, 1 << 40)[..5]).await;
    let bare = bare(&deployment, &batches(&deployment, 1 << 41)).await;
    let rate = project(&server, &batches(&deployment, 1 << 42)).await;
    report.figure("projectEvents in batches of 500, one client", rate, "events/s", None);
    report.figure("the same rows as bare INSERT … SELECT FROM unnest over the driver", bare, "events/s", None);
    report.figure("projectEvents / bare statement", rate / bare, "ratio", None);
}

async fn project(server: &Server, batches: &[Vec<Vec<Row>>]) -> f64 {
    let inputs: Vec<Vec<Value>> = batches.iter().map(|shards| input(shards)).collect();
    let begun = Instant::now();
    for events in &inputs {
        let payload = server.project(events).await;
        assert_eq!(payload["projected"], json!(BATCH), "{payload}");
    }
    (BATCH * inputs.len()) as f64 / begun.elapsed().as_secs_f64()
}

fn input(shards: &[Vec<Row>]) -> Vec<Value> {
    let event = |row: &Row| {
        let fields = json!({ "status": "COMPLETED", "durationSeconds": 0.25, "timestamp": "2026-01-31T10:00:00.5Z",
                             "context": row.context, "result": row.result, "meta": row.meta });
        event_with(row.key.0, row.key.1, &fields)
    };
    shards.iter().flatten().map(event).collect()
}

/// Runs the statement alone, once for each shard, in parallel. Returns the events per second.
async fn bare(deployment: &Deployment, batches: &[Vec<Vec<Row>>]) -> f64 {
    let mut connections = Vec::new();
    for shard in 0..deployment.shard_dsns.len() {
        connections.push(deployment.shard(shard).await);
    }
    let begun = Instant::now();
    for shards in batches {
        join_all(connections.iter_mut().zip(shards).map(|(shard, rows)| insert(shard, rows))).await;
    }
    (BATCH * batches.len()) as f64 / begun.elapsed().as_secs_f64()
}

async fn insert(shard: &mut PgConnection, rows: &[Row]) {
    let column = |of: fn(&Row) -> &Value| rows.iter().map(of).collect::<Vec<&Value>>();
    let inserted = sqlx::query(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status, duration, created_at, context,
                                  result, meta)
         SELECT execution_id, event_id, 'call.done', 'step', 'COMPLETED', 0.25, '2026-01-31 10:00:00.5', context,
                result, meta
         FROM unnest($1::bigint[], $2::bigint[], $3::jsonb[], $4::jsonb[], $5::jsonb[])
             AS t (execution_id, event_id, context, result, meta)",
    )
    .bind(rows.iter().map(|row| row.key.0).collect::<Vec<i64>>())
    .bind(rows.iter().map(|row| row.key.1).collect::<Vec<i64>>())
    .bind(column(|row| &row.context))
    .bind(column(|row| &row.result))
    .bind(column(|row| &row.meta))
    .execute(shard)
    .await
    .unwrap();
    assert_eq!(inserted.rows_affected(), rows.len() as u64);
}
