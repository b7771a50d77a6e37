//! Soak test: whole messages run through a deployment in which everything fails at random. Each message runs exactly
//! once, each reader gets each event once and in order, and nothing is left behind at the end.
//!
//! The faults follow from the seed alone, so `NOETL_SOAK_SEED` repeats a run. `NOETL_SOAK_SECONDS` sets the time of the
//! faults. `make soak` runs for 20 minutes, with more traffic; `make test` runs the default, which is short.

mod faults;
mod histories;
mod site;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::levels::{Allowed, Levels};
use noetl_testkit::random::seeded;
use noetl_testkit::recorder::Recorder;
use noetl_testkit::traffic::{Size, Traffic};
use noetl_testkit::{setting, size, sleep_in_scenario};
use tokio::time::Instant;

use self::faults::{Round, schedule};
use self::site::{CONNECTIONS, REPLICAS, Site};

const SEED: u64 = 16;
const SECONDS: u64 = 12;
const RECORDERS: u64 = 3;
/// Traffic of `make test` and of `make soak`.
const SIZES: [Size; 2] =
    [Size { sources: 4, workers: 2, in_flight: 50 }, Size { sources: 8, workers: 4, in_flight: 200 }];
/// Messages before the first measurement, also for both. They open the connections, load the plans and fill the caches.
const WARM_UP: [usize; 2] = [100, 300];
/// Time without work before each measurement.
const QUIET: Duration = Duration::from_secs(5);
/// The server's caches of events (32 MiB for each of two shards) fill up to their bound, and the allocator keeps some of
/// the memory that a process used at its peak.
const MEMORY_MIB: i64 = 64 + 32;
/// The test's own clients keep idle connections to replicas.
const IDLE_CLIENTS: i64 = 8;

/// Prints how to repeat the run, and the faults in progress, if the test fails.
struct Progress {
    seed: u64,
    seconds: u64,
    current: Mutex<String>,
}

impl Progress {
    fn now(&self, what: String) {
        eprintln!("{what}");
        *self.current.lock().unwrap() = what;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, seconds, current } = self;
            let current = current.get_mut().unwrap_or_else(PoisonError::into_inner);
            eprintln!("repeat with NOETL_SOAK_SEED={seed} NOETL_SOAK_SECONDS={seconds}; in progress: {current}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_runs_once_and_nothing_is_left_behind_while_everything_fails_at_random() {
    let (seed, seconds) = (setting("NOETL_SOAK_SEED", SEED), setting("NOETL_SOAK_SECONDS", SECONDS));
    let progress = Progress { seed, seconds, current: Mutex::new("preparation".to_owned()) };
    eprintln!("NOETL_SOAK_SEED={seed} NOETL_SOAK_SECONDS={seconds}");
    let rounds = schedule(seed, Duration::from_secs(seconds));
    for (index, round) in rounds.iter().enumerate() {
        eprintln!("round {} of {}: {round}", index + 1, rounds.len());
    }
    // Restarts take time in addition to the faults. A run that hangs ends too.
    let limit = Duration::from_secs(seconds * 4 + 600);
    let run = Box::pin(soak(seed, &rounds, &progress));
    assert!(tokio::time::timeout(limit, run).await.is_ok(), "the run did not end within {limit:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_runs_once_while_the_database_gets_another_history_at_random() {
    let (seed, seconds) = (setting("NOETL_SOAK_SEED", SEED), setting("NOETL_SOAK_SECONDS", SECONDS));
    let progress = Progress { seed, seconds, current: Mutex::new("preparation".to_owned()) };
    eprintln!("NOETL_SOAK_SEED={seed} NOETL_SOAK_SECONDS={seconds}");
    let limit = Duration::from_secs(seconds * 2 + 600);
    let run = async {
        let mut site = histories::Site::start(seed).await;
        site.run(Duration::from_secs(seconds), |what| progress.now(what)).await;
        progress.now("final checks".to_owned());
        site.check().await;
    };
    assert!(tokio::time::timeout(limit, Box::pin(run)).await.is_ok(), "the run did not end within {limit:?}");
}

async fn soak(seed: u64, rounds: &[Round], progress: &Progress) {
    let mut site = Site::start().await;
    let traffic = Traffic::new(site.survivor(), &site.addresses, seed, size(SIZES[0], SIZES[1])).await;
    let warm_up = size(WARM_UP[0], WARM_UP[1]);
    let warmed_up = async {
        while traffic.counts().1 < warm_up {
            sleep_in_scenario(Duration::from_millis(100)).await;
        }
        traffic.stop();
    };
    progress.now("messages before the faults".to_owned());
    tokio::join!(traffic.run(), warmed_up);
    site.databases().until_at_rest().await;
    sleep_in_scenario(QUIET).await;
    let measured = site.measured();
    let began = Levels::measure(&measured).await;

    let mut recorders = Vec::new();
    for index in 0..RECORDERS {
        recorders.push(Recorder::open(&site.addresses, seeded(seed, 1 + index)).await);
    }
    let start = Instant::now();
    let failing = async {
        for (index, round) in rounds.iter().enumerate() {
            let (at, of, counts) = (start.elapsed().as_secs_f64(), rounds.len(), traffic.counts());
            progress.now(format!("{at:7.1} s, {counts:?} messages, round {} of {of}: {round}", index + 1));
            for fault in &round.faults {
                site.inject(*fault).await;
            }
            sleep_in_scenario(round.lasting).await;
            site.heal().await;
            sleep_in_scenario(round.pause).await;
        }
        progress.now(format!("{:7.1} s, all faults are healed", start.elapsed().as_secs_f64()));
        site.ready().await;
        traffic.stop();
    };
    tokio::select! {
        _ = join_all(recorders.iter_mut().map(Recorder::record)) => {}
        _ = async { tokio::join!(traffic.run(), failing) } => {}
    }

    progress.now("final checks".to_owned());
    site.databases().until_at_rest().await;
    let executions = traffic.check(&site.databases()).await;
    let committed = site.databases().committed().await;
    join_all(recorders.iter_mut().map(|recorder| recorder.record_until(&committed))).await;
    for recorder in recorders {
        recorder.check(&committed, &executions);
    }
    assert_eq!(site.databases().epochs().await, [1, 1], "a new epoch began although no event was lost");
    eprintln!("{} messages, {} events; repeated requests: {:?}", executions.len(), committed.len(), traffic.repeated());
    drop(traffic);
    site.only_live_leases().await;
    sleep_in_scenario(QUIET).await;
    let connections = i64::try_from(REPLICAS).unwrap() * CONNECTIONS;
    let allowed = Allowed { memory_mib: MEMORY_MIB, descriptors: IDLE_CLIENTS, connections };
    let ended = began.until_back_at(&measured, allowed).await;
    eprintln!("{}", ended.beside(&began));
    site.every_replica_stops().await;
}
