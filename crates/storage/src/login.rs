//! The login of connections to a database, and the settings of their sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

/// Options of a database's connections. The password of the role can be in a file, which is read for each connection, so
/// that it can change while the server runs.
#[derive(Debug, Clone)]
pub struct Login {
    options: PgConnectOptions,
    /// Names and values; a later value of a name replaces an earlier one.
    settings: Vec<(String, String)>,
    password_file: Option<Arc<Path>>,
}

impl Login {
    /// Creates a login with the password in a file, or else in the options.
    #[must_use]
    pub fn new(options: PgConnectOptions, password_file: Option<Arc<Path>>) -> Self {
        Self { options, settings: Vec::new(), password_file }
    }

    /// Returns the login with the name of the program.
    pub(super) fn named(&self, program: &str) -> Self {
        Self { options: self.options.clone().application_name(program), ..self.clone() }
    }

    /// Returns the login with additional settings.
    pub(super) fn with<'a>(&self, settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut login = self.clone();
        login.settings.extend(settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        login
    }

    /// Returns the settings, each once.
    pub(super) fn settings(&self) -> BTreeMap<&str, &str> {
        self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Returns whether the password can change.
    pub(super) fn can_change(&self) -> bool {
        self.password_file.is_some()
    }

    /// Returns the options with the settings and the present password.
    pub(super) async fn options(&self) -> sqlx::Result<PgConnectOptions> {
        let options = self.options.clone().options(self.settings());
        let Some(file) = &self.password_file else { return Ok(options) };
        let password = tokio::fs::read_to_string(file).await?;
        Ok(options.password(password.trim_end_matches(['\r', '\n'])))
    }
}
