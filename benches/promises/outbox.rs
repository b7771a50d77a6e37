//! Benchmark of claiming and settling outbox rows in batches of 500: through the API, as the same statements over the
//! same driver, and as minimal SQL without order and leases. Then through the API while an open transaction prevents
//! Postgres from removing dead row versions.

use std::time::Instant;

use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::lock_wait::LockWait;
use noetl_storage::outbox::{self, Claim, LowWatermarks, Ref};
use noetl_storage::pools::Database;
use noetl_testkit::outbox::{NO_RELAY, references};
use noetl_testkit::{Deployment, Server};
use serde_json::json;
use sqlx::PgConnection;

use crate::report::{Limit, Report};

const BATCH: usize = 500;
const ROWS: usize = 20_000;
/// Number of rows that are settled under an open transaction before its effect is measured.
const HELD: usize = 60_000;

pub async fn measure(report: &mut Report) {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    fill(&deployment, 3 * ROWS).await;
    let api = through_the_api(&server, ROWS).await;
    let bare = bare_statements(&deployment).await;
    let least = least_sql(&mut deployment.shard(0).await).await;
    report.figure("outbox: claim and settle 500 at a time, one client", api, "rows per s", None);
    report.figure("outbox: the same statements over the driver", bare, "rows per s", None);
    report.figure("outbox: API / the same statements", api / bare, "ratio", None);
    report.figure("outbox: UPDATE with SKIP LOCKED, no order, no leases", least, "rows per s", None);
    held_open(&deployment, &server, report).await;
}

async fn held_open(deployment: &Deployment, server: &Server, report: &mut Report) {
    fill(deployment, 2 * ROWS + HELD).await;
    let calm = through_the_api(server, ROWS).await;
    let mut holder = deployment.shard(0).await;
    let transaction = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()";
    sqlx::raw_sql(transaction).execute(&mut holder).await.unwrap();
    through_the_api(server, HELD).await;
    let while_held = through_the_api(server, ROWS).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    report.figure("outbox: with a transaction held open over 60,000 rows", while_held, "rows per s", None);
    report.figure("outbox: without / with it", calm / while_held, "ratio", Some(Limit::AtMost(2.0)));
}

/// Adds outbox rows of executions with ten rows each.
async fn fill(deployment: &Deployment, rows: usize) {
    let rows = i64::try_from(rows).unwrap();
    let mut shard = deployment.shard(0).await;
    let query = "SELECT coalesce(max(execution_id), 0) FROM noetl.outbox";
    let last: i64 = sqlx::query_scalar(query).fetch_one(&mut shard).await.unwrap();
    let executions: Vec<i64> = (last + 1..=last + rows / 10).collect();
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

async fn bare_statements(deployment: &Deployment) -> f64 {
    let database = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 2);
    let begun = Instant::now();
    let (mut done, mut marks) = (0, LowWatermarks::START);
    while done < ROWS {
        marks = outbox::probe(&database, &marks).await.unwrap().low_watermarks;
        let limit = i64::try_from(BATCH).unwrap();
        let claim = Claim {
            limit,
            retried: limit / 4,
            lease_seconds: 30,
            max_attempts: 20,
            payload_bytes: 1 << 20,
            subjects: None,
            claimant: None,
        };
        let rows = outbox::claim(&database, &Scope::Unrestricted, &claim, &marks).await.unwrap();
        let rows: Vec<Ref> =
            rows.iter().map(|row| Ref { outbox_id: row.outbox_id, lease_token: row.lease_token }).collect();
        done += outbox::mark_published(&database, &Scope::Unrestricted, &rows, LockWait::Long).await.unwrap().len();
    }
    done as f64 / begun.elapsed().as_secs_f64()
}

async fn least_sql(shard: &mut PgConnection) -> f64 {
    let begun = Instant::now();
    let mut done = 0;
    while done < ROWS {
        let claim = "UPDATE noetl.outbox SET status = 'IN_FLIGHT', attempts = attempts + 1, locked_at = now()
            WHERE outbox_id = ANY (ARRAY(SELECT outbox_id FROM noetl.outbox WHERE status = 'PENDING'
                                         ORDER BY outbox_id LIMIT 500 FOR UPDATE SKIP LOCKED))
            RETURNING outbox_id, payload";
        let rows = sqlx::query_as::<_, (i64, serde_json::Value)>(claim).fetch_all(&mut *shard).await.unwrap();
        let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
        let settle = "UPDATE noetl.outbox SET status = 'PUBLISHED', published_at = now() WHERE outbox_id = ANY ($1)";
        sqlx::query(settle).bind(&ids).execute(&mut *shard).await.unwrap();
        done += ids.len();
    }
    done as f64 / begun.elapsed().as_secs_f64()
}
