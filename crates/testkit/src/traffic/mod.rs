//! Whole messages: a source executes a playbook with a dedup key, a worker claims the outbox row of the execution, or
//! reads it from the stream of the relay, reports the events of its steps, and settles the row. All clients repeat a
//! request until the server has carried it out, and vanish at random in the middle of one.
//!
//! [`Traffic::check`] compares the databases with what the clients were told: each message ran exactly once.

mod check;
mod client;
mod listener;
mod source;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::join_all;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use self::check::Databases;
pub use self::worker::EVENTS;

use self::client::Client;
use super::random::seeded;
use super::recorder::Addresses;
use super::{Server, outbox};

/// Path of the playbook that the messages run.
const PLAYBOOK: &str = "traffic/message";
/// Path of the source subscription.
const SOURCE: &str = "traffic/source";

/// Number of clients, and of messages that are under way.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Number of sources. Each starts one execution at a time.
    pub sources: u64,
    /// Number of workers. Each claims up to 16 rows at a time.
    pub workers: u64,
    /// Maximum number of executions that are started and not completed.
    pub in_flight: usize,
}

/// Settings of the replicas if workers claim the rows: the built-in relay is off.
pub const SETTINGS: [(&str, &str); 1] = [outbox::NO_RELAY];

/// Messages of one source subscription, and what their clients know.
pub struct Traffic {
    addresses: Addresses,
    seed: u64,
    size: Size,
    /// Brokers from which the workers read the rows. Without them, they claim the rows over the API.
    brokers: Vec<String>,
    /// Id of the source subscription, the parent of the executions.
    subscription: String,
    stopped: AtomicBool,
    /// Whether a source may still send a message.
    sending: AtomicBool,
    next: AtomicU64,
    /// Number of runs so far; each has other random generators.
    runs: AtomicU64,
    in_flight: Semaphore,
    /// Execution of each message, as the responses named it.
    started: Mutex<BTreeMap<u64, i64>>,
    /// Executions whose last event was stored, as the responses said.
    finished: Mutex<BTreeSet<i64>>,
    /// The same with the times of the responses, in their order.
    completions: Mutex<Vec<(i64, Instant)>>,
    /// Number of requests that were repeated, by the reason.
    repeated: Mutex<BTreeMap<String, u64>>,
}

impl Traffic {
    /// Registers the playbook and the source subscription. The clients use random ones of the addresses.
    pub async fn new(server: &Server, addresses: &Addresses, seed: u64, size: Size) -> Self {
        server.register_entry(PLAYBOOK, &json!({ "kind": "playbook", "workload": { "n": 0 } })).await;
        server.register_entry(SOURCE, &json!({ "kind": "subscription", "source": "webhook" })).await;
        let registered = server.register(SOURCE).await;
        let id = registered["subscription"]["id"].as_str().unwrap_or_else(|| panic!("{registered}"));
        server.transition("activate", id, None).await;
        Self {
            addresses: addresses.clone(),
            seed,
            size,
            brokers: Vec::new(),
            subscription: id.to_owned(),
            stopped: AtomicBool::new(false),
            sending: AtomicBool::new(false),
            next: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            in_flight: Semaphore::new(size.in_flight),
            started: Mutex::default(),
            finished: Mutex::default(),
            completions: Mutex::default(),
            repeated: Mutex::default(),
        }
    }

    /// Lets the workers read the rows that the relay publishes to these brokers.
    #[must_use]
    pub fn through_relay(self, brokers: Vec<String>) -> Self {
        Self { brokers, ..self }
    }

    /// Sends messages and works on them until [`Self::stop`] is called and all messages are completed.
    pub async fn run(&self) {
        self.stopped.store(false, Ordering::Relaxed);
        let run = self.next_run();
        let sources = (0..self.size.sources).map(|index| source::send(self, self.client(run, index)));
        self.work_beside(run, join_all(sources)).await;
    }

    /// Sends every message again, after databases were restored to earlier times, and works until all are completed.
    /// Forgets what responses said before; the restored databases show which executions are completed.
    pub async fn repeat(&self, databases: &Databases) {
        let (run, next) = (self.next_run(), AtomicU64::new(0));
        self.started.lock().unwrap().clear();
        *self.finished.lock().unwrap() = databases.settled().await;
        let sources = (0..self.size.sources).map(|index| source::repeat(self, self.client(run, index), &next));
        self.work_beside(run, join_all(sources)).await;
        // Each execution that was completed has given back a place that its message did not take.
        self.in_flight.forget_permits(self.in_flight.available_permits() - self.size.in_flight);
    }

    /// Runs the workers beside the sources of a run.
    async fn work_beside(&self, run: u64, sources: impl Future) {
        self.sending.store(true, Ordering::Relaxed);
        let sources = async {
            sources.await;
            self.sending.store(false, Ordering::Relaxed);
        };
        let workers = (0..self.size.workers).map(async |index| {
            let client = self.client(run, self.size.sources + index);
            if self.brokers.is_empty() {
                worker::work(self, index, client).await;
            } else {
                listener::work(self, client).await;
            }
        });
        tokio::join!(sources, join_all(workers));
    }

    fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a client of a run. Each has another random generator.
    fn client(&self, run: u64, index: u64) -> Client<'_> {
        let clients = self.size.sources + self.size.workers;
        Client::new(self, seeded(self.seed, 1000 + run * clients + index))
    }

    /// Ends [`Self::run`] after the messages that are under way.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns the execution of each message that was started.
    pub fn started(&self) -> BTreeMap<u64, i64> {
        self.started.lock().unwrap().clone()
    }

    /// Returns the number of messages that were started, and of those that were completed.
    pub fn counts(&self) -> (usize, usize) {
        (self.started.lock().unwrap().len(), self.finished.lock().unwrap().len())
    }

    /// Returns the executions that were completed after the first `known` ones, with the times.
    pub fn completions(&self, known: usize) -> Vec<(i64, Instant)> {
        self.completions.lock().unwrap()[known..].to_vec()
    }

    /// Returns the number of requests that were repeated, by the reason.
    pub fn repeated(&self) -> BTreeMap<String, u64> {
        self.repeated.lock().unwrap().clone()
    }

    fn note_repeated(&self, reason: &str) {
        *self.repeated.lock().unwrap().entry(reason.to_owned()).or_default() += 1;
    }

    /// Notes the execution of a message. All responses to the same message must name the same one.
    fn note_started(&self, message: u64, execution: i64) {
        let before = self.started.lock().unwrap().insert(message, execution);
        assert!(
            before.is_none_or(|before| before == execution),
            "message {message} runs as {before:?} and {execution}"
        );
    }

    fn note_finished(&self, execution: i64) {
        if self.finished.lock().unwrap().insert(execution) {
            self.completions.lock().unwrap().push((execution, Instant::now()));
            self.in_flight.add_permits(1);
        }
    }

    /// Returns whether no source sends any more, and all started executions are completed.
    fn all_finished(&self) -> bool {
        let (started, finished) = (self.started.lock().unwrap(), self.finished.lock().unwrap());
        !self.sending.load(Ordering::Relaxed) && started.values().all(|execution| finished.contains(execution))
    }
}
