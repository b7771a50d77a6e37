//! Copies of a PostgreSQL server: standbys, restored dumps, and a deployment that changes to one of them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use noetl_local::{Postgres, PostgresOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

use super::postgres::copy_initial_data;
use super::{Deployment, eventually};

/// Starts a PostgreSQL server that no other test uses, in the folder `postgres` of the returned folder.
pub async fn own_server() -> (Postgres, TempDir) {
    let permissions = std::fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().prefix("noetl-").permissions(permissions).tempdir().unwrap();
    let home = folder.path().join("postgres");
    copy_initial_data(&home).await;
    (server_in(&home).await, folder)
}

/// Starts a PostgreSQL server with its data in a folder.
pub async fn server_in(folder: &Path) -> Postgres {
    let settings = [("fsync", "off"), ("shared_buffers", "32MB"), ("jit", "off")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Postgres::start(PostgresOptions { settings, ..PostgresOptions::new(folder) }).await.unwrap()
}

/// Creates and starts a standby of a server in `folder`, next to the server's own folder.
pub async fn standby(of: &Postgres, folder: &Path) -> Postgres {
    std::fs::create_dir(folder).unwrap();
    base_backup(of, &folder.join("data"), &folder.with_file_name("postgres").join("data"), &["-R"]).await;
    server_in(folder).await
}

/// Copies the data of a running server to `copy`. `data` is the server's own data folder.
pub async fn back_up(of: &Postgres, data: &Path, copy: &Path) {
    base_backup(of, copy, data, &[]).await;
}

/// Replaces the data of a server by a copy, and starts it. The copy is moved.
pub async fn restore_back_up(server: &mut Postgres, data: &Path, copy: &Path) {
    server.stop().await;
    std::fs::remove_dir_all(data).unwrap();
    std::fs::rename(copy, data).unwrap();
    server.restart().await.unwrap();
}

async fn base_backup(of: &Postgres, to: &Path, owner: &Path, options: &[&str]) {
    let mut backup = tokio::process::Command::new("pg_basebackup");
    let backup = backup.args(options).args(["-c", "fast", "-d", &of.dsn("postgres"), "-D"]).arg(to);
    let output = backup.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let owner = format!("--reference={}", owner.display());
    assert!(Command::new("chown").args(["-R", &owner]).arg(to).status().unwrap().success());
}

/// Waits until a standby has replayed every commit of the deployment.
pub async fn until_replayed(deployment: &Deployment, standby: &Postgres) {
    let query = "SELECT pg_current_wal_flush_lsn()::text";
    let flushed: String = sqlx::query_scalar(query).fetch_one(&mut *deployment.shard_session(0).await).await.unwrap();
    eventually("the standby has replayed every commit", async || {
        let mut replica = PgConnection::connect(&standby.dsn(&database(deployment))).await.ok()?;
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{flushed}'::pg_lsn");
        sqlx::query_scalar::<_, bool>(AssertSqlSafe(replayed)).fetch_one(&mut replica).await.ok()?.then_some(())
    })
    .await;
}

/// Copies the databases of one server to another by `pg_dump`, and changes the deployment to the copy.
pub async fn restore(deployment: &mut Deployment, from: &Postgres, to: &Postgres) {
    let name = database(deployment);
    copy_database(from, &name, to, &name).await;
    switch_server(deployment, to);
}

/// Copies the database of a deployment by `pg_dump` to a new database on its server. Returns the address of the copy.
pub async fn copy_beside(deployment: &Deployment, server: &Postgres, copy: &str) -> String {
    copy_database(server, &database(deployment), server, copy).await;
    server.dsn(copy)
}

/// Copies the database of a deployment without separate shards by `pg_dump` to a new database on the shared server.
/// Returns a deployment of the copy; its broker is not that of the original.
pub async fn copy_on_shared_server(deployment: &Deployment) -> Deployment {
    let copy = Deployment::unmigrated(0).await;
    dump_into(&deployment.cluster_dsn, &copy.cluster_dsn);
    copy
}

async fn copy_database(from: &Postgres, name: &str, to: &Postgres, copy: &str) {
    to.create_databases(&[copy.to_owned()]).await.unwrap();
    dump_into(&from.dsn(name), &to.dsn(copy));
}

/// Copies a database by `pg_dump` to an empty one.
fn dump_into(from: &str, to: &str) {
    let command = format!("pg_dump '{from}' | psql -qX -v ON_ERROR_STOP=1 '{to}'");
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Changes the deployment to the same database on another server. The deployment has no separate shards.
pub fn switch_server(deployment: &mut Deployment, to: &Postgres) {
    let name = database(deployment);
    deployment.cluster_dsn = to.dsn(&name);
    deployment.shard_dsns = vec![to.dsn(&name)];
    deployment.env.retain(|(name, _)| name != "NOETL_CLUSTER_DSN");
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), to.dsn(&name)));
}

fn database(deployment: &Deployment) -> String {
    deployment.cluster_dsn.rsplit('/').next().unwrap().to_owned()
}
