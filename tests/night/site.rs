//! The parts of the deployment: two replicas whose logs are kept, and a server for each database and for the broker, each
//! behind a network that can fail.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use noetl_local::Postgres;
use noetl_testkit::broker_cluster::free_ports;
use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::recorder::Addresses;
use noetl_testkit::traffic::Databases;
use noetl_testkit::{Deployment, NOT_DURABLE, Server, TokenFile, eventually, own_postgres, slow_clock};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::task::JoinSet;

pub const REPLICAS: usize = 2;
/// The cluster database.
pub const CLUSTER: usize = 0;
/// Shard 1, which the faults of shards hit. The cluster database is 0, and shard 0 is 1.
pub const SHARD: usize = 2;
/// The connections of two replicas, and as many for the test.
const CONNECTIONS: (&str, &str) = ("max_connections", "60");

/// A database and its network.
pub struct Database {
    pub server: Postgres,
    pub network: Proxy,
    folder: TempDir,
}

impl Database {
    async fn start() -> Self {
        let settings = [NOT_DURABLE, CONNECTIONS, ("max_prepared_transactions", "5")];
        let (folder, server) = own_postgres(&settings).await;
        let network = Proxy::start(server.port()).await;
        Self { server, network, folder }
    }

    /// Returns the folder of the data.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("postgres/data")
    }

    /// Returns a new connection, unless the server refuses it.
    pub async fn admin(&self) -> Option<PgConnection> {
        PgConnection::connect(&self.server.dsn("own")).await.ok()
    }

    /// Changes whether the server admits the replicas, to `reject` or `trust`, and ends their sessions.
    pub async fn admit(&self, method: &str) {
        let rules = format!("host own all 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 {method}\n");
        std::fs::write(self.data().join("pg_hba.conf"), rules).unwrap();
        let mut admin = self.admin().await.expect("the database `own` is open");
        run(&mut admin, "SELECT pg_reload_conf()").await;
        end_sessions(&mut admin).await;
    }
}

/// Returns the number of the replicas' sessions.
pub async fn sessions_of_replicas(admin: &mut PgConnection) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname <> 'own'";
    sqlx::query_scalar(count).fetch_one(admin).await.unwrap()
}

/// Ends the sessions of the replicas.
pub async fn end_sessions(admin: &mut PgConnection) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE backend_type = 'client backend' AND datname <> 'own'";
    run(admin, end).await;
}

pub struct Site {
    pub addresses: Addresses,
    pub deployment: Deployment,
    pub databases: Vec<Database>,
    pub broker: Proxy,
    /// Connections whose transactions and locks last until the end of a step.
    pub held: Vec<PgConnection>,
    /// Requests that last until the end of a step.
    pub beside: JoinSet<()>,
    replicas: Vec<Option<Server>>,
    pub ports: Vec<u16>,
    /// Tokens of a replica that asks for one.
    pub tokens: TokenFile,
    /// Token of Prometheus.
    pub token: String,
    logs: TempDir,
}

impl Site {
    pub async fn start() -> Self {
        let mut databases = Vec::new();
        for _ in 0..=2 {
            databases.push(Database::start().await);
        }
        let urls: Vec<String> = databases.iter().map(|database| database.server.dsn("postgres")).collect();
        let shards: Vec<&str> = urls[1..].iter().map(String::as_str).collect();
        let mut deployment = Deployment::on_servers(&urls[0], &shards).await;
        let broker = Proxy::start(deployment.nats.port()).await;
        let dsns: Vec<String> =
            std::iter::once(&deployment.cluster_dsn).chain(&deployment.shard_dsns).cloned().collect();
        let through = |(database, dsn): (&Database, &String)| {
            let name = dsn.rsplit('/').next().unwrap();
            format!("postgres://noetl@127.0.0.1:{}/{name}", database.network.port)
        };
        let through: Vec<String> = databases.iter().zip(&dsns).map(through).collect();
        // Later settings win.
        deployment.env.extend([
            ("NOETL_CLUSTER_DSN".to_owned(), through[0].clone()),
            ("NOETL_SHARDS".to_owned(), through[1..].join(",")),
            ("NOETL_NATS_URL".to_owned(), format!("nats://127.0.0.1:{}", broker.port)),
            ("NOETL_CALLER_SHARE_PERCENT".to_owned(), "100".to_owned()),
            ("NOETL_LOG".to_owned(), "warn".to_owned()),
            ("NOETL_LOG_FORMAT".to_owned(), "json".to_owned()),
            (NO_RELAY.0.to_owned(), NO_RELAY.1.to_owned()),
        ]);
        let tokens = TokenFile::new();
        let token = tokens.add(&["--role", "admin"]);
        let mut site = Self {
            addresses: Addresses::default(),
            deployment,
            databases,
            broker,
            held: Vec::new(),
            beside: JoinSet::new(),
            replicas: (0..REPLICAS).map(|_| None).collect(),
            ports: free_ports(REPLICAS),
            tokens,
            token,
            logs: tempfile::tempdir().unwrap(),
        };
        for index in 0..REPLICAS {
            site.start_replica(index, &[]).await;
        }
        site.deployment.feeds_begun().await;
        site
    }

    pub fn databases(&self) -> Databases {
        Databases::of(&self.deployment)
    }

    pub fn replica(&self, index: usize) -> &Server {
        self.replicas[index].as_ref().expect("the replica runs")
    }

    /// Starts a replica, with additional settings.
    pub async fn start_replica(&mut self, index: usize, settings: &[(&str, &str)]) {
        let mut command = self.deployment.command("serve");
        command.env("NOETL_PORT", self.ports[index].to_string()).envs(settings.iter().copied());
        let log = File::options().create(true).append(true).open(self.log(index)).unwrap();
        let server = Server::spawn({
            command.stderr(log);
            command
        })
        .await;
        self.addresses.lock().unwrap().push(server.url.clone());
        self.replicas[index] = Some(server);
    }

    /// Starts a replica whose wall clock is an hour slow.
    pub async fn start_replica_an_hour_behind(&mut self, index: usize) {
        self.start_replica(index, &slow_clock().each_ref().map(|(name, value)| (*name, value.as_str()))).await;
    }

    pub async fn kill_replica(&mut self, index: usize) {
        let mut server = self.taken(index);
        server.kill_9().await;
    }

    /// Stops a replica, which must end successfully, and starts it with these settings.
    pub async fn restart_replica(&mut self, index: usize, settings: &[(&str, &str)]) {
        let status = self.taken(index).stop().await;
        assert!(status.success(), "a replica that was asked to stop ended with {status}");
        self.start_replica(index, settings).await;
    }

    fn taken(&mut self, index: usize) -> Server {
        let server = self.replicas[index].take().expect("the replica runs");
        self.addresses.lock().unwrap().retain(|url| *url != server.url);
        server
    }

    /// Ends what [`Self::held`] and [`Self::beside`] hold, makes the networks work, and waits until every replica is ready.
    pub async fn recover(&mut self) {
        self.held.clear();
        self.beside.shutdown().await;
        for network in self.databases.iter().map(|database| &database.network).chain([&self.broker]) {
            network.set(ForwardingMode::Normal);
        }
        for replica in self.replicas.iter_mut().flatten() {
            assert_eq!(replica.has_ended(), None, "a replica ended by itself");
            eventually("the replica is ready and sees every database", async || {
                let ready: Value = replica.get("/readyz").await.ok()?.json().await.ok()?;
                (ready["ready"] == true && ready["down"].as_array()?.is_empty()).then_some(())
            })
            .await;
        }
    }

    fn log(&self, replica: usize) -> PathBuf {
        self.logs.path().join(replica.to_string())
    }

    /// Returns the lines of the replicas' logs so far, and empties the logs.
    pub fn take_lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for replica in 0..REPLICAS {
            let file = self.log(replica);
            let text = std::fs::read_to_string(&file).unwrap();
            File::options().write(true).truncate(true).open(&file).unwrap();
            let parsed =
                text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")));
            lines.extend(parsed.map(|line| Line { replica, line }));
        }
        lines
    }

    /// Stops every replica. Each must end successfully.
    pub async fn stop(&mut self) {
        for index in 0..REPLICAS {
            let status = self.taken(index).stop().await;
            assert!(status.success(), "a replica that was asked to stop ended with {status}");
        }
    }
}

/// A line of a log.
pub struct Line {
    replica: usize,
    line: Value,
}

impl Line {
    /// Returns what lines of the same cause have in common: the texts of the fields, without request ids and digits.
    fn cause(&self) -> String {
        let mut fields = self.line["fields"].clone();
        fields.as_object_mut().unwrap().remove("request_id");
        let text = format!("{} {fields}", self.line["level"].as_str().unwrap_or_default());
        text.chars().filter(|character| !character.is_ascii_digit()).collect()
    }
}

/// Returns the causes of lines, with the number of the lines in the log that has most of them.
pub fn causes(lines: &[Line]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry((line.cause(), line.replica)).or_insert(0) += 1;
    }
    let mut most = BTreeMap::new();
    for ((cause, _), count) in counts {
        let entry = most.entry(cause).or_insert(0);
        *entry = count.max(*entry);
    }
    most
}
