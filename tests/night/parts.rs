//! Faults of replicas, databases, the broker and its streams. Most are under load.

use std::time::Duration;

use async_nats::jetstream::stream::DiscardPolicy;
use nix::sys::signal::Signal;
use noetl_testkit::feed::{Reader, run};
use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::{WAIT_TIMEOUT, limit_files, sleep_in_scenario};
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

use super::Night;
use super::limits::{executions, requests};
use super::site::{CLUSTER, SHARD, Site, end_sessions, sessions_of_replicas};

/// Time of a fault that raises no alert.
const SHORT: Duration = Duration::from_secs(8);
/// Maximum number of bytes of a file of PostgreSQL's write-ahead log.
const WAL_BYTES: u64 = 16 << 20;

async fn nothing(_: &mut Site) {}

pub async fn replicas(night: &mut Night) {
    let end = async |site: &mut Site| site.start_replica(1, &[]).await;
    let gone = ["NoetlReplicaDown", "NoetlFewReplicas"];
    night.loaded("a replica is killed", &gone, async |site| site.kill_replica(1).await, end).await;
    let again = async |site: &mut Site| {
        for _ in 0..4 {
            site.kill_replica(1).await;
            site.start_replica(1, &[]).await;
            sleep_in_scenario(Duration::from_secs(3)).await;
        }
    };
    night.loaded("a replica ends again and again", &["NoetlRestarting"], again, nothing).await;
    let rolled = async |site: &mut Site| {
        for index in [0, 1] {
            site.restart_replica(index, &[]).await;
        }
    };
    night.loaded("the replicas are replaced one after the other", &[], rolled, nothing).await;
    let freeze = async |site: &mut Site| {
        let url = site.replica(1).url.clone();
        site.addresses.lock().unwrap().retain(|address| *address != url);
        site.replica(1).signal(Signal::SIGSTOP);
    };
    let thaw = async |site: &mut Site| {
        site.replica(1).signal(Signal::SIGCONT);
        let url = site.replica(1).url.clone();
        site.addresses.lock().unwrap().push(url);
    };
    night.loaded("a replica is frozen", &["NoetlReplicaDown"], freeze, thaw).await;
    let behind = async |site: &mut Site| {
        site.kill_replica(1).await;
        site.start_replica_an_hour_behind(1).await;
        sleep_in_scenario(SHORT).await;
    };
    let right = async |site: &mut Site| site.restart_replica(1, &[]).await;
    night.loaded("the clock of a replica is an hour slow", &[], behind, right).await;
    let leaders = async |site: &mut Site| {
        let dsn = site.deployment.shard_dsns[1].clone();
        site.beside.spawn(async move {
            let mut shard = PgConnection::connect(&dsn).await.unwrap();
            loop {
                run(
                    &mut shard,
                    "UPDATE noetl.tail_cursor SET fence = fence + 1, lease_until = now() - interval '1 hour'",
                )
                .await;
                sleep_in_scenario(Duration::from_secs(1)).await;
            }
        });
    };
    night.loaded("the leases of a feed are taken away", &["NoetlFeedLeaderChanges"], leaders, nothing).await;
}

/// Sends requests that need shard 1 until the end of the step.
fn read_shard(site: &mut Site) {
    let there = site.deployment.ids_on(1, 1, 1)[0];
    for _ in 0..16 {
        requests(site, format!("{{ execution(id: \"{there}\") {{ id }} }}"), None, Duration::from_millis(200));
    }
}

pub async fn databases(night: &mut Night) {
    let down = ["NoetlDatabaseDown"];
    let killed = async |site: &mut Site| {
        site.databases[SHARD].server.kill_9().await;
        read_shard(site);
    };
    let restart = async |site: &mut Site| site.databases[SHARD].server.restart().await.unwrap();
    let failed = ["NoetlDatabaseDown", "NoetlFailedOperations"];
    night.loaded("a shard is killed", &failed, killed, restart).await;
    let frozen = async |site: &mut Site| site.databases[SHARD].server.pause().await;
    let thaw = async |site: &mut Site| site.databases[SHARD].server.resume();
    night.loaded("a shard is frozen", &down, frozen, thaw).await;
    let cut = async |site: &mut Site| site.databases[SHARD].network.set(ForwardingMode::Closed);
    night.loaded("the network to a shard is cut", &down, cut, nothing).await;
    let stalled = async |site: &mut Site| site.databases[SHARD].network.set(ForwardingMode::Stalled);
    night.loaded("the network to a shard forwards nothing", &down, stalled, nothing).await;
    let full = async |site: &mut Site| limit_files(&site.databases[SHARD].data(), Some(WAL_BYTES / 2)).await;
    let freed = async |site: &mut Site| {
        let database = &mut site.databases[SHARD];
        // PostgreSQL ends if it can't write its log.
        if database.admin().await.is_some() {
            limit_files(&database.data(), None).await;
        } else {
            database.server.restart().await.unwrap();
        }
    };
    night.loaded("the disk of a shard is full", &["NoetlDatabaseDown"], full, freed).await;
    let refused = async |site: &mut Site| site.databases[SHARD].admit("reject").await;
    let admitted = async |site: &mut Site| site.databases[SHARD].admit("trust").await;
    night.loaded("a shard refuses the login", &["NoetlDatabaseDown"], refused, admitted).await;
    let frozen = async |site: &mut Site| site.databases[CLUSTER].server.pause().await;
    let thaw = async |site: &mut Site| site.databases[CLUSTER].server.resume();
    night.loaded("the cluster database is frozen", &["NoetlDatabaseDown"], frozen, thaw).await;
}

/// Sessions of other programs.
pub async fn sessions(night: &mut Night) {
    let taken = async |site: &mut Site| {
        let database = &site.databases[SHARD];
        // The replicas take some of the places that their ended sessions leave.
        loop {
            while let Some(connection) = database.admin().await {
                site.held.push(connection);
            }
            if sessions_of_replicas(&mut site.held[0]).await == 0 {
                return;
            }
            end_sessions(&mut site.held[0]).await;
        }
    };
    night.loaded("other programs hold all connections of a shard", &["NoetlFailedOperations"], taken, nothing).await;
    let long = async |site: &mut Site| {
        let mut shard = site.deployment.shard(1).await;
        run(&mut shard, "BEGIN; SELECT pg_current_xact_id()").await;
        site.held.push(shard);
    };
    night.loaded("a transaction stays open", &["NoetlLongTransaction"], long, nothing).await;
    let prepared = async |site: &mut Site| {
        let mut shard = site.deployment.shard(1).await;
        run(&mut shard, "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'").await;
    };
    let ended = async |site: &mut Site| run(&mut site.deployment.shard(1).await, "ROLLBACK PREPARED 'forgotten'").await;
    night.loaded("a prepared transaction is forgotten", &["NoetlLongTransaction"], prepared, ended).await;
    let locked = async |site: &mut Site| {
        let mut shard = site.deployment.shard(1).await;
        run(&mut shard, "BEGIN; LOCK TABLE noetl.event, noetl.execution IN ACCESS EXCLUSIVE MODE").await;
        site.held.push(shard);
        read_shard(site);
    };
    let slow = ["NoetlPoolExhausted", "NoetlLatency", "NoetlErrorRate"];
    night.loaded("another program locks the tables of a shard", &slow, locked, nothing).await;
}

pub async fn broker(night: &mut Night) {
    let stopped = ["NoetlBrokerDown", "NoetlFeedLag", "NoetlFeedStopped"];
    let killed = async |site: &mut Site| site.deployment.nats.kill_9().await;
    let restart = async |site: &mut Site| site.deployment.nats.restart().await.unwrap();
    night.loaded("the broker is killed", &stopped, killed, restart).await;
    let frozen = async |site: &mut Site| site.deployment.nats.pause().await;
    let thaw = async |site: &mut Site| site.deployment.nats.resume();
    night.loaded("the broker is frozen", &stopped, frozen, thaw).await;
    let cut = async |site: &mut Site| site.broker.set(ForwardingMode::Closed);
    night.loaded("the network to the broker is cut", &stopped, cut, nothing).await;
}

/// Lets a shard's stream refuse messages because it is full, or ends that.
async fn fill_stream(site: &Site, shard: usize, full: bool) {
    let (context, stream) = site.deployment.stream(shard).await;
    let info = stream.cached_info();
    let mut configuration = info.config.clone();
    let bytes = i64::try_from(info.state.bytes).unwrap() + 1;
    (configuration.max_bytes, configuration.discard) =
        if full { (bytes, DiscardPolicy::New) } else { (-1, DiscardPolicy::Old) };
    context.update_stream(configuration).await.unwrap();
}

pub async fn streams(night: &mut Night) {
    let full = async |site: &mut Site| fill_stream(site, 1, true).await;
    let freed = async |site: &mut Site| fill_stream(site, 1, false).await;
    let without = ["NoetlFeedLag", "NoetlFeedWithoutLeader"];
    night.loaded("the stream of a shard is full", &without, full, freed).await;
    let deleted = async |site: &mut Site| {
        let (context, _) = site.deployment.stream(1).await;
        context.delete_stream("noetl_events_1").await.unwrap();
    };
    night.loaded("a stream is deleted", &["NoetlStreamGaps"], deleted, nothing).await;
    let purged = async |site: &mut Site| {
        let mut reader = Reader::from_latest(site.replica(0)).await;
        site.deployment.commit(executions(site, 1)[0], 1..=10).await;
        site.deployment.until_all_published().await;
        site.deployment.stream(0).await.1.purge().await.unwrap();
        reader.reconnect(site.replica(0)).await;
        let told = async {
            while reader.gaps().is_empty() {
                reader.step().await.expect("the subscription continues");
            }
        };
        timeout(WAIT_TIMEOUT, told).await.expect("the reader is told of the gap");
    };
    night.quiet("a stream is purged before a reader has its events", &["NoetlStreamGaps"], purged, nothing).await;
}
