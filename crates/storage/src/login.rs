//! The login of connections to a database, and the settings of their sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

/// Options of a database's connections. The database may be on a primary and its standbys. The password of the role can be
/// in a file, which is read for each connection, so that it can change while the server runs.
#[derive(Debug, Clone)]
pub struct Login {
    /// Options of each server of the database, of which one accepts writes. Not empty.
    servers: Arc<[PgConnectOptions]>,
    /// Index of the server that accepted writes last.
    preferred: Arc<AtomicUsize>,
    settings: BTreeMap<&'static str, &'static str>,
    password_file: Option<Arc<Path>>,
}

impl Login {
    /// Creates a login at a server, or at the one of several servers that accepts writes. The password is in a file, or
    /// else in the options.
    #[must_use]
    pub fn new(servers: Vec<PgConnectOptions>, password_file: Option<Arc<Path>>) -> Self {
        let servers = servers.into_iter().map(|options| options.application_name("noetl-graphql")).collect();
        Self { servers, preferred: Arc::default(), settings: BTreeMap::new(), password_file }
    }

    /// Returns the login with additional settings. They replace those with the same names.
    pub(super) fn with(&self, settings: impl IntoIterator<Item = (&'static str, &'static str)>) -> Self {
        let mut login = self.clone();
        login.settings.extend(settings);
        login
    }

    /// Returns the settings by their names.
    pub(super) const fn settings(&self) -> &BTreeMap<&'static str, &'static str> {
        &self.settings
    }

    /// Returns whether the password can change.
    pub(super) fn can_change(&self) -> bool {
        self.password_file.is_some()
    }

    /// Returns the index of each server, and its options with the settings and the present password. The preferred server
    /// is the first, and the others follow in their order.
    pub(super) async fn servers(&self) -> sqlx::Result<Vec<(usize, PgConnectOptions)>> {
        let password = match &self.password_file {
            Some(file) => Some(tokio::fs::read_to_string(file).await?),
            None => None,
        };
        let complete = |(index, options): (usize, &PgConnectOptions)| {
            let options = options.clone().options(&self.settings);
            let options = match &password {
                Some(password) => options.password(password.trim_end_matches(['\r', '\n'])),
                None => options,
            };
            (index, options)
        };
        let first = self.preferred.load(Ordering::Relaxed);
        let servers = self.servers.iter().enumerate().cycle().skip(first).take(self.servers.len());
        Ok(servers.map(complete).collect())
    }

    /// Notes the server that accepted writes last. Logs a change.
    pub(super) fn prefer(&self, index: usize) {
        let previous = self.preferred.swap(index, Ordering::Relaxed);
        if previous != index {
            let address = |index: usize| self.servers.get(index).map(address);
            tracing::warn!(previous = address(previous), server = address(index), "database server changed");
        }
    }

    /// Returns the reason of an attempt that exceeded its time limit. It names the servers if there are several.
    pub(super) fn no_response(&self, limit: Duration) -> String {
        if self.servers.len() == 1 {
            return format!("no response within {limit:?}");
        }
        let servers: Vec<_> = self.servers.iter().map(address).collect();
        format!("no writable server among {} within {limit:?}", servers.join(" and "))
    }
}

/// Returns the address of a server, for messages.
pub(super) fn address(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(path) => path.display().to_string(),
        None if options.get_host().contains(':') => format!("[{}]:{}", options.get_host(), options.get_port()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}
