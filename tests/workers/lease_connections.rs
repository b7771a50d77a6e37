//! Leases are renewed while requests hold all connections of the pool.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Server, eventually, sleep_in_scenario};
use serde_json::json;
use sqlx::PgConnection;

const CLIENTS: usize = 40;
/// Time between the starts of two clients, so that not all of them wait for a connection since the same moment.
const STAGGER: Duration = Duration::from_millis(150);
/// Number of messages that are delivered again and again. Each has its own dedup key.
const MESSAGES: usize = 6;
const EXECUTE: &str = "mutation($key: String!) {
    execute(input: {entry: {path: \"process\"}, dedup: {key: $key}}) { executionId outcome userErrors { code } } }";

/// The leases of a deployment with one database: the feed's fence and leader, and the machine ids with their owners.
#[derive(Debug, PartialEq, Eq)]
struct Leases {
    fence: i64,
    leader: Option<String>,
    machines: Vec<(i16, Option<uuid::Uuid>)>,
}

impl Leases {
    async fn of(database: &mut PgConnection) -> Self {
        let tail = "SELECT fence, CASE WHEN lease_until > now() THEN lease_owner END FROM noetl.tail_cursor";
        let (fence, leader) = sqlx::query_as(tail).fetch_one(&mut *database).await.unwrap();
        let machines = "SELECT machine_id, owner FROM noetl.machine_lease WHERE expires_at > now() ORDER BY machine_id";
        Self { fence, leader, machines: sqlx::query_as(machines).fetch_all(database).await.unwrap() }
    }
}

/// Sends the messages again and again until `enough`. The requests wait for a lock and fail, or time out.
async fn redeliver(server: &Server, client: usize, enough: &AtomicBool) {
    sleep_in_scenario(STAGGER * u32::try_from(client / 2).unwrap()).await;
    while !enough.load(Ordering::Relaxed) {
        let key = format!("message {}", client % MESSAGES);
        let _failed = server.send(EXECUTE, json!({ "key": key })).await;
    }
}

#[tokio::test]
async fn leases_are_kept_while_slow_statements_and_redeliveries_hold_all_connections_of_the_pool() {
    let deployment = Deployment::start(0).await;
    let small = [("NOETL_POOL_SIZE", "2")];
    let servers = [deployment.replica_with(&small).await, deployment.replica_with(&small).await];
    servers[0].register_entry("process", &json!({ "kind": "playbook" })).await;
    deployment.feeds_begun().await;
    let (mut database, mut holder) = (deployment.shard(0).await, deployment.shard(0).await);
    let before = Leases::of(&mut database).await;
    assert_eq!((before.machines.len(), before.leader.is_some()), (2, true), "{before:?}");
    let valid = "SELECT max(expires_at)::text FROM noetl.machine_lease WHERE expires_at > now()";
    let until: String = sqlx::query_scalar(valid).fetch_one(&mut database).await.unwrap();

    run(&mut holder, "BEGIN; LOCK TABLE noetl.execution IN ACCESS EXCLUSIVE MODE").await;
    let enough = AtomicBool::new(false);
    let storm = join_all((0..CLIENTS).map(|client| redeliver(&servers[client % 2], client, &enough)));
    let holding = async {
        // Leases that are not renewed meanwhile have expired then.
        let over = format!("SELECT now() > '{until}'::timestamptz + interval '1 s'");
        eventually("the leases of the start have expired", async || {
            let over = sqlx::query_scalar::<_, bool>(sqlx::AssertSqlSafe(over.as_str())).fetch_one(&mut database);
            over.await.unwrap().then_some(())
        })
        .await;
        let during = Leases::of(&mut database).await;
        enough.store(true, Ordering::Relaxed);
        run(&mut holder, "ROLLBACK").await;
        during
    };
    let (_, during) = tokio::join!(storm, holding);
    assert_eq!(during.machines, before.machines);
    // A stall of the machine may cost a leader its lease once; without renewals, it would change every few seconds.
    assert!(during.fence - before.fence <= 1, "{before:?} {during:?}");

    // The replicas still make ids, and each message has one execution.
    for (index, server) in servers.iter().enumerate() {
        for message in 0..MESSAGES {
            let data = server.data(EXECUTE, json!({ "key": format!("message {message}") })).await;
            assert_eq!(data["execute"]["userErrors"], json!([]), "{data}");
        }
        let data = server.data(EXECUTE, json!({ "key": format!("another {index}") })).await;
        assert_eq!(data["execute"]["outcome"], "STARTED", "{data}");
    }
    let started = "SELECT count(*) FROM noetl.execution";
    let started: i64 = sqlx::query_scalar(started).fetch_one(&mut deployment.shard(0).await).await.unwrap();
    assert_eq!(usize::try_from(started).unwrap(), MESSAGES + servers.len());
    assert_eq!(Leases::of(&mut deployment.shard(0).await).await.machines, before.machines);
}
