//! A writer that writes events as another server can: its transactions overlap, commit late, commit in another order,
//! or roll back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection, Postgres};

use super::Deployment;
use super::feed::{Key, try_insert};
use super::server::sleep_in_scenario;

/// Minimum number of rounds of a writer.
const ROUNDS: i64 = 12;
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Pause after each round. Without it, an unoptimised server on a busy machine falls further and further behind.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(200);

/// A writer with two logs of its own on one shard. It writes the first log in order and the second in any order.
pub struct Writer {
    dsn: String,
    /// Execution id of the log that is written in order.
    pub ordered: i64,
    unordered: i64,
    next: i64,
    round: i64,
    /// Number of rounds after which the writer stops even if it has not written enough.
    most_rounds: i64,
}

impl Writer {
    /// Returns the writer with the given index. Different indexes use different logs; the shards take turns.
    pub fn new(deployment: &Deployment, index: usize) -> Self {
        let shard = index % deployment.shard_dsns.len();
        let from = i64::try_from(index + 1).unwrap() << 32;
        let logs = deployment.ids_on(shard, from, 2);
        let dsn = deployment.shard_dsns[shard].clone();
        Self { dsn, ordered: logs[0], unordered: logs[1], next: from, round: 0, most_rounds: i64::MAX }
    }

    /// Stops after the given number of rounds, so that a client that reads more slowly comes to the end of a log.
    #[must_use]
    pub fn at_most(self, rounds: i64) -> Self {
        Self { most_rounds: rounds, ..self }
    }

    fn key(&mut self, execution: i64) -> Key {
        self.next += 1;
        (execution, self.next)
    }

    /// Writes at least [`ROUNDS`] rounds, and continues until `enough` is set or [`Self::at_most`] is reached.
    pub async fn write(mut self, enough: &AtomicBool) {
        self.write_rounds(enough).await.unwrap();
    }

    /// Writes as [`Self::write`] does while the database crashes and restarts. A transaction that a crash interrupts is
    /// either committed or lost; both are accepted.
    pub async fn write_through_crashes(mut self, enough: &AtomicBool) {
        while let Err(error) = self.write_rounds(enough).await {
            after_crash(&error).await;
        }
    }

    async fn write_rounds(&mut self, enough: &AtomicBool) -> sqlx::Result<()> {
        let mut one = PgConnection::connect(&self.dsn).await?;
        let mut other = PgConnection::connect(&self.dsn).await?;
        while self.round < ROUNDS || (self.round < self.most_rounds && !enough.load(Ordering::Relaxed)) {
            let round = self.round;
            self.round += 1;
            let mut tx = one.begin().await?;
            for _ in 0..=round % 5 {
                insert(&mut *tx, self.key(self.ordered)).await?;
            }
            tx.commit().await?;
            match round % 4 {
                0 => self.commit_in_reverse(&mut one, &mut other).await?,
                1 => self.commit_late(&mut one, &mut other).await?,
                2 => self.roll_back(&mut one, &mut other).await?,
                _ => self.write_in_a_savepoint(&mut one).await?,
            }
            sleep_in_scenario(BETWEEN_ROUNDS).await;
        }
        Ok(())
    }

    /// Commits the larger event id first. The smaller event id belongs to the older transaction.
    async fn commit_in_reverse(&mut self, one: &mut PgConnection, other: &mut PgConnection) -> sqlx::Result<()> {
        let mut older = one.begin().await?;
        insert(&mut *older, self.key(self.unordered)).await?;
        insert(other, self.key(self.unordered)).await?;
        older.commit().await
    }

    /// Appends to the ordered log from an older transaction, after a younger one has appended to it and committed.
    async fn commit_late(&mut self, one: &mut PgConnection, other: &mut PgConnection) -> sqlx::Result<()> {
        let mut late = one.begin().await?;
        insert(&mut *late, self.key(self.unordered)).await?;
        insert(other, self.key(self.ordered)).await?;
        sleep_in_scenario(Duration::from_millis(300)).await;
        insert(&mut *late, self.key(self.ordered)).await?;
        late.commit().await
    }

    async fn roll_back(&mut self, one: &mut PgConnection, other: &mut PgConnection) -> sqlx::Result<()> {
        let mut failing = one.begin().await?;
        insert(&mut *failing, self.key(self.unordered)).await?;
        insert(other, self.key(self.unordered)).await?;
        failing.rollback().await
    }

    async fn write_in_a_savepoint(&mut self, one: &mut PgConnection) -> sqlx::Result<()> {
        one.execute("BEGIN; SAVEPOINT kept").await?;
        insert(&mut *one, self.key(self.ordered)).await?;
        one.execute("RELEASE kept; SAVEPOINT lost").await?;
        insert(&mut *one, self.key(self.unordered)).await?;
        one.execute("ROLLBACK TO lost").await?;
        insert(&mut *one, self.key(self.ordered)).await?;
        one.execute("COMMIT").await?;
        Ok(())
    }
}

/// Panics unless the error says that the database was unreachable. Otherwise waits for a short time.
pub async fn after_crash(error: &sqlx::Error) {
    let code = error.as_database_error().and_then(|error| Some(error.code()?.into_owned()));
    assert!(code.is_none_or(|code| code.starts_with("57P")), "{error}");
    sleep_in_scenario(AFTER_FAILURE).await;
}

async fn insert(to: impl Executor<'_, Database = Postgres>, key: Key) -> sqlx::Result<()> {
    try_insert(to, key, "call.done").await
}
