//! The parts of the deployment: three PostgreSQL servers with standbys, three NATS servers, three replicas, and `HAProxy`
//! with the configuration of deploy/compose.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use noetl_testkit::broker_cluster::{BrokerCluster, free_ports};
use noetl_testkit::recorder::Addresses;
use noetl_testkit::traffic::{Databases, SETTINGS};
use noetl_testkit::{Server, binary, eventually, repository};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::database::Database;

pub const DATABASES: usize = 3;
pub const REPLICAS: usize = 3;

pub struct Site {
    pub brokers: BrokerCluster,
    /// Address of the load balancer, the only one that clients know.
    pub addresses: Addresses,
    databases: Vec<Database>,
    replicas: Vec<Option<Server>>,
    /// Ports of the load balancer and of the replicas.
    ports: Vec<u16>,
    balancer: Option<Child>,
    previous: PathBuf,
    /// Whether the replicas relay the outbox rows; else workers claim them.
    relay: bool,
    /// Changes of the schema that the new version made.
    changes: Vec<String>,
    folder: TempDir,
}

impl Site {
    /// Starts all parts. Schema and replicas are of the previous version.
    pub async fn start(previous: PathBuf, relay: bool) -> Self {
        let mut databases = Vec::new();
        for index in 0..DATABASES {
            let mut names = vec![format!("shard_{index}")];
            if index == 0 {
                names.push("cluster".to_owned());
            }
            databases.push(Database::start(&names).await);
        }
        let ports = free_ports(1 + REPLICAS);
        let addresses = Addresses::default();
        addresses.lock().unwrap().push(format!("http://127.0.0.1:{}", ports[0]));
        let (brokers, replicas) = (BrokerCluster::start(), (0..REPLICAS).map(|_| None).collect());
        let folder = tempfile::tempdir().unwrap();
        let (balancer, changes) = (None, Vec::new());
        let mut site =
            Self { brokers, addresses, databases, replicas, ports, balancer, previous, relay, changes, folder };
        site.migrate_with(false).await;
        for index in 0..REPLICAS {
            site.replicas[index] = Some(site.spawn(index, false).await);
        }
        site.start_balancer();
        let url = site.addresses.lock().unwrap()[0].clone();
        eventually("the load balancer has replicas", async || {
            reqwest::get(format!("{url}/readyz")).await.ok()?.status().is_success().then_some(())
        })
        .await;
        site
    }

    pub fn replica(&self, index: usize) -> &Server {
        self.replicas[index].as_ref().expect("the replica runs")
    }

    pub fn databases(&self) -> Databases {
        let shard = |(index, database): (usize, &Database)| database.dsn(&format!("shard_{index}"));
        Databases {
            cluster: self.databases[0].dsn("cluster"),
            shards: self.databases.iter().enumerate().map(shard).collect(),
        }
    }

    /// Returns a command of the new or the previous program, with the settings of the deployment.
    fn command(&self, name: &str, new: bool) -> Command {
        let program = if new { binary() } else { &self.previous };
        let databases = self.databases();
        let mut command = Command::new(program);
        command.arg(name).env_clear().stdin(Stdio::null()).kill_on_drop(true);
        command.env("NOETL_CLUSTER_DSN", databases.cluster).env("NOETL_SHARDS", databases.shards.join(","));
        command.env("NOETL_NATS_URL", self.brokers.urls().join(",")).env("NOETL_EVENT_STREAM_REPLICAS", "3");
        // Longer than the two failed health checks of the load balancer.
        command.env("NOETL_POOL_SIZE", "8").env("NOETL_SHUTDOWN_DELAY_SECS", "4");
        // All clients have the address of the load balancer.
        command.env("NOETL_CALLER_SHARE_PERCENT", "100").env("NOETL_LOG", "error");
        if !self.relay {
            command.envs(SETTINGS);
        }
        command
    }

    async fn spawn(&self, index: usize, new: bool) -> Server {
        let mut command = self.command("serve", new);
        command.env("NOETL_PORT", self.ports[1 + index].to_string());
        Server::spawn(command).await
    }

    async fn migrate_with(&self, new: bool) {
        let output = self.command("migrate", new).output().await.unwrap();
        assert!(output.status.success(), "migrate: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs `migrate` of the new version, and notes what it changes.
    pub async fn migrate(&mut self) {
        let output = self.command("migrate", true).arg("--plan").output().await.unwrap();
        assert!(output.status.success(), "migrate --plan: {}", String::from_utf8_lossy(&output.stderr));
        let plan = String::from_utf8(output.stdout).unwrap();
        self.changes = plan.lines().filter(|line| !line.ends_with("nothing to change")).map(str::to_owned).collect();
        self.migrate_with(true).await;
    }

    pub async fn kill_replica(&mut self, index: usize) {
        let mut server = self.replicas[index].take().expect("the replica runs");
        server.kill_9().await;
    }

    /// Starts a killed replica again, with the new version.
    pub async fn start_replica(&mut self, index: usize) {
        self.replicas[index] = Some(self.spawn(index, true).await);
    }

    /// Stops a replica, which must end successfully, and starts the other version in its place.
    pub async fn replace(&mut self, index: usize, new: bool) {
        let status = self.replicas[index].take().expect("the replica runs").stop().await;
        assert!(status.success(), "a replica that was asked to stop ended with {status}");
        self.replicas[index] = Some(self.spawn(index, new).await);
    }

    pub async fn fail_over(&mut self, index: usize) {
        self.databases[index].fail_over().await;
    }

    pub async fn add_standby(&mut self, index: usize) {
        self.databases[index].add_standby().await;
    }

    pub async fn kill_balancer(&mut self) {
        self.balancer.take().expect("the load balancer runs").kill().await.unwrap();
    }

    pub fn start_balancer(&mut self) {
        let file = self.folder.path().join("haproxy.cfg");
        fs::write(&file, self.balancer_configuration()).unwrap();
        let log = File::create(self.folder.path().join("haproxy.log")).unwrap();
        let mut haproxy = Command::new(haproxy());
        haproxy.arg("-db").arg("-f").arg(file).stdin(Stdio::null()).kill_on_drop(true);
        self.balancer = Some(haproxy.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// Returns the configuration of deploy/compose with the addresses of this deployment.
    fn balancer_configuration(&self) -> String {
        let text = fs::read_to_string(repository().join("deploy/compose/haproxy/haproxy.cfg")).unwrap();
        let (text, _) = text.split_once("resolvers docker\n  parse").expect("the resolvers are the last section");
        let mut text = text
            .replace("bind :8082", &format!("bind 127.0.0.1:{}", self.ports[0]))
            .replace("bind 127.0.0.1:8404", &format!("bind {}", self.folder.path().join("balancer").display()))
            .replace("check port 9082", "check")
            // Two open files for each connection must be within the machine's limit.
            .replace("maxconn 20000", "maxconn 2000")
            .replace(" resolvers docker init-addr last,libc,none", "");
        for (index, port) in self.ports[1..].iter().enumerate() {
            let name = format!("server-{}", index + 1);
            let (before, after) = (format!("server {name} {name}:8082"), format!("server {name} 127.0.0.1:{port}"));
            assert!(text.contains(&before), "the configuration has no {name}");
            text = text.replace(&before, &after);
        }
        text
    }

    /// Stops every replica. Each must end successfully.
    pub async fn stop(&mut self) {
        for server in self.replicas.iter_mut().filter_map(Option::take) {
            let status = server.stop().await;
            assert!(status.success(), "a replica that was asked to stop ended with {status}");
        }
    }

    fn described_changes(&self) -> String {
        match &self.changes[..] {
            [] => "none between these versions".to_owned(),
            [first, ..] => format!("{} on all databases, such as `{first}`", self.changes.len()),
        }
    }

    /// Returns the versions of the programs.
    pub async fn programs(&self) -> Vec<(&'static str, String)> {
        let name = self.previous.file_name().unwrap_or_default().display();
        let previous = format!("`{name}`: {}", version(&self.previous).await);
        vec![
            ("server, new version", version(binary()).await),
            ("server, previous version", previous),
            ("changes of the schema", self.described_changes()),
            ("PostgreSQL", version(Path::new("pg_basebackup")).await),
            ("NATS", version(Path::new("/usr/sbin/nats-server")).await),
            ("HAProxy", version(&haproxy()).await),
        ]
    }
}

/// Returns the path of `HAProxy`. `scripts/deploy-tools` installs it.
fn haproxy() -> PathBuf {
    let installed = repository().join(".noetl-tools/deploy/bin/haproxy");
    if installed.exists() { installed } else { "haproxy".into() }
}

/// Returns the first line that a program prints for its version.
async fn version(program: &Path) -> String {
    let flag = if program.ends_with("haproxy") { "-v" } else { "--version" };
    let output = Command::new(program).arg(flag).output().await.unwrap();
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}
