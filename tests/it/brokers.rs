//! A cluster of three brokers survives the loss of any broker without losing or repeating an event. A broker that
//! requires a password gets it.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use async_nats::jetstream::{self, stream::Info};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noetl_testkit::feed::{Reader, run};
use noetl_testkit::{Deployment, eventually, sleep_in_scenario};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

const BROKERS: usize = 3;

/// Returns a command that starts a broker.
fn broker(port: u16, store: &Path) -> Command {
    let mut broker = Command::new("nats-server");
    // Debian installs the binary in a folder that is not in a user's PATH.
    broker.env("PATH", format!("{}:/usr/local/sbin:/usr/sbin", std::env::var("PATH").unwrap()));
    broker.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(store);
    broker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    broker
}

/// Returns the settings of a replica that uses these brokers of a cluster.
fn replicated(urls: &str) -> [(&'static str, &str); 2] {
    [("NOETL_NATS_URL", urls), ("NOETL_EVENT_STREAM_REPLICAS", "3")]
}

/// Brokers of one cluster. Each broker is a process with its own store.
struct Cluster {
    commands: Vec<Command>,
    brokers: Vec<Child>,
    ports: Vec<u16>,
    _stores: TempDir,
}

impl Cluster {
    fn start() -> Self {
        // All listeners are open at the same time, so that the ports are different.
        let free: Vec<_> = (0..2 * BROKERS).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
        let ports: Vec<u16> = free.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        drop(free);
        let (ports, routes) = ports.split_at(BROKERS);
        let stores = tempfile::tempdir().unwrap();
        let all: Vec<String> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let member = |(index, port): (usize, &u16)| {
            let mut broker = broker(*port, &stores.path().join(index.to_string()));
            broker.args(["-n", &format!("n{index}"), "--cluster_name", "all", "--cluster", &all[index]]);
            broker.args(["--routes", &all.join(",")]);
            broker
        };
        let commands: Vec<Command> = ports.iter().enumerate().map(member).collect();
        let mut cluster = Self { commands, brokers: Vec::new(), ports: ports.to_vec(), _stores: stores };
        cluster.brokers = cluster.commands.iter_mut().map(|command| command.spawn().unwrap()).collect();
        cluster
    }

    fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect()
    }

    /// Returns the stream's info once the stream has a leader and a current follower.
    async fn stream(&self) -> Info {
        let client = async_nats::connect(self.urls()).await.unwrap();
        let context = jetstream::new(client);
        eventually("the stream has a leader and a current follower", async || {
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
async fn no_event_is_lost_or_repeated_when_the_broker_that_leads_the_stream_is_killed() {
    let mut cluster = Cluster::start();
    let deployment = Deployment::start(0).await;
    let urls = cluster.urls().join(",");
    let server = deployment.replica_with(&replicated(&urls)).await;
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
            sleep_in_scenario(Duration::from_millis(50)).await;
        }
    };
    writing.await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    reader.assert_saw_exactly(&committed);
    let info = cluster.stream().await;
    assert_eq!(info.state.messages, committed.len() as u64);
    // The restarted broker has fewer messages than the others at first. A replay may read from it.
    cluster.brokers[leader] = cluster.commands[leader].spawn().unwrap();
    for _ in 0..15 {
        let mut again = Reader::open(&server, json!({ "beginning": true }), Value::Null).await;
        assert!(again.until_seen(committed.clone()).await, "the feed ended");
        again.assert_saw_exactly(&committed);
        assert_eq!(again.gaps(), []);
    }
    assert_eq!((deployment.epoch().await, deployment.last_error().await), (1, None));
}

/// The stream's leader can't reach the other brokers, so its state may be old. The cursor is as if another replica had
/// published more over the others.
#[tokio::test]
async fn a_state_of_the_stream_that_its_leader_can_t_confirm_is_not_taken_for_a_loss() {
    let cluster = Cluster::start();
    let deployment = Deployment::start(0).await;
    let urls = cluster.urls();
    let all = urls.join(",");
    let server = deployment.replica_with(&replicated(&all)).await;
    let mut reader = Reader::open(&server, json!({ "beginning": true }), Value::Null).await;
    deployment.commit(7, 1..=100).await;
    assert!(reader.until_seen([(7, 100)]).await, "the feed ended");
    deployment.until_batch_finished().await;
    assert!(server.stop().await.success());
    let leader = cluster.stream().await.cluster.and_then(|cluster| cluster.leader).unwrap();
    let leader: usize = leader.strip_prefix('n').unwrap().parse().unwrap();
    let others = |signal| {
        for (_, broker) in cluster.brokers.iter().enumerate().filter(|(index, _)| *index != leader) {
            kill(Pid::from_raw(broker.id().unwrap().cast_signed()), signal).unwrap();
        }
    };
    let mut shard = deployment.shard(0).await;
    run(&mut shard, "UPDATE noetl.tail_cursor SET last_sequence = last_sequence + 50").await;
    others(Signal::SIGSTOP);
    let server = deployment.replica_with(&replicated(&urls[leader])).await;
    eventually("the tailer reports a failure, or begins an epoch", async || {
        (deployment.last_error().await.is_some() || deployment.epoch().await != 1).then_some(())
    })
    .await;
    assert_eq!(deployment.epoch().await, 1);

    run(&mut shard, "UPDATE noetl.tail_cursor SET last_sequence = last_sequence - 50").await;
    others(Signal::SIGCONT);
    deployment.commit(7, 101..=110).await;
    reader.reconnect(&server).await;
    assert!(reader.until_seen([(7, 110)]).await, "the feed ended");
    reader.assert_saw_exactly(&deployment.committed().await);
    assert_eq!((reader.gaps(), deployment.epoch().await), (vec![], 1));
}

#[tokio::test]
async fn the_password_in_the_broker_url_is_used_for_the_login() {
    let deployment = Deployment::start(1).await;
    let store = tempfile::tempdir().unwrap();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut locked = broker(port, store.path());
    let _running = locked.args(["--user", "noetl", "--pass", "p@ss:word"]).spawn().unwrap();
    let address = format!("nats://noetl:p%40ss%3Aword@127.0.0.1:{port}");
    let server = deployment.replica_with(&[("NOETL_NATS_URL", &address)]).await;
    let mut reader = Reader::open(&server, json!({ "beginning": true }), Value::Null).await;
    deployment.commit(7, 1..=3).await;
    assert!(reader.until_seen([(7, 3)]).await, "the feed ended");
}
