//! A stream that three brokers keep outlives any one of them, and nothing of it is lost or repeated.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use async_nats::jetstream::{self, stream::Info};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::common::feed::Reader;
use crate::common::{Deployment, eventually, pass};

const BROKERS: usize = 3;

/// Brokers of one cluster, each a process with a store of its own.
struct Cluster {
    brokers: Vec<Child>,
    ports: Vec<u16>,
    _stores: TempDir,
}

impl Cluster {
    fn start() -> Self {
        // Held together, so that no two are the same.
        let free: Vec<_> = (0..2 * BROKERS).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
        let ports: Vec<u16> = free.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        drop(free);
        let (ports, routes) = ports.split_at(BROKERS);
        let stores = tempfile::tempdir().unwrap();
        let all: Vec<String> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let broker = |(index, port): (usize, &u16)| {
            let mut broker = Command::new("nats-server");
            broker.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-n", &format!("n{index}")]);
            broker.args(["--cluster_name", "all", "--cluster", &all[index], "--routes", &all.join(","), "-sd"]);
            broker.arg(stores.path().join(index.to_string()));
            broker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            broker.spawn().unwrap()
        };
        let brokers = ports.iter().enumerate().map(broker).collect();
        Self { brokers, ports: ports.to_vec(), _stores: stores }
    }

    fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect()
    }

    /// The stream as its leader sees it, once it has one and all its followers are current.
    async fn stream(&self) -> Info {
        let client = async_nats::connect(self.urls()).await.unwrap();
        let context = jetstream::new(client);
        eventually("the stream has a leader and current followers", async || {
            let stream = context.get_stream("noetl_events").await.ok()?;
            let info = stream.get_info().await.ok()?;
            let cluster = info.cluster.as_ref()?;
            let current = cluster.leader.is_some() && cluster.replicas.iter().filter(|one| one.current).count() > 0;
            current.then_some(info)
        })
        .await
    }
}

#[tokio::test]
async fn a_broker_that_leads_the_stream_is_killed() {
    let mut cluster = Cluster::start();
    let deployment = Deployment::start(0).await;
    let urls = cluster.urls().join(",");
    let settings = [("NOETL_NATS_URL", &*urls), ("NOETL_EVENT_STREAM_REPLICAS", "3")];
    let server = deployment.replica_with(&settings).await;
    let stream = cluster.stream().await;
    assert_eq!(stream.config.num_replicas, BROKERS);

    let mut reader = Reader::open(&server, json!({ "beginning": true }), Value::Null).await;
    deployment.commit(7, 1..=500).await;
    assert!(reader.until_seen([(7, 500)]).await, "the feed ended");
    let leader = stream.cluster.and_then(|cluster| cluster.leader).unwrap();
    let leader: usize = leader.strip_prefix('n').unwrap().parse().unwrap();
    let writing = async {
        for batch in 0..20 {
            deployment.commit(8, batch * 100 + 1..=batch * 100 + 100).await;
            if batch == 5 {
                cluster.brokers[leader].kill().await.unwrap();
            }
            pass(Duration::from_millis(50)).await;
        }
    };
    writing.await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    reader.assert_saw_exactly(&committed);
    let info = cluster.stream().await;
    assert_eq!(info.state.messages, committed.len() as u64);
    let mut again = Reader::open(&server, json!({ "beginning": true }), Value::Null).await;
    assert!(again.until_seen(committed.clone()).await, "the feed ended");
    again.assert_saw_exactly(&committed);
    assert_eq!((deployment.epoch().await, deployment.last_error().await), (1, None));
}
