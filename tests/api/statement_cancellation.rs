//! A statement whose caller has disconnected is cancelled in the database, and its connection becomes free.
//!
//! The statements here wait for a lock that the test holds. The server's own timeouts would end them after at least 3.5
//! seconds, so a statement that ends earlier was cancelled.

use std::time::{Duration, Instant};

use futures::future::join_all;
use noetl_testkit::{Deployment, Live, QUIET, Server, eventually};
use serde_json::{Value, json};
use sqlx::PgConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Time limit of a cancellation on a busy machine. It is below the deadline of an operation, 15 seconds.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);
/// An operation whose statement reads the table that the test locks. No background task reads this table.
const SLOW: &str = "query { catalogEntries { nodes { id } } }";
const QUICK: &str = "{ executions { nodes { id } } }";

struct Setup {
    deployment: Deployment,
    server: Server,
    /// A connection that counts the server's statements.
    observer: PgConnection,
}

/// Starts a replica with the given pool size.
async fn setup(pool: &str) -> Setup {
    let deployment = Deployment::start(0).await;
    let settings = [&QUIET[..], &[("NOETL_POOL_SIZE", pool)]].concat();
    let server = deployment.replica_with(&settings).await;
    let observer = deployment.cluster().await;
    Setup { deployment, server, observer }
}

impl Setup {
    /// Returns a connection that blocks all reads of the catalog until it is dropped.
    async fn locked(&self) -> PgConnection {
        let mut holder = self.deployment.cluster().await;
        sqlx::raw_sql("BEGIN; LOCK TABLE noetl.catalog IN ACCESS EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
        holder
    }

    /// Returns the number of running statements on the catalog.
    async fn running(&mut self) -> i64 {
        let query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
                     AND pid <> pg_backend_pid() AND application_name = 'noetl-graphql'
                     AND query LIKE '%FROM noetl.catalog%'";
        sqlx::query_scalar(query).fetch_one(&mut self.observer).await.unwrap()
    }

    async fn until_running(&mut self, count: i64) {
        eventually("the statements run", async || (self.running().await == count).then_some(())).await;
    }

    /// Panics unless all statements are cancelled within [`CANCEL_LIMIT`] and all connections of the pool are usable.
    async fn assert_cancelled(&mut self) {
        let given_up = Instant::now();
        eventually("the statements are cancelled", async || (self.running().await == 0).then_some(())).await;
        assert!(given_up.elapsed() < CANCEL_LIMIT, "{:?}", given_up.elapsed());
        let quick = join_all((0..4).map(|_| self.server.data(QUICK, Value::Null))).await;
        assert_eq!(quick.len(), 4);
        assert!(given_up.elapsed() < CANCEL_LIMIT, "{:?}", given_up.elapsed());
    }

    async fn post(&self, query: &str) -> TcpStream {
        let body = json!({ "query": query }).to_string();
        self.request("POST /graphql", "application/json", &body).await
    }

    /// Sends a request on a connection of its own.
    async fn request(&self, line: &str, accept: &str, body: &str) -> TcpStream {
        let address = self.server.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: {address}\r\naccept: {accept}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).await.unwrap();
        stream
    }
}

/// The statements of two callers hold both connections until after the others have given up.
#[tokio::test]
async fn callers_that_wait_for_a_connection_and_those_that_get_none_in_time_are_counted() {
    let setup = setup("2").await;
    let metric = async |name: &str, labels: &str| {
        let name = format!(r#"noetl_database_connection{name}{{database="the cluster database"{labels}}}"#);
        setup.server.metric(&name).await
    };
    let before = (metric("_waits_total", "").await, metric("_timeouts_total", "").await);
    let _holder = setup.locked().await;
    let _callers = join_all((0..6).map(|_| setup.post(SLOW))).await;
    eventually("both connections are reported as used", async || {
        (metric("s", r#",state="used""#).await > 1.5).then_some(())
    })
    .await;
    assert!((1.5..2.5).contains(&metric("s_max", "").await));
    eventually("the callers that wait are counted", async || {
        (metric("_waits_total", "").await >= before.0 + 4.0).then_some(())
    })
    .await;
    eventually("a caller has got no connection in time", async || {
        (metric("_timeouts_total", "").await > before.1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn disconnecting_closing_and_complete_cancel_the_statements_of_a_pool_of_two() {
    let mut setup = setup("2").await;
    disconnected_callers(&mut setup).await;
    Box::pin(closed_streams(&mut setup)).await;
    Box::pin(completed_operations(&mut setup)).await;
}

/// Callers that disconnect free the pool.
async fn disconnected_callers(setup: &mut Setup) {
    let _holder = setup.locked().await;
    let callers = [setup.post(SLOW).await, setup.post(SLOW).await];
    setup.until_running(2).await;
    drop(callers);
    setup.assert_cancelled().await;
}

/// Closing an event stream or a socket cancels its statement.
async fn closed_streams(setup: &mut Setup) {
    let _holder = setup.locked().await;
    let body = json!({ "query": SLOW }).to_string();
    let mut stream = setup.request("POST /graphql/stream", "text/event-stream", &body).await;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let socket = Live::open(&setup.server.url, SLOW, Value::Null).await;
    setup.until_running(2).await;
    drop((stream, socket));
    setup.assert_cancelled().await;
}

/// `complete` cancels the operation, and the socket stays open.
async fn completed_operations(setup: &mut Setup) {
    let _holder = setup.locked().await;
    let mut sockets = Vec::new();
    for _ in 0..2 {
        sockets.push(Live::open(&setup.server.url, SLOW, Value::Null).await);
    }
    setup.until_running(2).await;
    for socket in &mut sockets {
        socket.send(json!({ "id": "1", "type": "complete" })).await.unwrap();
    }
    setup.assert_cancelled().await;
    for socket in &mut sockets {
        socket.send(json!({ "type": "ping" })).await.unwrap();
        assert_eq!(socket.message().await.unwrap()["type"], "pong");
    }
}

#[tokio::test]
async fn a_hundred_callers_that_disconnect_leave_all_connections_in_the_pool() {
    let mut setup = setup("4").await;
    let holder = setup.locked().await;
    let mut callers = Vec::new();
    for _ in 0..100 {
        callers.push(setup.post(SLOW).await);
    }
    setup.until_running(4).await;
    drop(callers);
    setup.assert_cancelled().await;
    drop(holder);
    setup.server.data(SLOW, Value::Null).await;
    let pool = eventually("all connections of the pool are idle", async || {
        let shards = setup.server.data("{ shards { poolSize poolIdle } }", Value::Null).await;
        let pool = shards["shards"][0].clone();
        (pool["poolSize"] == pool["poolIdle"]).then_some(pool)
    })
    .await;
    assert!((1..=4).contains(&pool["poolSize"].as_u64().unwrap()), "{pool}");
}

#[tokio::test]
async fn a_statement_over_its_deadline_is_cancelled() {
    let mut setup = setup("2").await;
    setup.server.register_entry("a", &json!({ "kind": "playbook" })).await;
    // Each row takes longer than any timeout of the server.
    let slow = "ALTER TABLE noetl.catalog RENAME TO catalog_kept;
                CREATE VIEW noetl.catalog AS SELECT * FROM noetl.catalog_kept WHERE pg_sleep(60) IS NOT NULL";
    sqlx::raw_sql(slow).execute(&mut setup.deployment.cluster().await).await.unwrap();
    let begun = Instant::now();
    let response = setup.server.send(SLOW, Value::Null).await.unwrap();
    assert_eq!(response["errors"][0]["extensions"]["code"], "TIMEOUT", "{response}");
    // Without the cancellation, the statement would run until its own timeout of 8 seconds.
    assert!(begun.elapsed() < Duration::from_millis(7500), "{:?}", begun.elapsed());
    setup.assert_cancelled().await;
    let shards = setup.server.data("{ shards { available } }", Value::Null).await;
    assert_eq!(shards["shards"], json!([{ "available": true }]), "a slow database is not down");
}

#[tokio::test]
async fn a_slow_list_is_a_timeout_and_its_shard_is_not_listed_as_unavailable() {
    let mut setup = setup("2").await;
    let slow = "INSERT INTO noetl.execution (execution_id, catalog_id, status) VALUES (1, 1, 'RUNNING');
                ALTER TABLE noetl.execution RENAME TO execution_kept;
                CREATE VIEW noetl.execution AS SELECT * FROM noetl.execution_kept WHERE pg_sleep(60) IS NOT NULL";
    sqlx::raw_sql(slow).execute(&mut setup.deployment.cluster().await).await.unwrap();
    let query = "{ executions { nodes { id } unavailableShards } }";
    let (first, second, third) =
        tokio::join!(setup.server.send(query, Value::Null), setup.server.send(query, Value::Null), async {
            // Waits for one of the two connections of the pool, and gets none.
            setup.server.send("{ executions { totalCount { value } } }", Value::Null).await
        });
    for response in [first, second, third] {
        let response = response.unwrap();
        assert_eq!(response["errors"][0]["extensions"]["code"], "TIMEOUT", "{response}");
        assert_eq!(response["data"]["executions"], Value::Null, "{response}");
    }
    let running = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
                   AND wait_event = 'PgSleep'";
    let given_up = Instant::now();
    let observer = &mut setup.observer;
    eventually("the statements are cancelled", async || {
        let running: i64 = sqlx::query_scalar(running).fetch_one(&mut *observer).await.unwrap();
        (running == 0).then_some(())
    })
    .await;
    assert!(given_up.elapsed() < CANCEL_LIMIT, "{:?}", given_up.elapsed());
    let shards = setup.server.data("{ shards { available error } }", Value::Null).await;
    assert_eq!(shards["shards"], json!([{ "available": true, "error": null }]));
}

#[tokio::test]
async fn a_transaction_whose_caller_disconnects_is_rolled_back() {
    let mut setup = setup("2").await;
    setup.server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let mut holder = setup.deployment.cluster().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE noetl.event IN ACCESS EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
    let register = r#"mutation { registerSubscription(input: {path: "inbox"}) { subscription { id } } }"#;
    let caller = setup.post(register).await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                 AND application_name = 'noetl-graphql'";
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL
                AND application_name = 'noetl-graphql'";
    let observer = &mut setup.observer;
    eventually("the mutation waits", async || {
        let waiting: i64 = sqlx::query_scalar(waits).fetch_one(&mut *observer).await.unwrap();
        (waiting == 1).then_some(())
    })
    .await;
    drop(caller);
    let given_up = Instant::now();
    eventually("no transaction is open", async || {
        let open: i64 = sqlx::query_scalar(open).fetch_one(&mut *observer).await.unwrap();
        (open == 0).then_some(())
    })
    .await;
    assert!(given_up.elapsed() < CANCEL_LIMIT, "{:?}", given_up.elapsed());
    drop(holder);
    let registered = setup.server.register("inbox").await;
    assert_eq!(registered["subscription"]["status"], "REGISTERED", "{registered}");
}
