//! Every committed event reaches every reader once and in order, although replicas, networks, the broker and databases
//! fail. None of these failures is mistaken for a loss of events.

mod deployment;
mod random;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::feed::{assert_exactly, assert_in_order, insert};
use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::random::{below, moment};
use noetl_testkit::recorder::Recorder;
use noetl_testkit::writer::{Writer, after_crash};
use noetl_testkit::{Deployment, size, sleep_in_scenario};
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use self::deployment::{Fault, FaultyDeployment, SHARDS};

const WRITERS: usize = 4;
const RECORDERS: u64 = 2;
/// Number of events in one transaction of a bulk writer.
const BULK: i64 = 100;

/// Runs writers and recorders while `failing` injects faults. Then checks that the recorders, the databases and the
/// streams have the same events.
async fn under_load(mut faulty: FaultyDeployment, failing: impl AsyncFnOnce(&mut FaultyDeployment)) {
    let mut recorders = Vec::new();
    for index in 0..RECORDERS {
        recorders.push(Recorder::open(&faulty.addresses, random::seeded(index)).await);
    }
    let writers: Vec<Writer> = (0..WRITERS).map(|index| Writer::new(&faulty.deployment, index)).collect();
    let mut ordered: BTreeSet<i64> = writers.iter().map(|writer| writer.ordered).collect();
    ordered.extend(bulk_logs(&faulty.deployment).map(|(_, log)| log));
    let enough = AtomicBool::new(false);
    let writing = join_all(writers.into_iter().map(|writer| writer.write_through_crashes(&enough)));
    let bulk = bulk_logs(&faulty.deployment).map(|(shard, log)| (faulty.deployment.shard_dsns[shard].clone(), log));
    let bulk = join_all(bulk.into_iter().map(|(dsn, log)| write_in_bulk(dsn, log, &enough)));
    let failing = async {
        faulty.until_events_published().await;
        failing(&mut faulty).await;
        faulty.heal().await;
        faulty.until_events_published().await;
        enough.store(true, Ordering::Relaxed);
    };
    tokio::select! {
        _ = join_all(recorders.iter_mut().map(Recorder::record)) => {}
        _ = async { tokio::join!(writing, bulk, failing) } => {}
    }
    check(&faulty, &mut recorders, &ordered).await;
}

/// Returns for each shard a log that is written in large transactions.
fn bulk_logs(deployment: &Deployment) -> [(usize, i64); SHARDS] {
    std::array::from_fn(|shard| (shard, deployment.ids_on(shard, 1000, 1)[0]))
}

/// Writes one large transaction after another. They are so large that faults hit a leader in the middle of one.
async fn write_in_bulk(dsn: String, log: i64, enough: &AtomicBool) {
    let insert = "INSERT INTO noetl.event (execution_id, event_id, event_type)
                  SELECT $1, n, 'call.done' FROM generate_series($2, $3) AS n";
    for first in (1..).step_by(usize::try_from(BULK).unwrap()) {
        let write = async {
            let mut connection = PgConnection::connect(&dsn).await?;
            sqlx::query(insert).bind(log).bind(first).bind(first + BULK - 1).execute(&mut connection).await
        };
        if let Err(error) = write.await {
            after_crash(&error).await;
        }
        if enough.load(Ordering::Relaxed) {
            return;
        }
        sleep_in_scenario(Duration::from_millis(1500)).await;
    }
}

async fn check(faulty: &FaultyDeployment, recorders: &mut [Recorder], ordered: &BTreeSet<i64>) {
    let deployment = &faulty.deployment;
    faulty.ready().await;
    // This event is the last of its batch. When readers have it, they would also have seen any repetition of an earlier
    // event.
    for shard in 0..SHARDS {
        insert(&mut deployment.shard(shard).await, (deployment.ids_on(shard, 1, 1)[0], i64::MAX)).await;
    }
    let committed = deployment.committed().await;
    eprintln!("{} events", committed.len());
    join_all(recorders.iter_mut().map(|recorder| recorder.record_until(&committed))).await;
    for recorder in recorders {
        recorder.check(&committed, ordered);
    }
    let stored = deployment.stored_everywhere().await;
    assert_exactly(&stored, &committed);
    assert_in_order(&stored, ordered.iter().copied());
    let epochs = deployment.sum_over_shards("SELECT feed_epoch::bigint FROM noetl.tail_cursor").await;
    assert_eq!(epochs, i64::try_from(SHARDS).unwrap(), "a new epoch began although no event was lost");
}

/// Injects each fault, heals it, and continues when events are published again.
async fn one_by_one(faulty: &mut FaultyDeployment, faults: impl IntoIterator<Item = (Fault, Duration)>) {
    for (fault, lasting) in faults {
        faulty.inject(fault).await;
        sleep_in_scenario(lasting).await;
        faulty.heal().await;
        faulty.until_events_published().await;
    }
}

#[tokio::test]
async fn readers_get_every_event_once_while_leaders_are_killed_or_frozen_longer_than_their_lease() {
    under_load(FaultyDeployment::start(2).await, async |faulty| {
        for shard in 0..size(1, SHARDS) {
            for fault in [Fault::KillLeader(shard), Fault::FreezeLeader(shard)] {
                let before = faulty.inject(fault).await;
                faulty.until_leader_changed(shard, &before).await;
                faulty.until_events_published().await;
                faulty.heal().await;
            }
        }
    })
    .await;
}

/// The connection of a leader to the broker, and then the one of a leader to its shard, breaks, stalls briefly, stalls
/// longer than all timeouts, and is slow.
#[tokio::test]
async fn readers_get_every_event_once_over_broken_stalled_or_slow_connections() {
    let networks = [
        (ForwardingMode::Closed, Duration::from_secs(1)),
        (ForwardingMode::Stalled, Duration::from_millis(700)),
        (ForwardingMode::Stalled, Duration::from_secs(6)),
        (ForwardingMode::Delayed(Duration::from_millis(60)), Duration::from_secs(2)),
    ];
    under_load(FaultyDeployment::start(2).await, async |faulty| {
        one_by_one(faulty, networks.map(|(mode, lasting)| (Fault::Broker(0, mode), lasting))).await;
        one_by_one(faulty, networks.map(|(mode, lasting)| (Fault::Shard(1, mode), lasting))).await;
    })
    .await;
}

#[tokio::test]
async fn readers_get_every_event_once_while_the_broker_or_postgres_is_killed_and_restarted() {
    under_load(FaultyDeployment::start_with_own_postgres(2).await, async |faulty| {
        for fault in [Fault::KillBroker, Fault::KillPostgres] {
            let down = size(vec![0, 2500], vec![0, 300, 2500]).into_iter();
            one_by_one(faulty, down.map(|millis| (fault, Duration::from_millis(millis)))).await;
        }
    })
    .await;
}

/// Injects one to three faults at a time, for a short time or for longer than the leases.
#[tokio::test]
async fn readers_get_every_event_once_through_random_faults() {
    under_load(FaultyDeployment::start_with_own_postgres(3).await, async |faulty| {
        let (mut random, begun) = (random::seeded(RECORDERS), Instant::now());
        while begun.elapsed() < random::duration() {
            for _ in 0..=below(&mut random, 3) {
                faulty.inject(random::fault(&mut random)).await;
                sleep_in_scenario(moment(&mut random, 1000)).await;
            }
            sleep_in_scenario(moment(&mut random, 3500)).await;
            faulty.heal().await;
            sleep_in_scenario(moment(&mut random, 1500)).await;
        }
    })
    .await;
}
