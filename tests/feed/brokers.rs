//! A cluster of three brokers survives the loss of any broker without losing or repeating an event. A broker that
//! requires a password gets it.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noetl_testkit::broker_cluster::{BROKERS, BrokerCluster, broker, free_ports};
use noetl_testkit::feed::{ONLY_FEED, Reader, run};
use noetl_testkit::{Deployment, eventually, sleep_in_scenario};

const STREAM: &str = "noetl_events";

/// Returns the settings of a replica that publishes and delivers events with these brokers of a cluster.
fn replicated(urls: &str) -> [(&'static str, &str); 4] {
    let [projector, relay] = ONLY_FEED;
    [projector, relay, ("NOETL_NATS_URL", urls), ("NOETL_EVENT_STREAM_REPLICAS", "3")]
}

#[tokio::test]
async fn no_event_is_lost_or_repeated_when_the_broker_that_leads_the_stream_is_killed() {
    let mut cluster = BrokerCluster::start();
    let deployment = Deployment::start(0).await;
    let urls = cluster.urls().join(",");
    let server = deployment.replica_with(&replicated(&urls)).await;
    let stream = cluster.stream(STREAM, 1).await;
    assert_eq!(stream.config.num_replicas, BROKERS);

    let mut reader = Reader::from_beginning(&server).await;
    deployment.commit(7, 1..=100).await;
    assert!(reader.until_seen([(7, 100)]).await, "the feed ended");
    let leader = cluster.leader(STREAM).await;
    let writing = async {
        for batch in 0..20 {
            deployment.commit(8, batch * 30 + 1..=batch * 30 + 30).await;
            if batch == 5 {
                cluster.kill(leader).await;
            }
            sleep_in_scenario(Duration::from_millis(50)).await;
        }
    };
    writing.await;
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;
    let info = cluster.stream(STREAM, 1).await;
    assert_eq!(info.state.messages, committed.len() as u64);
    // The restarted broker has fewer messages than the others at first. A replay may read from it.
    cluster.restart(leader);
    for _ in 0..25 {
        let mut again = Reader::from_beginning(&server).await;
        again.read_exactly(&committed).await;
        assert_eq!(again.gaps(), []);
    }
    assert_eq!((deployment.epoch().await, deployment.last_error().await), (1, None));
}

/// The stream's leader can't reach the other brokers, so its state may be old. The cursor is as if another replica had
/// published more over the others.
#[tokio::test]
async fn a_state_of_the_stream_that_its_leader_can_t_confirm_is_not_taken_for_a_loss() {
    let cluster = BrokerCluster::start();
    let deployment = Deployment::start(0).await;
    let urls = cluster.urls();
    let all = urls.join(",");
    let server = deployment.replica_with(&replicated(&all)).await;
    let mut reader = Reader::from_beginning(&server).await;
    deployment.commit(7, 1..=100).await;
    assert!(reader.until_seen([(7, 100)]).await, "the feed ended");
    deployment.until_batch_finished().await;
    reader.disconnect().await;
    assert!(server.stop().await.success());
    let leader = cluster.leader(STREAM).await;
    let others = |signal| {
        for broker in (0..BROKERS).filter(|index| *index != leader) {
            kill(Pid::from_raw(cluster.pid(broker).cast_signed()), signal).unwrap();
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
    // The brokers elect a leader again, which may take longer than a new reader waits for its stream.
    reader.reconnect_when_available(&server).await;
    assert!(reader.until_seen([(7, 110)]).await, "the feed ended");
    reader.assert_saw_exactly(&deployment.committed().await);
    assert_eq!((reader.gaps(), deployment.epoch().await), (vec![], 1));
}

#[tokio::test]
async fn the_password_in_the_broker_url_is_used_for_the_login() {
    let deployment = Deployment::start(1).await;
    let store = tempfile::tempdir().unwrap();
    let port = free_ports(1)[0];
    let mut locked = broker(port, store.path());
    let _running = locked.args(["--user", "noetl", "--pass", "p@ss:word"]).spawn().unwrap();
    let address = format!("nats://noetl:p%40ss%3Aword@127.0.0.1:{port}");
    let server = deployment.replica_with(&[("NOETL_NATS_URL", &address)]).await;
    let mut reader = Reader::from_beginning(&server).await;
    deployment.commit(7, 1..=3).await;
    assert!(reader.until_seen([(7, 3)]).await, "the feed ended");
}
