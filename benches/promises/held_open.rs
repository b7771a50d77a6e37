//! Benchmark of claiming and settling outbox rows through the API while an open transaction prevents Postgres from
//! removing dead row versions.

use std::time::Instant;

use noetl_testkit::outbox::{NO_RELAY, references};
use noetl_testkit::{Deployment, Server};
use serde_json::json;

use crate::report::{Limit, Report};

const BATCH: usize = 500;
const ROWS: usize = 20_000;
/// Number of rows that are settled under an open transaction before its effect is measured.
const HELD: usize = 60_000;

pub async fn measure(report: &mut Report) {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    fill(&deployment, 2 * ROWS + HELD).await;
    let calm = through_the_api(&server, ROWS).await;
    let mut holder = deployment.shard(0).await;
    let transaction = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()";
    sqlx::raw_sql(transaction).execute(&mut holder).await.unwrap();
    through_the_api(&server, HELD).await;
    let while_held = through_the_api(&server, ROWS).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    report.figure("outbox: with a transaction held open over 60,000 rows", while_held, "rows per s", None);
    report.figure("outbox: without / with it", calm / while_held, "ratio", Some(Limit::AtMost(2.0)));
}

/// Adds outbox rows of executions with ten rows each.
async fn fill(deployment: &Deployment, rows: usize) {
    let executions: Vec<i64> = (1..=i64::try_from(rows).unwrap() / 10).collect();
    deployment.fill_outbox(0, &executions, 10).await;
}

async fn through_the_api(server: &Server, rows: usize) -> f64 {
    let begun = Instant::now();
    let mut done = 0;
    while done < rows {
        let claimed = references(&server.claim(json!({ "limit": BATCH })).await);
        assert!(!claimed.is_empty());
        assert_eq!(server.published(&claimed).await["published"], claimed.len());
        done += claimed.len();
    }
    done as f64 / begun.elapsed().as_secs_f64()
}
