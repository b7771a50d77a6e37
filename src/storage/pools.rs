//! The cluster database and the shards, each with a pool, a deadline per operation, and a health that fails fast.
//!
//! A database that refused a connection is down until its prober reached it again, so a list over shards does not wait
//! for a dead one, and a mutation learns of it at once. An operation that only ran out of time asks the prober to look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::connections::Pool;
use super::error::{DatabaseName, StorageError};
use crate::domain::ids::Id;
use crate::domain::shard::{ShardIndex, ShardMap};

/// How long an operation may take before the database counts as unavailable; mutations answer within 5 s.
const OPERATION_DEADLINE: Duration = Duration::from_secs(4);
const PROBE_DEADLINE: Duration = Duration::from_secs(1);

/// One database: its name, pool and health.
#[derive(Debug)]
pub struct Database {
    name: DatabaseName,
    pool: Pool,
    options: PgConnectOptions,
    /// Why it is down; `None` while it is up or not yet known.
    down: RwLock<Option<String>>,
    latency_micros: AtomicU64,
    /// Probes in a row that got no answer.
    slow_probes: AtomicU64,
    suspected: Notify,
    /// See [`Self::may_hold`].
    holders: Semaphore,
    /// See [`Self::may_take_long`].
    long: Semaphore,
}

/// What the prober last saw.
#[derive(Debug, Clone)]
pub struct Health {
    /// Why it is down, `None` when it is up.
    pub down: Option<String>,
    /// Round trip of the last probe; `None` before the first.
    pub latency: Option<Duration>,
}

impl Database {
    /// A database that connects when it is first used. `connections` bounds the pool.
    #[must_use]
    pub fn new(name: DatabaseName, options: PgConnectOptions, connections: u32) -> Self {
        let options = options.application_name("noetl-graphql");
        // A peer that vanished holds its locks no longer than this, and a statement whose caller gave up ends.
        let pooled = options.clone().options([
            // What the tail cursor and the claims noted must outlive a crash, whatever the server's default is.
            ("synchronous_commit", "on"),
            // No statement here runs for as long as compiling it takes, whatever the planner fears.
            ("jit", "off"),
            // Every statement finds its rows by an index. Plans are kept, and one that was made while a table was empty,
            // when reading all of it looked as cheap, would go on reading all of it.
            ("enable_seqscan", "off"),
            ("lock_timeout", "3500ms"),
            ("statement_timeout", "8s"),
            ("idle_in_transaction_session_timeout", "6s"),
        ]);
        let pool = Pool::new(pooled, connections);
        let half = || Semaphore::new((connections as usize / 2).max(1));
        let (holders, long) = (half(), half());
        let (latency_micros, slow_probes) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let (down, suspected) = (RwLock::new(None), Notify::new());
        Self { name, pool, options, down, latency_micros, slow_probes, suspected, holders, long }
    }

    /// Which one it is.
    #[must_use]
    pub fn name(&self) -> DatabaseName {
        self.name
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits until the caller may keep a connection while it asks for another one, of any database: that may be this one
    /// under another name, and a pool whose connections are all kept by such callers would stand still. To be awaited
    /// within [`Self::run`], before the first connection is asked for.
    pub(super) async fn may_hold(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.holders.acquire().await.ok()
    }

    /// Waits until the caller may keep a connection of the pool for as long as its work takes: whoever only asks something
    /// finds one meanwhile.
    pub(super) async fn may_take_long(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.long.acquire().await.ok()
    }

    /// A connection of its own, outside the pool and its deadlines, for work that may take long.
    pub(super) async fn connect(&self) -> sqlx::Result<PgConnection> {
        PgConnection::connect_with(&self.options).await
    }

    /// The same with settings of its own.
    pub(super) async fn connect_with(
        &self,
        settings: impl IntoIterator<Item = (&str, &str)>,
    ) -> sqlx::Result<PgConnection> {
        PgConnection::connect_with(&self.options.clone().options(settings)).await
    }

    /// Connections in the pool: all, and those of them that nobody uses.
    #[must_use]
    pub fn pool_size(&self) -> (u32, usize) {
        self.pool.size()
    }

    /// Runs one operation under the deadline and sorts its error.
    pub(super) async fn run<T>(&self, work: impl Future<Output = sqlx::Result<T>>) -> Result<T, StorageError> {
        if let Some(reason) = self.health().down {
            return Err(self.unavailable(reason));
        }
        let Ok(done) = timeout(OPERATION_DEADLINE, work).await else {
            self.suspected.notify_one();
            return Err(self.unavailable(format!("no answer within {OPERATION_DEADLINE:?}")));
        };
        done.map_err(|error| self.failed(error))
    }

    /// Sorts an error and notes what it says of the database's health.
    pub(super) fn failed(&self, error: sqlx::Error) -> StorageError {
        let error = StorageError::classify(self.name, error);
        if let StorageError::Unavailable { reason, .. } = &error {
            tracing::warn!(database = %self.name, reason, "database unavailable");
            self.suspected.notify_one();
        }
        error
    }

    pub(super) fn corrupt(&self, what: impl Into<String>) -> StorageError {
        StorageError::Corrupt { database: self.name, what: what.into() }
    }

    fn unavailable(&self, reason: String) -> StorageError {
        StorageError::Unavailable { database: self.name, reason }
    }

    /// What the prober last saw.
    #[must_use]
    pub fn health(&self) -> Health {
        let down = self.down.read().map_or_else(|poisoned| poisoned.into_inner().clone(), |down| down.clone());
        let micros = self.latency_micros.load(Ordering::Relaxed);
        Health { down, latency: (micros != u64::MAX).then(|| Duration::from_micros(micros)) }
    }

    /// Connects anew, bypassing the pool, and notes whether that worked. A server that answers with a refusal of its own
    /// (too many connections, say) is up; one that is only slow is down when it is slow twice.
    pub async fn probe(&self) {
        let outcome = match timeout(PROBE_DEADLINE, self.ping()).await {
            Ok(Ok(latency)) => {
                self.latency_micros.store(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
                self.slow_probes.store(0, Ordering::Relaxed);
                None
            }
            Ok(Err(sqlx::Error::Database(refusal))) if !refusal.code().is_some_and(|code| code.starts_with("57P")) => {
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) if self.slow_probes.fetch_add(1, Ordering::Relaxed) == 0 => self.health().down,
            Err(_) => Some(format!("no answer within {PROBE_DEADLINE:?}")),
        };
        let mut down = self.down.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if down.is_some() != outcome.is_some() {
            tracing::warn!(database = %self.name, reason = ?outcome, up = outcome.is_none(), "database health changed");
        }
        *down = outcome;
        drop(down);
        if self.slow_probes.load(Ordering::Relaxed) == 1 {
            self.suspected.notify_one();
        }
    }

    async fn ping(&self) -> sqlx::Result<Duration> {
        let mut connection = self.connect().await?;
        let begun = Instant::now();
        connection.ping().await?;
        let latency = begun.elapsed();
        connection.close().await?;
        Ok(latency)
    }

    /// Returns when an operation failed in a way that a probe should look into.
    pub async fn suspected(&self) {
        self.suspected.notified().await;
    }
}

/// All databases of a deployment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Databases {
    cluster: Arc<Database>,
    shards: Arc<[Arc<Database>]>,
    map: Arc<ShardMap>,
}

impl Databases {
    /// The databases and the bucket map that spreads executions over the shards.
    #[must_use]
    pub fn new(cluster: Arc<Database>, shards: Vec<Arc<Database>>, map: ShardMap) -> Self {
        Self { cluster, shards: shards.into(), map: Arc::new(map) }
    }

    /// The database of what is not per execution.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Database> {
        &self.cluster
    }

    /// All shards, by index.
    #[must_use]
    pub fn shards(&self) -> &[Arc<Database>] {
        &self.shards
    }

    /// Every distinct database once: the cluster's may also be the only shard.
    pub fn distinct(&self) -> impl Iterator<Item = &Arc<Database>> {
        let alone = self.shards.iter().all(|shard| !Arc::ptr_eq(shard, &self.cluster));
        alone.then_some(&self.cluster).into_iter().chain(self.shards.iter())
    }

    /// Which shard holds an execution's log.
    #[must_use]
    pub fn index_of(&self, execution: Id) -> ShardIndex {
        self.map.shard_of(execution)
    }

    /// The shard that holds an execution's log.
    #[must_use]
    pub fn shard_of(&self, execution: Id) -> &Arc<Database> {
        &self.shards[usize::from(self.index_of(execution))]
    }

    /// The bucket map.
    #[must_use]
    pub fn map(&self) -> &ShardMap {
        &self.map
    }
}
