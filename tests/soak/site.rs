//! A deployment in which each part can fail separately: three replicas, a server for each database, the broker, and
//! each replica's network.

use futures::future::join_all;
use nix::sys::signal::Signal;
use noetl_local::Postgres;
use noetl_testkit::levels::Measured;
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::recorder::Addresses;
use noetl_testkit::traffic::{Databases, SETTINGS};
use noetl_testkit::{Deployment, Live, NOT_DURABLE, Server, eventually, own_postgres};
use serde_json::json;
use tempfile::TempDir;

use super::faults::Fault;

pub const REPLICAS: usize = 3;
const SHARDS: usize = 2;
/// The cluster database and the shards.
pub const DATABASES: usize = 1 + SHARDS;
/// Connections of a replica's pool.
const POOL: &str = "6";
/// Maximum number of connections of a replica to a database: the pool, and four more.
pub const CONNECTIONS: i64 = 6 + 4;
/// Number of readers that vanish together.
const VANISHING: usize = 30;
const LIVE: &str = "subscription { events(start: { beginning: true }) { __typename } }";

pub struct Site {
    pub addresses: Addresses,
    deployment: Deployment,
    replicas: Vec<Replica>,
    databases: Vec<Database>,
    broker_is_up: bool,
}

/// Server of one database.
struct Database {
    server: Postgres,
    is_up: bool,
    _folder: TempDir,
}

/// A replica with its own network connections.
struct Replica {
    server: Option<Server>,
    /// Number of its events in flight to the broker. With a small number, faults hit leaders in the middle of a batch.
    batch: &'static str,
    broker: Proxy,
    databases: Vec<Proxy>,
}

impl Replica {
    async fn new(deployment: &Deployment, databases: &[Database], index: usize) -> Self {
        let broker = Proxy::start(deployment.nats.port()).await;
        let databases = join_all(databases.iter().map(|database| Proxy::start(database.server.port()))).await;
        Self { server: None, batch: ["500", "8"][index % 2], broker, databases }
    }

    /// Starts the replica unless it runs.
    async fn start(&mut self, deployment: &Deployment) {
        if let Some(server) = &mut self.server {
            assert_eq!(server.has_ended(), None, "a replica ended by itself");
            return;
        }
        let dsn = |(proxy, dsn): (&Proxy, &String)| {
            format!("postgres://noetl@127.0.0.1:{}/{}", proxy.port, dsn.rsplit('/').next().unwrap())
        };
        let cluster = dsn((&self.databases[0], &deployment.cluster_dsn));
        let shards: Vec<_> = self.databases[1..].iter().zip(&deployment.shard_dsns).map(dsn).collect();
        let (shards, broker) = (shards.join(","), format!("nats://127.0.0.1:{}", self.broker.port));
        let settings = [
            ("NOETL_CLUSTER_DSN", &*cluster),
            ("NOETL_SHARDS", &shards),
            ("NOETL_NATS_URL", &broker),
            ("NOETL_EVENT_STREAM_BATCH", self.batch),
            ("NOETL_POOL_SIZE", POOL),
            ("NOETL_LOG", "error,async_nats=off"),
        ];
        self.server = Some(deployment.replica_with(&[&settings[..], &SETTINGS].concat()).await);
    }

    fn heal(&self) {
        for proxy in self.databases.iter().chain([&self.broker]) {
            proxy.set(ForwardingMode::Normal);
        }
        if let Some(server) = &self.server {
            server.signal(Signal::SIGCONT);
        }
    }
}

impl Site {
    /// Starts all parts and waits until the feeds have begun.
    pub async fn start() -> Self {
        let databases = join_all((0..DATABASES).map(|_| async {
            let (folder, server) = own_postgres(&[NOT_DURABLE, ("max_connections", "100")]).await;
            Database { server, is_up: true, _folder: folder }
        }))
        .await;
        let urls: Vec<String> = databases.iter().map(|database| database.server.dsn("postgres")).collect();
        let shards: Vec<&str> = urls[1..].iter().map(String::as_str).collect();
        let deployment = Deployment::on_servers(&urls[0], &shards).await;
        let replicas = join_all((0..REPLICAS).map(|index| Replica::new(&deployment, &databases, index))).await;
        let mut site = Self { addresses: Addresses::default(), deployment, replicas, databases, broker_is_up: true };
        site.heal().await;
        site.deployment.feeds_begun().await;
        site
    }

    /// Returns the replica that no fault ends.
    pub fn survivor(&self) -> &Server {
        self.replicas[0].server.as_ref().expect("no fault ends replica 0")
    }

    pub fn databases(&self) -> Databases {
        Databases::of(&self.deployment)
    }

    pub fn measured(&self) -> Measured {
        Measured {
            pid: self.survivor().pid(),
            database_ports: self.replicas[0].databases.iter().map(|proxy| proxy.port).collect(),
            databases: self.databases(),
            broker: self.deployment.nats.url(),
        }
    }

    /// Injects a fault that lasts until [`Self::heal`].
    pub async fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::KillReplica(index) => {
                let mut server = self.taken(index);
                server.kill_9().await;
            }
            Fault::StopReplica(index) => {
                let status = self.taken(index).stop().await;
                assert!(status.success(), "a replica that was asked to stop ended with {status}");
            }
            Fault::FreezeReplica(index) => self.replicas[index].server.as_ref().unwrap().signal(Signal::SIGSTOP),
            Fault::KillDatabase(index) => {
                self.databases[index].server.kill_9().await;
                self.databases[index].is_up = false;
            }
            Fault::FreezeDatabase(index) => self.databases[index].server.pause().await,
            Fault::SlowDatabase(index, delay) => {
                let proxies = self.replicas.iter().map(|replica| &replica.databases[index]);
                proxies.for_each(|proxy| proxy.set(ForwardingMode::Delayed(delay)));
            }
            Fault::KillBroker => {
                self.deployment.nats.kill_9().await;
                self.broker_is_up = false;
            }
            Fault::FreezeBroker => self.deployment.nats.pause().await,
            Fault::DatabaseNetwork(replica, database, mode) => self.replicas[replica].databases[database].set(mode),
            Fault::BrokerNetwork(replica, mode) => self.replicas[replica].broker.set(mode),
            Fault::ReadersVanish(replica) => {
                let url = &self.replicas[replica].server.as_ref().unwrap().url;
                let opened = join_all((0..VANISHING).map(|_| Live::try_open(url, LIVE, json!({})))).await;
                drop(opened);
            }
        }
    }

    /// Takes a replica that is about to end from the addresses and from its place.
    fn taken(&mut self, index: usize) -> Server {
        let server = self.replicas[index].server.take().expect("a round ends a replica once");
        self.addresses.lock().unwrap().retain(|url| *url != server.url);
        server
    }

    /// Restarts all stopped parts and ends all faults.
    pub async fn heal(&mut self) {
        for database in &mut self.databases {
            if database.is_up {
                database.server.resume();
            } else {
                database.server.restart().await.unwrap();
                database.is_up = true;
            }
        }
        if self.broker_is_up {
            self.deployment.nats.resume();
        } else {
            self.deployment.nats.restart().await.unwrap();
            self.broker_is_up = true;
        }
        self.replicas.iter().for_each(Replica::heal);
        let deployment = &self.deployment;
        join_all(self.replicas.iter_mut().map(|replica| replica.start(deployment))).await;
        let servers = self.replicas.iter().filter_map(|replica| replica.server.as_ref());
        *self.addresses.lock().unwrap() = servers.map(|server| server.url.clone()).collect();
    }

    /// Waits until every replica is ready.
    pub async fn ready(&self) {
        for server in self.replicas.iter().filter_map(|replica| replica.server.as_ref()) {
            server.ready().await;
        }
    }

    /// Waits until only the running replicas have leases: one machine id each, and the feeds of all shards.
    pub async fn only_live_leases(&self) {
        eventually("the leases of ended replicas have expired", async || {
            let live = "SELECT count(*) FROM noetl.machine_lease WHERE expires_at > now()";
            let live = self.deployment.in_cluster(live).await;
            (live == i64::try_from(REPLICAS).unwrap()).then_some(())
        })
        .await;
        self.deployment.feeds_begun().await;
    }

    /// Stops every replica. Each must end successfully.
    pub async fn every_replica_stops(&mut self) {
        for server in self.replicas.iter_mut().filter_map(|replica| replica.server.take()) {
            let status = server.stop().await;
            assert!(status.success(), "a replica that was asked to stop ended with {status}");
        }
    }
}
