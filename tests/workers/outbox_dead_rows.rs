//! A claim's work does not grow with the rows that were settled during an open transaction, although vacuum cannot
//! remove their dead versions yet. The tests count work instead of time: index entries and rows that the database
//! reports as read.

use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::lock_wait::LockWait;
use noetl_storage::outbox::{self, Claim, LowWatermarks, Ref};
use noetl_storage::pools::Database;
use noetl_storage::view::View;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, eventually};
use sqlx::Row as _;

const BATCH: i64 = 100;

/// A claimant with a single connection.
struct Claimant {
    database: Database,
    marks: LowWatermarks,
}

impl Claimant {
    fn new(deployment: &Deployment) -> Self {
        Self { database: database(deployment), marks: LowWatermarks::START }
    }

    async fn claim(&mut self, limit: i64) -> Vec<Ref> {
        let probe = outbox::probe(View::whole(&self.database), &self.marks).await.unwrap();
        self.marks = probe.low_watermarks;
        let claim = Claim {
            limit,
            retried: limit / 4,
            lease_seconds: 1,
            max_attempts: 20,
            payload_bytes: 1 << 20,
            subjects: None,
            claimant: None,
        };
        let rows = outbox::claim(View::whole(&self.database), &Scope::Unrestricted, &claim, &self.marks).await.unwrap();
        rows.iter().map(|row| Ref { outbox_id: row.outbox_id, lease_token: row.lease_token }).collect()
    }

    async fn settle(&self, rows: &[Ref]) {
        assert_eq!(
            outbox::mark_published(&self.database, &Scope::Unrestricted, rows, LockWait::Long).await.unwrap().len(),
            rows.len()
        );
    }

    /// Returns the number of rows and index entries that a claim of one batch reads.
    async fn work(&mut self, deployment: &Deployment) -> i64 {
        self.publish_counts(deployment).await;
        let before = read(deployment).await;
        assert_eq!(self.claim(BATCH).await.len(), usize::try_from(BATCH).unwrap());
        self.publish_counts(deployment).await;
        read(deployment).await - before
    }

    /// Ends the session, which publishes its counts then. Before, the database may hold them back for some seconds.
    async fn publish_counts(&mut self, deployment: &Deployment) {
        self.database = database(deployment);
        let sessions = "SELECT count(*) FROM pg_stat_activity
                        WHERE application_name = 'noetl-graphql' AND datname = current_database()";
        eventually("the session has ended", async || {
            let count: i64 = sqlx::query_scalar(sessions).fetch_one(&mut deployment.shard(0).await).await.unwrap();
            (count == 0).then_some(())
        })
        .await;
    }
}

fn database(deployment: &Deployment) -> Database {
    Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1)
}

/// Returns the number of rows whose leases have not expired for long enough. The session ends, as the claimant's do.
async fn leased(deployment: &Deployment) -> i64 {
    let mut session = deployment.shard(0).await;
    run(&mut session, "SET application_name = 'noetl-graphql'").await;
    let leased = "SELECT count(*) FROM noetl.outbox WHERE lease_until >= now() - interval '1 second'";
    sqlx::query_scalar(leased).fetch_one(&mut session).await.unwrap()
}

async fn read(deployment: &Deployment) -> i64 {
    let query = "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'outbox')::bigint
                      + (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'outbox')";
    sqlx::query(query).fetch_one(&mut deployment.shard(0).await).await.unwrap().get(0)
}

#[tokio::test]
async fn work_of_a_claim_does_not_grow_with_rows_settled_during_an_open_transaction() {
    let deployment = Deployment::start(1).await;
    let executions: Vec<i64> = (1..=12_000).collect();
    deployment.fill_outbox(0, &executions, 1).await;
    deployment.on_shard(0, "ANALYZE noetl.outbox").await;
    let mut claimant = Claimant::new(&deployment);
    let calm = claimant.work(&deployment).await;

    let mut holder = deployment.shard(0).await;
    run(&mut holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM noetl.outbox").await;
    for _ in 0..20 {
        let rows = claimant.claim(500).await;
        claimant.settle(&rows).await;
    }
    // The index entries that the settled rows left in the index of leases must also be in the past.
    eventually("the leases have expired", async || (leased(&deployment).await == 0).then_some(())).await;
    claimant.claim(1).await;
    let held = claimant.work(&deployment).await;
    assert!(held <= 2 * calm, "a claim of {BATCH} rows reads {held} with an open transaction and {calm} without");

    claimant.marks = LowWatermarks::START;
    let without = claimant.work(&deployment).await;
    assert!(without > 10 * calm, "without low watermarks a claim reads the dead rows: {without}");
    run(&mut holder, "ROLLBACK").await;
}
