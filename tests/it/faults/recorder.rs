//! Recorders: readers that wander from replica to replica with their last cursor, and remember all that they were told.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::RngExt;
use proptest::test_runner::TestRng;
use serde_json::{Value, json};

use super::random;
use super::site::Addresses;
use crate::common::feed::{Key, Reader, assert_in_order};
use crate::common::{PATIENCE, pass};

/// Longer than a replica that works stays silent on a busy feed.
const SILENCE: Duration = Duration::from_secs(3);
/// Events after which a recorder goes elsewhere, at most.
const STAY: usize = 300;

pub struct Recorder {
    reader: Reader,
    addresses: Addresses,
    random: TestRng,
    gaps: Vec<Value>,
}

impl Recorder {
    /// One that begins with the oldest event, somewhere.
    pub async fn open(addresses: &Addresses, index: u64) -> Self {
        let first = addresses.lock().unwrap()[0].clone();
        let reader = Reader::open_at(&first, json!({ "beginning": true }), Value::Null).await;
        Self { reader, addresses: addresses.clone(), random: random::seeded(index), gaps: Vec::new() }
    }

    /// Records without end.
    pub async fn record(&mut self) {
        loop {
            self.wander().await;
            let stay = self.reader.seen.len() + self.random.random_range(1..=STAY);
            while self.reader.seen.len() < stay && self.step().await {}
        }
    }

    /// Records until all of these were delivered.
    pub async fn record_until(&mut self, wanted: &BTreeSet<Key>) {
        let record = async {
            while !wanted.is_subset(&self.reader.seen.iter().copied().collect()) {
                self.wander().await;
                while self.reader.seen.len() < wanted.len() && self.step().await {}
            }
        };
        if tokio::time::timeout(PATIENCE, record).await.is_err() {
            let seen = self.reader.seen.iter().copied().collect();
            let missing: Vec<_> = wanted.difference(&seen).collect();
            panic!("{} events never came, such as {:?}", missing.len(), missing.first());
        }
    }

    /// Goes on at some replica.
    async fn wander(&mut self) {
        loop {
            let addresses = self.addresses.lock().unwrap().clone();
            if !addresses.is_empty() {
                let url = &addresses[self.random.random_range(0..addresses.len())];
                if let Ok(true) = tokio::time::timeout(SILENCE, self.reader.try_reconnect(url)).await {
                    return;
                }
            }
            pass(Duration::from_millis(50)).await;
        }
    }

    /// Reads one item. `false`: there is nothing more to be had here.
    async fn step(&mut self) -> bool {
        let Ok(Some(item)) = tokio::time::timeout(SILENCE, self.reader.step_while_it_lasts()).await else {
            return false;
        };
        if item["__typename"] == "StreamGap" {
            self.gaps.push(item);
        }
        true
    }

    /// Fails unless each of these was delivered once, logs that were written in order in that order, and nothing was said
    /// to be missing.
    pub fn check(&self, committed: &BTreeSet<Key>, ordered: &[i64]) {
        assert_eq!(self.gaps, [] as [Value; 0]);
        self.reader.assert_saw_exactly(committed);
        assert_in_order(&self.reader.seen, ordered.iter().copied());
    }
}
