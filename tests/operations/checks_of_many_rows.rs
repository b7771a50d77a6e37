//! `check` of large tables: each statement reads one page, with and without statistics of the tables, and the memory
//! grows neither with the number of rows nor with the number of differences.

use noetl_testkit::feed::run;
use noetl_testkit::plans::{PlanLog, deployment_with_plans, rows_read};
use noetl_testkit::{Checked, Deployment, size};
use serde_json::{Value, json};

/// More than the number of suspected keys that a check keeps in memory.
const EXECUTIONS: usize = 10_500;
const EVENTS: i64 = 3;
/// Rows of the logs, the list, the outbox, the snapshots and the claims.
const ROWS: f64 = 10_500.0 * (3.0 + 4.0);
/// Rows that a statement may read. A page has 500 keys, or 5,000 ids of events.
const MAX_ROWS_OF_STATEMENT: f64 = 6_000.0;
/// Rows that all statements of a check may read, for each row of the tables.
const MAX_READS_OF_ROW: f64 = 4.0;
/// Growth of the memory from empty tables to full ones.
const MAX_GROWTH: u64 = 16 << 20;

/// Runs `check` and checks the plans of its statements. Returns its result and the number of rows that it read.
async fn check(deployment: &Deployment, log: &mut PlanLog) -> (Checked, f64) {
    log.plans();
    let checked = deployment.watched_check(&[]).await;
    let mut read = 0.0;
    for plan in log.plans() {
        let rows = rows_read(&plan["Plan"]);
        assert!(rows <= MAX_ROWS_OF_STATEMENT, "{rows} rows were read: {plan:#}");
        read += rows;
    }
    (checked, read)
}

/// Returns the kinds of differences, with the numbers of those that were found and repaired.
fn tallies(document: &Value) -> Vec<(&str, u64, u64)> {
    let differences = document["differences"].as_array().unwrap().iter();
    let number = |value: &Value| value.as_u64().unwrap();
    differences.map(|one| (one["kind"].as_str().unwrap(), number(&one["found"]), number(&one["repaired"]))).collect()
}

#[tokio::test]
async fn a_check_reads_large_tables_in_pages_with_bounded_memory() {
    let (deployment, mut log, _server) = deployment_with_plans().await;
    let mut database = deployment.cluster().await;
    run(&mut database, "SET auto_explain.log_min_duration = -1").await;
    let (empty, _) = check(&deployment, &mut log).await;
    deployment.write_executions(EXECUTIONS, EVENTS).await;

    for statistics in ["none, as after a restore", "fresh"] {
        let (full, read) = check(&deployment, &mut log).await;
        assert_eq!((full.code, &full.document["differences"]), (0, &json!([])), "{:#}", full.document);
        assert!((ROWS..=ROWS * MAX_READS_OF_ROW).contains(&read), "{read} rows were read; statistics: {statistics}");
        let grown = full.peak.saturating_sub(empty.peak);
        assert!(grown <= MAX_GROWTH, "the memory grew by {grown} bytes; statistics: {statistics}");
        run(&mut database, "ANALYZE").await;
    }

    // More differences than are kept in memory: each claim names an execution that does not exist.
    run(&mut database, "UPDATE noetl.subscription_dedup SET execution_id = execution_id - 1").await;
    let (found, _) = check(&deployment, &mut log).await;
    assert_eq!((found.code, tallies(&found.document)), (1, vec![("claim without execution", EXECUTIONS as u64, 0)]));
    assert_eq!(found.document["differences"][0]["examples"].as_array().unwrap().len(), 5);
    // Several pages are left for the repair. The release of a claim leaves an execution without a claim.
    let count = size(2_000, EXECUTIONS);
    let others = format!(
        "UPDATE noetl.subscription_dedup SET execution_id = execution_id + 1
         WHERE execution_id + 1 NOT IN (SELECT execution_id FROM noetl.execution ORDER BY execution_id LIMIT {count})"
    );
    run(&mut database, &others).await;
    let repaired = deployment.watched_check(&["--repair"]).await;
    let count = count as u64;
    let both = [("claim without execution", count, count), ("execution without claim", count, count)];
    assert_eq!((repaired.code, tallies(&repaired.document)), (0, both.to_vec()));
    for one in [&found, &repaired] {
        let grown = one.peak.saturating_sub(empty.peak);
        assert!(grown <= MAX_GROWTH, "the memory grew by {grown} bytes");
    }
}
