//! A PostgreSQL server of one test, which the test can kill and restart.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use noetl_local::{Postgres, PostgresOptions};
use tempfile::TempDir;
use tokio::process::Command;

/// The setting of a server that starts and commits faster, because a crash of the machine may destroy its data.
pub const NOT_DURABLE: (&str, &str) = ("fsync", "off");

/// Starts a PostgreSQL server with these settings and creates its database `own`. Returns the folder of the data, which
/// must be dropped after the server, and the server.
pub async fn own_postgres(settings: &[(&str, &str)]) -> (TempDir, Postgres) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = PostgresOptions::new(folder.path().join("postgres"));
    // Compiling a statement takes longer than any statement of a test.
    options.settings = vec![("shared_buffers".into(), "16MB".into()), ("jit".into(), "off".into())];
    options.settings.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let server = Postgres::start(options).await.unwrap();
    server.create_databases(&["own".to_owned()]).await.unwrap();
    (folder, server)
}

/// Limits the bytes of the files that the sessions of a PostgreSQL server write from now on, or ends the limit. A write that
/// crosses it is short, which is a full disk for PostgreSQL. `data` is the folder of the server's data.
pub async fn limit_files(data: &Path, bytes: Option<u64>) {
    let pid = std::fs::read_to_string(data.join("postmaster.pid")).unwrap();
    let bytes = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    // Only the server's own user may limit it.
    let owner = data.metadata().unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--pid", pid.lines().next().unwrap(), &format!("--fsize={bytes}:")]);
    command.uid(owner.uid()).gid(owner.gid());
    assert!(command.status().await.unwrap().success());
}
