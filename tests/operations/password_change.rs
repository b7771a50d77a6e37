//! The password of the databases' role changes while the server runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::{Deployment, NOT_DURABLE, eventually, own_postgres, sleep_in_scenario};
use serde_json::json;
use sqlx::{Connection, PgConnection};

#[tokio::test]
async fn no_request_fails_while_the_password_is_changed_in_the_database_and_then_in_the_file() {
    let (folder, own) = own_postgres(&[NOT_DURABLE]).await;
    let mut admin = PgConnection::connect(&own.dsn("own")).await.unwrap();
    let role = "CREATE ROLE changing LOGIN PASSWORD 'first'; ALTER DATABASE own OWNER TO changing";
    sqlx::raw_sql(role).execute(&mut admin).await.unwrap();
    let rules = "host all changing 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    std::fs::write(folder.path().join("postgres/data/pg_hba.conf"), rules).unwrap();
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut admin).await.unwrap();

    let mut deployment = Deployment::unmigrated(1).await;
    let file = folder.path().join("password");
    std::fs::write(&file, "first\n").unwrap();
    deployment.env.push(("NOETL_DB_PASSWORD_FILE".to_owned(), file.display().to_string()));
    deployment.configure_shards(&[own.dsn("own").replace("//noetl@", "//changing@")]);
    deployment.migrate().await;
    let server = deployment.replica().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;

    let ended = AtomicBool::new(false);
    let send = async |sender: usize| {
        let mut sent = 0;
        while !ended.load(Ordering::Relaxed) {
            let key = format!("{sender}-{sent}");
            let payload = server.execute(json!({ "path": "process", "dedup": { "key": key } })).await;
            assert_eq!(payload["outcome"], "STARTED", "{payload}");
            sent += 1;
        }
    };
    sqlx::raw_sql("ALTER ROLE changing PASSWORD 'second'").execute(&mut admin).await.unwrap();
    // More senders than there are connections, and none can be opened at first.
    let change = async {
        sleep_in_scenario(Duration::from_millis(700)).await;
        std::fs::write(&file, "second\n").unwrap();
        sleep_in_scenario(Duration::from_millis(700)).await;
        ended.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all((0..9).map(send)), change);

    // All sessions that were opened with the first password end.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'changing'";
    sqlx::raw_sql(end).execute(&mut admin).await.unwrap();
    eventually("requests are served through new connections", async || {
        let payload = server.execute(json!({ "path": "process" })).await;
        (payload["outcome"] == "STARTED").then_some(())
    })
    .await;
    assert!(server.stop().await.success());
}
