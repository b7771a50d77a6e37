//! A PostgreSQL server that requires TLS and client certificates.

use noetl_local::{Postgres, PostgresOptions};
use noetl_testkit::feed::Reader;
use noetl_testkit::{Deployment, Server, WAIT_TIMEOUT, eventually};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::time::timeout;

use super::Authority;

/// Writes a file into the server's data folder. Only the server's user can read it.
async fn write(admin: &mut PgConnection, name: &str, text: &str) {
    let copy = format!(
        "COPY (SELECT unnest(string_to_array($text${}$text$, E'\\n'))) TO PROGRAM 'umask 077; cat > {name}'",
        text.trim_end()
    );
    sqlx::raw_sql(AssertSqlSafe(copy)).execute(admin).await.unwrap();
}

/// Starts a server that requires TLS and a certificate of `authority` for the user `noetl`. The server's own
/// certificate is valid for 127.0.0.1 only.
async fn strict_server(authority: &Authority, folder: &TempDir) -> Postgres {
    let mut options = PostgresOptions::new(folder.path().join("postgres"));
    options.settings = vec![("fsync".into(), "off".into()), ("shared_buffers".into(), "16MB".into())];
    let server = Postgres::start(options).await.unwrap();
    server.create_databases(&["own".to_owned()]).await.unwrap();
    let mut admin = PgConnection::connect(&server.dsn("own")).await.unwrap();
    let read = |path: String| std::fs::read_to_string(path).unwrap();
    let (certificate, key) = authority.sign("database", &["127.0.0.1"]);
    write(&mut admin, "server.crt", &read(certificate)).await;
    write(&mut admin, "server.key", &read(key)).await;
    write(&mut admin, "ca.crt", &read(authority.certificate())).await;
    write(&mut admin, "pg_hba.conf", "hostssl all noetl 127.0.0.1/32 cert").await;
    for setting in ["ssl_ca_file = 'ca.crt'", "ssl = on"] {
        sqlx::raw_sql(AssertSqlSafe(format!("ALTER SYSTEM SET {setting}"))).execute(&mut admin).await.unwrap();
    }
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut admin).await.unwrap();
    eventually("a connection without TLS is refused", async || {
        PgConnection::connect(&format!("{}?sslmode=disable", server.dsn("own"))).await.err()
    })
    .await;
    server
}

#[tokio::test]
async fn a_database_that_requires_tls_and_certificates_is_used_and_a_wrong_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(folder.path(), "right"), Authority::new(folder.path(), "wrong"));
    let server = strict_server(&authority, &folder).await;
    let (certificate, key) = authority.sign("noetl", &[]);
    let plain = server.dsn("own");
    let dsn = |root: &str| format!("{plain}?sslmode=verify-full&sslrootcert={root}&sslcert={certificate}&sslkey={key}");
    let right = dsn(&authority.certificate());

    let mut deployment = Deployment::unmigrated(0).await;
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), right.clone()));
    deployment.migrate().await;
    let replica = deployment.replica().await;
    serves(&replica).await;

    let without = format!("{plain}?sslmode=verify-full&sslrootcert={}", authority.certificate());
    // Each expected text is from the error message of the driver or the server.
    for (wrong, expected) in [
        (dsn(&other.certificate()), "UnknownIssuer"),
        (right.replace("127.0.0.1", "localhost"), "not valid for name"),
        (without, "certificate"),
        (format!("{plain}?sslmode=disable"), "pg_hba.conf"),
    ] {
        let mut command = deployment.command("serve");
        let output = command.env("NOETL_CLUSTER_DSN", &wrong).kill_on_drop(true).output();
        let output = timeout(WAIT_TIMEOUT, output).await.expect("the server does not start").unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("the cluster database") && said.contains(expected), "{said}");
    }
}

/// Panics unless a replica responds to a query, starts an execution, and publishes its event.
pub(super) async fn serves(replica: &Server) {
    let mut reader = Reader::from_beginning(replica).await;
    replica.register_entry("process", &json!({ "kind": "playbook" })).await;
    let executed = replica.execute(json!({ "path": "process" })).await;
    assert_eq!(executed["userErrors"], json!([]), "{executed}");
    let id = executed["execution"]["id"].clone();
    let data = replica
        .data("query($id: ID!) { execution(id: $id) { id events { nodes { id: eventId } } } }", json!({ "id": id }))
        .await;
    let number = |value: &Value| value.as_str().unwrap().parse::<i64>().unwrap();
    let event = number(&data["execution"]["events"]["nodes"][0]["id"]);
    assert!(reader.until_seen([(number(&id), event)]).await, "the feed ended");
}
