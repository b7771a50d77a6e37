//! A state that was read before a crash of PostgreSQL is not stored after it: the server assigns transaction ids again, so
//! the state would claim to contain events that it has never seen.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noetl_domain::tenant::Scope;
use noetl_local::Postgres;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::snapshots;
use noetl_testkit::feed::run;
use noetl_testkit::projections::NO_PROJECTOR_NO_STREAM;
use noetl_testkit::{Deployment, NOT_DURABLE, Server, WAIT_TIMEOUT, eventually, own_postgres};
use serde_json::json;
use sqlx::{Connection, PgConnection};

/// Only commits and the WAL writer write WAL to the files, so a crash loses the ids of transactions that wrote nothing.
/// Otherwise a checkpoint, the background writer, and a session that needs a buffer would write it before a changed page.
const SETTINGS: [(&str, &str); 7] = [
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1d"),
    ("bgwriter_lru_maxpages", "0"),
    ("shared_buffers", "128MB"),
    NOT_DURABLE,
];

async fn next_transaction(dsn: &str) -> Option<i64> {
    let query = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    sqlx::query_scalar(query).fetch_one(&mut PgConnection::connect(dsn).await.ok()?).await.ok()
}

/// Returns the end of the WAL in the server's files, which survives the crash of a process.
async fn written(session: &mut PgConnection) -> String {
    sqlx::query_scalar("SELECT pg_current_wal_lsn()::text").fetch_one(session).await.unwrap()
}

async fn event_count(server: &Server, execution: i64) -> String {
    let advanced = server.advance_projections(&[execution]).await;
    assert_eq!(advanced["failed"], json!([]), "{advanced}");
    let query = "query($id: ID!) { execution(id: $id) { eventCount } }";
    let data = server.data(query, json!({ "id": execution.to_string() })).await;
    data["execution"]["eventCount"].as_str().unwrap().to_owned()
}

/// `crash` gets the server, the id of one of its processes, and that of its WAL writer, which is stopped.
async fn state_is_exact_after(crash: impl AsyncFnOnce(&mut Postgres, Pid, Pid)) {
    let (_folder, mut postgres) = own_postgres(&SETTINGS).await;
    let deployment = Deployment::on(&postgres.dsn("postgres"), 0).await;
    let server = deployment.replica_with(&NO_PROJECTOR_NO_STREAM).await;
    let id = server.start_execution().await;
    assert_eq!(event_count(&server, id).await, "1");
    assert!(server.stop().await.success());
    // The commit of a statement that the server began would write the ids to the files.
    deployment.until_sessions_ended(0).await;
    let dsn = &deployment.cluster_dsn;
    deployment.commit(id, id + 11..=id + 12).await;

    let mut session = PgConnection::connect(dsn).await.unwrap();
    // On a slow machine it would write the ids to the files before the crash.
    let writer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
    let writer: i32 = sqlx::query_scalar(writer).fetch_one(&mut session).await.unwrap();
    kill(Pid::from_raw(writer), Signal::SIGSTOP).unwrap();
    let kept = written(&mut session).await;
    let use_ids = "DO $$ BEGIN FOR n IN 1..500 LOOP PERFORM pg_current_xact_id(); ROLLBACK; END LOOP; END $$";
    run(&mut session, use_ids).await;
    let replica = Database::new(DatabaseName::Cluster, dsn.parse().unwrap(), 1);
    let read = snapshots::read(&replica, &Scope::Unrestricted, &[id], WAIT_TIMEOUT).await.unwrap();
    let before = next_transaction(dsn).await.unwrap();
    assert_eq!(written(&mut session).await, kept, "the ids are in no file");
    let process: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut session).await.unwrap();
    crash(&mut postgres, Pid::from_raw(process), Pid::from_raw(writer)).await;
    // Until the postmaster has noticed the crash, it accepts connections.
    eventually("the server is back and has lost transaction ids", async || {
        next_transaction(dsn).await.filter(|after| after + 100 < before)
    })
    .await;
    deployment.commit(id, id + 13..=id + 13).await;

    let refused = eventually("the replica is connected again", async || {
        let refused = snapshots::save(&replica, &read).await.unwrap_err();
        refused.to_string().contains("restarted since").then_some(refused)
    });
    assert!(refused.await.is_temporary());
    let server = deployment.replica_with(&NO_PROJECTOR_NO_STREAM).await;
    assert_eq!(event_count(&server, id).await, "4");
}

#[tokio::test]
async fn a_state_read_before_a_crash_of_the_server_is_not_stored_after_it() {
    state_is_exact_after(async |postgres, _, _| {
        postgres.kill_9().await;
        postgres.restart().await.unwrap();
    })
    .await;
}

/// The other processes recover under the same postmaster, whose start time does not change.
#[tokio::test]
async fn a_state_read_before_a_crash_of_one_process_of_the_server_is_not_stored_after_it() {
    state_is_exact_after(async |_, process, writer| {
        kill(process, Signal::SIGKILL).unwrap();
        kill(writer, Signal::SIGKILL).unwrap();
    })
    .await;
}
