//! Every committed event reaches every reader once and in order, although replicas, networks, the broker and databases
//! fail. None of these failures is mistaken for a loss of events.

mod random;
mod recorder;
mod site;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use self::recorder::Recorder;
use self::site::{Fault, SHARDS, Site};
use crate::common::feed::{assert_exactly, assert_in_order, insert};
use crate::common::proxy::Passing;
use crate::common::writer::{Writer, after_crash};
use crate::common::{Deployment, pass};

const WRITERS: usize = 4;
const RECORDERS: u64 = 3;
/// Number of events in one transaction of a bulk writer.
const BULK: i64 = 100;

/// Runs writers and recorders while `failing` injects faults. Then checks that the recorders, the databases and the
/// streams have the same events.
async fn under_load(replicas: usize, failing: impl AsyncFnOnce(&mut Site)) {
    let mut site = Site::start(replicas).await;
    let mut recorders = Vec::new();
    for index in 0..RECORDERS {
        recorders.push(Recorder::open(&site.addresses, index).await);
    }
    let writers: Vec<Writer> = (0..WRITERS).map(|index| Writer::new(&site.deployment, index)).collect();
    let mut ordered: Vec<i64> = writers.iter().map(|writer| writer.ordered).collect();
    ordered.extend(bulk_logs(&site.deployment).map(|(_, log)| log));
    let enough = AtomicBool::new(false);
    let writing = join_all(writers.into_iter().map(|writer| writer.write_through_crashes(&enough)));
    let bulk = bulk_logs(&site.deployment).map(|(shard, log)| (site.deployment.shard_dsns[shard].clone(), log));
    let bulk = join_all(bulk.into_iter().map(|(dsn, log)| write_in_bulk(dsn, log, &enough)));
    let failing = async {
        site.flows().await;
        failing(&mut site).await;
        site.heal().await;
        site.flows().await;
        enough.store(true, Ordering::Relaxed);
    };
    tokio::select! {
        _ = join_all(recorders.iter_mut().map(Recorder::record)) => {}
        _ = async { tokio::join!(writing, bulk, failing) } => {}
    }
    check(&site, &mut recorders, &ordered).await;
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
        pass(Duration::from_millis(1500)).await;
    }
}

async fn check(site: &Site, recorders: &mut [Recorder], ordered: &[i64]) {
    let deployment = &site.deployment;
    site.ready().await;
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
async fn one_by_one(site: &mut Site, faults: impl IntoIterator<Item = (Fault, Duration)>) {
    for (fault, lasting) in faults {
        site.inject(fault).await;
        pass(lasting).await;
        site.heal().await;
        site.flows().await;
    }
}

#[tokio::test]
async fn readers_get_every_event_once_while_leaders_are_killed_repeatedly() {
    under_load(2, async |site| {
        for round in 0..4 {
            let killed = site.inject(Fault::KillLeader(round % SHARDS)).await;
            site.follows(round % SHARDS, &killed).await;
            site.flows().await;
            site.heal().await;
        }
    })
    .await;
}

#[tokio::test]
async fn readers_get_every_event_once_while_leaders_are_frozen_longer_than_their_lease() {
    under_load(2, async |site| {
        for shard in 0..SHARDS {
            let frozen = site.inject(Fault::FreezeLeader(shard)).await;
            site.follows(shard, &frozen).await;
            site.flows().await;
            site.heal().await;
        }
    })
    .await;
}

/// Returns a connection that breaks, one that stalls briefly, one that stalls longer than all timeouts, and a slow one.
fn broken_networks() -> [(Passing, Duration); 4] {
    let slow = Passing::Slowly(Duration::from_millis(60));
    [
        (Passing::Cut, Duration::from_secs(1)),
        (Passing::Held, Duration::from_millis(700)),
        (Passing::Held, Duration::from_secs(6)),
        (slow, Duration::from_secs(4)),
    ]
}

#[tokio::test]
async fn readers_get_every_event_once_over_a_broken_stalled_or_slow_broker_connection() {
    under_load(2, async |site| {
        let faults = broken_networks().map(|(passing, lasting)| (Fault::Broker(0, passing), lasting));
        one_by_one(site, faults).await;
    })
    .await;
}

#[tokio::test]
async fn readers_get_every_event_once_over_a_broken_stalled_or_slow_shard_connection() {
    under_load(2, async |site| {
        let faults = broken_networks().map(|(passing, lasting)| (Fault::Shard(1, passing), lasting));
        one_by_one(site, faults).await;
    })
    .await;
}

#[tokio::test]
async fn readers_get_every_event_once_while_the_broker_is_killed_and_restarted() {
    under_load(2, async |site| {
        let down = [0, 300, 2500].map(|millis| (Fault::KillBroker, Duration::from_millis(millis)));
        one_by_one(site, down).await;
    })
    .await;
}

#[tokio::test]
async fn readers_get_every_event_once_while_postgres_is_killed_and_restarted() {
    under_load(2, async |site| {
        let down = [0, 300, 2500].map(|millis| (Fault::KillPostgres, Duration::from_millis(millis)));
        one_by_one(site, down).await;
    })
    .await;
}

/// Injects one to three faults at a time, for a short time or for longer than the leases.
#[tokio::test]
async fn readers_get_every_event_once_through_random_faults() {
    under_load(3, async |site| {
        let (mut random, begun) = (random::seeded(RECORDERS), Instant::now());
        while begun.elapsed() < random::duration() {
            for _ in 0..=random::moment(&mut random, 2).as_millis() {
                site.inject(random::fault(&mut random)).await;
                pass(random::moment(&mut random, 1000)).await;
            }
            pass(random::moment(&mut random, 3500)).await;
            site.heal().await;
            pass(random::moment(&mut random, 1500)).await;
        }
    })
    .await;
}
