//! A list reads a large column only if its operation selects it. The test counts the bytes that come from the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bytes of each large column.
const LARGE: u64 = 256 << 10;
/// Bytes that a query may read beside large columns.
const SMALL: u64 = 128 << 10;

/// Five rows of each list. The text of their large columns is in the table `given`.
const ROWS: &str = "
    INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, payload, meta, name)
    SELECT n, 'large/' || n, 1, 'playbook', large, jsonb_build_object('a', large), jsonb_build_object('a', large), ''
    FROM generate_series(1, 5) AS n, given;
    INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, path, error)
    SELECT n, n, CASE WHEN n > 1 THEN 1 END, 'RUNNING', 'large/' || n, large FROM generate_series(1, 5) AS n, given;
    INSERT INTO noetl.event (execution_id, event_id, catalog_id, event_type, context, result, meta, error, stack_trace)
    SELECT CASE WHEN n > 5 THEN 1 ELSE n END, n, 1,
           CASE WHEN n > 5 THEN 'playbook_failed' ELSE 'playbook_started' END,
           jsonb_build_object('workload', large), jsonb_build_object('a', large), jsonb_build_object('a', large),
           large, large
    FROM generate_series(1, 10) AS n, given;
    INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
    SELECT n, n, 'noetl.executions.x', jsonb_build_object('a', large) FROM generate_series(1, 5) AS n, given";

/// Queries of lists without large columns.
const LEAN: [&str; 6] = [
    r#"{ events(executionId: "1", first: 100) { nodes { id: eventId type nodeName createdAt } pageInfo { endCursor } } }"#,
    "{ executions(first: 100) { nodes { id path status endedAt startedAt parent { execution { id } }
        children(first: 20) { nodes { id status } } events(first: 20) { nodes { id } } } } }",
    "{ executions(first: 100) { edges { node { id catalogEntry { id path version kind createdAt } } } } }",
    r#"{ execution(id: "1") { events(first: 100) { edges { cursor node { ...Lean } } } } } fragment Lean on Event { id }"#,
    "{ outbox { entries(first: 100) { nodes { id subject status attempts } } } }",
    "{ catalogEntries(first: 100) { nodes { id path kind versions { nodes { version } } executions { nodes { id } } } } }",
];

/// Queries of one row with large columns, selected in different ways, and the number of large columns that they read. A
/// page reads one more row.
const FULL: [(&str, u64); 10] = [
    (r#"{ events(executionId: "1", first: 1) { nodes { context } } }"#, 2),
    (
        r#"{ events(executionId: "1", first: 1) { edges { node { ...Full } } } } fragment Full on Event { result meta }"#,
        4,
    ),
    (r#"{ events(executionId: "1", first: 1) { nodes { ... on Event { all: stackTrace error } } } }"#, 4),
    (r#"query($no: Boolean = false) { events(executionId: "1", first: 1) { nodes { id meta @skip(if: $no) } } }"#, 2),
    ("{ executions(first: 1) { nodes { workload } } }", 1),
    ("{ executions(first: 1, filter: {statuses: [FAILED]}) { nodes { error } } }", 1),
    ("{ executions(first: 1) { nodes { catalogEntry { content } } } }", 1),
    ("{ outbox { entries(first: 1) { nodes { payload } } } }", 2),
    ("{ catalogEntries(first: 1) { nodes { workflow { steps { name } } content } } }", 2),
    ("{ catalogEntries(first: 1) { nodes { versions(first: 1) { nodes { content } } } } }", 1),
];

/// Starts a proxy to a server on 127.0.0.1. Returns its port and the number of bytes received from the server.
async fn counted(target: u16) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (port, received) = (listener.local_addr().unwrap().port(), Arc::<AtomicU64>::default());
    let count = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, count) = (TcpStream::connect(("127.0.0.1", target)).await.unwrap(), Arc::clone(&count));
            let (mut client_says, mut to_client) = client.into_split();
            let (mut server_says, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut client_says, &mut to_server).await });
            tokio::spawn(async move {
                let mut chunk = vec![0; 64 << 10];
                while let Ok(bytes @ 1..) = server_says.read(&mut chunk).await {
                    count.fetch_add(bytes as u64, Ordering::Relaxed);
                    if to_client.write_all(&chunk[..bytes]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, received)
}

#[tokio::test]
async fn lists_read_large_columns_only_if_they_are_selected() {
    let deployment = Deployment::start(0).await;
    let given = format!("CREATE TEMPORARY TABLE given AS SELECT repeat('x', {LARGE}) AS large;");
    run(&mut deployment.shard(0).await, &(given + ROWS)).await;
    let port = deployment.cluster_dsn.parse::<PgConnectOptions>().unwrap().get_port();
    let (proxied, received) = counted(port).await;
    let dsn = deployment.cluster_dsn.replace(&format!(":{port}/"), &format!(":{proxied}/"));
    let settings = [&QUIET[..], &[("NOETL_CLUSTER_DSN", dsn.as_str())]].concat();
    let server = deployment.replica_with(&settings).await;
    // The list has the states of the logs then.
    let advanced = server.advance_projections(&[1, 2, 3, 4, 5]).await;
    assert_eq!(advanced["failed"], json!([]));
    // That server keeps the documents that it has read.
    assert!(server.stop().await.success());
    let server = deployment.replica_with(&settings).await;
    let bytes = async |server: &Server, query: &str| {
        let before = received.load(Ordering::Relaxed);
        let data = server.data(query, Value::Null).await;
        assert_ne!(data, json!({}), "{query}");
        received.load(Ordering::Relaxed) - before
    };
    for query in LEAN {
        let bytes = bytes(&server, query).await;
        assert!(bytes < SMALL, "{bytes} bytes were read for {query}");
    }
    for (query, columns) in FULL {
        let bytes = bytes(&server, query).await;
        let expected = columns * LARGE..columns * LARGE + SMALL;
        assert!(expected.contains(&bytes), "{bytes} bytes were read for {query}, not {expected:?}");
    }
}
