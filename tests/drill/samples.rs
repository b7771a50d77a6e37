//! Measurements during the drill: completed messages, lag of a reader, and the times of the steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use noetl_testkit::feed::Key;
use noetl_testkit::sleep_in_scenario;
use noetl_testkit::traffic::{EVENTS, Traffic};
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_millis(500);

/// A sample; times are seconds since the start.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub at: f64,
    /// Completed messages per second since the last sample.
    pub rate: f64,
    /// Age of the oldest completed message whose events the reader does not have yet, in seconds.
    pub lag: f64,
}

/// A step of the drill.
#[derive(Debug, Clone)]
pub struct Step {
    pub name: String,
    pub from: f64,
    pub to: f64,
}

pub struct Samples<'a> {
    traffic: &'a Traffic,
    delivered: Arc<Mutex<Vec<Key>>>,
    begun: Instant,
    taken: Mutex<Vec<Sample>>,
    steps: Mutex<Vec<Step>>,
}

impl<'a> Samples<'a> {
    pub fn new(traffic: &'a Traffic, delivered: Arc<Mutex<Vec<Key>>>) -> Self {
        Self { traffic, delivered, begun: Instant::now(), taken: Mutex::default(), steps: Mutex::default() }
    }

    fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Takes samples without end.
    pub async fn take(&self) {
        let (mut completed, mut read) = (0, 0);
        let mut missing: BTreeMap<i64, Instant> = BTreeMap::new();
        let mut events: BTreeMap<i64, usize> = BTreeMap::new();
        let mut last = self.now();
        loop {
            sleep_in_scenario(INTERVAL).await;
            let completions = self.traffic.completions(completed);
            let keys = self.delivered.lock().unwrap()[read..].to_vec();
            read += keys.len();
            for (execution, _) in keys {
                *events.entry(execution).or_default() += 1;
            }
            missing.extend(completions.iter().copied());
            missing.retain(|execution, _| events.get(execution).is_none_or(|count| *count < EVENTS));
            let at = self.now();
            let lag = missing.values().map(Instant::elapsed).max().unwrap_or_default().as_secs_f64();
            let rate = completions.len() as f64 / (at - last);
            self.taken.lock().unwrap().push(Sample { at, rate, lag });
            (last, completed) = (at, completed + completions.len());
        }
    }

    /// Carries out a step and notes its time.
    pub async fn step(&self, name: &str, step: impl Future<Output = ()>) {
        let from = self.now();
        eprintln!("{from:7.1} s: {name}");
        step.await;
        let to = self.now();
        self.steps.lock().unwrap().push(Step { name: name.to_owned(), from, to });
    }

    /// Returns the length of the drill, in seconds.
    pub fn seconds(&self) -> f64 {
        self.taken.lock().unwrap().last().map_or(0.0, |sample| sample.at)
    }

    pub fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap().clone()
    }

    pub fn samples(&self) -> Vec<Sample> {
        self.taken.lock().unwrap().clone()
    }

    /// Returns the longest time without a completed message that ended in a period, in seconds.
    pub fn longest_pause(&self, from: f64, to: f64) -> f64 {
        let at = |at: &Instant| at.duration_since(self.begun).as_secs_f64();
        let mut times: Vec<f64> = self.traffic.completions(0).iter().map(|(_, completed)| at(completed)).collect();
        times.sort_by(f64::total_cmp);
        let pauses = times.windows(2).filter(|pair| pair[1] >= from && pair[0] <= to).map(|pair| pair[1] - pair[0]);
        pauses.fold(0.0, f64::max)
    }
}
