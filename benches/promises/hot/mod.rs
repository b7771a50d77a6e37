//! The hot paths, each beside the same work done bare in the same run.
//!
//! The product is a server process with its default pool. The bare side of a write is this process, which runs the same
//! statements over the same driver with the same number of connections; the bare side of a read is a bare axum server.
//! The sides take turns. The server runs no background work that the bare side does not have, unless a figure says so.

pub mod bare_reads;
mod execute;
mod growth;
mod history;
pub mod http;
pub mod load;
mod message;
mod outbox;
mod peers;
pub mod processes;
mod profile;
mod project;
mod reads;
mod script;
mod statements;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use noetl_domain::ids::{EPOCH_UNIX_MS, Id, MAX_MACHINE_ID};
use noetl_domain::shard::ShardIndex;
use noetl_local::Postgres;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools;
use noetl_testkit::{Deployment, QUIET, Server, own_postgres};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use crate::report::{self, Comparison, Conditions, Limit, Report, Spread};
use load::{Pace, Side, in_turns};
use message::Protocol;
use processes::Processes;

/// Connections of each pool, on both sides; the server's default.
pub const CONNECTIONS: u32 = 16;
/// The parts, in the order in which they run.
pub const PARTS: [&str; 7] = ["execute", "batch", "project", "outbox", "lists", "message", "triggers"];

/// Settings of the Postgres servers, besides `fsync`.
const POSTGRES: [(&str, &str); 7] = [
    ("shared_buffers", "256MB"),
    // Checkpoints are rare.
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "1h"),
    ("max_connections", "500"),
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.max", "10000"),
    ("pg_stat_statements.track_planning", "on"),
];

/// Setting of a server whose workers claim outbox rows.
const WITHOUT_RELAY: &[(&str, &str)] = &[("NOETL_OUTBOX_RELAY", "false")];

/// A Postgres server of the benchmark.
pub struct Database {
    pub server: Postgres,
    pub fsync: bool,
    _folder: TempDir,
}

impl Database {
    pub async fn start(fsync: bool) -> Self {
        let mut settings = POSTGRES.to_vec();
        settings.push(("fsync", if fsync { "on" } else { "off" }));
        let (folder, server) = own_postgres(&settings).await;
        Self { server, fsync, _folder: folder }
    }

    pub async fn deployment(&self, shards: usize) -> Deployment {
        Deployment::on(&self.server.dsn("postgres"), shards).await
    }
}

/// A deployment with a server, on which parts are measured.
pub struct Stage {
    pub deployment: Deployment,
    pub server: Server,
    pub ids: Arc<Ids>,
    pub pace: Pace,
    fsync: bool,
    background: bool,
    postmaster: u32,
}

impl Stage {
    pub async fn new(database: &Database, shards: usize, background: bool, pace: Pace) -> Self {
        Self::with(database, shards, background, pace, if background { &[] } else { &QUIET }).await
    }

    async fn with(
        database: &Database,
        shards: usize,
        background: bool,
        pace: Pace,
        other_settings: &[(&'static str, &'static str)],
    ) -> Self {
        let deployment = database.deployment(shards).await;
        let connections = CONNECTIONS.to_string();
        // All callers have the same address.
        let mut settings = vec![("NOETL_POOL_SIZE", connections.as_str()), ("NOETL_CALLER_SHARE_PERCENT", "100")];
        settings.extend(other_settings);
        let mut command = deployment.command("serve");
        command.envs(settings).stderr(log());
        let server = Server::spawn(command).await;
        let postmaster = processes::postmaster(&deployment.cluster_dsn).await;
        Self { deployment, server, ids: Arc::default(), pace, fsync: database.fsync, background, postmaster }
    }

    /// Describes a comparison without limits.
    pub fn comparison(&self, part: &'static str, work: &str, unit: &'static str, callers: usize) -> Comparison {
        let (shards, fsync, background) = (self.deployment.shard_dsns.len(), self.fsync, self.background);
        let conditions = Conditions { callers, shards, fsync, background };
        Comparison { part, work: work.to_owned(), unit, conditions, ratio: None, rate: None }
    }

    /// Measures the sides in turns, and reports them.
    pub async fn compare(&self, report: &mut Report, comparison: Comparison, sides: &mut [Side]) {
        report.compared(comparison, in_turns(self.pace, sides, async || ()).await);
    }

    /// Processes of a measurement through the server.
    pub fn of_server(&self) -> Processes {
        Processes { worker: self.server.pid(), postmaster: self.postmaster }
    }

    /// Processes of a measurement in which this process runs the statements.
    pub fn of_driver(&self) -> Processes {
        Processes { worker: std::process::id(), postmaster: self.postmaster }
    }

    pub fn of_process(&self, process: &Server) -> Processes {
        Processes { worker: process.pid(), postmaster: self.postmaster }
    }
}

/// Opens the pools of the bare side, as large as those of the server.
pub fn shard_pools(dsns: &[String]) -> Vec<pools::Database> {
    let pool = |(dsn, shard): (&String, ShardIndex)| {
        pools::Database::new(DatabaseName::Shard(shard), dsn.parse().unwrap(), CONNECTIONS)
    };
    dsns.iter().zip(0..).map(pool).collect()
}

/// Returns the file for the server's log. Each mutation writes a line.
fn log() -> std::fs::File {
    std::fs::File::create(report::target().join("bench-server.log")).unwrap()
}

/// Generator of snowflakes, with the last machine id; the server leases the smallest free one.
#[derive(Debug, Default)]
pub struct Ids(AtomicI64);

impl Ids {
    pub fn next(&self) -> i64 {
        self.block(1)
    }

    /// Returns the first of `count` ids that follow each other.
    pub fn block(&self, count: usize) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let ms = u64::try_from(now.as_millis()).unwrap() - EPOCH_UNIX_MS;
        let earliest = Id::first_of(ms).get() + (i64::from(MAX_MACHINE_ID) << 12);
        let count = i64::try_from(count).unwrap();
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| Some(next.max(earliest) + count));
        taken.unwrap().max(earliest)
    }
}

/// Measures the wanted parts with durable Postgres, the writes also with Postgres without fsync, and some also with the
/// server's background work. `shards`, `peers`, `profile`, `growth` and its part `rows` run only if they are named.
pub async fn measure(report: &mut Report, quick: bool, wanted: impl Fn(&str) -> bool, named: impl Fn(&str) -> bool) {
    let pace = Pace { rounds: 3, time: Duration::from_millis(if quick { 400 } else { 2_500 }) };
    if PARTS.into_iter().any(&wanted) {
        hot_paths(report, pace, wanted).await;
    }
    if named("shards") {
        shards(report, pace).await;
    }
    if named("peers") {
        let durable = Database::start(true).await;
        report.machine("peers", &machine(&durable).await);
        peers::measure(&Stage::new(&durable, 1, false, pace).await, report).await;
    }
    if named("profile") {
        let durable = Database::start(true).await;
        profile::record(&Stage::new(&durable, 1, false, pace).await).await;
        profile::record_messages(&Stage::new(&durable, 1, true, pace).await, Protocol::Relay).await;
        let without_relay = Stage::with(&durable, 1, true, pace, WITHOUT_RELAY).await;
        profile::record_messages(&without_relay, Protocol::Claims).await;
    }
    if named("growth") {
        growth::measure(report, if quick { 100_000 } else { 10_000_000 }, pace).await;
    } else if named("rows") {
        growth::measure_rows(report, if quick { 100_000 } else { 10_000_000 }, pace).await;
    }
}

async fn hot_paths(report: &mut Report, pace: Pace, wanted: impl Fn(&str) -> bool) {
    let durable = Database::start(true).await;
    let machine = machine(&durable).await;
    PARTS.into_iter().filter(|part| wanted(part)).for_each(|part| report.machine(part, &machine));
    {
        let stage = Stage::new(&durable, 1, false, pace).await;
        parts(&stage, report, &wanted).await;
        let resident = report::resident_mib(&stage.server);
        report.figure("hot paths: resident memory of a server without background work", resident, "MiB", None);
    }
    let stage = Stage::new(&durable, 1, true, pace).await;
    if wanted("message") {
        Box::pin(message::measure(&stage, Protocol::Relay, report)).await;
        let without_relay = Stage::with(&durable, 1, true, pace, WITHOUT_RELAY).await;
        Box::pin(message::measure(&without_relay, Protocol::Claims, report)).await;
    }
    if wanted("execute") {
        execute::measure_at(&stage, report, &[64]).await;
    }
    if wanted("project") {
        project::measure_whole(&stage, report, 1).await;
    }
    if wanted("lists") {
        reads::measure_at(&stage, report, &[16]).await;
    }
    if wanted("triggers") {
        execute::measure_labels(&stage, report, 64).await;
        message::measure_triggers(&stage, &Stage::new(&durable, 1, true, pace).await, report).await;
    }
    let (resident, limit) = (report::resident_mib(&stage.server), Some(Limit::AtMost(96.0)));
    report.figure("hot paths: resident memory of a server with background work", resident, "MiB", limit);
    drop(stage);
    drop(durable);
    let writes = |part: &str| wanted(part) && ["execute", "batch", "project", "outbox"].contains(&part);
    if PARTS.into_iter().any(writes) {
        let volatile = Database::start(false).await;
        parts(&Stage::new(&volatile, 1, false, pace).await, report, writes).await;
    }
}

async fn parts(stage: &Stage, report: &mut Report, wanted: impl Fn(&str) -> bool) {
    if wanted("execute") {
        execute::measure_at(stage, report, &[1, 16, 64, 256]).await;
    }
    if wanted("triggers") {
        execute::measure_labels(stage, report, 16).await;
    }
    if wanted("batch") {
        execute::measure_batches(stage, report).await;
    }
    if wanted("project") {
        project::measure(stage, report).await;
    }
    if wanted("outbox") {
        outbox::measure(stage, report, &[1, 4]).await;
    }
    if wanted("lists") {
        reads::measure_at(stage, report, &[1, 16, 64, 256]).await;
    }
}

/// Measures the hot paths with 1, 2 and 4 shards, all on one Postgres server.
async fn shards(report: &mut Report, pace: Pace) {
    let durable = Database::start(true).await;
    report.machine("shards", &machine(&durable).await);
    for shards in [1, 2, 4] {
        let stage = Stage::new(&durable, shards, false, pace).await;
        execute::measure_at(&stage, report, &[1, 16, 64, 256]).await;
        execute::measure_batches(&stage, report).await;
        project::measure(&stage, report).await;
        outbox::measure(&stage, report, &[1]).await;
        reads::measure_at(&stage, report, &[16]).await;
    }
}

/// Describes the machine and the Postgres server, with the time of a durable commit.
async fn machine(database: &Database) -> String {
    let mut connection = PgConnection::connect(&database.server.dsn("postgres")).await.unwrap();
    let version: String = sqlx::query_scalar("SHOW server_version").fetch_one(&mut connection).await.unwrap();
    let mut commits = Vec::new();
    sqlx::query("CREATE TABLE IF NOT EXISTS commits (n INT)").execute(&mut connection).await.unwrap();
    for n in 0..101 {
        let sent = Instant::now();
        sqlx::query("INSERT INTO commits VALUES ($1)").bind(n).execute(&mut connection).await.unwrap();
        commits.push(sent.elapsed().as_secs_f64() * 1000.0);
    }
    let commit = Spread::of(commits).median;
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |model| model.1);
    let cores = std::thread::available_parallelism().unwrap();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    let load = load.split(' ').next().unwrap();
    let date = chrono::Utc::now().format("%Y-%m-%d");
    let version = version.split(' ').next().unwrap();
    format!(
        "{date}, {cores} cores ({model}), PostgreSQL {version}; a commit of one row takes {commit:.2} ms; load of the machine before: {load}"
    )
}
