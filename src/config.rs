//! Settings: the environment first, under it an optional TOML file (`NOETL_CONFIG`) with the same names in lower case
//! and without `NOETL_`. The only reader of the environment. Everything that is wrong is reported at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use async_nats::ServerAddr;
use sqlx::postgres::PgConnectOptions;

use crate::domain::ids::MAX_MACHINE_ID;
use crate::domain::shard::BUCKETS;
use crate::stream::publisher::StreamSettings;
use crate::stream::tailer::TailSettings;

/// Every setting there is, as the environment names it.
const NAMES: &[&str] = &[
    "NOETL_HOST",
    "NOETL_PORT",
    "NOETL_CLUSTER_DSN",
    "NOETL_SHARDS",
    "NOETL_POOL_SIZE",
    "NOETL_NATS_URL",
    "NOETL_SERVER_MACHINE_ID",
    "NOETL_EVENT_STREAM_ENABLED",
    "NOETL_EVENT_STREAM_BATCH",
    "NOETL_EVENT_STREAM_POLL_MS",
    "NOETL_EVENT_STREAM_BACKFILL",
    "NOETL_EVENT_STREAM_DEDUP_SECS",
    "NOETL_EVENT_STREAM_RETENTION_SECS",
    "NOETL_EVENT_STREAM_REPLICAS",
    "NOETL_PROJECTOR",
    "NOETL_EVENT_RETENTION_DAYS",
    "NOETL_OUTBOX_RELAY",
    "NOETL_OUTBOX_RETENTION_SECS",
    "NOETL_LOG",
    "NOETL_LOG_FORMAT",
    "NOETL_ALLOWED_HOSTS",
    "NOETL_ALLOWED_ORIGINS",
    "NOETL_FAULT_POINT",
    "NOETL_PG_BIN",
];

/// The settings of one process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub host: IpAddr,
    /// 0 picks a free one.
    pub port: u16,
    /// The host names that requests may be addressed to, without ports; empty for any.
    pub allowed_hosts: Vec<String>,
    /// Origins of other sites whose pages may use this server, such as `https://console.example.org`.
    pub allowed_origins: Vec<String>,
    /// The databases; `None` where the command starts its own.
    pub databases: Option<DatabaseSettings>,
    /// Connections per pool.
    pub pool_size: u32,
    /// The brokers of one cluster; none: there is no broker.
    pub brokers: Vec<ServerAddr>,
    /// A machine id to insist on.
    pub machine_id: Option<u16>,
    /// How events are published; `None`: not by this replica.
    pub event_stream: Option<TailSettings>,
    /// Whether this replica keeps executions' snapshots current.
    pub projector: bool,
    /// How many days events are kept in the databases; `None`: for ever.
    pub event_retention_days: Option<u32>,
    /// Whether this replica delivers outbox rows to the broker.
    pub outbox_relay: bool,
    /// For how long delivered outbox rows are kept.
    pub outbox_retention: Duration,
    /// Where `dev` finds PostgreSQL's server programs, if not where they usually are.
    pub pg_bin: Option<PathBuf>,
    /// Where a test stops the process.
    pub fault_point: Option<String>,
}

/// Where the databases are.
#[derive(Debug, Clone)]
pub struct DatabaseSettings {
    /// The cluster database.
    pub cluster: PgConnectOptions,
    /// By shard index; empty: the cluster database is the only shard.
    pub shards: Vec<PgConnectOptions>,
}

/// How the process logs.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// A filter such as `info,noetl_graphql=debug`.
    pub filter: String,
    /// One JSON object a line rather than text.
    pub json: bool,
}

/// Settings that can't be used, each with what to do about it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration can't be used:\n  - {}", .0.join("\n  - "))]
pub struct ConfigError(pub Vec<String>);

/// What a command needs to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Databases and a broker.
    Servers,
    /// Databases.
    Databases,
    /// Nothing: it starts its own.
    Nothing,
}

/// Raw settings by name; the environment's win over the file's.
#[derive(Debug, Clone, Default)]
pub struct Sources(BTreeMap<String, String>);

impl Sources {
    /// Reads the environment, and the file that `NOETL_CONFIG` names.
    #[expect(clippy::disallowed_methods, reason = "the one reader of the environment")]
    pub fn read() -> Result<Self, ConfigError> {
        let mut values = match std::env::var("NOETL_CONFIG") {
            Ok(path) => read_file(&path)?,
            Err(_) => BTreeMap::new(),
        };
        values.extend(std::env::vars().filter(|(name, _)| NAMES.contains(&name.as_str())));
        Ok(Self(values))
    }

    /// The same settings with some replaced.
    #[must_use]
    pub fn with<'a>(mut self, replaced: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        self.0.extend(replaced.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// How to log; needed before anything else can be reported.
    #[must_use]
    pub fn log(&self) -> LogSettings {
        LogSettings {
            filter: self.text("NOETL_LOG").unwrap_or("info,sqlx=warn,async_nats=warn").to_owned(),
            json: self.text("NOETL_LOG_FORMAT").is_some_and(|format| format.eq_ignore_ascii_case("json")),
        }
    }

    /// Checks everything.
    pub fn check(&self, needs: Needs) -> Result<Config, ConfigError> {
        let mut read = Reader { sources: self, problems: Vec::new() };
        let publishes = read.flag("NOETL_EVENT_STREAM_ENABLED", true);
        let event_stream = read.event_stream();
        let config = Config {
            host: read.parsed("NOETL_HOST", IpAddr::from([127, 0, 0, 1]), "an IP address, such as 127.0.0.1"),
            port: read.parsed("NOETL_PORT", 8082, "a port from 0 to 65535"),
            allowed_hosts: self.list("NOETL_ALLOWED_HOSTS"),
            allowed_origins: self.list("NOETL_ALLOWED_ORIGINS"),
            databases: read.databases(needs != Needs::Nothing),
            pool_size: read.within("NOETL_POOL_SIZE", 16, 2, 500),
            brokers: read.brokers(needs == Needs::Servers && (publishes || self.asks_to_relay())),
            machine_id: read.machine_id(),
            event_stream: publishes.then_some(event_stream),
            projector: read.flag("NOETL_PROJECTOR", true),
            event_retention_days: read.event_retention_days(),
            outbox_relay: read.flag("NOETL_OUTBOX_RELAY", true),
            outbox_retention: Duration::from_secs(read.within(
                "NOETL_OUTBOX_RETENTION_SECS",
                86_400,
                1,
                u32::MAX.into(),
            )),
            pg_bin: self.text("NOETL_PG_BIN").map(PathBuf::from),
            fault_point: self.text("NOETL_FAULT_POINT").map(str::to_owned),
        };
        if read.problems.is_empty() { Ok(config) } else { Err(ConfigError(read.problems)) }
    }

    /// Whether relaying was turned on; left to its default, it is off where there is no broker.
    fn asks_to_relay(&self) -> bool {
        let mut read = Reader { sources: self, problems: Vec::new() };
        read.flag("NOETL_OUTBOX_RELAY", false)
    }

    /// A comma-separated setting; empty parts count as absent.
    fn list(&self, name: &str) -> Vec<String> {
        let parts = self.text(name).unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// A setting's text; empty counts as absent.
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

/// Reads settings and collects what is wrong with them.
struct Reader<'a> {
    sources: &'a Sources,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn parsed<T: FromStr>(&mut self, name: &str, default: T, expected: &str) -> T {
        let Some(text) = self.sources.text(name) else {
            return default;
        };
        text.parse().unwrap_or_else(|_| {
            self.problems.push(format!("{name} is {text:?}; set it to {expected}"));
            default
        })
    }

    fn within<T: FromStr + PartialOrd + std::fmt::Display>(&mut self, name: &str, default: T, least: T, most: T) -> T {
        let expected = format!("a number from {least} to {most}");
        let number = self.parsed(name, default, &expected);
        if number < least || number > most {
            self.problems.push(format!("{name} is {number}; set it to {expected}"));
        }
        number
    }

    fn flag(&mut self, name: &str, default: bool) -> bool {
        match self.sources.text(name).map(str::to_ascii_lowercase).as_deref() {
            None => default,
            Some("true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            Some(other) => {
                self.problems.push(format!("{name} is {other:?}; set it to true or false"));
                default
            }
        }
    }

    fn machine_id(&mut self) -> Option<u16> {
        self.sources.text("NOETL_SERVER_MACHINE_ID")?;
        Some(self.within("NOETL_SERVER_MACHINE_ID", 0, 0, MAX_MACHINE_ID))
    }

    fn event_retention_days(&mut self) -> Option<u32> {
        self.sources.text("NOETL_EVENT_RETENTION_DAYS")?;
        Some(self.within("NOETL_EVENT_RETENTION_DAYS", 1, 1, 36_500))
    }

    fn brokers(&mut self, needed: bool) -> Vec<ServerAddr> {
        let listed = self.sources.list("NOETL_NATS_URL");
        if listed.is_empty() && needed {
            self.problems.push(
                "NOETL_NATS_URL is missing; set it to the broker, such as nats://127.0.0.1:4222, or turn publishing off \
                 with NOETL_EVENT_STREAM_ENABLED=false and NOETL_OUTBOX_RELAY=false"
                    .to_owned(),
            );
        }
        let brokers: Result<_, _> = listed.iter().map(|text| text.parse()).collect();
        brokers.unwrap_or_else(|_| {
            self.problems.push(
                "NOETL_NATS_URL names no broker; set it to an address such as nats://host:4222, or to those of a cluster, \
                 separated by commas"
                    .to_owned(),
            );
            Vec::new()
        })
    }

    fn databases(&mut self, needed: bool) -> Option<DatabaseSettings> {
        let cluster = self.sources.text("NOETL_CLUSTER_DSN");
        if cluster.is_none() && needed {
            self.problems.push(
                "NOETL_CLUSTER_DSN is missing; set it to the cluster database, such as postgres://user@host/noetl"
                    .into(),
            );
        }
        let cluster = cluster.and_then(|dsn| self.dsn("NOETL_CLUSTER_DSN", dsn));
        let listed = self.sources.list("NOETL_SHARDS");
        if listed.len() > usize::from(BUCKETS) {
            self.problems.push(format!("NOETL_SHARDS lists {} shards; at most {BUCKETS} are possible", listed.len()));
        }
        let shards = listed.iter().filter_map(|dsn| self.dsn("NOETL_SHARDS", dsn)).collect();
        Some(DatabaseSettings { cluster: cluster?, shards })
    }

    /// The text of a DSN is not repeated in the problem: it may hold a password.
    fn dsn(&mut self, name: &str, dsn: &str) -> Option<PgConnectOptions> {
        // The driver takes any scheme.
        let postgres = ["postgres://", "postgresql://"].iter().any(|scheme| dsn.starts_with(scheme));
        let parsed = PgConnectOptions::from_str(dsn).ok().filter(|_| postgres);
        if parsed.is_none() {
            self.problems
                .push(format!("{name} holds no PostgreSQL URL; write it as postgres://user@host:5432/database"));
        }
        parsed
    }

    fn event_stream(&mut self) -> TailSettings {
        let seconds = |value: u32| Duration::from_secs(u64::from(value));
        let replicas = self.parsed("NOETL_EVENT_STREAM_REPLICAS", 1, "1 or 3");
        if ![1, 3].contains(&replicas) {
            self.problems.push(format!("NOETL_EVENT_STREAM_REPLICAS is {replicas}; set it to 1 or 3"));
        }
        TailSettings {
            batch: self.within("NOETL_EVENT_STREAM_BATCH", 500, 1, 100_000),
            poll: Duration::from_millis(self.within("NOETL_EVENT_STREAM_POLL_MS", 500, 10, 60_000)),
            backfill: self.flag("NOETL_EVENT_STREAM_BACKFILL", false),
            stream: StreamSettings {
                dedup: seconds(self.within("NOETL_EVENT_STREAM_DEDUP_SECS", 120, 1, 86_400)),
                retention: seconds(self.within("NOETL_EVENT_STREAM_RETENTION_SECS", 86_400, 60, u32::MAX)),
                replicas,
            },
        }
    }
}

/// The file's settings under the environment's names.
fn read_file(path: &str) -> Result<BTreeMap<String, String>, ConfigError> {
    let wrong = |problem: String| ConfigError(vec![format!("NOETL_CONFIG names {path:?}: {problem}")]);
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let (mut values, mut problems) = (BTreeMap::new(), Vec::new());
    for (key, value) in table {
        let name = format!("NOETL_{}", key.to_ascii_uppercase());
        match plain(&value) {
            Some(text) if NAMES.contains(&name.as_str()) => drop(values.insert(name, text)),
            Some(_) => problems.push(format!("{path}: there is no setting {key}")),
            None => problems.push(format!("{path}: {key} must be a text, a number, true or false, or a list of texts")),
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(ConfigError(problems)) }
}

fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(_) | toml::Value::Boolean(_) => Some(value.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(values: &[(&'static str, &str)]) -> Sources {
        Sources::default().with(values.iter().map(|(name, value)| (*name, (*value).to_owned())))
    }

    #[test]
    fn everything_that_is_wrong_is_reported_at_once() {
        let wrong = sources(&[
            ("NOETL_PORT", "70000"),
            ("NOETL_SHARDS", "postgres://a/b, nonsense"),
            ("NOETL_EVENT_STREAM_BACKFILL", "perhaps"),
            ("NOETL_SERVER_MACHINE_ID", "1024"),
        ]);
        let ConfigError(problems) = wrong.check(Needs::Servers).unwrap_err();
        for name in [
            "NOETL_PORT",
            "NOETL_SHARDS",
            "NOETL_EVENT_STREAM_BACKFILL",
            "NOETL_SERVER_MACHINE_ID",
            "NOETL_CLUSTER_DSN",
            "NOETL_NATS_URL",
        ] {
            assert_eq!(problems.iter().filter(|problem| problem.starts_with(name)).count(), 1, "{name}: {problems:?}");
        }
    }

    #[test]
    fn flags_are_read_in_any_case_and_defaults_are_the_spec_s() {
        let given = sources(&[
            ("NOETL_CLUSTER_DSN", "postgres://noetl@127.0.0.1/noetl"),
            ("NOETL_NATS_URL", "nats://127.0.0.1:4222"),
            ("NOETL_EVENT_STREAM_BACKFILL", "YES"),
            ("NOETL_OUTBOX_RELAY", "Off"),
        ]);
        let config = given.check(Needs::Servers).unwrap();
        assert_eq!((config.host.to_string().as_str(), config.port), ("127.0.0.1", 8082));
        assert!(
            !config.outbox_relay
                && given.with([("NOETL_OUTBOX_RELAY", String::new())]).check(Needs::Servers).unwrap().outbox_relay
        );
        assert_eq!(config.outbox_retention, Duration::from_hours(24));
        let stream = config.event_stream.unwrap();
        assert!(stream.backfill);
        assert_eq!((stream.batch, stream.poll), (500, Duration::from_millis(500)));
        assert_eq!(stream.stream.dedup, Duration::from_mins(2));
        assert_eq!(stream.stream.retention, Duration::from_hours(24));
    }
}
