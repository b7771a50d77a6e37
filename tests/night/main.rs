//! A night on call: everything that docs/runbook.md names is caused, one after the other, on a deployment with two replicas
//! and a Prometheus that has the rules of deploy/monitoring with shorter times. `make night` runs it, in about 25 minutes.
//!
//! Each step names the alerts that its fault must raise, and fails if one does not fire, or does not end after the fault.
//! While faults last, whole messages run and readers follow the events. After each of these steps, the databases, the
//! claims of the workers and the readers are compared: each message ran once, and each reader has each event once. A
//! line of the log with the same cause may come at most ten times in a step. At the end, each alert of the rules has fired.

mod alerts;
mod limits;
mod parts;
mod site;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::random::seeded;
use noetl_testkit::recorder::Recorder;
use noetl_testkit::sleep_in_scenario;
use noetl_testkit::traffic::{Size, Traffic};
use tokio::time::Instant;

use self::alerts::Alerts;
use self::site::{Site, causes};

const SEED: u64 = 16;
const RECORDERS: u64 = 2;
const SIZE: Size = Size { sources: 4, workers: 3, in_flight: 100 };
/// Parts of the night; arguments select some of them.
const PARTS: [&str; 9] =
    ["replicas", "databases", "sessions", "broker", "streams", "outbox", "projector", "callers", "others"];
/// Time limit of the night.
const LIMIT: Duration = Duration::from_hours(1);
/// Alert that the load raises: its workers vanish with their leases at random.
const BY_LOAD: [&str; 1] = ["NoetlOutboxLeasesExpire"];
/// Time without a fault at the beginning.
const CALM: Duration = Duration::from_secs(15);
/// Most lines of one cause in the log of one replica in a step.
const LINES: usize = 10;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let night = Box::pin(async {
        let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
        let mut night = Night::start().await;
        for part in PARTS {
            if !named.is_empty() && !named.iter().any(|name| name == part) {
                continue;
            }
            match part {
                "replicas" => parts::replicas(&mut night).await,
                "databases" => parts::databases(&mut night).await,
                "sessions" => parts::sessions(&mut night).await,
                "broker" => parts::broker(&mut night).await,
                "streams" => parts::streams(&mut night).await,
                "outbox" => limits::outbox(&mut night).await,
                "projector" => limits::projector(&mut night).await,
                "callers" => limits::callers(&mut night).await,
                _ => limits::others(&mut night).await,
            }
        }
        night.end(named.is_empty()).await;
    });
    assert!(tokio::time::timeout(LIMIT, night).await.is_ok(), "the night did not end within {LIMIT:?}");
}

struct Night {
    site: Site,
    alerts: Alerts,
    traffic: Traffic,
    recorders: Vec<Recorder>,
    /// Alerts that a step named.
    caused: BTreeSet<String>,
    began: Instant,
}

impl Night {
    async fn start() -> Self {
        let site = Site::start().await;
        let alerts = Alerts::start(&site.ports, &site.token).await;
        let traffic = Traffic::new(site.replica(0), &site.addresses, SEED, SIZE).await;
        let mut recorders = Vec::new();
        for index in 0..RECORDERS {
            recorders.push(Recorder::open(&site.addresses, seeded(SEED, 1 + index)).await);
        }
        let mut night = Self { site, alerts, traffic, recorders, caused: BTreeSet::new(), began: Instant::now() };
        let fired = night.loaded("nothing fails", &[], async |_| sleep_in_scenario(CALM).await, async |_| {}).await;
        assert!(fired.iter().all(|name| BY_LOAD.contains(&name.as_str())), "alerts without a fault: {fired:?}");
        night
    }

    /// Causes a fault under load until the alerts fire, ends it, and checks that each message ran once. Returns the alerts
    /// that fired.
    async fn loaded(
        &mut self,
        what: &str,
        wanted: &[&str],
        cause: impl AsyncFnOnce(&mut Site),
        end: impl AsyncFnOnce(&mut Site),
    ) -> BTreeSet<String> {
        let from = Instant::now();
        let Self { site, alerts, traffic, recorders, .. } = self;
        let failing = Box::pin(async {
            fault(site, alerts, wanted, &BY_LOAD, cause, end).await;
            traffic.stop();
        });
        let running = Box::pin(traffic.run());
        tokio::select! {
            _ = join_all(recorders.iter_mut().map(Recorder::record)) => {}
            _ = async { tokio::join!(running, failing) } => {}
        }
        let databases = self.site.databases();
        databases.until_at_rest().await;
        self.traffic.check(&databases).await;
        let committed = databases.committed().await;
        join_all(self.recorders.iter_mut().map(|recorder| recorder.record_until_kept(&committed))).await;
        self.ended(what, wanted, from)
    }

    /// Causes a fault without load until the alerts fire, and ends it.
    async fn quiet(
        &mut self,
        what: &str,
        wanted: &[&str],
        cause: impl AsyncFnOnce(&mut Site),
        end: impl AsyncFnOnce(&mut Site),
    ) {
        let from = Instant::now();
        fault(&mut self.site, &self.alerts, wanted, &[], cause, end).await;
        self.ended(what, wanted, from);
    }

    /// Checks the log of a step, and prints what it showed. Returns the alerts that fired.
    fn ended(&mut self, what: &str, wanted: &[&str], from: Instant) -> BTreeSet<String> {
        let seconds = from.elapsed().as_secs();
        println!("{what} ({seconds} s)");
        let fired = self.alerts.take_fired();
        println!("  alerts: {}", fired.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
        self.caused.extend(wanted.iter().map(|name| (*name).to_owned()));
        for (cause, count) in causes(&self.site.take_lines()) {
            println!("  {count} × {}", &cause[..cause.floor_char_boundary(240)]);
            assert!(count <= LINES, "{count} lines of one cause: {cause}");
        }
        fired
    }

    /// Checks that each alert was caused, if `all` parts ran, and that the replicas stop.
    async fn end(mut self, all: bool) {
        let missing: Vec<_> = self.alerts.names.difference(&self.caused).collect();
        assert!(!all || missing.is_empty(), "no step causes {missing:?}");
        self.site.stop().await;
        println!("{} alerts were caused in {} s", self.caused.len(), self.began.elapsed().as_secs());
    }
}

/// Causes a fault, waits until the alerts have fired, ends it, and waits until no alert fires, except `lasting` ones.
async fn fault(
    site: &mut Site,
    alerts: &Alerts,
    wanted: &[&str],
    lasting: &[&str],
    cause: impl AsyncFnOnce(&mut Site),
    end: impl AsyncFnOnce(&mut Site),
) {
    cause(site).await;
    alerts.until_fired(wanted).await;
    end(site).await;
    site.recover().await;
    alerts.until_quiet(lasting).await;
}
