//! A DSN that names a primary and its standby: a running server uses the one that accepts writes.

use noetl_local::Postgres;
use noetl_storage::error::DatabaseName;
use noetl_storage::login::Login;
use noetl_storage::pools::{Database, Down, Health};
use noetl_testkit::copies::{own_server, standby, until_replayed};
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, eventually, execute_input};
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

use super::rights::said;

const EXECUTE: &str = "mutation($input: ExecuteInput!) { execute(input: $input) { outcome userErrors { code } } }";

/// Lets the first server of a DSN fail, and promotes the second one, under the same process.
async fn fail_over(fail: impl AsyncFnOnce(&mut Postgres)) {
    let (mut primary, folder) = own_server().await;
    let mut deployment = Deployment::on(&primary.dsn("postgres"), 0).await;
    let standby = standby(&primary, &folder.path().join("standby")).await;
    let name = deployment.cluster_dsn.rsplit('/').next().unwrap().to_owned();
    let address = |server: &Postgres| format!("127.0.0.1:{}", server.port());
    let dsn = |first: &Postgres, second: &Postgres| {
        format!("postgres://noetl@{},{}/{name}?target_session_attrs=read-write", address(first), address(second))
    };
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), dsn(&standby, &primary)));
    deployment.migrate().await;
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), dsn(&primary, &standby)));
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    until_replayed(&deployment, &standby).await;

    fail(&mut primary).await;
    let (code, text) = said(&deployment, "check", &[]).await;
    assert_ne!(code, 0, "{text}");
    assert!(text.contains(&address(&primary)) && text.contains(&address(&standby)), "{text}");
    let mut promoted = PgConnection::connect(&standby.dsn(&name)).await.unwrap();
    run(&mut promoted, "SELECT pg_promote()").await;
    let input = execute_input(json!({ "path": "process" }));
    eventually("an execution is started on the promoted server", async || {
        let response = server.send(EXECUTE, json!({ "input": input })).await.unwrap();
        (response["data"]["execute"]["outcome"] == "STARTED").then_some(())
    })
    .await;
    deployment.move_to(&standby);
    deployment.until_all_published().await;
    assert!(server.stop().await.success());
    // A frozen server does not stop by itself.
    primary.kill_9().await;
}

#[tokio::test]
async fn a_server_continues_on_the_promoted_standby_after_the_primary_was_killed() {
    fail_over(async |primary: &mut Postgres| primary.kill_9().await).await;
}

#[tokio::test]
async fn a_server_continues_on_the_promoted_standby_while_the_primary_does_not_respond() {
    fail_over(async |primary: &mut Postgres| primary.pause().await).await;
}

#[tokio::test]
async fn a_database_is_up_if_one_server_accepts_writes_and_read_only_if_none_of_them_does() {
    let writable: PgConnectOptions = std::env::var("NOETL_TEST_PG").unwrap().parse().unwrap();
    let read_only = writable.clone().options([("default_transaction_read_only", "on")]);
    let dead = writable.clone().port(1);
    // On a busy machine, a probe can end before each server has responded.
    let becomes = async |servers: Vec<PgConnectOptions>, expected: fn(Health) -> bool| {
        eventually("each server has responded", async || {
            let database = Database::with_login(DatabaseName::Cluster, &Login::new(servers.clone(), None), 1);
            database.probe().await;
            expected(database.health()).then_some(())
        })
        .await;
    };
    becomes(vec![dead.clone(), read_only.clone(), writable], |health| {
        health.down.is_none() && health.latency.is_some()
    })
    .await;
    becomes(vec![read_only.clone(), read_only.clone()], |health| health.down == Some(Down::ReadOnly)).await;
    becomes(vec![dead, read_only], |health| {
        let reasons = [":1: ", "the server is read-only (SQLSTATE 25006)"];
        matches!(health.down, Some(Down::Unreachable(text)) if reasons.iter().all(|reason| text.contains(reason)))
    })
    .await;
}
