//! A cluster of three brokers on loopback. Each broker is a process with its own store.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use async_nats::jetstream::{self, stream::Info};
use noetl_local::free_port;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::eventually;

/// Number of brokers.
pub const BROKERS: usize = 3;

/// Returns a command that starts a broker.
pub fn broker(port: u16, store: &Path) -> Command {
    let mut broker = Command::new("nats-server");
    // Debian installs the binary in a folder that is not in a user's PATH.
    broker.env("PATH", format!("{}:/usr/local/sbin:/usr/sbin", std::env::var("PATH").unwrap()));
    broker.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(store);
    broker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    broker
}

/// Returns free ports of 127.0.0.1, all different.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    while ports.len() < count {
        ports.insert(free_port().unwrap());
    }
    ports.into_iter().collect()
}

/// Brokers of one cluster, named `n0` to `n2`. Dropping the value kills them.
pub struct BrokerCluster {
    commands: Vec<Command>,
    brokers: Vec<Child>,
    ports: Vec<u16>,
    _stores: TempDir,
}

impl BrokerCluster {
    /// Starts the brokers.
    pub fn start() -> Self {
        let ports = free_ports(2 * BROKERS);
        let (ports, routes) = ports.split_at(BROKERS);
        let stores = tempfile::tempdir().unwrap();
        let all: Vec<String> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let member = |(index, port): (usize, &u16)| {
            let mut broker = broker(*port, &stores.path().join(index.to_string()));
            broker.args(["-n", &format!("n{index}"), "--cluster_name", "all", "--cluster", &all[index]]);
            broker.args(["--routes", &all.join(",")]);
            broker
        };
        let mut commands: Vec<Command> = ports.iter().enumerate().map(member).collect();
        let brokers = commands.iter_mut().map(|command| command.spawn().unwrap()).collect();
        Self { commands, brokers, ports: ports.to_vec(), _stores: stores }
    }

    /// Returns the address of each broker.
    pub fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect()
    }

    /// Returns the process id of a broker.
    pub fn pid(&self, index: usize) -> u32 {
        self.brokers[index].id().expect("the broker runs")
    }

    /// Kills a broker with SIGKILL.
    pub async fn kill(&mut self, index: usize) {
        self.brokers[index].kill().await.unwrap();
    }

    /// Starts a broker that was killed, with its store.
    pub fn restart(&mut self, index: usize) {
        self.brokers[index] = self.commands[index].spawn().unwrap();
    }

    /// Returns the info of a stream once it has a leader and this number of current followers.
    pub async fn stream(&self, name: &str, followers: usize) -> Info {
        let client = async_nats::connect(self.urls()).await.unwrap();
        let context = jetstream::new(client);
        eventually("the stream has a leader and current followers", async || {
            let stream = context.get_stream(name).await.ok()?;
            let info = stream.get_info().await.ok()?;
            let cluster = info.cluster.as_ref()?;
            let current = cluster.replicas.iter().filter(|one| one.current).count();
            (cluster.leader.is_some() && current >= followers).then_some(info)
        })
        .await
    }

    /// Returns the broker that leads a stream.
    pub async fn leader(&self, name: &str) -> usize {
        let leader = self.stream(name, 1).await.cluster.and_then(|cluster| cluster.leader).unwrap();
        leader.strip_prefix('n').unwrap().parse().unwrap()
    }
}
