//! The cluster database and the shards, each with a pool, a deadline per operation, and a health state.
//!
//! The prober marks a database that it can't reach as down. Until a probe succeeds, operations on it fail at once, so
//! lists and mutations do not wait for it. An operation that finds a database unavailable requests a probe.
//!
//! Leases have connections of their own, and a probe opens its own connection. So neither waits for requests that hold
//! all connections of the pool.

use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::{Mutex, Notify, Semaphore, SemaphorePermit, watch};
use tokio::time::{sleep, timeout};

use super::connections::{ACQUIRE_DEADLINE, Pool};
use super::error::{DISK_FULL, DatabaseName, StorageError, has_code, text};
use super::lock_wait;
use super::login::Login;
use super::servers;
use super::session_settings;
use super::tail_row::CursorRow;
use noetl_domain::execution::StatusSource;
use noetl_domain::ids::Id;
use noetl_domain::projection::shape_for;
use noetl_domain::shard::{ShardIndex, ShardMap};

/// Time after which an operation fails.
pub const OPERATION_DEADLINE: Duration = Duration::from_secs(4);
const _: () = assert!(OPERATION_DEADLINE.as_secs() < 5, "a mutation responds within 5 s if a database is down");
const _: () = assert!(
    ACQUIRE_DEADLINE.as_millis() < OPERATION_DEADLINE.as_millis(),
    "a pool without a free connection is told from a slow database"
);
/// Time after which a probe of a database fails.
const PROBE_DEADLINE: Duration = Duration::from_secs(1);
const _: () = assert!(
    servers::FIRST_HEAD_START.as_millis() + 2 * servers::HEAD_START.as_millis() < PROBE_DEADLINE.as_millis(),
    "a probe reaches the fourth server"
);
/// Time after which the renewal of a lease fails.
pub const RENEWAL_DEADLINE: Duration = Duration::from_secs(1);
/// Time for which the disk of a database counts as full after it refused a write.
const FULL_FOR: Duration = Duration::from_secs(15);
/// Maximum number of rows for which a statement is planned only once.
const FEW_ROWS: usize = 100;
/// Connections for leases: one for the lease of the shard's tailer, one for that on the machine id.
const LEASE_CONNECTIONS: u32 = 2;

/// One database: its name, pool and health.
#[derive(Debug)]
pub struct Database {
    name: DatabaseName,
    pool: Pool,
    /// See [`Self::planned_once`].
    pool_once: Pool,
    /// See [`Self::leases`].
    leases: Pool,
    login: Login,
    /// Health according to the probes. Its `down` is never [`Down::Full`].
    probed: RwLock<Health>,
    /// Time of the last write for which the disk had no space.
    full: RwLock<Option<Instant>>,
    /// Number of probes that timed out since the last successful one.
    slow_probes: AtomicU64,
    suspected: Notify,
    /// Start of the last attempt of [`Self::responds`] that succeeded.
    responded: Mutex<Option<Instant>>,
    /// See [`Self::may_hold`].
    holders: Semaphore,
    /// See [`Self::may_take_long`].
    long: Semaphore,
    /// See [`Self::cursor_row`].
    cursor_row: CursorRow,
    /// See [`Self::status_source`].
    status_source: StatusSource,
}

/// Reason that a database is down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Down {
    /// It is read-only, such as a standby.
    #[error("the server is read-only")]
    ReadOnly,
    /// Its disk is full, so it refuses writes. Reads work.
    #[error("the disk is full")]
    Full,
    /// It refuses connections or does not respond, for this reason, which is for the log and not for users.
    #[error("{0}")]
    Unreachable(String),
}

/// Health of a database according to its probes and its refused writes.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Reason that the database is down; `None` if it is up.
    pub down: Option<Down>,
    /// Round-trip time of the last successful probe; `None` before the first.
    pub latency: Option<Duration>,
}

impl Down {
    /// Returns whether reads still work.
    #[must_use]
    pub fn allows_reads(&self) -> bool {
        *self == Self::Full
    }
}

impl Database {
    /// Creates a database that connects on its first use, with a pool of at most `connections`.
    #[must_use]
    pub fn new(name: DatabaseName, options: PgConnectOptions, connections: u32) -> Self {
        Self::with_login(name, &Login::new(vec![options], None), connections)
    }

    /// Creates a database as [`Self::new`] does, whose password may be in a file.
    #[must_use]
    pub fn with_login(name: DatabaseName, login: &Login, connections: u32) -> Self {
        let login = login.with(session_settings::UNLIMITED);
        let pooled = login.with(session_settings::POOLED);
        let pool = Pool::new(name, pooled.clone(), connections);
        let leases = Pool::new(name, pooled, LEASE_CONNECTIONS);
        let half = || Semaphore::new((connections as usize / 2).max(1));
        let (holders, long) = (half(), half());
        Self {
            name,
            pool_once: pool.planned_once(),
            pool,
            leases,
            login,
            probed: RwLock::default(),
            full: RwLock::default(),
            slow_probes: AtomicU64::new(0),
            suspected: Notify::new(),
            responded: Mutex::default(),
            holders,
            long,
            cursor_row: CursorRow::default(),
            status_source: StatusSource::default(),
        }
    }

    /// Returns the database with this source of the statuses of ended executions.
    #[must_use]
    pub fn with_status_from(self, source: StatusSource) -> Self {
        Self { status_source: source, ..self }
    }

    /// Returns the source of the statuses of ended executions, which all databases of a deployment have in common.
    #[must_use]
    pub const fn status_source(&self) -> StatusSource {
        self.status_source
    }

    /// Returns the version of the states that are stored in this database.
    pub(super) const fn shape(&self) -> i32 {
        shape_for(self.status_source)
    }

    /// Returns the database's name.
    #[must_use]
    pub fn name(&self) -> DatabaseName {
        self.name
    }

    /// Returns the pool, for a statement whose best index may depend on its parameters.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the pool for a statement on this many rows that are given as arrays. Its plan must not depend on other
    /// parameters. For few rows, it is planned once for each connection. For many, PostgreSQL plans it for their number,
    /// because a plan for few rows would compare each row with each.
    pub(super) fn planned_for(&self, rows: usize) -> &Pool {
        if rows <= FEW_ROWS { &self.pool_once } else { &self.pool }
    }

    /// Returns the pool for a statement whose plan depends on none of its parameters. It is planned once for each
    /// connection.
    pub(super) fn planned_once(&self) -> &Pool {
        &self.pool_once
    }

    /// Returns the location of the shard's cursor row, which the process's writers of the row share.
    pub(super) fn cursor_row(&self) -> &CursorRow {
        &self.cursor_row
    }

    /// Returns the connections for leases, on which no request waits. They are opened on their first use, and again after
    /// a failure.
    pub(super) fn leases(&self) -> &Pool {
        &self.leases
    }

    /// Waits until the caller may keep a connection while it acquires another one, of any database. The other database
    /// may be this one under another name, and such callers would deadlock if they held all connections of its pool. To
    /// be awaited within [`Self::run`], before the first connection is acquired.
    pub(super) async fn may_hold(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.holders.acquire().await.ok()
    }

    /// Waits until the caller may keep a connection of the pool without a time limit. Such callers hold at most half of
    /// the pool, so short operations can still get a connection.
    pub(super) async fn may_take_long(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.long.acquire().await.ok()
    }

    /// Returns the index of the shard. A cluster database that is the only shard is shard 0.
    pub fn shard_index(&self) -> ShardIndex {
        match self.name {
            DatabaseName::Cluster => 0,
            DatabaseName::Shard(index) => index,
        }
    }

    /// Opens a separate connection, without the pool and its timeouts, for work that may take long.
    pub(super) async fn connect(&self) -> sqlx::Result<PgConnection> {
        session_settings::open(&self.login).await
    }

    /// Opens a separate connection with these settings.
    pub(super) async fn connect_with(
        &self,
        settings: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) -> sqlx::Result<PgConnection> {
        session_settings::open(&self.login.with(settings)).await
    }

    /// Opens a separate connection that runs `settings` and holds the advisory lock with this name until it is closed.
    /// `Ok(None)`: another connection holds the lock.
    pub(super) async fn exclusive_connection(
        &self,
        lock: &str,
        settings: &'static str,
    ) -> Result<Option<PgConnection>, StorageError> {
        let work = async {
            let mut connection = self.connect().await?;
            sqlx::raw_sql(settings).execute(&mut connection).await?;
            Ok(lock_wait::try_hold(&mut connection, lock).await?.then_some(connection))
        };
        self.run(work).await
    }

    /// Returns the number of open connections in the pool and the number of idle ones.
    #[must_use]
    pub fn pool_size(&self) -> (u32, usize) {
        self.pool.size()
    }

    /// Returns the maximum number of connections in the pool.
    #[must_use]
    pub fn pool_limit(&self) -> u32 {
        self.pool.limit()
    }

    /// Runs one operation under the deadline and classifies its error. Fails at once if the database is down.
    pub(super) async fn run<T>(&self, work: impl Future<Output = sqlx::Result<T>>) -> Result<T, StorageError> {
        if let Some(reason) = self.down() {
            return Err(self.unavailable(reason.to_string()));
        }
        self.run_within(OPERATION_DEADLINE, work).await
    }

    /// Runs the renewal of a lease under its own deadline. The health is not considered: while the database is slow, a
    /// probe may fail although a renewal succeeds.
    pub(super) async fn renew<T>(&self, work: impl Future<Output = sqlx::Result<T>>) -> Result<T, StorageError> {
        self.run_within(RENEWAL_DEADLINE, work).await
    }

    /// Runs one operation under a deadline and classifies its error. Dropping the operation cancels its statement.
    ///
    /// A database that is only slow is not reported as unavailable: if the operation has not ended in the last quarter of
    /// its time, a new connection to the database decides.
    async fn run_within<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = sqlx::Result<T>>,
    ) -> Result<T, StorageError> {
        let rest = deadline / 4;
        let mut work = pin!(work);
        let mut ended = match timeout(deadline.saturating_sub(rest), &mut work).await {
            // Other operations hold all connections of the pool.
            Ok(Err(sqlx::Error::PoolTimedOut)) => true,
            Ok(done) => return done.map_err(|error| self.failed(error)),
            Err(_) => false,
        };
        // Boxed, because it is large and rarely needed.
        let mut responds =
            Box::pin(async { tokio::join!(timeout(rest, self.responds()), sleep(rest)).0.unwrap_or(false) });
        let responds = loop {
            tokio::select! {
                biased;
                done = &mut work, if !ended => match done {
                    Err(sqlx::Error::PoolTimedOut) => ended = true,
                    done => return done.map_err(|error| self.failed(error)),
                },
                responds = &mut responds => break responds,
            }
        };
        if responds && ended {
            let reason = "all connections of the pool were in use".to_owned();
            return Err(StorageError::TimedOut { database: self.name, reason });
        }
        if responds {
            return Err(self.timed_out(deadline));
        }
        self.suspected.notify_one();
        Err(self.unavailable(self.login.no_response(deadline)))
    }

    /// Classifies an error, and requests a probe if the database is unavailable.
    pub(super) fn failed(&self, error: sqlx::Error) -> StorageError {
        if has_code(&error, &[DISK_FULL]) {
            *self.full.write().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        let error = StorageError::classify(self.name, error);
        if let StorageError::Unavailable { reason, .. } = &error {
            tracing::warn!(database = %self.name, reason, "database unavailable");
            self.suspected.notify_one();
        }
        error
    }

    /// Creates the error of an operation that exceeded its own time limit.
    pub(super) fn timed_out(&self, limit: Duration) -> StorageError {
        StorageError::TimedOut { database: self.name, reason: format!("it took longer than {limit:?}") }
    }

    pub(super) fn corrupt(&self, what: impl Into<String>) -> StorageError {
        StorageError::Corrupt { database: self.name, what: what.into() }
    }

    fn unavailable(&self, reason: String) -> StorageError {
        StorageError::Unavailable { database: self.name, reason }
    }

    /// Returns the reason that all operations fail.
    fn down(&self) -> Option<Down> {
        self.probed.read().unwrap_or_else(PoisonError::into_inner).down.clone()
    }

    /// Returns the health according to the probes and the refused writes. A disk counts as full for [`FULL_FOR`] after the
    /// last write that it refused.
    #[must_use]
    pub fn health(&self) -> Health {
        let full = *self.full.read().unwrap_or_else(PoisonError::into_inner);
        let full = full.is_some_and(|at| at.elapsed() < FULL_FOR).then_some(Down::Full);
        let mut health = self.probed.read().unwrap_or_else(PoisonError::into_inner).clone();
        health.down = health.down.or(full);
        health
    }

    /// Opens a connection outside the pool and stores the result as the health state. A server that refuses with an
    /// error of its own, such as too many connections, is up, unless it accepts no connections. One that is read-only,
    /// such as a standby, is down. A timeout marks the database as down from the second one without a success in between.
    pub async fn probe(&self) {
        let outcome = match timeout(PROBE_DEADLINE, self.ping()).await {
            Ok(Ok(response)) => {
                self.probed.write().unwrap_or_else(PoisonError::into_inner).latency = Some(response.latency);
                self.slow_probes.store(0, Ordering::Relaxed);
                response.read_only.then_some(Down::ReadOnly)
            }
            Ok(Err(error)) if servers::is_up(&error) => None,
            Ok(Err(error)) if servers::is_read_only(&error) => Some(Down::ReadOnly),
            Ok(Err(error)) => Some(Down::Unreachable(text(&error))),
            Err(_) if self.slow_probes.fetch_add(1, Ordering::Relaxed) == 0 => self.down(),
            Err(_) => Some(Down::Unreachable(self.login.no_response(PROBE_DEADLINE))),
        };
        if outcome.is_some() {
            self.pool.suspect();
            self.leases.suspect();
        }
        let mut probed = self.probed.write().unwrap_or_else(PoisonError::into_inner);
        if probed.down.as_ref().map(mem::discriminant) != outcome.as_ref().map(mem::discriminant) {
            let reason = outcome.as_ref().map(tracing::field::display);
            tracing::warn!(database = %self.name, reason, up = outcome.is_none(), "database health changed");
        }
        probed.down = outcome;
        drop(probed);
        if self.slow_probes.load(Ordering::Relaxed) == 1 {
            self.suspected.notify_one();
        }
    }

    /// Returns whether the database responds to a new connection and can be written. It may wait without limit. Callers
    /// that wait at the same time share one attempt.
    async fn responds(&self) -> bool {
        let asked = Instant::now();
        let mut responded = self.responded.lock().await;
        if responded.is_some_and(|begun| begun >= asked) {
            return true;
        }
        let begun = Instant::now();
        let responds = match self.ping().await {
            Ok(response) => !response.read_only,
            Err(error) => servers::is_up(&error),
        };
        if responds {
            *responded = Some(begun);
        }
        responds
    }

    async fn ping(&self) -> sqlx::Result<Response> {
        let mut connection = self.connect().await?;
        let begun = Instant::now();
        connection.ping().await?;
        let latency = begun.elapsed();
        let read_only =
            sqlx::query_scalar!(r#"SELECT current_setting('transaction_read_only')::boolean AS "read_only!""#);
        let read_only = read_only.fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(Response { latency, read_only })
    }

    /// Checks the connections that were not used lately, so that their next user needs no check.
    pub async fn check_idle_connections(&self) {
        self.pool.check_idle().await;
        self.leases.check_idle().await;
    }

    /// Waits until a probe is requested.
    pub async fn suspected(&self) {
        self.suspected.notified().await;
    }
}

/// Response of a database to a new connection.
struct Response {
    latency: Duration,
    read_only: bool,
}

/// All databases of a deployment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Databases {
    cluster: Arc<Database>,
    shards: Arc<[Arc<Database>]>,
    map: Arc<CurrentMap>,
}

/// The bucket map that the process uses.
#[derive(Debug)]
struct CurrentMap {
    map: watch::Sender<Arc<ShardMap>>,
    /// See [`Databases::map_confirmed_at`].
    confirmed_at: RwLock<DateTime<Utc>>,
    /// See [`Databases::request_new_map`].
    outdated: Notify,
}

impl Databases {
    /// Creates the set from its databases and the bucket map, which assigns executions to shards. At `confirmed_at`, the
    /// map was the stored one.
    #[must_use]
    pub fn new(cluster: Arc<Database>, shards: Vec<Arc<Database>>, map: ShardMap, confirmed_at: DateTime<Utc>) -> Self {
        let (map, confirmed_at) = (watch::Sender::new(Arc::new(map)), RwLock::new(confirmed_at));
        let map = CurrentMap { map, confirmed_at, outdated: Notify::new() };
        Self { cluster, shards: shards.into(), map: Arc::new(map) }
    }

    /// Returns the cluster database, which holds all data that does not belong to one execution.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Database> {
        &self.cluster
    }

    /// Returns all shards, by index.
    #[must_use]
    pub fn shards(&self) -> &[Arc<Database>] {
        &self.shards
    }

    /// Returns each database once; the cluster database may also be a shard.
    pub fn distinct(&self) -> impl Iterator<Item = &Arc<Database>> {
        let alone = self.shards.iter().all(|shard| !Arc::ptr_eq(shard, &self.cluster));
        alone.then_some(&self.cluster).into_iter().chain(self.shards.iter())
    }

    /// Returns the index of the shard that holds an execution's log, by the current map.
    #[must_use]
    pub fn index_of(&self, execution: Id) -> ShardIndex {
        self.map.map.borrow().shard_of(execution)
    }

    /// Returns the shard that holds an execution's log, by the current map.
    #[must_use]
    pub fn shard_of(&self, execution: Id) -> &Arc<Database> {
        &self.shards[usize::from(self.index_of(execution))]
    }

    /// Returns the current bucket map. Another one may take its place while the process runs, so a caller that routes
    /// several times by the same map keeps the result.
    #[must_use]
    pub fn map(&self) -> Arc<ShardMap> {
        Arc::clone(&self.map.map.borrow())
    }

    /// Replaces the bucket map, unless the current one is as new. Returns whether it was replaced.
    #[must_use]
    pub fn replace_map(&self, map: ShardMap) -> bool {
        let replace = |current: &mut Arc<ShardMap>| {
            let newer = map.version() > current.version();
            if newer {
                *current = Arc::new(map);
            }
            newer
        };
        self.map.map.send_if_modified(replace)
    }

    /// Returns the last time at which the current map, or one before it, is known to have been the stored one. It is long
    /// ago if the cluster database could not be read since then.
    #[must_use]
    pub fn map_confirmed_at(&self) -> DateTime<Utc> {
        *self.map.confirmed_at.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the current map was the stored one at a time.
    pub(super) fn confirm_map(&self, time: DateTime<Utc>) {
        let mut confirmed_at = self.map.confirmed_at.write().unwrap_or_else(PoisonError::into_inner);
        *confirmed_at = time.max(*confirmed_at);
    }

    /// Waits until the version of the map is larger than `version`.
    pub async fn map_changed(&self, version: u64) {
        // The sender lives as long as this value, so the wait does not fail.
        let _ = self.map.map.subscribe().wait_for(|map| map.version() > version).await;
    }

    /// Requests that the map is read again, because a shard refused a row of a bucket that has moved.
    pub fn request_new_map(&self) {
        self.map.outdated.notify_one();
    }

    /// Waits until a new map is requested.
    pub async fn new_map_requested(&self) {
        self.map.outdated.notified().await;
    }
}
