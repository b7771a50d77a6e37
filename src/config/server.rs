//! Listener, and the hosts and origins that it serves.
//!
//! A server without authentication serves only programs and pages of its own machine: it listens on loopback and
//! accepts only requests to loopback's host names. Each exception is a setting that names the address or host.

use std::net::{IpAddr, SocketAddr};

use axum::http::Uri;

use super::Definition;
use super::reader::Reader;

pub(super) const SETTINGS: [Definition; 7] = [
    Definition::value("NOETL_HOST", "IP address to listen on"),
    Definition::value("NOETL_PORT", "port to listen on; 0 picks a free one"),
    Definition::text(
        "NOETL_UNAUTHENTICATED_HOST",
        "none",
        "the same address as `NOETL_HOST`; allows a server without authentication to listen on an address other than loopback",
    ),
    Definition::text(
        "NOETL_ALLOWED_HOSTS",
        "any; without authentication `localhost`, `127.0.0.1`, `[::1]`",
        "host names, without ports, that requests may be addressed to; without authentication they are added to the default",
    ),
    Definition::text(
        "NOETL_ALLOWED_ORIGINS",
        "none",
        "origins of other sites whose pages may use this server, such as `https://console.example.org`",
    ),
    Definition::text(
        "NOETL_BASE_PATH",
        "none",
        "path below which a proxy serves this server, such as `/noetl`; the server serves everything below this path and at the root, so the proxy may strip the path or not",
    ),
    Definition::text(
        "NOETL_HEALTH_LISTEN",
        "none",
        "address and port of a separate listener for `/livez`, `/readyz`, `/metrics`, `/scaler/outbox` and `/scaler/subscriptions`, without authentication and for any host name; the main listener does not serve them then",
    ),
];

/// Host names of loopback.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// First parts of the server's own paths.
const OWN_PATHS: [&str; 18] = [
    "assets",
    "audit",
    "auth",
    "catalog",
    "events",
    "execute",
    "executions",
    "favicon.svg",
    "graphiql",
    "graphql",
    "livez",
    "metrics",
    "outbox",
    "readyz",
    "scaler",
    "signed-in",
    "subscriptions",
    "system",
];

/// Settings of the listener.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Address to listen on.
    pub host: IpAddr,
    /// Port to listen on; 0 picks a free one.
    pub port: u16,
    /// Host names that requests may be addressed to, without ports; empty: any host name.
    pub allowed_hosts: Vec<String>,
    /// Origins of other sites whose pages may use this server, such as `https://console.example.org`.
    pub allowed_origins: Vec<String>,
    /// Path below which a proxy serves this server, such as `/noetl`, without a slash at the end; empty: none is
    /// configured.
    pub base_path: String,
    /// Address of a separate listener for health checks, metrics and the outbox backlog; `None`: the main listener
    /// serves them.
    pub health: Option<SocketAddr>,
}

/// Reads the settings; `authenticated`: whether the server authenticates its callers.
pub(super) fn read(read: &mut Reader<'_>, authenticated: bool) -> ServerSettings {
    let host = read.parsed("NOETL_HOST", IpAddr::from([127, 0, 0, 1]), "an IP address, such as 127.0.0.1");
    let mut allowed_hosts = hosts(read);
    if !authenticated {
        check_exposure(read, host);
        allowed_hosts.extend(LOOPBACK.map(str::to_owned));
        if !host.is_unspecified() {
            allowed_hosts.push(host.to_string());
        }
    }
    ServerSettings {
        host,
        port: read.parsed("NOETL_PORT", 8082, "a port from 0 to 65535"),
        allowed_hosts,
        allowed_origins: origins(read),
        base_path: base_path(read),
        health: health(read),
    }
}

/// Adds a problem if other machines can reach a server without authentication, unless a setting allows that.
fn check_exposure(read: &mut Reader<'_>, host: IpAddr) {
    let accepted = read.sources.text("NOETL_UNAUTHENTICATED_HOST").map(str::to_owned);
    match accepted {
        Some(accepted) if accepted.parse() != Ok(host) => read.problem(format!(
            "NOETL_UNAUTHENTICATED_HOST is {accepted:?} and NOETL_HOST is {host}; set both to the same address, or leave \
             NOETL_UNAUTHENTICATED_HOST out"
        )),
        None if !host.is_loopback() => read.problem(format!(
            "NOETL_HOST is {host}, which other machines can reach, and callers are not authenticated; set \
             NOETL_AUTH_TOKENS to a file of tokens, or NOETL_HOST to 127.0.0.1, or allow callers without \
             authentication with NOETL_UNAUTHENTICATED_HOST={host}"
        )),
        _ => {}
    }
}

fn hosts(read: &mut Reader<'_>) -> Vec<String> {
    let hosts = read.sources.list("NOETL_ALLOWED_HOSTS");
    for host in &hosts {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = !host.contains([':', '/', '@', '*']);
        if !name && bare.parse::<IpAddr>().is_err() {
            read.problem(format!("NOETL_ALLOWED_HOSTS lists {host:?}; list host names, each without scheme and port"));
        }
    }
    hosts
}

fn origins(read: &mut Reader<'_>) -> Vec<String> {
    let origins = read.sources.list("NOETL_ALLOWED_ORIGINS");
    for origin in &origins {
        if !is_origin(origin) {
            read.problem(format!(
                "NOETL_ALLOWED_ORIGINS lists {origin:?}; list origins such as https://console.example.org, without a path"
            ));
        }
    }
    origins
}

fn base_path(read: &mut Reader<'_>) -> String {
    let path = read.sources.text("NOETL_BASE_PATH").unwrap_or_default().to_owned();
    let first = path.split('/').nth(1).unwrap_or_default();
    if !path.is_empty() && !is_base_path(&path) {
        read.problem(format!(
            "NOETL_BASE_PATH is {path:?}; set it to a path such as /noetl, which begins with a slash, does not end with \
             one, and has only letters, digits and the characters - . _ ~ between the slashes"
        ));
    } else if OWN_PATHS.contains(&first) {
        read.problem(format!(
            "NOETL_BASE_PATH is {path:?}, and the server has its own paths below /{first}; let the path begin with \
             another name"
        ));
    }
    path
}

/// Returns whether a text is a path whose parts no program has to encode or to resolve.
fn is_base_path(text: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-._~".contains(character);
    let is_part = |part: &str| !["", ".", ".."].contains(&part) && part.chars().all(plain);
    text.strip_prefix('/').is_some_and(|parts| parts.split('/').all(is_part))
}

fn health(read: &mut Reader<'_>) -> Option<SocketAddr> {
    let text = read.sources.text("NOETL_HEALTH_LISTEN")?.to_owned();
    let address = text.parse();
    if address.is_err() {
        read.problem(format!("NOETL_HEALTH_LISTEN is {text:?}; set it to an address and port, such as 127.0.0.1:9082"));
    }
    address.ok()
}

/// Returns whether a text is an origin in the form that browsers send.
fn is_origin(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let parts = uri.scheme_str().zip(uri.authority());
    parts.is_some_and(|(scheme, authority)| text.eq_ignore_ascii_case(&format!("{scheme}://{authority}")))
}
