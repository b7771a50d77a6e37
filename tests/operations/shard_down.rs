//! A database that is down fails only its own requests, is reported, and recovers without a restart of the server.

use std::time::{Duration, Instant};

use noetl_domain::tenant::Scope;
use noetl_local::Postgres;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::snapshots;
use noetl_testkit::feed::{Reader, insert, run};
use noetl_testkit::outbox::{NO_RELAY, references};
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::worker::{event, event_with};
use noetl_testkit::{Deployment, NOT_DURABLE, Server, WAIT_TIMEOUT, eventually, own_postgres};
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// Maximum time in which a mutation for a shard that is down fails.
const LIMIT: Duration = Duration::from_secs(5);

/// A deployment of two shards. One of its databases is on a PostgreSQL server of its own.
pub(super) struct Setup {
    pub(super) deployment: Deployment,
    pub(super) own: Postgres,
    _folder: tempfile::TempDir,
}

/// Creates a deployment with shard 1 on a server of its own.
pub(super) async fn with_own_shard() -> Setup {
    with_own_shard_set(&[NOT_DURABLE]).await
}

/// Creates a deployment with shard 1 on a server of its own with these settings.
async fn with_own_shard_set(settings: &[(&str, &str)]) -> Setup {
    let (mut deployment, (folder, own)) = tokio::join!(Deployment::unmigrated(1), own_postgres(settings));
    deployment.shard_dsns.push(own.dsn("own"));
    deployment.env.push(("NOETL_SHARDS".to_owned(), deployment.shard_dsns.join(",")));
    deployment.migrate().await;
    Setup { deployment, own, _folder: folder }
}

/// Creates a deployment with the cluster database on a server of its own.
async fn with_own_cluster() -> Setup {
    let (mut deployment, (folder, own)) = tokio::join!(Deployment::unmigrated(2), own_postgres(&[NOT_DURABLE]));
    deployment.cluster_dsn = own.dsn("own");
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), deployment.cluster_dsn.clone()));
    deployment.migrate().await;
    Setup { deployment, own, _folder: folder }
}

/// Returns a subscription for each shard, by shard.
pub(super) async fn subscriptions(server: &Server) -> [String; 2] {
    let mut found = [None, None];
    for n in 0.. {
        let path = format!("inbox/{n}");
        let id = server.subscribe(&path).await;
        let activated = server.transition("activate", &id, None).await;
        assert_eq!(activated["subscription"]["status"], "ACTIVE", "{activated}");
        let shard = server.data("query($id: ID!) { subscription(by: {id: $id}) { shard } }", json!({ "id": id })).await;
        let shard = usize::try_from(shard["subscription"]["shard"].as_u64().unwrap()).unwrap();
        found[shard].get_or_insert(id);
        if let [Some(first), Some(second)] = &found {
            return [first.clone(), second.clone()];
        }
    }
    unreachable!()
}

const LIST: &str = "{ subscriptions(first: 100) { nodes { id shard } unavailableShards }
                      executions { nodes { id } unavailableShards } }";

async fn check_lists(server: &Server, ids: &[String], unavailable: Value) -> bool {
    let lists = server.data(LIST, Value::Null).await;
    let nodes = lists["subscriptions"]["nodes"].as_array().unwrap();
    let listed = |id: &String| nodes.iter().any(|node| node["id"] == **id);
    ids.iter().all(listed)
        && lists["subscriptions"]["unavailableShards"] == unavailable
        && lists["executions"]["unavailableShards"] == unavailable
}

async fn check_down(server: &Server, [here, there]: &[String; 2]) {
    let begun = Instant::now();
    let refused = server.transition("pause", there, None).await;
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!(refused["userErrors"][0]["code"], "SHARD_UNAVAILABLE", "{refused}");
    assert_eq!(refused["userErrors"][0]["retryable"], true, "{refused}");
    assert_eq!(refused["subscription"], Value::Null);
    let unknown = |message: &Value| message.as_str().unwrap().contains("unknown whether anything was written");
    assert!(unknown(&refused["userErrors"][0]["message"]), "{refused}");

    assert!(check_lists(server, std::slice::from_ref(here), json!([1])).await);
    eventually("the shard shows as down", async || {
        let shards = server.data("{ shards { shard available error } }", Value::Null).await;
        assert_eq!(shards["shards"][0], json!({ "shard": 0, "available": true, "error": null }));
        (shards["shards"][1]["available"] == false && shards["shards"][1]["error"].is_string()).then_some(())
    })
    .await;
    assert_eq!(server.get("/readyz").await.unwrap().status(), 200);
    let paused = server.transition("pause", here, None).await;
    assert_eq!(paused["subscription"]["status"], "PAUSED", "{paused}");
    let get = "query($id: ID!) { subscription(by: {id: $id}) { status } }";
    let response = server.send(get, json!({ "id": there })).await.unwrap();
    let temporary = json!({ "code": "SHARD_UNAVAILABLE", "retryable": true });
    assert_eq!(response["errors"][0]["extensions"], temporary, "{response}");
    assert!(!unknown(&response["errors"][0]["message"]), "a query writes nothing: {response}");
    let get = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }";
    let response = server.send(get, json!({ "ids": [there, here] })).await.unwrap();
    assert_eq!(response["data"]["nodes"], json!([null, { "id": here }]), "{response}");
    assert_eq!(response["errors"][0]["path"], json!(["nodes", 0]), "{response}");
    assert_eq!(response["errors"][0]["extensions"], temporary, "{response}");
}

async fn check_up(server: &Server, ids: &[String; 2]) {
    eventually("lists are complete again", async || check_lists(server, ids, json!([])).await.then_some(())).await;
    eventually("the shard accepts writes again", async || {
        let paused = server.transition("pause", &ids[1], None).await;
        (paused["subscription"]["status"] == "PAUSED").then_some(())
    })
    .await;
    eventually("the shard shows as up", async || {
        let shards = server.data("{ shards { available } }", Value::Null).await;
        (shards["shards"] == json!([{ "available": true }, { "available": true }])).then_some(())
    })
    .await;
}

/// Makes the subscriptions active for the next case.
async fn resume(server: &Server, ids: &[String; 2]) {
    for id in ids {
        eventually("the subscription is active", async || {
            let resumed = server.transition("resume", id, None).await;
            (resumed["subscription"]["status"] == "ACTIVE").then_some(())
        })
        .await;
    }
}

/// Starts a server that reads the first bytes of each connection and closes it, as a load balancer without a server
/// does. Returns its port.
async fn closing_server() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.read(&mut [0; 64]).await;
        }
    });
    port
}

#[tokio::test]
async fn a_shard_that_is_down_fails_only_its_own_requests_and_recovers() {
    let mut setup = with_own_shard().await;
    let server = setup.deployment.replica().await;
    let ids = subscriptions(&server).await;
    setup.deployment.feeds_begun().await;
    assert!(check_lists(&server, &ids, json!([])).await);

    eprintln!("case: the shard is killed, and another replica starts meanwhile");
    setup.own.kill_9().await;
    check_down(&server, &ids).await;
    let late = setup.deployment.replica().await;
    check_down(&late, &ids).await;
    setup.own.restart().await.unwrap();
    check_up(&server, &ids).await;
    check_up(&late, &ids).await;
    assert!(late.stop().await.success());
    resume(&server, &ids).await;

    eprintln!("case: the shard is frozen");
    setup.own.pause().await;
    check_down(&server, &ids).await;
    setup.own.resume();
    check_up(&server, &ids).await;
    resume(&server, &ids).await;

    eprintln!("case: the shard refuses connections");
    let mut other = PgConnection::connect(&setup.own.dsn("postgres")).await.unwrap();
    run(&mut other, "ALTER DATABASE own ALLOW_CONNECTIONS false").await;
    run(&mut other, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'own'").await;
    check_down(&server, &ids).await;
    run(&mut other, "ALTER DATABASE own ALLOW_CONNECTIONS true").await;
    check_up(&server, &ids).await;
    resume(&server, &ids).await;

    eprintln!("case: the shard is read-only, such as a standby");
    let mut own = setup.deployment.shard(1).await;
    setup.deployment.feeds_begun().await;
    run(&mut own, "ALTER DATABASE own SET default_transaction_read_only = on").await;
    let down = r#"noetl_database_up{database="shard 1"}"#;
    eventually("the shard is down", async || (server.metric(down).await == 0.0).then_some(())).await;
    check_down(&server, &ids).await;
    let shards = server.data("{ shards { available error } }", Value::Null).await["shards"].take();
    assert_eq!(shards[1], json!({ "available": false, "error": "shard 1 is read-only, such as a standby" }));
    run(&mut own, "ALTER DATABASE own RESET default_transaction_read_only").await;
    check_up(&server, &ids).await;
    insert(&mut own, (1, 1)).await;
    setup.deployment.until_all_published().await;
    resume(&server, &ids).await;

    eprintln!("case: the address of the shard closes connections");
    let proxy = Proxy::start(setup.own.port()).await;
    let shards = format!("{},postgres://noetl@127.0.0.1:{}/own", setup.deployment.shard_dsns[0], proxy.port);
    let server = setup.deployment.replica_with(&[("NOETL_SHARDS", &shards)]).await;
    proxy.redirect(closing_server().await);
    setup.own.restart().await.unwrap();
    check_down(&server, &ids).await;
    proxy.redirect(setup.own.port());
    check_up(&server, &ids).await;
}

#[tokio::test]
async fn live_events_of_other_shards_are_delivered_while_one_shard_was_never_up() {
    let mut setup = with_own_shard().await;
    setup.own.kill_9().await;
    let server = setup.deployment.replica().await;
    eventually("shard 0 has a leader", async || setup.deployment.leader(0).await).await;
    let live = server
        .live("subscription { events { __typename ... on EventDelivery { event { id: eventId } } } }", Value::Null);
    let mut live = live.await;
    let mut next = 0;
    let received = eventually("an event of shard 0 arrives", async || {
        next += 1;
        insert(&mut setup.deployment.shard(0).await, (setup.deployment.ids_on(0, 1, 1)[0], next)).await;
        tokio::time::timeout(Duration::from_millis(500), live.next()).await.ok()
    });
    assert_eq!(received.await.unwrap()["events"]["__typename"], "EventDelivery");
    setup.own.restart().await.unwrap();
    setup.deployment.feeds_begun().await;
    let mut reader = Reader::from_latest(&server).await;
    let key = (setup.deployment.ids_on(1, 1, 1)[0], 1);
    insert(&mut setup.deployment.shard(1).await, key).await;
    assert!(reader.until_seen([key]).await);
}

#[tokio::test]
async fn worker_events_of_other_shards_are_stored_while_one_shard_is_down() {
    let mut setup = with_own_shard().await;
    let server = setup.deployment.replica().await;
    let (here, there) = (setup.deployment.ids_on(0, 1, 10), setup.deployment.ids_on(1, 1, 10));
    let keys: Vec<_> = here.iter().zip(&there).flat_map(|(here, there)| [(*here, 1), (*there, 1)]).collect();
    let mut events: Vec<Value> = keys.iter().map(|key| event(key.0, key.1)).collect();
    events.push(event_with(here[0], 2, &json!({ "type": "" })));
    setup.own.kill_9().await;
    let begun = Instant::now();
    let payload = server.project(&events).await;
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!((&payload["projected"], &payload["duplicates"]), (&json!(10), &json!(0)), "{payload}");
    let rejected = payload["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), 11, "{payload}");
    for (one, index) in rejected.iter().zip((1..20).step_by(2)) {
        assert_eq!((&one["index"], &one["retryable"]), (&json!(index), &json!(true)), "{one}");
        assert_eq!(one["code"], "SHARD_UNAVAILABLE", "{one}");
    }
    assert_eq!((&rejected[10]["index"], &rejected[10]["code"]), (&json!(20), &json!("INVALID_INPUT")));

    setup.own.restart().await.unwrap();
    eventually("the same batch lands as a whole", async || {
        let payload = server.project(&events[..20]).await;
        (payload["rejected"] == json!([])).then_some(())
    })
    .await;
    assert_eq!(setup.deployment.committed().await, keys.into_iter().collect());
}

#[tokio::test]
async fn worker_events_of_other_shards_are_stored_while_the_columns_of_one_shard_are_read_from_a_shard_that_hangs() {
    let mut deployment = Deployment::unmigrated(2).await;
    let proxy = deployment.shard_behind_proxy(1).await;
    deployment.migrate().await;
    let server = deployment.replica().await;
    let (here, there) = (deployment.ids_on(0, 1, 1)[0], deployment.ids_on(1, 1, 1)[0]);
    // Values that may belong in columns, so that the columns of both tables are read.
    let with_extra = |execution: i64, number: i64| {
        let mut event = event(execution, number);
        event["extra"] = json!({ "worker_id": "w" });
        event
    };
    assert_eq!(server.project(&[with_extra(here, 1)]).await["projected"], 1);
    proxy.set(ForwardingMode::Stalled);
    let begun = Instant::now();
    let payload = server.project(&[with_extra(here, 2), with_extra(there, 1)]).await;
    // The read of the columns and the insert each have a deadline of 4 s.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(payload["projected"], 1, "{payload}");
    let rejected = payload["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), 1, "{payload}");
    assert_eq!((&rejected[0]["index"], &rejected[0]["retryable"]), (&json!(1), &json!(true)), "{payload}");
    // Other batches of the healthy shard do not wait for the one that hangs, up to its deadline of 4 s.
    let begun = Instant::now();
    assert_eq!(server.project(&[with_extra(here, 3)]).await["projected"], 1);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    proxy.set(ForwardingMode::Normal);
    eventually("the rejected event is stored", async || {
        (server.project(&[with_extra(there, 1)]).await["rejected"] == json!([])).then_some(())
    })
    .await;
    let kept: Value = sqlx::query_scalar("SELECT meta FROM noetl.event WHERE execution_id = $1")
        .bind(there)
        .fetch_one(&mut deployment.shard(1).await)
        .await
        .unwrap();
    assert_eq!(kept["extra"]["worker_id"], "w", "{kept}");
}

/// A worker holds rows of both shards. The shard that was killed still has the claim after its restart.
#[tokio::test]
async fn a_settlement_fails_while_its_shard_is_down_and_succeeds_when_it_is_sent_again() {
    let mut setup = with_own_shard_set(&[]).await;
    let server = setup.deployment.replica_with(&[NO_RELAY]).await;
    for shard in 0..2 {
        setup.deployment.fill_outbox(shard, &setup.deployment.ids_on(shard, 1, 5), 2).await;
    }
    let claims = references(&server.claim(json!({ "limit": 100, "leaseSeconds": 600 })).await);
    assert_eq!(claims.len(), 20);

    setup.own.kill_9().await;
    let begun = Instant::now();
    let refused = server.published(&claims).await;
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!((&refused["published"], &refused["stale"]), (&json!(10), &json!([])), "{refused}");
    let errors = refused["userErrors"].as_array().unwrap();
    assert_eq!(errors.len(), 10, "each row of the shard has its error: {refused}");
    let is_temporary = |error: &Value| error["code"] == "SHARD_UNAVAILABLE" && error["retryable"] == true;
    assert!(errors.iter().all(is_temporary), "{refused}");

    setup.own.restart().await.unwrap();
    assert_eq!(setup.deployment.outbox_rows("status = 'IN_FLIGHT'").await, 10);
    let settled = eventually("the shard accepts the same settlement", async || {
        let settled = server.published(&claims).await;
        (settled["userErrors"] == json!([])).then_some(settled)
    });
    assert_eq!(settled.await, json!({ "published": 10, "stale": [], "userErrors": [] }));
    assert_eq!(setup.deployment.outbox_rows("status = 'PUBLISHED' AND attempts = 1").await, 20);
}

#[tokio::test]
async fn an_unreachable_cluster_database_is_reported_and_recovers_without_a_restart() {
    let mut setup = with_own_cluster().await;
    let server = setup.deployment.replica().await;
    let ids = subscriptions(&server).await;
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    setup.own.kill_9().await;

    let begun = Instant::now();
    let refused = server.register("inbox/unheard").await;
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!(refused["userErrors"][0]["code"], "SHARD_UNAVAILABLE", "{refused}");
    assert_eq!(refused["userErrors"][0]["retryable"], true, "{refused}");
    let refused = server.execute(json!({ "path": "unheard", "dedup": { "key": "k" } })).await;
    assert_eq!(refused["userErrors"][0]["code"], "SHARD_UNAVAILABLE", "{refused}");
    let response = server.send("{ catalogEntries { nodes { path } } }", Value::Null).await.unwrap();
    assert_eq!(response["errors"][0]["extensions"]["code"], "SHARD_UNAVAILABLE", "{response}");
    eventually("the replica is not ready", async || {
        (server.get("/readyz").await.unwrap().status() == 503).then_some(())
    })
    .await;
    // Requests that need only the shards still succeed.
    assert!(check_lists(&server, &ids, json!([])).await);

    setup.own.restart().await.unwrap();
    eventually("the replica is ready again", async || {
        (server.get("/readyz").await.unwrap().status() == 200).then_some(())
    })
    .await;
    eventually("executions start again", async || {
        let executed = server.execute(json!({ "path": "flow" })).await;
        (executed["outcome"] == "STARTED").then_some(())
    })
    .await;
    assert_eq!(server.register("inbox/0").await["userErrors"], json!([]));
}

/// An event that is too large for the broker is completed from its shard. While the shard is down, a reader gets the
/// event without its large fields and with `payloadOmitted`.
#[tokio::test]
async fn a_large_event_of_a_shard_that_is_down_is_delivered_without_its_large_fields() {
    let mut setup = with_own_shard().await;
    let server = setup.deployment.replica().await;
    setup.deployment.feeds_begun().await;
    let execution = setup.deployment.ids_on(1, 1, 1)[0];
    let rows = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
         SELECT {execution}, n, 'call.done', jsonb_build_object('text', repeat('x', CASE n WHEN 2 THEN 5000000 ELSE 1 END))
         FROM generate_series(1, 3) AS n"
    );
    run(&mut setup.deployment.shard(1).await, &rows).await;
    let keys = [(execution, 1), (execution, 2), (execution, 3)];
    let length = |reader: &Reader, n: usize| {
        let events: Vec<_> = reader.items.iter().filter(|item| item["__typename"] == "EventDelivery").collect();
        (events[n]["event"]["context"]["text"].as_str().map(str::len), events[n]["payloadOmitted"].as_bool())
    };
    let mut reader = Reader::from_beginning(&server).await;
    assert!(reader.until_seen(keys).await, "the feed ended");
    assert_eq!(length(&reader, 1), (Some(5_000_000), Some(false)));

    setup.own.kill_9().await;
    let mut reader = Reader::from_beginning(&server).await;
    assert!(reader.until_seen(keys).await, "the feed ended");
    assert_eq!(reader.seen, keys);
    assert_eq!(
        [0, 1, 2].map(|n| length(&reader, n)),
        [(Some(1), Some(false)), (None, Some(true)), (Some(1), Some(false))]
    );
}

#[tokio::test]
async fn a_database_with_one_connection_is_used_and_one_that_rejects_the_login_is_down() {
    let deployment = Deployment::start(0).await;
    Box::pin(an_idle_connection_is_used_if_the_server_accepts_no_further_one(&deployment)).await;
    Box::pin(a_database_that_rejects_the_login_is_down(&deployment)).await;
}

/// An idle connection is used if the server accepts no further one. Statements on few and on many logs are planned in
/// different ways, so they use different connections if they can.
async fn an_idle_connection_is_used_if_the_server_accepts_no_further_one(deployment: &Deployment) {
    let role = format!("limited_{}", std::process::id());
    let create = format!(
        "CREATE ROLE {role} LOGIN CONNECTION LIMIT 1; GRANT USAGE ON SCHEMA noetl TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA noetl TO {role}"
    );
    deployment.on_shard(0, &create).await;
    let options: PgConnectOptions = deployment.shard_dsns[0].parse().unwrap();
    let database = Database::new(DatabaseName::Shard(0), options.username(&role), 3);
    for logs in [1, 500, 1] {
        let ids: Vec<i64> = (1..=logs).collect();
        let read = snapshots::read(&database, &Scope::Unrestricted, &ids, WAIT_TIMEOUT).await;
        assert_eq!(read.map(|found| found.len()).ok(), Some(ids.len()), "{logs} logs");
    }
    assert_eq!(database.pool_size(), (1, 1));
}

/// A database that rejects the login is down.
async fn a_database_that_rejects_the_login_is_down(deployment: &Deployment) {
    let options: PgConnectOptions = deployment.shard_dsns[0].parse().unwrap();
    let database = Database::new(DatabaseName::Shard(0), options.username("nobody_with_this_name"), 3);
    database.probe().await;
    assert!(database.health().down.is_some());
    let refused = snapshots::read(&database, &Scope::Unrestricted, &[1], WAIT_TIMEOUT).await.unwrap_err();
    assert!(refused.is_temporary(), "{refused}");
}
