//! A PostgreSQL server of one test, which the test can kill and restart.

use noetl_local::{Postgres, PostgresOptions};
use tempfile::TempDir;

/// The setting of a server that starts and commits faster, because a crash of the machine may destroy its data.
pub const NOT_DURABLE: (&str, &str) = ("fsync", "off");

/// Starts a PostgreSQL server with these settings and creates its database `own`. Returns the folder of the data, which
/// must be dropped after the server, and the server.
pub async fn own_postgres(settings: &[(&str, &str)]) -> (TempDir, Postgres) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = PostgresOptions::new(folder.path().join("postgres"));
    options.settings = vec![("shared_buffers".into(), "16MB".into())];
    options.settings.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let server = Postgres::start(options).await.unwrap();
    server.create_databases(&["own".to_owned()]).await.unwrap();
    (folder, server)
}
