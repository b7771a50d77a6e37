//! URL of a database. As with libpq, it may name several servers: `postgres://user@host1:5432,host2:5432/database`.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use super::database_tls;
use super::reader::Reader;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Parameter of libpq that selects the server.
const TARGET: &str = "target_session_attrs";
/// Values of the parameter that a primary fits. Each has the effect of `read-write`, because no other server is of use.
const TARGETS: [&str; 3] = ["read-write", "primary", "any"];
/// Characters with which the part after the hosts begins.
const AFTER_HOSTS: [char; 3] = ['/', '?', '#'];

/// Parses a DSN. Returns the options of each of its servers. A problem does not repeat its text, which may contain a
/// password.
pub(super) fn parse(read: &mut Reader<'_>, name: &str, dsn: &str) -> Option<Vec<PgConnectOptions>> {
    let target = database_tls::parameter(dsn, TARGET);
    if target.is_some_and(|target| !TARGETS.contains(&target.as_str())) {
        read.problem(format!(
            "{name} has a {TARGET} that is not supported; set it to read-write, primary or any, or leave it out"
        ));
    }
    // The driver takes several hosts of a parameter for one.
    let options = |url: &String| {
        let parsed = PgConnectOptions::from_str(url).ok().filter(|parsed| !parsed.get_host().contains(','))?;
        // The driver connects to an IPv6 address only without the brackets of the URL.
        let host = parsed.get_host().trim_matches(['[', ']']).to_owned();
        Some(parsed.host(&host))
    };
    let servers: Option<Vec<_>> = urls(dsn).and_then(|urls| urls.iter().map(options).collect());
    if servers.is_none() {
        read.problem(format!("{name} is not a PostgreSQL URL; write it as postgres://user@host:5432/database"));
    }
    Some(servers?.into_iter().map(|options| database_tls::check(read, name, dsn, options)).collect())
}

/// Returns the URL of each server; `None`: the text is not a URL of PostgreSQL. The driver accepts any scheme.
fn urls(dsn: &str) -> Option<Vec<String>> {
    let scheme = SCHEMES.into_iter().find(|scheme| dsn.starts_with(scheme))?;
    let rest = dsn.strip_prefix(scheme)?;
    let (authority, path) = rest.split_at(rest.find(AFTER_HOSTS).unwrap_or(rest.len()));
    let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    let path = without_target(path);
    Some(hosts.split(',').map(|host| format!("{scheme}{login}{}{path}", host.trim())).collect())
}

/// Returns the part after the hosts without the parameter that the driver does not know.
fn without_target(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let is_known = |pair: &&str| pair.split_once('=').is_none_or(|(key, _)| key != TARGET);
    let known: Vec<_> = query.split('&').filter(is_known).collect();
    format!("{path}?{}", known.join("&"))
}

/// Joins the parts of a list of DSNs that belong to the same one: a comma is between two DSNs, or between two hosts.
pub(super) fn joined(parts: Vec<String>) -> Vec<String> {
    let mut dsns: Vec<String> = Vec::new();
    for part in parts {
        match dsns.last_mut() {
            Some(dsn) if !part.contains("://") && ends_with_host(dsn) => *dsn = format!("{dsn},{part}"),
            _ => dsns.push(part),
        }
    }
    dsns
}

fn ends_with_host(dsn: &str) -> bool {
    dsn.split_once("://").is_some_and(|(_, rest)| !rest.contains(AFTER_HOSTS))
}
