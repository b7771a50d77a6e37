//! Figures of the benchmark, as tables and as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use noetl_testkit::Server;
use serde_json::{Value, json};

use crate::hot::load::Sample;
use crate::hot::processes::seconds;

/// Limit of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

#[derive(Debug)]
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    limit: Option<Limit>,
}

/// Median of several measurements, with the lowest and the highest one.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Self { median, low: values[0], high: values[values.len() - 1] }
    }

    fn json(self) -> Value {
        json!({ "median": self.median, "low": self.low, "high": self.high })
    }
}

/// Conditions of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    pub callers: usize,
    pub shards: usize,
    /// Whether Postgres writes its log to the disk before a commit ends.
    pub fsync: bool,
    /// Whether the server also publishes events, relays the outbox and advances projections.
    pub background: bool,
}

/// The product beside the same work done bare.
#[derive(Debug)]
pub struct Comparison {
    /// Part of the benchmark, such as `execute`.
    pub part: &'static str,
    pub work: String,
    /// Unit of the rates.
    pub unit: &'static str,
    pub conditions: Conditions,
    /// Limit of the ratio to the first bare side.
    pub ratio: Option<Limit>,
    /// Limit of the product's rate.
    pub rate: Option<Limit>,
}

#[derive(Debug)]
struct Compared {
    comparison: Comparison,
    /// Names and samples; the product comes first.
    sides: Vec<(&'static str, Vec<Sample>)>,
}

impl Compared {
    fn rates(&self, side: usize) -> impl Iterator<Item = f64> {
        self.sides[side].1.iter().map(|sample| sample.rate)
    }

    /// Returns the ratio of the product to another side: each measurement is compared with that of the same round.
    fn ratio(&self, side: usize) -> Spread {
        Spread::of(self.rates(0).zip(self.rates(side)).map(|(product, bare)| product / bare))
    }

    fn print(&self) {
        let Comparison { work, unit, conditions, .. } = &self.comparison;
        let Conditions { callers, shards, fsync, background } = conditions;
        let (fsync, background) = (if *fsync { "on" } else { "off" }, if *background { "on" } else { "off" });
        println!("{work}: {callers} callers, {shards} shards, fsync {fsync}, background work {background}");
        for (index, (name, samples)) in self.sides.iter().enumerate() {
            let Spread { median, low, high } = Spread::of(self.rates(index));
            let of = |field: fn(&Sample) -> f64| Spread::of(samples.iter().map(field)).median;
            let times = format!("p50 {:.2} ms, p99 {:.2} ms", of(|one| one.p50), of(|one| one.p99));
            let cpu = format!(
                "CPU µs each: itself {:.0}, Postgres {:.0}, client {:.0}",
                of(|one| one.worker_cpu),
                of(|one| one.postgres_cpu),
                of(|one| one.client_cpu)
            );
            let ratio = match index {
                0 => kept(self.comparison.rate, median),
                1 => {
                    format!("; product: {}{}", shown(self.ratio(1)), kept(self.comparison.ratio, self.ratio(1).median))
                }
                _ => format!("; product: {}", shown(self.ratio(index))),
            };
            println!("    {name}: {median:.0} {unit} ({low:.0} to {high:.0}); {times}; {cpu}{ratio}");
        }
    }

    fn json(&self) -> Value {
        let Comparison { part, work, unit, conditions, ratio, rate } = &self.comparison;
        let Conditions { callers, shards, fsync, background } = conditions;
        let side = |index: usize| {
            let (name, samples) = &self.sides[index];
            let of = |field: fn(&Sample) -> f64| Spread::of(samples.iter().map(field)).json();
            json!({
                "name": name,
                "rate": of(|one| one.rate),
                "p50Millis": of(|one| one.p50),
                "p99Millis": of(|one| one.p99),
                "cpuMicros": of(|one| one.worker_cpu),
                "productRatio": self.ratio(index).json(),
            })
        };
        json!({
            "part": part, "work": work, "unit": unit,
            "callers": callers, "shards": shards, "fsync": fsync, "background": background,
            "ratioLimit": ratio.map(Limit::text), "rateLimit": rate.map(Limit::text),
            "sides": (0..self.sides.len()).map(side).collect::<Vec<Value>>(),
        })
    }
}

fn shown(ratio: Spread) -> String {
    format!("{:.2} of it ({:.2} to {:.2})", ratio.median, ratio.low, ratio.high)
}

fn kept(limit: Option<Limit>, value: f64) -> String {
    limit.map_or(String::new(), |limit| {
        format!(" [{}: {}]", limit.text(), if limit.holds(value) { "yes" } else { "NO" })
    })
}

impl Limit {
    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("at most {most}"),
            Self::AtLeast(least) => format!("at least {least}"),
        }
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

/// Point of a plot.
#[derive(Debug, Clone)]
pub struct Point {
    /// Name of the plot.
    pub plot: &'static str,
    pub series: &'static str,
    pub x: f64,
    pub unit: &'static str,
    pub y: Spread,
}

impl Point {
    fn json(&self) -> Value {
        json!({ "plot": self.plot, "series": self.series, "x": self.x, "unit": self.unit, "y": self.y.json() })
    }
}

#[derive(Debug, Default)]
pub struct Report {
    figures: Vec<Figure>,
    compared: Vec<Compared>,
    points: Vec<Point>,
    machines: BTreeMap<&'static str, String>,
}

impl Report {
    pub fn figure(&mut self, name: &str, value: f64, unit: &'static str, limit: Option<Limit>) {
        self.figures.push(Figure { name: name.to_owned(), value, unit, limit });
    }

    /// Adds a comparison and prints it at once. `sides` has the names and the samples; the product comes first.
    pub fn compared(&mut self, comparison: Comparison, sides: Vec<(&'static str, Vec<Sample>)>) {
        let compared = Compared { comparison, sides };
        compared.print();
        self.compared.push(compared);
    }

    /// Adds a point of a plot and prints it at once.
    pub fn point(&mut self, point: Point) {
        let Point { plot, series, x, unit, y } = &point;
        println!("{plot}, {series}: at {x} {:.2} {unit} ({:.2} to {:.2})", y.median, y.low, y.high);
        self.points.push(point);
    }

    /// Notes the machine on which a part was measured, and its state.
    pub fn machine(&mut self, part: &'static str, text: &str) {
        self.machines.insert(part, text.to_owned());
    }

    /// Adds the quantiles p50 and p99 of durations in seconds, as milliseconds.
    pub fn quantiles(&mut self, name: &str, mut seconds: Vec<f64>, limits: Option<(f64, f64)>) {
        let p50 = quantile(&mut seconds, 50) * 1000.0;
        let p99 = quantile(&mut seconds, 99) * 1000.0;
        self.figure(&format!("{name}: p50"), p50, "ms", limits.map(|(p50, _)| Limit::AtMost(p50)));
        self.figure(&format!("{name}: p99"), p99, "ms", limits.map(|(_, p99)| Limit::AtMost(p99)));
    }

    /// Prints the table of single figures and writes the JSON of all.
    pub fn print(&self) {
        println!("| measure | value | unit | limit | kept |\n|---|---:|---|---|---|");
        for Figure { name, value, unit, limit } in &self.figures {
            let kept = limit.map_or("", |limit| if limit.holds(*value) { "yes" } else { "NO" });
            println!("| {name} | {value:.2} | {unit} | {} | {kept} |", limit.map_or(String::new(), Limit::text));
        }
        let figure = |Figure { name, value, unit, limit }: &Figure| json!({ "name": name, "value": value, "unit": unit, "limit": limit.map(Limit::text) });
        let document = json!({
            "figures": self.figures.iter().map(figure).collect::<Vec<Value>>(),
            "comparisons": self.compared.iter().map(Compared::json).collect::<Vec<Value>>(),
            "points": self.points.iter().map(Point::json).collect::<Vec<Value>>(),
            "machines": self.machines,
        });
        std::fs::write(target().join("bench.json"), serde_json::to_string_pretty(&document).unwrap()).unwrap();
    }
}

/// Returns the folder of the build, into which the benchmark writes its files.
pub fn target() -> PathBuf {
    std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned()).into()
}

/// Returns a quantile in percent. Sorts the values.
pub fn quantile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}

/// Returns the resident memory of a server's process in MiB (Linux).
pub fn resident_mib(server: &Server) -> f64 {
    memory_mib(server, "VmRSS:")
}

/// Returns the peak of the resident memory since the last [`reset_peak`], in MiB (Linux).
pub fn peak_mib(server: &Server) -> f64 {
    memory_mib(server, "VmHWM:")
}

/// Resets the peak of the resident memory.
pub fn reset_peak(server: &Server) {
    std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
}

/// Returns the CPU time that a server's process has used, in seconds (Linux).
pub fn cpu_seconds(server: &Server) -> f64 {
    seconds(server.pid(), false)
}

fn memory_mib(server: &Server, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}
