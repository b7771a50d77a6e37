//! Prometheus with the rules of deploy/monitoring. Their times are shortened, so that a night takes minutes.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use noetl_testkit::broker_cluster::free_ports;
use noetl_testkit::{eventually, repository, sleep_in_scenario};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Longest wait for an alert. The outbox is counted each minute, and the projector gives up after two minutes.
const LIMIT: Duration = Duration::from_mins(4);
/// Times of the rules, and those of this test. Gauges change at intervals of up to 5 s.
const TIMES: [(&str, &str); 16] = [
    ("for: 10m", "for: 6s"),
    ("for: 5m", "for: 6s"),
    ("for: 2m", "for: 4s"),
    ("for: 1m", "for: 4s"),
    ("[1d]", "[60s]"),
    ("[30m]", "[60s]"),
    ("[15m]", "[24s]"),
    ("[10m]", "[24s]"),
    ("[5m]", "[18s]"),
    ("[2m]", "[12s]"),
    ("[1m]", "[12s]"),
    ("> 600", "> 20"),
    ("offset 1d", "offset 60s"),
    ("offset 15m", "offset 24s"),
    ("offset 10m", "offset 24s"),
    ("offset 5m", "offset 18s"),
];

/// A Prometheus that scrapes the replicas. Dropping the value ends it.
pub struct Alerts {
    url: String,
    /// Every alert of the rules.
    pub names: BTreeSet<String>,
    /// Alerts that fired since the last call of [`Self::take_fired`].
    fired: Mutex<BTreeSet<String>>,
    _process: Child,
    _folder: TempDir,
}

impl Alerts {
    /// Starts Prometheus, and waits until it reaches every replica.
    pub async fn start(replicas: &[u16], token: &str) -> Self {
        let rules = fs::read_to_string(repository().join("deploy/monitoring/alerts.yml")).unwrap();
        let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("alerts.yml"), shortened(&rules)).unwrap();
        let targets: Vec<String> = replicas.iter().map(|port| format!("'127.0.0.1:{port}'")).collect();
        let configuration = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [alerts.yml]\n\
             scrape_configs:\n- job_name: noetl-graphql\n  authorization: {{ credentials: {token} }}\n  \
             static_configs: [{{ targets: [{}] }}]\n",
            targets.join(", ")
        );
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        let port = free_ports(1)[0];
        let mut prometheus = Command::new(repository().join(".noetl-tools/deploy/bin/prometheus"));
        prometheus.arg(format!("--config.file={}", file.display()));
        prometheus.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        prometheus.args([&format!("--web.listen-address=127.0.0.1:{port}"), "--log.level=error"]);
        let process =
            prometheus.stdin(Stdio::null()).kill_on_drop(true).spawn().expect("scripts/deploy-tools installs it");
        let url = format!("http://127.0.0.1:{port}");
        let alerts = Self { url, names, fired: Mutex::default(), _process: process, _folder: folder };
        eventually("Prometheus reaches the replicas", async || {
            let up = alerts.get("query?query=count(up==1)").await?;
            (up["data"]["result"][0]["value"][1].as_str()?.parse() == Ok(replicas.len())).then_some(())
        })
        .await;
        alerts.until_quiet(&[]).await;
        alerts.take_fired();
        alerts
    }

    async fn get(&self, path: &str) -> Option<Value> {
        reqwest::get(format!("{}/api/v1/{path}", self.url)).await.ok()?.json().await.ok()
    }

    /// Returns the alerts that fire now.
    async fn firing(&self) -> BTreeSet<String> {
        let found = self.get("alerts").await.unwrap_or_default();
        let alerts = found["data"]["alerts"].as_array().into_iter().flatten();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        let names: BTreeSet<_> =
            firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect();
        self.fired.lock().unwrap().extend(names.iter().cloned());
        names
    }

    /// Waits until each of these alerts has fired since the last call of [`Self::take_fired`].
    pub async fn until_fired(&self, wanted: &[&str]) {
        self.until(&format!("{wanted:?} fire"), |_| {
            let fired = self.fired.lock().unwrap();
            wanted.iter().all(|name| fired.contains(*name))
        })
        .await;
    }

    /// Waits until no alert fires, except these.
    pub async fn until_quiet(&self, except: &[&str]) {
        self.until("no alert fires", |firing| firing.iter().all(|name| except.contains(&name.as_str()))).await;
    }

    async fn until(&self, what: &str, holds: impl Fn(&BTreeSet<String>) -> bool) {
        let give_up = Instant::now() + LIMIT;
        loop {
            let firing = self.firing().await;
            if holds(&firing) {
                return;
            }
            let fired = self.fired.lock().unwrap().clone();
            assert!(Instant::now() < give_up, "timed out: {what}; now {firing:?}, before {fired:?}");
            sleep_in_scenario(Duration::from_millis(500)).await;
        }
    }

    /// Returns the alerts that fired since the last call.
    pub fn take_fired(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.fired.lock().unwrap())
    }
}

/// Returns the rules with the times of this test.
fn shortened(rules: &str) -> String {
    TIMES.iter().fold(rules.to_owned(), |rules, (long, short)| {
        assert!(rules.contains(long), "no rule has `{long}`");
        rules.replace(long, short)
    })
}
