//! `pg_upgrade` keeps transaction ids and changes the system identifier. The feed continues as if nothing had happened.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use noetl_local::Postgres;
use noetl_testkit::feed::{assert_exactly, run};
use noetl_testkit::{Deployment, NOT_DURABLE, own_postgres};
use serde_json::json;
use sqlx::{Connection, PgConnection};

/// Upgrades the data of one stopped server to the empty data of another, in both cases with the same version.
fn upgrade(programs: &str, from: &Path, to: &Path, ports: (u16, u16)) {
    let (from, to) = (from.canonicalize().unwrap(), to.canonicalize().unwrap());
    let owner = from.metadata().unwrap();
    let folder = tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    chown(folder.path(), Some(owner.uid()), Some(owner.gid())).unwrap();
    let mut command = Command::new(format!("{programs}/pg_upgrade"));
    command.args(["--link", "-U", "noetl", "-b", programs, "-B", programs, "-d"]).arg(from).arg("-D").arg(to);
    command.args(["-p", &ports.0.to_string(), "-P", &ports.1.to_string()]);
    let output = command.uid(owner.uid()).gid(owner.gid()).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

async fn identifier(deployment: &Deployment) -> i64 {
    deployment.sum_over_shards("SELECT system_identifier FROM pg_control_system()").await
}

async fn transaction_ids(deployment: &Deployment) -> Vec<(i64, i64, String)> {
    let rows = "SELECT execution_id, event_id, tx_id::text FROM noetl.event ORDER BY 1, 2";
    sqlx::query_as(rows).fetch_all(&mut deployment.shard(0).await).await.unwrap()
}

#[tokio::test]
async fn an_upgraded_database_continues_in_the_same_epoch_with_the_same_transaction_ids() {
    let ((folder, mut old), (new_folder, mut new)) =
        tokio::join!(own_postgres(&[NOT_DURABLE]), own_postgres(&[NOT_DURABLE]));
    let mut deployment = Deployment::on(&old.dsn("postgres"), 0).await;
    let mut shard = deployment.shard(0).await;
    run(&mut shard, "INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES (6, 1, 'before.the.feed')")
        .await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    for event in 1..=20 {
        deployment.commit(7, event..=event).await;
    }
    deployment.until_published(20).await;
    assert!(server.stop().await.success());
    run(
        &mut shard,
        "BEGIN; SAVEPOINT one; INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES (7, 21, 'a'); COMMIT",
    )
    .await;
    let (before, ids) = (identifier(&deployment).await, transaction_ids(&deployment).await);
    drop(shard);

    let programs = "SELECT setting FROM pg_config WHERE name = 'BINDIR'";
    let programs: String = sqlx::query_scalar(programs).fetch_one(&mut deployment.shard(0).await).await.unwrap();
    let mut empty = administration(&new).await;
    run(&mut empty, "DROP DATABASE own").await;
    drop(empty);
    tokio::join!(old.stop(), new.stop());
    let data = |folder: &tempfile::TempDir| folder.path().join("postgres/data");
    upgrade(&programs, &data(&folder), &data(&new_folder), (old.port(), new.port()));
    new.restart().await.unwrap();
    deployment.move_to(&new);
    assert_ne!(identifier(&deployment).await, before);
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, &found["differences"]), (0, &json!([])));

    for round in 0..2 {
        let server = deployment.replica().await;
        deployment.feeds_begun().await;
        deployment.commit(8 + round, 1..=10).await;
        let mut committed = deployment.committed().await;
        committed.remove(&(6, 1));
        deployment.until_published(committed.len()).await;
        deployment.until_batch_finished().await;
        assert_exactly(&deployment.published().await, &committed);
        assert_eq!((deployment.epoch().await, deployment.last_error().await), (1, None));
        assert!(server.stop().await.success());
    }
    assert_eq!(transaction_ids(&deployment).await[..ids.len()], ids[..]);
}

async fn administration(server: &Postgres) -> PgConnection {
    PgConnection::connect(&server.dsn("postgres")).await.unwrap()
}
