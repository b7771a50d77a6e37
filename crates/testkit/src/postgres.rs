//! A PostgreSQL server of one test, which the test can kill and restart.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use noetl_local::{Postgres, PostgresOptions};
use tempfile::TempDir;
use tokio::process::Command;

use super::copy_folder;

/// The setting of a server that starts and commits faster, because a crash of the machine may destroy its data.
pub const NOT_DURABLE: (&str, &str) = ("fsync", "off");

/// Starts a PostgreSQL server with these settings and creates its database `own`. Returns the folder of the data, which
/// must be dropped after the server, and the server.
pub async fn own_postgres(settings: &[(&str, &str)]) -> (TempDir, Postgres) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("postgres");
    copy_initial_data(&home).await;
    let mut options = PostgresOptions::new(home);
    // Compiling a statement takes longer than any statement of a test.
    options.settings = vec![("shared_buffers".into(), "16MB".into()), ("jit".into(), "off".into())];
    options.settings.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let server = Postgres::start(options).await.unwrap();
    server.create_databases(&["own".to_owned()]).await.unwrap();
    (folder, server)
}

/// Puts the data of a new server into the server's folder, before the first start. A copy takes a fraction of the time
/// of `initdb`, which makes the data of the other servers.
///
/// All copies have one system identifier, so only one server of a process gets one. Two servers of a test then differ.
pub(crate) async fn copy_initial_data(home: &Path) {
    static COPIED: AtomicBool = AtomicBool::new(false);
    let temporary = std::env::temp_dir();
    // The folder of a run of `scripts/test-servers` is deleted with the run, so its data is of the installed version.
    let is_of_run = temporary.with_file_name("server.log").is_file();
    if !is_of_run || COPIED.swap(true, Ordering::Relaxed) {
        return;
    }
    let original = temporary.join("initial-data");
    if !original.is_dir() {
        make_initial_data(&original).await;
    }
    if original.is_dir() {
        std::fs::create_dir_all(home).unwrap();
        copy_folder(&original, &home.join("data"));
    }
}

/// Makes the data of a server that was shut down, and moves it to `original` when it is complete.
async fn make_initial_data(original: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("postgres");
    let (name, value) = NOT_DURABLE;
    let settings = vec![(name.to_owned(), value.to_owned())];
    let mut server = Postgres::start(PostgresOptions { settings, ..PostgresOptions::new(&home) }).await.unwrap();
    server.stop().await;
    let data = home.join("data").canonicalize().unwrap();
    // This fails if another process was faster, or if the server's user can't open the folder of the run.
    let _ = std::fs::rename(data, original);
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
