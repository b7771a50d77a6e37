//! A deployment of one test: a cluster database, shards and a broker that no other test uses.

use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use noetl_local::{NatsOptions, NatsServer, Postgres};
use serde_json::{Value, json};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::process::Command;

use super::eventually;
use super::server::{Server, binary};
use super::sessions::Sessions;
use super::test_database::{TestDatabases, exists_on_shared_server, shared_server};

/// Databases and a broker of one test. Dropping the value stops the broker and drops the databases that are on the
/// shared server.
pub struct Deployment {
    /// Settings of the deployment's replicas.
    pub env: Vec<(String, String)>,
    /// DSN of the cluster database.
    pub cluster_dsn: String,
    /// DSNs of the shards, in the order of the shards.
    pub shard_dsns: Vec<String>,
    /// The broker's process. Tests kill and restart it.
    pub nats: NatsServer,
    pub(crate) folder: tempfile::TempDir,
    databases: TestDatabases,
    sessions: Sessions,
}

/// Returns the name of a database: the cluster database has the index 0, and shard i the index i + 1.
fn database_name(deployment: &str, index: usize) -> String {
    match index.checked_sub(1) {
        None => format!("{deployment}_cluster"),
        Some(shard) => format!("{deployment}_{shard}"),
    }
}

impl Deployment {
    /// Creates migrated databases without rows, and starts a broker. With 0 shards, the cluster database is the only
    /// shard. The databases are copies, so all deployments with the same number of shards have one identity.
    pub async fn start(shards: usize) -> Self {
        let (server, template) = (shared_server(), Self::migrated_template(shards).await);
        Self::with_databases(&server, &vec![server.as_str(); shards], Some(&template)).await
    }

    /// Returns the beginning of the names of databases on the shared server that are a deployment without rows. The first
    /// test that uses a build of the program with this number of shards creates them; the others copy them.
    async fn migrated_template(shards: usize) -> String {
        let program = binary().metadata().unwrap();
        let template = format!("migrated_{}_{}_{}_{shards}", program.size(), program.mtime(), program.mtime_nsec());
        let last = database_name(&template, shards);
        if !exists_on_shared_server(last.clone()).await {
            let server = shared_server();
            let mut lock = PgConnection::connect(&server).await.unwrap();
            // Held until the connection is closed.
            let wait = "SELECT pg_advisory_lock(hashtext('migrated template'))";
            sqlx::query(wait).execute(&mut lock).await.unwrap();
            // Another test may have created them meanwhile.
            if !exists_on_shared_server(last).await {
                let mut migrated = Self::with_databases(&server, &vec![server.as_str(); shards], None).await;
                migrated.migrate().await;
                std::mem::take(&mut migrated.databases).keep_as(|index| database_name(&template, index)).await;
            }
            lock.close().await.unwrap();
        }
        template
    }

    /// Creates the same deployment with empty databases, for tests that prepare the databases before the migration.
    pub async fn unmigrated(shards: usize) -> Self {
        let server = shared_server();
        Self::with_databases(&server, &vec![server.as_str(); shards], None).await
    }

    /// Creates a deployment as [`Self::start`] does, with its databases on the given PostgreSQL server.
    pub async fn on(server: &str, shards: usize) -> Self {
        Self::on_servers(server, &vec![server; shards]).await
    }

    /// Creates a deployment as [`Self::start`] does, with each database on a PostgreSQL server of its own.
    pub async fn on_servers(cluster: &str, shards: &[&str]) -> Self {
        let deployment = Self::with_databases(cluster, shards, None).await;
        deployment.migrate().await;
        deployment
    }

    /// Creates the databases of a deployment, empty ones or copies of a template, and starts a broker.
    async fn with_databases(cluster: &str, shards: &[&str], template: Option<&str>) -> Self {
        let name = format!("t{}", uuid::Uuid::new_v4().simple());
        let wanted = |index| (database_name(&name, index), template.map(|template| database_name(template, index)));
        let servers: Vec<&str> = std::iter::once(&cluster).chain(shards).copied().collect();
        let (mut databases, mut created) = (TestDatabases::default(), 0);
        for group in servers.chunk_by(|one, other| one == other) {
            databases.create(group[0], (created..created + group.len()).map(wanted).collect()).await;
            created += group.len();
        }
        let mut shard_dsns = databases.dsns();
        let cluster_dsn = shard_dsns.remove(0);
        let folder = tempfile::tempdir().unwrap();
        let nats = NatsServer::start(NatsOptions::new(folder.path().join("nats"))).await.unwrap();
        let env = vec![
            ("NOETL_CLUSTER_DSN".to_owned(), cluster_dsn.clone()),
            ("NOETL_SHARDS".to_owned(), shard_dsns.join(",")),
            ("NOETL_NATS_URL".to_owned(), nats.url()),
            ("NOETL_PORT".to_owned(), "0".to_owned()),
            ("NOETL_POOL_SIZE".to_owned(), "10".to_owned()),
            ("NOETL_SHUTDOWN_DELAY_SECS".to_owned(), "0".to_owned()),
        ];
        if shards.is_empty() {
            shard_dsns.push(cluster_dsn.clone());
        }
        Self { env, cluster_dsn, shard_dsns, nats, folder, databases, sessions: Sessions::default() }
    }

    /// Changes the settings to the databases with the same names on another PostgreSQL server.
    pub fn move_to(&mut self, server: &Postgres) {
        let separate = !self.shard_dsns.contains(&self.cluster_dsn);
        for dsn in std::iter::once(&mut self.cluster_dsn).chain(&mut self.shard_dsns) {
            *dsn = server.dsn(dsn.rsplit('/').next().unwrap());
        }
        self.env.retain(|(name, _)| name != "NOETL_CLUSTER_DSN");
        self.env.push(("NOETL_CLUSTER_DSN".to_owned(), self.cluster_dsn.clone()));
        if separate {
            self.configure_shards(&self.shard_dsns.clone());
        }
    }

    /// Creates an empty database and names it as the last shard in the settings. Running replicas keep their settings.
    pub async fn add_database(&mut self) {
        let name = self.cluster_dsn.rsplit('/').next().unwrap();
        let name = format!("{}_{}", name.trim_end_matches("_cluster"), self.shard_dsns.len());
        let server = self.databases.server().to_owned();
        self.databases.create(&server, vec![(name, None)]).await;
        self.shard_dsns.extend(self.databases.dsns().pop());
        self.configure_shards(&self.shard_dsns.clone());
    }

    /// Sets the shards that the settings name.
    pub fn configure_shards(&mut self, dsns: &[String]) {
        self.env.retain(|(name, _)| name != "NOETL_SHARDS");
        self.env.push(("NOETL_SHARDS".to_owned(), dsns.join(",")));
    }

    /// Runs `noetl-graphql migrate`. The command must succeed.
    pub async fn migrate(&self) {
        let output = self.command("migrate").output().await.unwrap();
        assert!(output.status.success(), "migrate: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns a command of the binary with the deployment's settings.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(binary());
        command.arg(name).env_clear().envs(self.env.iter().cloned()).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs `check` with these options. Returns its exit code and its JSON document.
    pub async fn check(&self, options: &[&str]) -> (i32, Value) {
        let output = self.command("check").args(["--format", "json"]).args(options).output().await.unwrap();
        let document = serde_json::from_slice(&output.stdout);
        let document = document.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().unwrap(), document)
    }

    /// Runs `check --repair`, which must leave only differences that the servers handle when they start. Claims and
    /// registrations are unfinished only after 15 s, so they are repaired then. Returns the first JSON document.
    pub async fn repair(&self) -> Value {
        let mut first = None;
        eventually("everything is repaired", async || {
            let (code, repaired) = self.check(&["--repair"]).await;
            assert_eq!(code, 0, "{repaired:#}");
            first.get_or_insert(repaired);
            let (_, found) = self.check(&[]).await;
            assert_eq!(found["unchecked"], json!([]), "{found:#}");
            let left = found["differences"].as_array().unwrap().iter();
            let mut left = left.filter(|difference| difference["repairedBy"] != "servers").peekable();
            let is_done = left.peek().is_none();
            left.for_each(|difference| {
                assert!(difference["kind"].as_str().unwrap().starts_with("unfinished "), "{found:#}");
            });
            is_done.then_some(())
        })
        .await;
        first.unwrap()
    }

    /// Starts a replica.
    pub async fn replica(&self) -> Server {
        self.replica_with(&[]).await
    }

    /// Starts a replica with additional settings.
    pub async fn replica_with(&self, settings: &[(&str, &str)]) -> Server {
        let mut command = self.command("serve");
        command.envs(settings.iter().copied());
        Server::spawn(command).await
    }

    /// Connects to the cluster database.
    pub async fn cluster(&self) -> PgConnection {
        PgConnection::connect(&self.cluster_dsn).await.unwrap()
    }

    /// Connects to a shard.
    pub async fn shard(&self, index: usize) -> PgConnection {
        PgConnection::connect(&self.shard_dsns[index]).await.unwrap()
    }

    /// Returns a kept session on a shard, for statements that leave no transaction and no setting.
    pub async fn shard_session(&self, shard: usize) -> PoolConnection<sqlx::Postgres> {
        self.sessions.of(&self.shard_dsns[shard]).await
    }

    /// Returns a kept session on the cluster database as [`Self::shard_session`] does.
    pub(crate) async fn cluster_session(&self) -> PoolConnection<sqlx::Postgres> {
        self.sessions.of(&self.cluster_dsn).await
    }

    /// Runs a query on every shard and returns the sum of the numbers.
    pub async fn sum_over_shards(&self, query: &str) -> i64 {
        let mut sum = 0;
        for shard in 0..self.shard_dsns.len() {
            let mut session = self.shard_session(shard).await;
            sum += sqlx::query_scalar::<_, i64>(AssertSqlSafe(query)).fetch_one(&mut *session).await.unwrap();
        }
        sum
    }
}
