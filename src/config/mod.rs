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
    /// Number of days for which events are kept in the databases; `None`: forever.
    pub event_retention_days: Option<u32>,
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
        event_retention_days: housekeeping::event_retention_days(read),
        telemetry: telemetry::read(read),
        process: process::read(read),
        settings: read.values(),
    }
}
