//! Recorders: readers that move between replicas with their last cursor and record every delivered item.

use std::collections::BTreeSet;
use std::time::Duration;

use noetl_testkit::feed::{Key, Reader, assert_in_order};
use noetl_testkit::{WAIT_TIMEOUT, sleep_in_scenario};
use proptest::prelude::RngExt;
use proptest::test_runner::TestRng;
use serde_json::{Value, json};

use super::deployment::Addresses;
use super::random;

/// Maximum silence of a working replica on a busy feed.
const SILENCE: Duration = Duration::from_secs(3);
/// Maximum number of events that a recorder reads before it moves to another replica.
const STAY: usize = 300;

pub struct Recorder {
    reader: Reader,
    addresses: Addresses,
    random: TestRng,
    gaps: Vec<Value>,
}

impl Recorder {
    /// Opens a recorder that starts with the oldest event.
    pub async fn open(addresses: &Addresses, index: u64) -> Self {
        let first = addresses.lock().unwrap()[0].clone();
        let reader = Reader::open_at(&first, json!({ "beginning": true }), Value::Null).await;
        Self { reader, addresses: addresses.clone(), random: random::seeded(index), gaps: Vec::new() }
    }

    /// Records without end.
    pub async fn record(&mut self) {
        loop {
            self.reconnect_to_random_replica().await;
            let stay = self.reader.seen.len() + self.random.random_range(1..=STAY);
            while self.reader.seen.len() < stay && self.step().await {}
        }
    }

    /// Records until all the given events were delivered.
    pub async fn record_until(&mut self, wanted: &BTreeSet<Key>) {
        let mut missing = wanted.clone();
        let mut known = 0;
        let record = async {
            loop {
                for key in &self.reader.seen[known..] {
                    missing.remove(key);
                }
                known = self.reader.seen.len();
                if missing.is_empty() {
                    return;
                }
                if !self.step().await {
                    self.reconnect_to_random_replica().await;
                }
            }
        };
        let outcome = tokio::time::timeout(WAIT_TIMEOUT, record).await;
        outcome
            .unwrap_or_else(|_| panic!("{} events were not delivered, such as {:?}", missing.len(), missing.first()));
    }

    /// Continues at a random replica.
    async fn reconnect_to_random_replica(&mut self) {
        loop {
            let addresses = self.addresses.lock().unwrap().clone();
            if !addresses.is_empty() {
                let url = &addresses[self.random.random_range(0..addresses.len())];
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
        }
        true
    }

    /// Panics unless each given event was delivered once, ordered logs were delivered in order, and there was no gap.
    pub fn check(&self, committed: &BTreeSet<Key>, ordered: &[i64]) {
        assert_eq!(self.gaps, [] as [Value; 0]);
        self.reader.assert_saw_exactly(committed);
        assert_in_order(&self.reader.seen, ordered.iter().copied());
    }
}
