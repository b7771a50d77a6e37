//! Settings, from the environment and an optional TOML file (`NOETL_CONFIG`). The file has the same names in lower
//! case, without `NOETL_`; the environment takes precedence. No other module reads the environment. All problems are
//! reported together.
//!
//! Each submodule has the definitions of its settings, their values, and a function `read` that collects problems.
//! docs/operations/settings.md is generated from the definitions.

mod auth;
mod broker;
mod broker_login;
mod connections;
mod database_tls;
mod databases;
mod documents;
mod dsn;
mod file;
mod housekeeping;
mod log;
mod outbox;
mod pem;
mod process;
mod reader;
mod server;
mod telemetry;

use std::collections::BTreeMap;

use graphql_transport::trusted::Trusted;
use noetl_domain::outbox::OutboxPolicy;
use noetl_feed::publish::tailer::TailSettings;
use noetl_feed::wire::names::StreamNames;
use noetl_feed::wire::notifications::NotificationStream;
use reader::Reader;

pub use auth::AuthSettings;
pub use broker_login::{BrokerSettings, Login};
pub use connections::{ConnectionSettings, TlsSettings};
pub use databases::DatabaseSettings;
pub use housekeeping::HousekeepingSettings;
pub use log::LogSettings;
pub use process::ProcessSettings;
pub use server::ServerSettings;
pub use telemetry::{OtlpSettings, TelemetrySettings};

/// Name of the settings file, in the environment.
const FILE: &str = "NOETL_CONFIG";

/// Definitions of all settings, by concern.
const GROUPS: [(&str, &[Definition]); 12] = [
    ("Listener", &server::SETTINGS),
    ("Connections and limits", &connections::SETTINGS),
    ("Databases", &databases::SETTINGS),
    ("Broker and the feed of events", &broker::SETTINGS),
    ("Login at the broker", &broker_login::SETTINGS),
    ("Callers", &auth::SETTINGS),
    ("Trusted documents", &documents::SETTINGS),
    ("Outbox", &outbox::SETTINGS),
    ("Retention and read model", &housekeeping::SETTINGS),
    ("Log", &log::SETTINGS),
    ("Traces", &telemetry::SETTINGS),
    ("Process", &process::SETTINGS),
];

/// Name and meaning of a setting.
#[derive(Debug, Clone, Copy)]
struct Definition {
    /// Name in the environment.
    name: &'static str,
    /// Default in words; `None`: the default is the value that is read if the setting is absent.
    default: Option<&'static str>,
    /// Meaning and unit, in Markdown.
    meaning: &'static str,
}

impl Definition {
    /// Defines a number, a flag or a choice.
    const fn value(name: &'static str, meaning: &'static str) -> Self {
        Self { name, default: None, meaning }
    }

    /// Defines a setting that is a text, or that has a meaning of its own if it is absent.
    const fn text(name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        Self { name, default: Some(default), meaning }
    }
}

/// Returns whether a setting of this name exists.
fn is_known(name: &str) -> bool {
    GROUPS.iter().any(|(_, settings)| settings.iter().any(|setting| setting.name == name))
}

/// Setting, as the documentation describes it.
#[derive(Debug)]
pub struct DescribedSetting {
    /// Name in the environment.
    pub name: &'static str,
    /// Default, or the meaning of an absent setting.
    pub default: String,
    /// Allowed values; `None`: the meaning says it.
    pub allowed: Option<String>,
    /// Meaning and unit, in Markdown.
    pub meaning: &'static str,
}

/// Returns all settings by concern. Defaults and allowed values are those that the process uses when it reads them.
#[must_use]
pub fn describe() -> Vec<(&'static str, Vec<DescribedSetting>)> {
    let absent = Sources::default();
    let mut read = Reader::new(&absent);
    let defaults = read_all(&mut read, RequiredSettings::Nothing).settings;
    let describe = |setting: &Definition| DescribedSetting {
        name: setting.name,
        default: setting.default.map_or_else(
            || {
                defaults
                    .iter()
                    .find(|known| known.name == setting.name)
                    .map(|known| known.value.clone())
                    .unwrap_or_default()
            },
            str::to_owned,
        ),
        allowed: read.allowed(setting.name).map(str::to_owned),
        meaning: setting.meaning,
    };
    GROUPS.iter().map(|(title, settings)| (*title, settings.iter().map(describe).collect())).collect()
}

/// Settings of one process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Listener.
    pub server: ServerSettings,
    /// Identification of callers.
    pub auth: AuthSettings,
    /// Connections of the listener.
    pub connections: ConnectionSettings,
    /// Trusted documents.
    pub trusted: Trusted,
    /// Databases; `None` if the command starts its own.
    pub databases: Option<DatabaseSettings>,
    /// Addresses of the brokers of one cluster, with the login and TLS settings.
    pub broker: BrokerSettings,
    /// Publishing of events; `None`: this replica does not publish.
    pub event_stream: Option<TailSettings>,
    /// Names of the streams and subjects of events.
    pub stream_names: StreamNames,
    /// Stream of the workers' notifications.
    pub notifications: NotificationStream,
    /// Size of the ring of each shard's live events, in bytes.
    pub ring_bytes: usize,
    /// Whether this replica delivers outbox rows to the broker.
    pub outbox_relay: bool,
    /// Policy for outbox rows.
    pub outbox: OutboxPolicy,
    /// Whether this replica keeps executions' snapshots current.
    pub projector: bool,
    /// Retention of events.
    pub housekeeping: HousekeepingSettings,
    /// Traces and slow operations.
    pub telemetry: TelemetrySettings,
    /// The process itself.
    pub process: ProcessSettings,
    /// Values of the numbers, flags and choices, in the order of their names. None of them is a secret.
    pub settings: Vec<Setting>,
}

/// Value of a setting that is no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name in the environment.
    pub name: &'static str,
    /// Value in use.
    pub value: String,
    /// Whether it is the default.
    pub is_default: bool,
}

/// Settings that can't be used; each problem says how to correct it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration can't be used:\n  - {}", .0.join("\n  - "))]
pub struct ConfigError(pub Vec<String>);

/// Settings that a command requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredSettings {
    /// Databases, and a broker if events are published or relayed.
    Servers,
    /// Databases.
    Databases,
    /// None: the command starts its own servers.
    Nothing,
}

/// Raw settings by name; a setting of the environment takes precedence over the file's.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    values: BTreeMap<String, String>,
    unknown: Vec<String>,
}

impl Sources {
    /// Reads the environment, and the file that `NOETL_CONFIG` names.
    #[expect(clippy::disallowed_methods, reason = "only this function reads the environment")]
    pub fn read() -> Result<Self, ConfigError> {
        let mut values = match std::env::var(FILE) {
            Ok(path) => file::read(&path)?,
            Err(_) => BTreeMap::new(),
        };
        let named = std::env::vars().filter(|(name, _)| name.starts_with("NOETL_") && name != FILE);
        let (known, unknown): (Vec<_>, Vec<_>) = named.partition(|(name, _)| is_known(name));
        values.extend(known);
        Ok(Self { values, unknown: unknown.into_iter().map(|(name, _)| name).collect() })
    }

    /// Returns the names in the environment that begin with `NOETL_` and are not settings of this server. They may be
    /// misspelled, or belong to another program of NoETL.
    #[must_use]
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Returns the same settings with some replaced.
    #[must_use]
    pub fn with<'a>(mut self, replaced: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        self.values.extend(replaced.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self
    }

    /// Reads the settings of the log. They are needed before anything else can be logged.
    #[must_use]
    pub fn log(&self) -> LogSettings {
        log::read(self)
    }

    /// Reads the settings of the export of spans, which starts with the log. [`Self::check`] reports their problems.
    #[must_use]
    pub fn otlp(&self) -> Option<OtlpSettings> {
        telemetry::read(&mut Reader::new(self)).otlp
    }

    /// Checks every setting.
    pub fn check(&self, needs: RequiredSettings) -> Result<Config, ConfigError> {
        let mut read = Reader::new(self);
        let config = read_all(&mut read, needs);
        read.finish(config)
    }

    /// Returns the parts of a comma-separated setting; empty parts count as absent.
    fn list(&self, name: &str) -> Vec<String> {
        let parts = self.text(name).unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Returns a setting's text; empty counts as absent.
    fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

/// Reads every setting; the reader collects the problems.
fn read_all(read: &mut Reader<'_>, needs: RequiredSettings) -> Config {
    let (replicas, stream_names) = (broker::replicas(read), broker::stream_names(read));
    let max_bytes = broker::max_bytes(read);
    let event_stream = broker::event_stream(read, max_bytes, replicas);
    // Only an explicit true requires a broker; by default, a replica without a broker does not relay.
    let asks_to_relay = read.flag("NOETL_OUTBOX_RELAY", false);
    let needs_broker = needs == RequiredSettings::Servers && (event_stream.is_some() || asks_to_relay);
    let trusted = documents::read(read);
    let auth = auth::read(read);
    let brokers = broker::brokers(read, needs_broker);
    let broker = broker_login::read(read, &brokers);
    broker::check_prefixes(read, &stream_names, broker.inbox_prefix.as_ref());
    Config {
        server: server::read(read, auth.is_on()),
        auth,
        connections: connections::read(read),
        trusted,
        databases: databases::read(read, needs != RequiredSettings::Nothing),
        broker,
        event_stream,
        notifications: broker::notifications(read, stream_names.clone(), max_bytes, replicas),
        stream_names,
        ring_bytes: broker::ring_bytes(read),
        outbox_relay: read.flag("NOETL_OUTBOX_RELAY", true),
        outbox: outbox::read(read),
        projector: read.flag("NOETL_PROJECTOR", true),
        housekeeping: housekeeping::read(read),
        telemetry: telemetry::read(read),
        process: process::read(read),
        settings: read.values(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use noetl_feed::wire::names::Api;

    use super::*;
    use noetl_domain::execution::StatusSource;

    fn sources(values: &[(&'static str, &str)]) -> Sources {
        Sources::default().with(values.iter().map(|(name, value)| (*name, (*value).to_owned())))
    }

    #[test]
    fn all_problems_are_reported_together() {
        let wrong = sources(&[
            ("NOETL_PORT", "70000"),
            ("NOETL_BASE_PATH", "noetl/"),
            ("NOETL_SHARDS", "postgres://a/b, nonsense"),
            ("NOETL_EVENT_STREAM_BACKFILL", "perhaps"),
            ("NOETL_EVENT_STREAM_PREFIX", "stage.one"),
            ("NOETL_EVENT_STREAM_MAX_BYTES", "1000"),
            ("NOETL_NATS_JETSTREAM_DOMAIN", "hub.one"),
            ("NOETL_NATS_API_PREFIX", "JS.shared.API.>"),
            ("NOETL_NATS_INBOX_PREFIX", "_INBOX."),
            ("NOETL_SERVER_MACHINE_ID", "1024"),
            ("NOETL_OUTBOX_MAX_ATTEMPTS", "0"),
            ("NOETL_EVENT_RING_MIB", "31"),
            ("NOETL_EXECUTION_STATUS_FROM_STEPS", "steps"),
            ("NOETL_TRACE_URL", "https://jaeger.example/trace"),
        ]);
        let ConfigError(problems) = wrong.check(RequiredSettings::Servers).unwrap_err();
        for name in [
            "NOETL_PORT",
            "NOETL_BASE_PATH",
            "NOETL_SHARDS",
            "NOETL_EVENT_STREAM_BACKFILL",
            "NOETL_EVENT_STREAM_PREFIX",
            "NOETL_EVENT_STREAM_MAX_BYTES",
            "NOETL_NATS_JETSTREAM_DOMAIN",
            "NOETL_NATS_API_PREFIX",
            "NOETL_NATS_INBOX_PREFIX",
            "NOETL_SERVER_MACHINE_ID",
            "NOETL_OUTBOX_MAX_ATTEMPTS",
            "NOETL_EVENT_RING_MIB",
            "NOETL_EXECUTION_STATUS_FROM_STEPS",
            "NOETL_TRACE_URL",
            "NOETL_CLUSTER_DSN",
            "NOETL_NATS_URL",
        ] {
            assert_eq!(problems.iter().filter(|problem| problem.starts_with(name)).count(), 1, "{name}: {problems:?}");
        }
    }

    #[test]
    fn flags_ignore_case_and_absent_settings_have_defaults() {
        let given = sources(&[
            ("NOETL_CLUSTER_DSN", "postgres://noetl@127.0.0.1/noetl"),
            ("NOETL_NATS_URL", "nats://127.0.0.1:4222"),
            ("NOETL_EVENT_STREAM_BACKFILL", "YES"),
            ("NOETL_OUTBOX_RELAY", "Off"),
        ]);
        let config = given.check(RequiredSettings::Servers).unwrap();
        assert_eq!((config.server.host.to_string().as_str(), config.server.port), ("127.0.0.1", 8082));
        assert_eq!(config.server.base_path, "");
        assert!(
            !config.outbox_relay
                && given
                    .with([("NOETL_OUTBOX_RELAY", String::new())])
                    .check(RequiredSettings::Servers)
                    .unwrap()
                    .outbox_relay
        );
        assert_eq!(config.outbox, OutboxPolicy { max_attempts: 20, retention: None });
        assert_eq!(config.ring_bytes, 32 << 20);
        assert_eq!(config.databases.unwrap().status_source, StatusSource::End);
        let stream = config.event_stream.unwrap();
        assert!(stream.backfill);
        assert_eq!((stream.batch, stream.poll), (500, Duration::from_millis(500)));
        assert_eq!(stream.stream.dedup, Duration::from_mins(2));
        assert_eq!((config.stream_names.stream(0).as_str(), config.stream_names.api()), ("noetl_events", &Api::Own));
        assert_eq!((stream.stream.max_bytes, config.notifications.max_bytes), (None, None));
        assert_eq!(stream.stream.retention, Duration::from_hours(24));
        assert_eq!(config.telemetry.trace_url, None);
    }

    #[test]
    fn the_url_of_a_trace_is_that_of_a_page_and_contains_the_id_and_no_login() {
        let url = |text: &'static str| {
            sources(&[("NOETL_TRACE_URL", text)])
                .check(RequiredSettings::Nothing)
                .map(|config| config.telemetry.trace_url)
        };
        for text in ["https://jaeger.example/trace/{traceId}", "http://10.0.0.1:3000/explore?trace={traceId}"] {
            assert_eq!(url(text), Ok(Some(text.to_owned())));
        }
        for text in [
            "javascript:alert('{traceId}')",
            "data:text/html,{traceId}",
            "//jaeger.example/trace/{traceId}",
            "jaeger.example/trace/{traceId}",
            "https://jaeger.example/trace/{traceid}",
            "https://user:a-secret@jaeger.example/trace/{traceId}",
        ] {
            let ConfigError(problems) = url(text).unwrap_err();
            assert!(problems.len() == 1 && problems[0].starts_with("NOETL_TRACE_URL is not"), "{text}: {problems:?}");
            assert!(!problems[0].contains("secret"), "{problems:?}");
        }
    }

    #[test]
    fn the_api_is_that_of_a_domain_or_imported_and_no_prefix_covers_messages() {
        let (prefix, domain) = (("NOETL_NATS_API_PREFIX", "JS.shared.API"), ("NOETL_NATS_JETSTREAM_DOMAIN", "hub"));
        let api = |given: &[(&'static str, &str)]| {
            sources(given).check(RequiredSettings::Nothing).map(|config| config.stream_names.api().clone())
        };
        assert_eq!(api(&[prefix]), Ok(Api::Imported("JS.shared.API".parse().unwrap())));
        assert_eq!(api(&[domain]), Ok(Api::Domain("hub".into())));
        let ConfigError(problems) = api(&[prefix, domain]).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with("NOETL_NATS_API_PREFIX excludes"), "{problems:?}");
        for (name, text) in [
            ("NOETL_NATS_API_PREFIX", "noetl"),
            ("NOETL_NATS_INBOX_PREFIX", "noetl"),
            ("NOETL_NATS_INBOX_PREFIX", "noetl.executions.inbox"),
            ("NOETL_NATS_INBOX_PREFIX", "staging.inbox"),
        ] {
            let ConfigError(problems) = api(&[(name, text), ("NOETL_EVENT_STREAM_PREFIX", "staging")]).unwrap_err();
            let problem = format!("{name} begins as the subjects of messages do");
            assert!(problems.len() == 1 && problems[0].starts_with(&problem), "{text}: {problems:?}");
        }
    }
}
