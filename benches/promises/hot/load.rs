//! Closed loops: each caller sends its next call when the last one has ended. The sides of a comparison take turns, so
//! that a change of the machine's speed hits both.

use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt, join_all};

use super::processes::{Cpu, Processes};

/// A caller with its connection.
pub trait Caller: Send + 'static {
    /// Makes one call and returns the number of items that it carried out.
    fn call(&mut self) -> impl Future<Output = usize> + Send;
}

/// Callers of one side.
pub trait Callers: Send {
    /// Makes calls for a time. All callers make calls at the same time, each at least one.
    fn run(&mut self, time: Duration) -> BoxFuture<'_, Load>;
}

/// Calls of one measurement.
#[derive(Debug, Default)]
pub struct Load {
    pub items: usize,
    pub seconds: f64,
    /// Duration of each call in seconds.
    pub latencies: Vec<f64>,
    /// CPU time in seconds of a process that has ended; `None`: the process of the side still runs.
    pub cpu: Option<f64>,
}

impl<C: Caller> Callers for Vec<C> {
    fn run(&mut self, time: Duration) -> BoxFuture<'_, Load> {
        async move {
            let begun = Instant::now();
            let tasks = std::mem::take(self).into_iter().map(|mut caller| {
                tokio::spawn(async move {
                    let (mut items, mut latencies) = (0, Vec::new());
                    while latencies.is_empty() || begun.elapsed() < time {
                        let sent = Instant::now();
                        items += caller.call().await;
                        latencies.push(sent.elapsed().as_secs_f64());
                    }
                    (caller, items, latencies)
                })
            });
            let mut load = Load::default();
            for ended in join_all(tasks).await {
                let (caller, items, latencies) = ended.unwrap();
                self.push(caller);
                load.items += items;
                load.latencies.extend(latencies);
            }
            load.seconds = begun.elapsed().as_secs_f64();
            load
        }
        .boxed()
    }
}

/// One side of a comparison.
pub struct Side {
    /// Text that names the side in the report.
    pub name: &'static str,
    pub processes: Processes,
    pub callers: Box<dyn Callers>,
}

impl Side {
    pub fn new<C: Caller>(name: &'static str, processes: Processes, callers: Vec<C>) -> Self {
        Self { name, processes, callers: Box::new(callers) }
    }
}

/// Figures of one measurement of one side.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Items per second.
    pub rate: f64,
    /// Median and 99th percentile of the calls' durations in milliseconds.
    pub p50: f64,
    pub p99: f64,
    /// CPU time in microseconds per item.
    pub worker_cpu: f64,
    pub postgres_cpu: f64,
    pub client_cpu: f64,
}

impl Sample {
    fn new(mut load: Load, cpu: Cpu) -> Self {
        load.latencies.sort_by(f64::total_cmp);
        let quantile = |percent: usize| load.latencies[(load.latencies.len() - 1) * percent / 100] * 1000.0;
        let items = load.items as f64;
        Self {
            rate: items / load.seconds,
            p50: quantile(50),
            p99: quantile(99),
            worker_cpu: load.cpu.unwrap_or(cpu.worker) * 1e6 / items,
            postgres_cpu: cpu.postgres * 1e6 / items,
            client_cpu: cpu.client * 1e6 / items,
        }
    }
}

/// Number and duration of measurements.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub rounds: usize,
    pub time: Duration,
}

/// Measures each side once per round, after a warm-up of each. `prepare` runs before each measurement. Returns the name and
/// the samples of each side.
pub async fn in_turns(pace: Pace, sides: &mut [Side], prepare: impl AsyncFn()) -> Vec<(&'static str, Vec<Sample>)> {
    for side in &mut *sides {
        prepare().await;
        side.callers.run(pace.time / 5).await;
    }
    let mut measured: Vec<_> = sides.iter().map(|side| (side.name, Vec::new())).collect();
    for _ in 0..pace.rounds {
        for (side, (_, samples)) in sides.iter_mut().zip(&mut measured) {
            prepare().await;
            let before = side.processes.cpu();
            let load = side.callers.run(pace.time).await;
            samples.push(Sample::new(load, side.processes.cpu() - before));
        }
    }
    measured
}
