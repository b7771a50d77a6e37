//! A deployment in which each part can fail separately: replicas, the broker, the database server, and each replica's
//! network.

use futures::future::join_all;
use nix::sys::signal::Signal;
use noetl_local::Postgres;
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::recorder::Addresses;
use noetl_testkit::{Deployment, NOT_DURABLE, Server, eventually, own_postgres};

pub const SHARDS: usize = 2;

/// A fault. A fault with a shard hits the replica that leads this shard's feed.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    KillLeader(usize),
    FreezeLeader(usize),
    Broker(usize, ForwardingMode),
    Shard(usize, ForwardingMode),
    KillBroker,
    KillPostgres,
}

pub struct FaultyDeployment {
    pub replicas: Vec<Replica>,
    /// Dropped after the replicas, which have connections to its databases.
    pub deployment: Deployment,
    pub addresses: Addresses,
    /// The database server, if no other test uses it.
    postgres: Option<Postgres>,
    postgres_is_up: bool,
    broker_is_up: bool,
    _folder: Option<tempfile::TempDir>,
}

/// A replica with its own network connections to the broker and the shards.
pub struct Replica {
    server: Option<Server>,
    pub name: String,
    /// Number of its events in flight to the broker. With a small number, faults hit leaders in the middle of a batch.
    batch: &'static str,
    broker: Proxy,
    /// Networks of the shards, and the addresses of the shards through them.
    shards: Vec<(Proxy, String)>,
}

impl Replica {
    async fn new(deployment: &Deployment, index: usize) -> Self {
        let broker = Proxy::start(deployment.nats.port()).await;
        let mut shards = Vec::new();
        for dsn in &deployment.shard_dsns {
            shards.push(Proxy::before_database(dsn).await);
        }
        let batch = ["8", "500"][index % 2];
        Self { server: None, name: String::new(), batch, broker, shards }
    }

    /// Starts the replica unless it already runs.
    async fn start(&mut self, deployment: &Deployment) {
        if self.server.is_some() {
            return;
        }
        let shards: Vec<&str> = self.shards.iter().map(|(_, dsn)| dsn.as_str()).collect();
        let broker = format!("nats://127.0.0.1:{}", self.broker.port);
        let (shards, batch) = (shards.join(","), self.batch);
        let settings = [("NOETL_SHARDS", &*shards), ("NOETL_NATS_URL", &*broker), ("NOETL_EVENT_STREAM_BATCH", batch)];
        let server = deployment.feed_replica_with(&settings).await;
        self.name = server.name().await;
        self.server = Some(server);
    }

    fn heal(&self) {
        for proxy in self.shards.iter().map(|(proxy, _)| proxy).chain([&self.broker]) {
            proxy.set(ForwardingMode::Normal);
        }
        if let Some(server) = &self.server {
            server.signal(Signal::SIGCONT);
        }
    }
}

impl FaultyDeployment {
    /// Starts a deployment on the shared database server, which can't be killed.
    pub async fn start(replicas: usize) -> Self {
        Self::with(Deployment::start(SHARDS).await, None, replicas).await
    }

    /// Starts a deployment on a database server of its own.
    pub async fn start_with_own_postgres(replicas: usize) -> Self {
        let (folder, postgres) = own_postgres(&[NOT_DURABLE]).await;
        let deployment = Deployment::on(&postgres.dsn("postgres"), SHARDS).await;
        Self::with(deployment, Some((folder, postgres)), replicas).await
    }

    async fn with(deployment: Deployment, own: Option<(tempfile::TempDir, Postgres)>, replicas: usize) -> Self {
        let replicas = join_all((0..replicas).map(|index| Replica::new(&deployment, index))).await;
        let addresses = Addresses::default();
        let (folder, postgres) = own.unzip();
        let (postgres_is_up, broker_is_up) = (true, true);
        let mut faulty =
            Self { replicas, deployment, addresses, postgres, postgres_is_up, broker_is_up, _folder: folder };
        faulty.heal().await;
        faulty.deployment.feeds_begun().await;
        faulty
    }

    /// Returns the replica that leads a shard's feed, or the first replica if the leader is unknown.
    async fn leader(&self, shard: usize) -> usize {
        let leader = if self.postgres_is_up { self.deployment.leader(shard).await } else { None };
        let found = leader.and_then(|leader| self.replicas.iter().position(|replica| replica.name == leader));
        found.unwrap_or(0)
    }

    /// Waits until another replica leads a shard's feed.
    pub async fn until_leader_changed(&self, shard: usize, before: &str) {
        eventually("another replica takes over", async || {
            self.deployment.leader(shard).await.filter(|leader| leader != before)
        })
        .await;
    }

    /// Injects a fault that lasts until [`Self::heal`]. Returns the name of the replica that it hits.
    pub async fn inject(&mut self, fault: Fault) -> String {
        eprintln!("{fault:?}");
        let shard = match fault {
            Fault::KillLeader(of) | Fault::FreezeLeader(of) | Fault::Broker(of, _) | Fault::Shard(of, _) => of,
            Fault::KillBroker | Fault::KillPostgres => 0,
        };
        let leader = self.leader(shard).await;
        let replica = &mut self.replicas[leader];
        match fault {
            Fault::KillLeader(_) => {
                if let Some(mut server) = replica.server.take() {
                    self.addresses.lock().unwrap().retain(|url| *url != server.url);
                    server.kill_9().await;
                }
            }
            Fault::FreezeLeader(_) => {
                if let Some(server) = &replica.server {
                    server.signal(Signal::SIGSTOP);
                }
            }
            Fault::Broker(_, mode) => replica.broker.set(mode),
            Fault::Shard(_, mode) => replica.shards[shard].0.set(mode),
            Fault::KillBroker => {
                self.deployment.nats.kill_9().await;
                self.broker_is_up = false;
            }
            Fault::KillPostgres => {
                self.postgres.as_mut().expect("the database server is the test's own").kill_9().await;
                self.postgres_is_up = false;
            }
        }
        self.replicas[leader].name.clone()
    }

    /// Restarts all stopped parts and ends all faults.
    pub async fn heal(&mut self) {
        if let Some(postgres) = &mut self.postgres
            && !self.postgres_is_up
        {
            postgres.restart().await.unwrap();
            self.postgres_is_up = true;
        }
        if !self.broker_is_up {
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

    /// Waits until events of every shard are published again.
    pub async fn until_events_published(&self) {
        for shard in 0..SHARDS {
            let before = self.published_on(shard).await;
            eventually("events are published", async || (self.published_on(shard).await > before).then_some(())).await;
        }
    }

    async fn published_on(&self, shard: usize) -> i64 {
        let published = "SELECT published_events FROM noetl.tail_cursor";
        sqlx::query_scalar(published).fetch_one(&mut *self.deployment.shard_session(shard).await).await.unwrap()
    }
}
