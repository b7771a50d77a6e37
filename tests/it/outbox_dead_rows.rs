//! What a claim reads does not grow with the rows that were settled while a transaction was open, though nothing of them
//! can be cleaned up. Work is counted, not timed: index entries and rows that the database says it read.

use std::time::Duration;

use noetl_graphql::storage::error::DatabaseName;
use noetl_graphql::storage::outbox::{self, Claim, Marks, Ref};
use noetl_graphql::storage::pools::Database;
use sqlx::Row as _;

use crate::common::feed::run;
use crate::common::{Deployment, eventually, pass};

const BATCH: i64 = 100;

/// One connection, so that what it did is counted when it next does something.
struct Claimant {
    database: Database,
    marks: Marks,
}

impl Claimant {
    fn new(deployment: &Deployment) -> Self {
        let options = deployment.shard_dsns[0].parse().unwrap();
        Self { database: Database::new(DatabaseName::Shard(0), options, 1), marks: Marks::START }
    }

    async fn claim(&mut self, limit: i64) -> Vec<Ref> {
        let sight = outbox::look(&self.database, &self.marks).await.unwrap();
        self.marks = sight.marks;
        let claim = Claim { limit, retried: limit / 4, lease_seconds: 1, payload_bytes: 1 << 20 };
        let rows = outbox::claim(&self.database, &claim, &self.marks).await.unwrap();
        rows.iter().map(|row| Ref { outbox_id: row.outbox_id, lease_token: row.lease_token }).collect()
    }

    async fn settle(&self, rows: &[Ref]) {
        assert_eq!(outbox::mark_published(&self.database, rows).await.unwrap().len(), rows.len());
    }

    /// Rows and index entries that a claim of a batch reads. The database publishes its counts once a second, with the
    /// next statement of the same connection.
    async fn work(&mut self, deployment: &Deployment) -> i64 {
        pass(Duration::from_millis(1100)).await;
        outbox::look(&self.database, &self.marks).await.unwrap();
        let before = read(deployment).await;
        assert_eq!(self.claim(BATCH).await.len(), usize::try_from(BATCH).unwrap());
        pass(Duration::from_millis(1100)).await;
        outbox::look(&self.database, &self.marks).await.unwrap();
        read(deployment).await - before
    }
}

async fn read(deployment: &Deployment) -> i64 {
    let query = "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'outbox')::bigint
                      + (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'outbox')";
    sqlx::query(query).fetch_one(&mut deployment.shard(0).await).await.unwrap().get(0)
}

#[tokio::test]
async fn what_a_claim_reads_does_not_grow_with_what_was_settled_under_an_open_transaction() {
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
    // So that what they left in the index of leases lies in the past, too.
    eventually("their leases have passed", async || {
        (deployment.outbox_rows("lease_until >= now() - interval '1 second'").await == 0).then_some(())
    })
    .await;
    claimant.claim(1).await;
    let held = claimant.work(&deployment).await;
    assert!(held <= 2 * calm, "a claim of {BATCH} rows reads {held}, and {calm} when nothing is held open");

    claimant.marks = Marks::START;
    let without = claimant.work(&deployment).await;
    assert!(without > 10 * calm, "the dead rows are there: {without} without marks");
    run(&mut holder, "ROLLBACK").await;
}
