//! Connections of the listener: limits, TLS, and the shutdown delay.

use std::path::PathBuf;
use std::time::Duration;

use super::reader::Reader;

pub(super) const NAMES: [&str; 10] = [
    "NOETL_HEADER_TIMEOUT_SECS",
    "NOETL_OPERATION_DEADLINE_SECS",
    "NOETL_MAX_CONNECTIONS",
    "NOETL_MAX_LIVE_CONNECTIONS",
    "NOETL_MAX_REQUESTS",
    "NOETL_MAX_BUFFERED_MIB",
    "NOETL_CALLER_SHARE_PERCENT",
    "NOETL_SHUTDOWN_DELAY_SECS",
    "NOETL_TLS_CERT",
    "NOETL_TLS_KEY",
];

/// Settings of connections.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// Time that a query, a mutation, or an item of a subscription may take.
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
