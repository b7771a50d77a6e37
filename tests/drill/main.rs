//! Scale drill: a whole deployment on loopback is upgraded and rolled back, and loses one of each of its parts, under the
//! load of whole messages. It runs twice: first workers read the rows from the stream of the relay, then they claim them
//! over the API. At the end each message ran once, each reader got each event once, and nothing is left over.
//! `make drill` runs it. The report goes to docs/drill.md and docs/drill/timeline.svg.
//!
//! `NOETL_PREVIOUS_BIN` names the program of the previous version, with which the deployment begins; `scripts/drill`
//! builds it. `NOETL_DRILL_SEED` and `NOETL_DRILL_CALM_SECONDS` change the load.

mod database;
mod report;
mod samples;
mod site;

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::broker_cluster::BROKERS;
use noetl_testkit::random::seeded;
use noetl_testkit::recorder::Recorder;
use noetl_testkit::traffic::{Size, Traffic};
use noetl_testkit::{eventually, setting, sleep_in_scenario};

use self::report::{Outcome, Programs, Report};
use self::samples::Samples;
use self::site::{DATABASES, REPLICAS, Site};

const RECORDERS: u64 = 3;
const SIZE: Size = Size { sources: 8, workers: 4, in_flight: 200 };
/// Time that a lost part stays away.
const AWAY: Duration = Duration::from_secs(4);
/// Time limit of both drills.
const LIMIT: Duration = Duration::from_mins(30);

#[tokio::main(worker_threads = 2)]
async fn main() {
    let previous = std::env::var_os("NOETL_PREVIOUS_BIN").expect("NOETL_PREVIOUS_BIN names the previous program");
    let previous = PathBuf::from(previous);
    let drills = async {
        let relayed = Box::pin(drill(&previous, true, |_, _, outcome| outcome)).await;
        Box::pin(drill(&previous, false, |samples, programs, outcome| {
            Report { outcome, relayed, programs, samples }.write();
        }))
        .await;
    };
    assert!(tokio::time::timeout(LIMIT, drills).await.is_ok(), "the drills did not end within {LIMIT:?}");
}

/// Runs all steps, checks the promises, and returns what `report` makes of the result.
async fn drill<T>(previous: &Path, relay: bool, report: impl FnOnce(&Samples<'_>, Programs, Outcome) -> T) -> T {
    let seed = setting("NOETL_DRILL_SEED", 16);
    let mut site = Site::start(previous.to_owned(), relay).await;
    let mut traffic = Traffic::new(site.replica(0), &site.addresses, seed, SIZE).await;
    if relay {
        traffic = traffic.through_relay(site.brokers.urls());
    }
    let mut recorders = Vec::new();
    for index in 0..RECORDERS {
        recorders.push(Recorder::open(&site.addresses, seeded(seed, 1 + index)).await);
    }
    let samples = Samples::new(&traffic, recorders[0].delivered());
    let steps = async {
        run_steps(&mut site, &traffic, &samples).await;
        traffic.stop();
    };
    tokio::select! {
        _ = join_all(recorders.iter_mut().map(Recorder::record)) => {}
        () = samples.take() => {}
        _ = async { tokio::join!(traffic.run(), steps) } => {}
    }

    site.databases().until_at_rest().await;
    let executions = traffic.check(&site.databases()).await;
    let committed = site.databases().committed().await;
    join_all(recorders.iter_mut().map(|recorder| recorder.record_until(&committed))).await;
    for recorder in recorders {
        recorder.check(&committed, &executions);
    }
    assert_eq!(site.databases().epochs().await, [1; DATABASES], "a new epoch began although no event was lost");
    let outcome = Outcome {
        seconds: samples.seconds(),
        messages: executions.len(),
        events: committed.len(),
        readers: RECORDERS,
        repeated: traffic.repeated(),
    };
    let programs = site.programs().await;
    site.stop().await;
    report(&samples, programs, outcome)
}

async fn run_steps(site: &mut Site, traffic: &Traffic, samples: &Samples<'_>) {
    calm(traffic).await;
    samples.step("migrate of the new version changes the schema", site.migrate()).await;
    calm(traffic).await;
    for index in 0..REPLICAS {
        samples.step(&format!("replica {index} is replaced by the new version"), site.replace(index, true)).await;
    }
    calm(traffic).await;
    samples.step("replica 2 goes back to the previous version", site.replace(2, false)).await;
    calm(traffic).await;
    samples.step("replica 2 is replaced by the new version again", site.replace(2, true)).await;
    calm(traffic).await;
    samples
        .step("a replica is killed, and starts again", async {
            site.kill_replica(0).await;
            sleep_in_scenario(AWAY).await;
            site.start_replica(0).await;
        })
        .await;
    calm(traffic).await;
    let leader = site.brokers.leader("noetl_events").await;
    samples
        .step("the NATS server that leads a stream is killed, and starts again", async {
            site.brokers.kill(leader).await;
            sleep_in_scenario(AWAY).await;
            site.brokers.restart(leader);
            site.brokers.stream("noetl_events", BROKERS - 1).await;
        })
        .await;
    calm(traffic).await;
    for index in 0..DATABASES {
        let name = ["the cluster database and shard 0", "shard 1", "shard 2"][index];
        samples.step(&format!("PostgreSQL of {name} is killed; its standby is promoted"), site.fail_over(index)).await;
        samples.step(&format!("{name} gets a new standby"), site.add_standby(index)).await;
        calm(traffic).await;
    }
    samples
        .step("the load balancer is killed, and starts again", async {
            site.kill_balancer().await;
            sleep_in_scenario(AWAY).await;
            site.start_balancer();
        })
        .await;
    calm(traffic).await;
}

/// Waits until messages are completed again, and for some seconds more.
async fn calm(traffic: &Traffic) {
    let before = traffic.counts().1;
    eventually("messages are completed", async || (traffic.counts().1 > before + SIZE.in_flight).then_some(())).await;
    sleep_in_scenario(Duration::from_secs(setting("NOETL_DRILL_CALM_SECONDS", 6))).await;
}
