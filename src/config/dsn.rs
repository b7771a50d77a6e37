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

#[cfg(test)]
mod tests {
    use crate::config::{Config, ConfigError, RequiredSettings, Sources};

    fn check(cluster: &str, shards: &str) -> Result<Config, ConfigError> {
        let settings = [("NOETL_CLUSTER_DSN", cluster.to_owned()), ("NOETL_SHARDS", shards.to_owned())];
        Sources::default().with(settings).check(RequiredSettings::Databases)
    }

    #[test]
    fn each_server_of_a_dsn_has_the_login_and_the_parameters() {
        let shards =
            "postgres://u:a,b@h1:5433,[::1]/d?target_session_attrs=primary&sslmode=require,postgresql://h3, h4/e";
        let databases = check("postgres://u@h/d?target_session_attrs=any", shards).unwrap().databases.unwrap();
        let addresses = |servers: &[sqlx::postgres::PgConnectOptions]| -> Vec<String> {
            let address = |of: &sqlx::postgres::PgConnectOptions| {
                format!("{} {} {} {:?}", of.get_host(), of.get_port(), of.get_database().unwrap(), of.get_ssl_mode())
            };
            servers.iter().map(address).collect()
        };
        assert_eq!(addresses(&databases.cluster), ["h 5432 d Prefer"]);
        assert_eq!(databases.shards.len(), 2);
        assert_eq!(addresses(&databases.shards[0]), ["h1 5433 d Require", "::1 5432 d Require"]);
        assert_eq!(addresses(&databases.shards[1]), ["h3 5432 e Prefer", "h4 5432 e Prefer"]);
        assert!(databases.shards[0].iter().all(|options| options.get_username() == "u"));
    }

    #[test]
    fn servers_that_can_not_be_written_and_other_forms_are_refused() {
        for (dsn, expected) in [
            ("postgres://h1,h2/d?target_session_attrs=prefer-standby", "target_session_attrs"),
            ("postgres://h/d?target_session_attrs=readwrite", "read-write, primary or any"),
            ("postgres:///d?host=h1,h2", "not a PostgreSQL URL"),
            ("postgres://h1:5432,h2:port/d", "not a PostgreSQL URL"),
            ("http://h1,h2/d", "not a PostgreSQL URL"),
        ] {
            let ConfigError(problems) = check(dsn, "").unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains(expected), "{dsn}: {problems:?}");
        }
    }
}
