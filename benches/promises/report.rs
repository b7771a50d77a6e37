//! Figures of the benchmark, as a table and as JSON.

use noetl_testkit::Server;
use serde_json::json;

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

#[derive(Debug, Default)]
pub struct Report(Vec<Figure>);

impl Report {
    pub fn figure(&mut self, name: &str, value: f64, unit: &'static str, limit: Option<Limit>) {
        self.0.push(Figure { name: name.to_owned(), value, unit, limit });
    }

    /// Adds the quantiles p50 and p99 of durations in seconds, as milliseconds.
    pub fn quantiles(&mut self, name: &str, mut seconds: Vec<f64>, limits: Option<(f64, f64)>) {
        let p50 = quantile(&mut seconds, 50) * 1000.0;
        let p99 = quantile(&mut seconds, 99) * 1000.0;
        self.figure(&format!("{name}: p50"), p50, "ms", limits.map(|(p50, _)| Limit::AtMost(p50)));
        self.figure(&format!("{name}: p99"), p99, "ms", limits.map(|(_, p99)| Limit::AtMost(p99)));
    }

    /// Prints the table and writes the JSON.
    pub fn print(&self) {
        println!("| measure | value | unit | limit | kept |\n|---|---:|---|---|---|");
        for Figure { name, value, unit, limit } in &self.0 {
            let (said, kept) = match limit {
                None => (String::new(), ""),
                Some(Limit::AtMost(most)) => (format!("at most {most}"), if value <= most { "yes" } else { "NO" }),
                Some(Limit::AtLeast(least)) => (format!("at least {least}"), if value >= least { "yes" } else { "NO" }),
            };
            println!("| {name} | {value:.2} | {unit} | {said} | {kept} |");
        }
        let figures: Vec<_> = self
            .0
            .iter()
            .map(|figure| json!({ "name": figure.name, "value": figure.value, "unit": figure.unit }))
            .collect();
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
        std::fs::write(format!("{target}/bench.json"), serde_json::to_string_pretty(&figures).unwrap()).unwrap();
    }
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
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn memory_mib(server: &Server, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}
