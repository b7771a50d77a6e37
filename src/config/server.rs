//! Listener, and the hosts and origins that it serves.

use std::net::IpAddr;

use super::reader::Reader;

pub(super) const NAMES: [&str; 4] = ["NOETL_HOST", "NOETL_PORT", "NOETL_ALLOWED_HOSTS", "NOETL_ALLOWED_ORIGINS"];

/// Settings of the listener.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Address to listen on.
    pub host: IpAddr,
    /// Port to listen on; 0 picks a free one.
    pub port: u16,
    /// Host names that requests may be addressed to, without ports; empty for any.
    pub allowed_hosts: Vec<String>,
    /// Origins of other sites whose pages may use this server, such as `https://console.example.org`.
    pub allowed_origins: Vec<String>,
}

pub(super) fn read(read: &mut Reader<'_>) -> ServerSettings {
    ServerSettings {
        host: read.parsed("NOETL_HOST", IpAddr::from([127, 0, 0, 1]), "an IP address, such as 127.0.0.1"),
        port: read.parsed("NOETL_PORT", 8082, "a port from 0 to 65535"),
        allowed_hosts: read.sources.list("NOETL_ALLOWED_HOSTS"),
        allowed_origins: read.sources.list("NOETL_ALLOWED_ORIGINS"),
    }
}
