//! Recorders: readers that move between replicas with their last cursor and record every delivered item.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::feed::{Key, Reader};
use super::random::{Random, below, index};
use super::{WAIT_TIMEOUT, sleep_in_scenario};

/// Addresses of the replicas that can be used, which change as replicas end and start.
pub type Addresses = Arc<Mutex<Vec<String>>>;

/// Maximum silence of a working replica on a busy feed.
const SILENCE: Duration = Duration::from_secs(3);
/// Maximum number of events that a recorder reads before it moves to another replica.
const STAY: u64 = 300;

/// A reader that vanishes from a replica without a goodbye and continues on another one, again and again.
pub struct Recorder {
    reader: Reader,
    addresses: Addresses,
    random: Random,
    gaps: Vec<Value>,
    delivered: Arc<Mutex<Vec<Key>>>,
}

impl Recorder {
    /// Opens a recorder that starts with the oldest event.
    pub async fn open(addresses: &Addresses, random: Random) -> Self {
        let first = addresses.lock().unwrap()[0].clone();
        let reader = Reader::open_at(&first, json!({ "beginning": true }), Value::Null).await;
        Self { reader, addresses: addresses.clone(), random, gaps: Vec::new(), delivered: Arc::default() }
    }

    /// Records without end.
    pub async fn record(&mut self) {
        loop {
            self.reconnect_to_random_replica().await;
            let stay = self.reader.seen.len() as u64 + 1 + below(&mut self.random, STAY);
            while (self.reader.seen.len() as u64) < stay && self.step().await {}
        }
    }

    /// Records until all the given events were delivered. Fails if no further event is delivered for
    /// [`WAIT_TIMEOUT`].
    pub async fn record_until(&mut self, wanted: &BTreeSet<Key>) {
        let mut missing = wanted.clone();
        let mut known = 0;
        let mut give_up = tokio::time::Instant::now() + WAIT_TIMEOUT;
        loop {
            for key in &self.reader.seen[known..] {
                missing.remove(key);
                give_up = tokio::time::Instant::now() + WAIT_TIMEOUT;
            }
            known = self.reader.seen.len();
            if missing.is_empty() {
                return;
            }
            let late = tokio::time::Instant::now() > give_up;
            assert!(!late, "{} events were not delivered, such as {:?}", missing.len(), missing.first());
            if !self.step().await {
                self.reconnect_to_random_replica().await;
            }
        }
    }

    /// Records until a client that handles the gaps of new epochs has exactly the given events. Fails if it has one twice,
    /// or if it lacks some after [`WAIT_TIMEOUT`].
    pub async fn record_until_kept(&mut self, committed: &BTreeSet<Key>) {
        let give_up = tokio::time::Instant::now() + WAIT_TIMEOUT;
        while !self.reader.keeps(committed) && tokio::time::Instant::now() < give_up {
            if !self.step().await {
                self.reconnect_to_random_replica().await;
            }
        }
        self.reader.assert_kept_exactly(committed);
    }

    /// Returns the events that were delivered since the recorder was opened, to watch them while it records.
    pub fn delivered(&self) -> Arc<Mutex<Vec<Key>>> {
        Arc::clone(&self.delivered)
    }

    /// Continues at a random replica.
    async fn reconnect_to_random_replica(&mut self) {
        loop {
            let addresses = self.addresses.lock().unwrap().clone();
            if !addresses.is_empty() {
                let url = &addresses[index(&mut self.random, addresses.len())];
                if let Ok(true) = tokio::time::timeout(SILENCE, self.reader.try_reconnect(url)).await {
                    return;
                }
            }
            sleep_in_scenario(Duration::from_millis(50)).await;
        }
    }

    /// Reads one item. Returns `false` if this replica delivers no more items.
    async fn step(&mut self) -> bool {
        let Ok(Some(item)) = tokio::time::timeout(SILENCE, self.reader.step_allowing_unavailable()).await else {
            return false;
        };
        if item["__typename"] == "StreamGap" {
            self.gaps.push(item);
        } else if item["__typename"] == "EventDelivery" {
            self.delivered.lock().unwrap().extend(self.reader.seen.last());
        }
        true
    }

    /// Panics unless each given event was delivered once, the events of each log in `ordered` were delivered in the
    /// order of their ids, and there was no gap.
    pub fn check(&self, committed: &BTreeSet<Key>, ordered: &BTreeSet<i64>) {
        assert_eq!(self.gaps, [] as [Value; 0]);
        self.reader.assert_saw_exactly(committed);
        let mut last = BTreeMap::new();
        for (log, event) in self.reader.seen.iter().filter(|key| ordered.contains(&key.0)) {
            let before = last.insert(log, event);
            assert!(before.is_none_or(|before| before < event), "log {log}: {event} was delivered after {before:?}");
        }
    }
}
