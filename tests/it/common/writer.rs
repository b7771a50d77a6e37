//! A writer of events as another server may be: transactions that overlap, commit late, in another order, or not at all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::Deployment;
use super::feed::{Key, insert, run};
use super::server::pass;

/// Rounds that a writer writes at least.
const ROUNDS: i64 = 12;

/// What one writer works on: two logs of its own on one shard. The first is written in order, the second in no order.
pub struct Writer {
    dsn: String,
    pub ordered: i64,
    unordered: i64,
    next: i64,
}

impl Writer {
    pub fn new(deployment: &Deployment, index: usize) -> Self {
        let shard = index % deployment.shard_dsns.len();
        let from = i64::try_from(index + 1).unwrap() << 32;
        let logs = deployment.ids_on(shard, from, 2);
        Self { dsn: deployment.shard_dsns[shard].clone(), ordered: logs[0], unordered: logs[1], next: from }
    }

    fn key(&mut self, execution: i64) -> Key {
        self.next += 1;
        (execution, self.next)
    }

    /// Writes at least [`ROUNDS`], and on until it is enough.
    pub async fn write(mut self, enough: &AtomicBool) {
        let mut one = PgConnection::connect(&self.dsn).await.unwrap();
        let mut other = PgConnection::connect(&self.dsn).await.unwrap();
        for round in (0..).take_while(|round| *round < ROUNDS || !enough.load(Ordering::Relaxed)) {
            let mut tx = one.begin().await.unwrap();
            for _ in 0..=round % 5 {
                insert(&mut *tx, self.key(self.ordered)).await;
            }
            tx.commit().await.unwrap();
            match round % 4 {
                0 => self.commit_in_reverse(&mut one, &mut other).await,
                1 => self.commit_late(&mut one, &mut other).await,
                2 => self.roll_back(&mut one, &mut other).await,
                _ => self.write_in_a_savepoint(&mut one).await,
            }
        }
    }

    /// The larger id commits first, and the smaller one belongs to the older transaction.
    async fn commit_in_reverse(&mut self, one: &mut PgConnection, other: &mut PgConnection) {
        let mut older = one.begin().await.unwrap();
        insert(&mut *older, self.key(self.unordered)).await;
        insert(other, self.key(self.unordered)).await;
        older.commit().await.unwrap();
    }

    /// A transaction that began first continues an ordered log after another one wrote to it and committed.
    async fn commit_late(&mut self, one: &mut PgConnection, other: &mut PgConnection) {
        let mut late = one.begin().await.unwrap();
        insert(&mut *late, self.key(self.unordered)).await;
        insert(other, self.key(self.ordered)).await;
        pass(Duration::from_millis(300)).await;
        insert(&mut *late, self.key(self.ordered)).await;
        late.commit().await.unwrap();
    }

    async fn roll_back(&mut self, one: &mut PgConnection, other: &mut PgConnection) {
        let mut failing = one.begin().await.unwrap();
        insert(&mut *failing, self.key(self.unordered)).await;
        insert(other, self.key(self.unordered)).await;
        failing.rollback().await.unwrap();
    }

    async fn write_in_a_savepoint(&mut self, one: &mut PgConnection) {
        run(one, "BEGIN; SAVEPOINT kept").await;
        insert(&mut *one, self.key(self.ordered)).await;
        run(one, "RELEASE kept; SAVEPOINT lost").await;
        insert(&mut *one, self.key(self.unordered)).await;
        run(one, "ROLLBACK TO lost").await;
        insert(&mut *one, self.key(self.ordered)).await;
        run(one, "COMMIT").await;
    }
}
