//! The connections of one database: a bounded pool that gets each connection back in a clean state or closes it.
//!
//! The future of a statement is dropped when its caller disconnects, its deadline passes or its operation passes a
//! limit. The driver then only forgets the statement, which continues in the database and keeps the connection busy. So
//! a connection that is dropped during a statement keeps its place in the pool while the statement is cancelled
//! ([`super::cancel`]), its unread result is read, and its transaction is rolled back. No other user has the connection
//! during this time, so the cancellation can't hit another user's statement. A connection that can't be cleaned in time
//! is closed.
//!
//! With the pool of sqlx, each statement would cost a second round trip, because it pings a connection that is given
//! back; after a switchover, requests would fail until its options were replaced, because it connects to one server;
//! and no caller would have a share of the connections.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_util::task::TaskTracker;

use super::budget::Budget;
use super::cancel::{Backend, Canceller};
use super::error::{DatabaseName, READ_ONLY, has_code};
use super::login::Login;
use super::session_settings;

/// Maximum time that a user waits for a connection.
pub(super) const ACQUIRE_DEADLINE: Duration = Duration::from_secs(3);
/// First pause before the next attempt to connect to a server that refuses connections; it doubles each time.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause before the next attempt to connect to a server that refuses connections.
const MAX_REFUSED_PAUSE: Duration = Duration::from_millis(600);
/// Time that cancelling a statement and cleaning its connection may take.
const CLEANING_DEADLINE: Duration = Duration::from_secs(1);
/// Errors that are skipped while a connection is cleaned: the cancelled statement's error is received first.
const CLEANING_ATTEMPTS: usize = 3;
/// Time that an idle connection has to respond before it is used again.
const PING_DEADLINE: Duration = Duration::from_secs(1);
/// Time after its last use or check within which a connection is used again without a ping.
const FRESH: Duration = Duration::from_secs(5);
/// Time after its last use or check from which an idle connection is checked in the background.
const UNCHECKED: Duration = Duration::from_secs(2);
const _: () = assert!(UNCHECKED.as_millis() < FRESH.as_millis(), "usually no user of a connection waits for a ping");
/// Time after which an unused connection is closed.
const MAX_IDLE: Duration = Duration::from_mins(10);
/// Age at which a connection is closed when it is given back.
const MAX_AGE: Duration = Duration::from_mins(30);

/// The pool, for statements with one planning.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    planning: Planning,
}

#[derive(Debug)]
struct Shared {
    database: DatabaseName,
    login: Login,
    /// Maximum number of connections.
    size: u32,
    places: Arc<Semaphore>,
    /// Places of the callers that use or await one. A caller has three quarters of the places, so that others get one too.
    shares: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
    /// Idle connections, the most recently used last.
    idle: Mutex<Vec<Open>>,
    /// Time of the last failure that may affect other connections. Connections that were checked before it are checked
    /// again before they are used.
    suspected: Mutex<Option<Instant>>,
    /// Whether the last ping was not answered in time.
    unanswered: AtomicBool,
    /// Each open connection has a reference, by which they are counted.
    open: Arc<()>,
    cleaning: TaskTracker,
    canceller: Canceller,
}

/// Planning of prepared statements in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planning {
    /// PostgreSQL decides for each execution whether it plans the statement again, for the values of its parameters,
    /// unless the database or the role has a setting for it. Needed by statements whose best index depends on their
    /// parameters.
    ForValues,
    /// A statement is planned once for each connection. For a short statement on few rows, planning would take several
    /// times as long as its execution. PostgreSQL would plan it again each time, because it estimates that an array
    /// parameter of an unknown length has more rows.
    Once,
}

impl Planning {
    const fn statement(self) -> &'static str {
        match self {
            Self::ForValues => "RESET plan_cache_mode",
            Self::Once => "SET plan_cache_mode = force_generic_plan",
        }
    }
}

/// An open connection with its backend and times.
#[derive(Debug)]
struct Open {
    raw: PgConnection,
    planning: Planning,
    backend: Backend,
    opened: Instant,
    used: Instant,
    /// Time of the last use or successful check.
    checked: Instant,
    _counted: Arc<()>,
}

/// A connection of the pool, open or to be opened.
enum Available {
    Idle(Open),
    /// Reference to `Shared::open` for a connection that may be opened.
    Reserved(Arc<()>),
}

impl Pool {
    /// Creates a pool of at most `size` connections to a database, which are opened on demand. Its statements are
    /// planned for their values.
    pub(super) fn new(database: DatabaseName, login: Login, size: u32) -> Self {
        let shared = Arc::new(Shared {
            database,
            canceller: Canceller::new(&login),
            login,
            size,
            places: Arc::new(Semaphore::new(size as usize)),
            shares: Mutex::default(),
            idle: Mutex::default(),
            suspected: Mutex::default(),
            unanswered: AtomicBool::new(false),
            open: Arc::default(),
            cleaning: TaskTracker::new(),
        });
        Self { shared, planning: Planning::ForValues }
    }

    /// Returns the same connections for statements that are planned once for each connection.
    pub(super) fn planned_once(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), planning: Planning::Once }
    }

    /// Returns the number of open connections and the number of idle ones.
    pub(super) fn size(&self) -> (u32, usize) {
        (self.shared.count(), self.shared.idle().len())
    }

    /// Returns the maximum number of connections.
    pub(super) fn limit(&self) -> u32 {
        self.shared.size
    }

    /// Opens a connection with the settings of those of the pool, without waiting for a place. It belongs to the
    /// caller, who may give it to [`Self::adopt`].
    pub(super) async fn open(&self) -> sqlx::Result<PgConnection> {
        session_settings::open(&self.shared.login).await
    }

    /// Makes a connection of [`Self::open`] one of the pool's idle connections, or closes it if the pool has no room.
    /// Its session must be as it was opened.
    pub(super) async fn adopt(&self, raw: PgConnection) -> sqlx::Result<()> {
        let Ok(_place) = self.shared.places.try_acquire() else { return raw.close().await };
        let Some(counted) = self.shared.reserved() else { return raw.close().await };
        let open = Open::new(raw, counted).await?;
        self.shared.idle().push(open);
        Ok(())
    }

    /// Waits for a connection, up to [`ACQUIRE_DEADLINE`].
    pub(super) async fn acquire(&self) -> sqlx::Result<Connection> {
        let deadline = tokio::time::Instant::now() + ACQUIRE_DEADLINE;
        let place = self.place(deadline).await?;
        let mut refusal = None;
        let taken = timeout_at(deadline, self.take(place, &mut refusal)).await;
        taken.unwrap_or_else(|_| Err(refusal.unwrap_or(sqlx::Error::PoolTimedOut)))
    }

    /// Waits until fewer connections are in use than the pool, and the caller of the operation, may have.
    async fn place(&self, deadline: tokio::time::Instant) -> sqlx::Result<Place> {
        let share = match Budget::current().as_ref().and_then(|budget| budget.caller()) {
            Some(caller) => Some(self.permit(&self.shared.share_of(caller), deadline).await?),
            None => None,
        };
        let place = self.permit(&self.shared.places, deadline).await?;
        Ok(Place { _place: place, _share: share })
    }

    async fn permit(
        &self,
        places: &Arc<Semaphore>,
        deadline: tokio::time::Instant,
    ) -> sqlx::Result<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Ok(place);
        }
        let database = self.shared.database.to_string();
        metrics::counter!("noetl_database_connection_waits_total", "database" => database.clone()).increment(1);
        let Ok(place) = timeout_at(deadline, Arc::clone(places).acquire_owned()).await else {
            metrics::counter!("noetl_database_connection_timeouts_total", "database" => database).increment(1);
            return Err(sqlx::Error::PoolTimedOut);
        };
        // The semaphore is never closed.
        place.map_err(|_| sqlx::Error::PoolClosed)
    }

    async fn take(&self, place: Place, refusal: &mut Option<sqlx::Error>) -> sqlx::Result<Connection> {
        let mut pause = REFUSED_PAUSE;
        loop {
            let mut open = match self.shared.idle_or_reserved(self.planning) {
                Available::Idle(idle) => idle,
                Available::Reserved(counted) => {
                    // Boxed, because it is large and rarely needed.
                    match Box::pin(self.shared.connect(counted)).await {
                        Ok(open) => open,
                        Err(error) if is_transient(&error) => {
                            *refusal = Some(error);
                            // The server may be starting, or has no room for a further connection.
                            if let Some(idle) = self.shared.idle().pop() {
                                idle
                            } else {
                                sleep(pause).await;
                                pause = (pause * 2).min(MAX_REFUSED_PAUSE);
                                continue;
                            }
                        }
                        Err(error) => return Err(error),
                    }
                }
            };
            if self.shared.is_fresh(&open) || self.shared.is_alive(&mut open).await {
                open.plan(self.planning).await?;
                let (open, place, pool) = (Some(open), Some(place), Arc::clone(&self.shared));
                return Ok(Connection { open, place, pool, state: State::default() });
            }
        }
    }

    /// Requires that all idle connections are checked before they are used, because the server may have been lost.
    pub(super) fn suspect(&self) {
        self.shared.suspect();
    }

    /// Checks the idle connections that were not used or checked lately, one after the other, and closes the lost ones.
    pub(super) async fn check_idle(&self) {
        let begun = Instant::now();
        // If all places are taken, the connections are in use.
        while let Ok(place) = self.shared.places.try_acquire() {
            let Some(mut open) = self.shared.take_unchecked(begun) else { return };
            if self.shared.is_alive(&mut open).await {
                self.shared.put_back(open);
            }
            drop(place);
        }
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self) -> sqlx::Result<Transaction> {
        self.begin_with("BEGIN").await
    }

    /// Begins a transaction with the caller's `BEGIN` statement.
    pub(super) async fn begin_with(&self, begin: &'static str) -> sqlx::Result<Transaction> {
        self.acquire().await?.begin(begin).await
    }
}

impl Shared {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Open>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of connections that are open or reserved.
    fn count(&self) -> u32 {
        u32::try_from(Arc::strong_count(&self.open) - 1).unwrap_or(u32::MAX)
    }

    /// Returns the places of a caller.
    fn share_of(&self, caller: &Arc<str>) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(caller).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(share_of(self.size) as usize));
        shares.insert(Arc::clone(caller), Arc::downgrade(&share));
        share
    }

    async fn connect(&self, counted: Arc<()>) -> sqlx::Result<Open> {
        Open::new(session_settings::open(&self.login).await?, counted).await
    }

    /// Takes an idle connection, the most recently used with this planning, or reserves a further one. An idle one with
    /// the other planning is taken only if no further connection may be opened, since a change of the planning is a
    /// statement. To be called with a place: then there is an idle connection, or room for a further one.
    fn idle_or_reserved(&self, planning: Planning) -> Available {
        let mut idle = self.idle();
        if let Some(position) = idle.iter().rposition(|open| open.planning == planning) {
            return Available::Idle(idle.remove(position));
        }
        if self.count() >= self.size
            && let Some(other) = idle.pop()
        {
            return Available::Idle(other);
        }
        // Under the lock of the idle connections, so no other caller reserves the same one.
        Available::Reserved(Arc::clone(&self.open))
    }

    /// Reserves a further connection, unless the pool has all that it may open. To be called with a place.
    fn reserved(&self) -> Option<Arc<()>> {
        let _idle = self.idle();
        (self.count() < self.size).then(|| Arc::clone(&self.open))
    }

    fn suspect(&self) {
        *self.suspected.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns whether a connection may be used without a check.
    fn is_fresh(&self, open: &Open) -> bool {
        let suspected = *self.suspected.lock().unwrap_or_else(PoisonError::into_inner);
        open.checked.elapsed() < FRESH && suspected.is_none_or(|suspected| suspected < open.checked)
    }

    /// Checks a connection. If it doesn't respond, the other idle connections are checked before they are used. If the
    /// next one doesn't respond either, the network or the server was lost, and they are closed.
    async fn is_alive(&self, open: &mut Open) -> bool {
        let answer = timeout(PING_DEADLINE, open.raw.ping()).await;
        let before = self.unanswered.swap(answer.is_err(), Ordering::Relaxed);
        match answer {
            Ok(Ok(())) => {
                open.checked = Instant::now();
                return true;
            }
            Err(_) if before => self.idle().clear(),
            Ok(Err(_)) | Err(_) => self.suspect(),
        }
        false
    }

    /// Takes the idle connection that was used least recently, if it was not checked since `begun` and not lately.
    fn take_unchecked(&self, begun: Instant) -> Option<Open> {
        let mut idle = self.idle();
        let is_due = |open: &Open| open.checked < begun && open.checked.elapsed() > UNCHECKED;
        let position = idle.iter().position(is_due)?;
        Some(idle.remove(position))
    }

    /// Puts back an idle connection that was checked, in the order of the last use. Frees the buffers that the driver
    /// keeps after large statements.
    fn put_back(&self, mut open: Open) {
        open.raw.shrink_buffers();
        let mut idle = self.idle();
        let position = idle.partition_point(|other| other.used <= open.used);
        idle.insert(position, open);
    }

    /// Takes back a clean connection, and closes idle connections that are unused for too long.
    fn give_back(&self, mut open: Open) {
        let now = Instant::now();
        (open.used, open.checked) = (now, now);
        let mut idle = self.idle();
        // The least recently used are first.
        let stale = idle.iter().take_while(|idle| now.duration_since(idle.used) > MAX_IDLE).count();
        idle.drain(..stale);
        if now.duration_since(open.opened) < MAX_AGE {
            idle.push(open);
        }
    }

    /// Makes a connection ready for the next statement.
    async fn clean(&self, open: &mut Open, state: State) -> sqlx::Result<()> {
        if state.running {
            metrics::counter!("noetl_statements_cancelled_total").increment(1);
            self.canceller.cancel(open.backend).await?;
        }
        let mut attempts = 0..CLEANING_ATTEMPTS;
        loop {
            let answer = if state.transaction {
                (&mut open.raw).execute(sqlx::raw_sql("ROLLBACK")).await.map(drop)
            } else {
                open.raw.ping().await
            };
            match answer {
                Err(sqlx::Error::Database(_)) if attempts.next().is_some() => {}
                answer => return answer,
            }
        }
    }
}

/// Returns the number of connections of a pool that one caller may use at once. Half of the connections can be held while
/// their holders wait for a further one, so a share has at least one more.
fn share_of(size: u32) -> u32 {
    (size * 3 / 4).max(size / 2 + 1).min(size)
}

/// Places in the pool, and in the share of the caller, of a connection in use.
#[derive(Debug)]
struct Place {
    _place: OwnedSemaphorePermit,
    _share: Option<OwnedSemaphorePermit>,
}

/// Returns whether the same attempt to connect may succeed soon: connection refused, or SQLSTATE `cannot_connect_now`,
/// `too_many_connections` or, of several servers, `read_only_sql_transaction`.
fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        error => has_code(error, &["57P03", "53300", READ_ONLY]),
    }
}

impl Open {
    async fn new(mut raw: PgConnection, counted: Arc<()>) -> sqlx::Result<Self> {
        let backend = Backend::of(&mut raw).await?;
        let now = Instant::now();
        let planning = Planning::ForValues;
        Ok(Self { raw, planning, backend, opened: now, used: now, checked: now, _counted: counted })
    }

    /// Sets the planning of prepared statements.
    async fn plan(&mut self, planning: Planning) -> sqlx::Result<()> {
        if self.planning != planning {
            self.raw.execute(sqlx::raw_sql(planning.statement())).await?;
            self.planning = planning;
        }
        Ok(())
    }
}

/// State of a connection in use; decides how it is given back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// A statement was sent, and the end of its result was not read.
    pub(super) running: bool,
    /// The connection failed and can't be used again.
    pub(super) broken: bool,
    /// A transaction is open.
    transaction: bool,
}

/// A connection in use; dropping it returns it to the pool.
#[derive(Debug)]
pub(super) struct Connection {
    open: Option<Open>,
    place: Option<Place>,
    pool: Arc<Shared>,
    state: State,
}

impl Connection {
    /// Begins a transaction with this `BEGIN` statement.
    async fn begin(mut self, begin: &'static str) -> sqlx::Result<Transaction> {
        self.state.transaction = true;
        self.execute(sqlx::raw_sql(begin)).await?;
        Ok(Transaction(self))
    }

    /// Returns the driver's connection and the state, which its user keeps up to date.
    pub(super) fn parts(&mut self) -> sqlx::Result<(&mut PgConnection, &mut State)> {
        let open = self.open.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        Ok((&mut open.raw, &mut self.state))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (Some(mut open), place) = (self.open.take(), self.place.take()) else { return };
        let (pool, state) = (Arc::clone(&self.pool), self.state);
        if state.broken {
            pool.suspect();
            return;
        }
        if !state.running && !state.transaction {
            pool.give_back(open);
            return;
        }
        // Without a runtime, the process is shutting down.
        let Ok(runtime) = Handle::try_current() else { return };
        let clean = async move {
            match timeout(CLEANING_DEADLINE, pool.clean(&mut open, state)).await {
                Ok(Ok(())) => pool.give_back(open),
                Ok(Err(error)) => tracing::debug!(%error, "connection closed: it could not be cleaned"),
                Err(_) => tracing::warn!("connection closed: its statement could not be cancelled in time"),
            }
            drop(place);
        };
        self.pool.cleaning.spawn_on(clean, &runtime);
    }
}

/// A transaction; dropping it rolls back.
#[derive(Debug)]
pub(super) struct Transaction(Connection);

impl Transaction {
    /// Commits the transaction.
    pub(super) async fn commit(mut self) -> sqlx::Result<()> {
        self.0.execute(sqlx::raw_sql("COMMIT")).await?;
        self.0.state.transaction = false;
        Ok(())
    }

    /// Ends the transaction without effect. A statement that still runs is cancelled first.
    pub(super) async fn rollback(mut self) -> sqlx::Result<()> {
        let (pool, state) = (Arc::clone(&self.0.pool), std::mem::take(&mut self.0.state));
        // The connection is not used again unless it was cleaned.
        self.0.state.broken = true;
        let open = self.0.open.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        pool.clean(open, state).await?;
        self.0.state = State::default();
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}
