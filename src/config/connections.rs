//! Connections of the listener: limits, TLS, and the shutdown delay.

use std::path::PathBuf;
use std::time::Duration;

use super::Definition;
use super::reader::Reader;

pub(super) const SETTINGS: [Definition; 11] = [
    Definition::value("NOETL_HEADER_TIMEOUT_SECS", "time that a request head, or a TLS handshake, may take to arrive"),
    Definition::value(
        "NOETL_OPERATION_DEADLINE_SECS",
        "time that a query, a mutation, or an item of a subscription may take",
    ),
    Definition::value("NOETL_MAX_CONNECTIONS", "maximum number of open connections; lower if `ulimit -n` is lower"),
    Definition::value("NOETL_MAX_LIVE_CONNECTIONS", "maximum number of open WebSockets and event streams"),
    Definition::value("NOETL_MAX_REQUESTS", "maximum number of requests in flight"),
    Definition::value("NOETL_MAX_BUFFERED_MIB", "maximum memory for request bodies and unsent responses, in MiB"),
    Definition::value("NOETL_MAX_LIVE_MIB", "maximum estimated memory for running subscriptions, in MiB"),
    Definition::value(
        "NOETL_CALLER_SHARE_PERCENT",
        "maximum percentage of each of the `NOETL_MAX_…` limits for one caller: an authenticated subject, else an address. Use 100 behind a proxy that gives all clients the same address",
    ),
    Definition::value(
        "NOETL_SHUTDOWN_DELAY_SECS",
        "time after SIGTERM in which `/readyz` returns 503 but requests are still served; must be longer than the interval of the load balancer's health check",
    ),
    Definition::text(
        "NOETL_TLS_CERT",
        "none",
        "PEM file of the listener's certificate chain; read again when it changes",
    ),
    Definition::text("NOETL_TLS_KEY", "none", "PEM file of the listener's private key; read again when it changes"),
];

/// Settings of connections.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// Time that a query, a mutation, or an item of a subscription may take. The default is longer than the time limits of
    /// the work inside, so that the caller gets their errors.
    pub deadline: Duration,
    /// Time that a request head, or a TLS handshake, may take to arrive.
    pub header_timeout: Duration,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of open WebSockets and event streams.
    pub live_connections: usize,
    /// Maximum number of requests in flight.
    pub requests: usize,
    /// Maximum bytes of request bodies and unsent responses in memory.
    pub buffered_bytes: usize,
    /// Maximum estimated bytes of all running subscriptions.
    pub live_bytes: usize,
    /// Maximum percentage of each of these limits that one caller may use.
    pub caller_share: u8,
    /// Time after SIGTERM in which the replica reports that it is not ready but still serves requests.
    pub shutdown_delay: Duration,
    /// Certificate and key of the listener; `None`: it serves without TLS.
    pub tls: Option<TlsSettings>,
}

/// Paths of PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificate chain.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

impl ConnectionSettings {
    /// Returns the scheme of the listener's URL.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

pub(super) fn read(read: &mut Reader<'_>) -> ConnectionSettings {
    ConnectionSettings {
        deadline: Duration::from_secs(read.within("NOETL_OPERATION_DEADLINE_SECS", 15, 1, 600)),
        header_timeout: Duration::from_secs(read.within("NOETL_HEADER_TIMEOUT_SECS", 10, 1, 600)),
        connections: read.within("NOETL_MAX_CONNECTIONS", 20_000, 10, 10_000_000),
        live_connections: read.within("NOETL_MAX_LIVE_CONNECTIONS", 10_000, 1, 10_000_000),
        requests: read.within("NOETL_MAX_REQUESTS", 1_024, 1, 1_000_000),
        buffered_bytes: read.within("NOETL_MAX_BUFFERED_MIB", 256, 1, 1 << 20) << 20,
        live_bytes: read.within("NOETL_MAX_LIVE_MIB", 128, 1, 1 << 20) << 20,
        caller_share: read.within("NOETL_CALLER_SHARE_PERCENT", 50, 1, 100),
        shutdown_delay: Duration::from_secs(read.within("NOETL_SHUTDOWN_DELAY_SECS", 5, 0, 3_600)),
        tls: tls(read),
    }
}

fn tls(read: &mut Reader<'_>) -> Option<TlsSettings> {
    let [certificate, key] = ["NOETL_TLS_CERT", "NOETL_TLS_KEY"].map(|name| read.sources.text(name).map(PathBuf::from));
    if certificate.is_some() != key.is_some() {
        read.problem("one of NOETL_TLS_CERT and NOETL_TLS_KEY is missing; set both to PEM files, or neither");
    }
    Some(TlsSettings { certificate: certificate?, key: key? })
}
