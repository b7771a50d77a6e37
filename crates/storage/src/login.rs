//! The login of connections to a database.

use std::path::Path;
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

/// Options of a database's connections. The password of the role can be in a file, which is read for each connection, so
/// that it can change while the server runs.
#[derive(Debug, Clone)]
pub struct Login {
    options: PgConnectOptions,
    password_file: Option<Arc<Path>>,
}

impl Login {
    /// Creates a login with the password in a file, or else in the options.
    #[must_use]
    pub fn new(options: PgConnectOptions, password_file: Option<Arc<Path>>) -> Self {
        Self { options, password_file }
    }

    /// Returns the login with other options.
    pub(super) fn map(&self, change: impl FnOnce(PgConnectOptions) -> PgConnectOptions) -> Self {
        Self { options: change(self.options.clone()), password_file: self.password_file.clone() }
    }

    /// Returns whether the password can change.
    pub(super) fn can_change(&self) -> bool {
        self.password_file.is_some()
    }

    /// Returns the options with the present password.
    pub(super) async fn options(&self) -> sqlx::Result<PgConnectOptions> {
        let options = self.options.clone();
        let Some(file) = &self.password_file else { return Ok(options) };
        let password = tokio::fs::read_to_string(file).await?;
        Ok(options.password(password.trim_end_matches(['\r', '\n'])))
    }
}
