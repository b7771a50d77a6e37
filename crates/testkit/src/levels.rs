//! Resources that a deployment at rest uses: memory, descriptors and connections of a replica, consumers of the broker,
//! and disk. Two measurements show what a run left behind.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::time::Duration;

use async_nats::jetstream;
use futures::TryStreamExt;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::WAIT_TIMEOUT;
use super::traffic::Databases;

const MIB: i64 = 1 << 20;
/// Pause between two measurements while the deployment uses more than before.
const PAUSE: Duration = Duration::from_secs(1);
/// Tables that keep a number of rows for each message.
const GROWING: [&str; 5] = ["event", "execution", "outbox", "projection_snapshot", "subscription_dedup"];
/// Tables that keep the same rows and change them again and again.
const CHANGING: [&str; 3] = ["tail_cursor", "machine_lease", "subscription_registry"];

/// The parts of a deployment to measure.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Process of a replica that runs from the first measurement to the last.
    pub pid: u32,
    /// Ports on which this process reaches the databases.
    pub database_ports: Vec<u16>,
    /// All databases.
    pub databases: Databases,
    /// Address of the broker.
    pub broker: String,
}

/// Largest differences between two measurements that are no leak.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// Growth of the process in MiB: caches of a bounded size that the first measurement found partly filled.
    pub memory_mib: i64,
    /// More descriptors that are no connections to a database: idle connections of the test's own clients.
    pub descriptors: i64,
    /// Connections to one database: the size of the pools of all replicas. The first measurement may find fewer, because
    /// a pool opens connections when it needs them.
    pub connections: i64,
}

/// One measurement.
#[derive(Debug, Clone)]
pub struct Levels {
    memory_mib: i64,
    /// Open descriptors of the process, without its connections to databases.
    descriptors: i64,
    /// Connections of all replicas to each database.
    connections: BTreeMap<String, i64>,
    /// Transactions of the replicas that are open and idle.
    open_transactions: i64,
    /// Consumers of each stream.
    consumers: BTreeMap<String, i64>,
    /// Messages and bytes of each stream.
    streams: BTreeMap<String, (i64, i64)>,
    /// Rows and bytes of each table after a vacuum, with its indexes.
    tables: BTreeMap<String, (i64, i64)>,
}

impl Levels {
    /// Measures a deployment that is at rest.
    pub async fn measure(measured: &Measured) -> Self {
        let pid = measured.pid;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let memory_kib: i64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let mut levels = Self {
            memory_mib: memory_kib / 1024,
            descriptors: descriptors(pid, &measured.database_ports),
            connections: BTreeMap::new(),
            open_transactions: 0,
            consumers: BTreeMap::new(),
            streams: BTreeMap::new(),
            tables: BTreeMap::new(),
        };
        let databases = &measured.databases;
        let shards = databases.shards.iter().enumerate().map(|(index, dsn)| (format!("shard {index}"), dsn));
        for (name, dsn) in shards.chain([("cluster".to_owned(), &databases.cluster)]) {
            levels.add_database(&name, dsn).await;
        }
        levels.add_broker(&measured.broker).await;
        levels
    }

    async fn add_database(&mut self, database_name: &str, dsn: &str) {
        let mut database = PgConnection::connect(dsn).await.unwrap();
        let sessions = "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%')
                        FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                        AND backend_type = 'client backend'";
        let (open, in_transaction): (i64, i64) = sqlx::query_as(sessions).fetch_one(&mut database).await.unwrap();
        self.connections.insert(database_name.to_owned(), open);
        self.open_transactions += in_transaction;
        for table in GROWING.iter().chain(&CHANGING) {
            let name = format!("noetl.{table}");
            sqlx::raw_sql(AssertSqlSafe(format!("VACUUM {name}"))).execute(&mut database).await.unwrap();
            let size = format!(
                "SELECT count(*), coalesce((SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree('{name}')),
                                           pg_total_relation_size('{name}')) FROM {name}"
            );
            let size = sqlx::query_as(AssertSqlSafe(size)).fetch_one(&mut database).await.unwrap();
            self.tables.insert(format!("{table} of {database_name}"), size);
        }
    }

    async fn add_broker(&mut self, url: &str) {
        let context = jetstream::new(async_nats::connect(url).await.unwrap());
        let names: Vec<String> = context.stream_names().try_collect().await.unwrap();
        for name in names {
            let stream = context.get_stream(&name).await.unwrap();
            let consumers: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
            let state = stream.get_info().await.unwrap().state;
            let number = |count: u64| i64::try_from(count).unwrap();
            self.consumers.insert(name.clone(), i64::try_from(consumers.len()).unwrap());
            self.streams.insert(name, (number(state.messages), number(state.bytes)));
        }
    }

    /// Returns what is above the levels of an earlier measurement by more than is allowed.
    fn above(&self, before: &Self, allowed: Allowed) -> Vec<String> {
        let mut above = Vec::new();
        let mut compare = |what: &str, now: i64, limit: i64| {
            if now > limit {
                above.push(format!("{what}: {now}, more than {limit}"));
            }
        };
        compare("memory in MiB", self.memory_mib, before.memory_mib + allowed.memory_mib);
        compare("descriptors", self.descriptors, before.descriptors + allowed.descriptors);
        compare("idle transactions", self.open_transactions, 0);
        for (name, now) in &self.connections {
            compare(&format!("connections to {name}"), *now, allowed.connections.max(before.connections[name]));
        }
        for (name, now) in &self.consumers {
            let earlier = before.consumers.get(name).copied().unwrap_or_default();
            compare(&format!("consumers of {name}"), *now, earlier);
        }
        for (name, (messages, bytes)) in &self.streams {
            // Ids and times have almost the same length in each message.
            let (earlier, its_bytes) = before.streams.get(name).copied().unwrap_or_default();
            compare(&format!("bytes of {name}"), *bytes, messages * its_bytes / earlier.max(1) * 11 / 10 + MIB);
        }
        for (name, (rows, bytes)) in &self.tables {
            // Indexes of a larger table have more levels, and pages that a crash left empty are filled later.
            let (earlier, its_bytes) = before.tables[name];
            let grows = GROWING.iter().any(|table| name.starts_with(&format!("{table} ")));
            let limit = if grows { rows * its_bytes / earlier.max(1) * 3 / 2 } else { its_bytes };
            compare(&format!("bytes of {name}"), *bytes, limit + MIB);
        }
        above
    }

    /// Waits until the deployment uses no more than at an earlier measurement, as far as differences are not allowed.
    /// Panics if it does not come to that. Returns the measurement.
    pub async fn until_back_at(&self, measured: &Measured, allowed: Allowed) -> Self {
        let give_up = tokio::time::Instant::now() + WAIT_TIMEOUT;
        loop {
            let levels = Self::measure(measured).await;
            let above = levels.above(self, allowed);
            if above.is_empty() {
                return levels;
            }
            let late = tokio::time::Instant::now() > give_up;
            assert!(!late, "left behind: {}\n{}", above.join("; "), levels.beside(self));
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns a table of this measurement beside an earlier one.
    pub fn beside(&self, before: &Self) -> String {
        let mut text = format!("{:<44} {:>12} {:>12}\n", "", "began", "ended");
        let mut line = |what: &str, began: i64, ended: i64| {
            writeln!(text, "{what:<44} {began:>12} {ended:>12}").unwrap();
        };
        line("memory, MiB", before.memory_mib, self.memory_mib);
        line("descriptors besides databases", before.descriptors, self.descriptors);
        for (name, now) in &self.connections {
            line(&format!("connections to {name}"), before.connections[name], *now);
        }
        for (name, now) in &self.consumers {
            line(&format!("consumers of {name}"), before.consumers.get(name).copied().unwrap_or_default(), *now);
        }
        for (name, (messages, bytes)) in &self.streams {
            let (earlier, its_bytes) = before.streams.get(name).copied().unwrap_or_default();
            line(&format!("messages of {name}"), earlier, *messages);
            line(&format!("bytes each of {name}"), its_bytes / earlier.max(1), bytes / messages.max(&1));
        }
        for (name, (rows, bytes)) in &self.tables {
            let (earlier, its_bytes) = before.tables[name];
            line(&format!("rows of {name}"), earlier, *rows);
            line(&format!("KiB of {name}"), its_bytes / 1024, bytes / 1024);
        }
        text
    }
}

/// Returns the number of descriptors of a process that are no connections to these ports.
fn descriptors(pid: u32, ports: &[u16]) -> i64 {
    let sockets = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let to_databases: Vec<String> = sockets
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = u16::from_str_radix(fields[2].rsplit_once(':')?.1, 16).ok()?;
            ports.contains(&port).then(|| format!("socket:[{}]", fields[9]))
        })
        .collect();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()?.into_os_string().into_string().ok());
    i64::try_from(targets.filter(|target| !to_databases.contains(target)).count()).unwrap()
}
