//! Benchmark of `check` on a large deployment: time, and peak of the resident memory.

use std::time::Instant;

use noetl_testkit::Deployment;
use noetl_testkit::feed::run;
use sqlx::{Connection, PgConnection};

use crate::report::Report;

const EXECUTIONS: usize = 100_000;
const EVENTS: i64 = 10;

/// Measures `check` without statistics of the tables, as after a restore, with statistics, and with a difference for
/// each execution, which is repaired.
pub async fn measure(report: &mut Report) {
    let deployment = Deployment::start(2).await;
    deployment.write_executions(EXECUTIONS, EVENTS).await;
    check(report, &deployment, "no statistics", &[]).await;
    for dsn in deployment.shard_dsns.iter().chain([&deployment.cluster_dsn]) {
        run(&mut PgConnection::connect(dsn).await.unwrap(), "ANALYZE").await;
    }
    check(report, &deployment, "statistics", &[]).await;
    let wrong = "UPDATE noetl.subscription_dedup SET execution_id = execution_id - 1";
    run(&mut deployment.cluster().await, wrong).await;
    check(report, &deployment, "every claim is wrong", &[]).await;
    check(report, &deployment, "every claim is repaired", &["--repair"]).await;
}

async fn check(report: &mut Report, deployment: &Deployment, state: &str, options: &[&str]) {
    let begun = Instant::now();
    let checked = deployment.watched_check(options).await;
    let name = format!("check of {EXECUTIONS} executions with {EVENTS} events each, {state}");
    report.figure(&format!("{name}: time"), begun.elapsed().as_secs_f64(), "s", None);
    report.figure(
        &format!("{name}: peak of the resident memory"),
        checked.peak as f64 / f64::from(1 << 20),
        "MiB",
        None,
    );
}
