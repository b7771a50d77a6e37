//! Source subscriptions that NoETL's server registers in the same databases are found by path, and a path that has one
//! gets no second one.

use futures::future::join_all;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

/// Returns the number of live subscriptions of a path, and of the paths below it.
async fn live(deployment: &Deployment, path: &str) -> i64 {
    let live = "SELECT count(*) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'";
    deployment.sum_over_shards(&format!("{live} AND path LIKE '{path}%'")).await
}

/// Writes a lifecycle event as NoETL's server does: without a row in the registry, and without our lock.
async fn write(shard: &mut PgConnection, id: i64, event: i64, path: &str, change: &str) {
    let status = match change {
        "registered" => "REGISTERED",
        "activated" => "ACTIVE",
        _ => "DEACTIVATED",
    };
    let statement = "INSERT INTO noetl.event (execution_id, catalog_id, event_id, event_type, node_id, node_name,
                                              node_type, status, context, meta, created_at)
                     VALUES ($1, 1, $2, 'subscription.' || $3, 'subscription', $4, 'subscription', $5,
                             jsonb_build_object('subscription_id', $1::text, 'path', $4, 'catalog_id', '1'),
                             '{\"emitter\": \"control_plane\", \"subscription_lifecycle\": true}', now())";
    let row = sqlx::query(statement).bind(id).bind(event).bind(change).bind(path).bind(status);
    row.execute(shard).await.unwrap();
}

/// Registers a catalog entry.
async fn enter(server: &Server, path: &str) {
    server.register_entry(path, &json!({ "kind": "subscription" })).await;
}

async fn by_path(server: &Server, path: &str) -> Value {
    let query = "query($path: String!) { subscription(by: {path: $path}) { id status } }";
    server.data(query, json!({ "path": path })).await["subscription"].clone()
}

async fn registry(deployment: &Deployment, path: &str) -> Vec<i64> {
    let query = "SELECT subscription_id FROM noetl.subscription_registry WHERE path = $1 AND intent_after IS NULL";
    sqlx::query_scalar(query).bind(path).fetch_all(&mut deployment.cluster().await).await.unwrap()
}

#[tokio::test]
async fn a_path_has_one_live_subscription_whether_noetl_or_this_api_registers_it() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    // Ids of the second shard. A part may use the next id too.
    let ids = deployment.ids_on(1, 300_000_000_000_000_000, 9);
    adopted(&deployment, &server, ids[0]).await;
    concurrent(&deployment, &server, ids[2]).await;
    taken(&deployment, &server, ids[4]).await;
    crashed(&deployment, &server, ids[6]).await;
    ended(&deployment, &server, ids[8]).await;
}

/// A subscription of NoETL is found by path, and adopted.
async fn adopted(deployment: &Deployment, server: &Server, id: i64) {
    enter(server, "adopted").await;
    write(&mut deployment.shard(1).await, id, 11, "adopted", "registered").await;
    write(&mut deployment.shard(1).await, id, 12, "adopted", "activated").await;
    write(&mut deployment.shard(1).await, id + 1, 13, "adopted/other", "registered").await;
    assert_eq!(by_path(server, "adopted").await, json!({ "id": id.to_string(), "status": "ACTIVE" }));
    assert_eq!(registry(deployment, "adopted").await, [id]);
    let registered = server.register("adopted").await;
    assert_eq!(registered["subscription"]["id"], json!(id.to_string()), "{registered}");
    assert_eq!(live(deployment, "adopted").await, 2);
    assert_eq!(by_path(server, "nowhere").await, Value::Null);
}

/// Concurrent registrations on two replicas of a path that NoETL registered return its subscription.
async fn concurrent(deployment: &Deployment, server: &Server, id: i64) {
    enter(server, "concurrent").await;
    let other = deployment.replica().await;
    write(&mut deployment.shard(1).await, id, 11, "concurrent", "registered").await;
    let registers =
        (0..32).map(|n| if n % 2 == 0 { server.register("concurrent") } else { other.register("concurrent") });
    for registered in join_all(registers).await {
        assert_eq!(registered["subscription"]["id"], json!(id.to_string()), "{registered}");
    }
    assert_eq!(live(deployment, "concurrent").await, 1);
    assert_eq!(registry(deployment, "concurrent").await, [id]);
}

/// A subscription that NoETL registers after ours has ended takes its path.
async fn taken(deployment: &Deployment, server: &Server, id: i64) {
    enter(server, "taken").await;
    let ours = server.register("taken").await["subscription"]["id"].as_str().unwrap().to_owned();
    server.transition("deactivate", &ours, None).await;
    assert_eq!(by_path(server, "taken").await, json!({ "id": ours, "status": "DEACTIVATED" }));
    write(&mut deployment.shard(1).await, id, 11, "taken", "registered").await;
    let refused = server.transition("activate", &ours, None).await;
    assert_eq!(refused["userErrors"][0]["code"], "INVALID_TRANSITION", "{refused}");
    assert_eq!(by_path(server, "taken").await, json!({ "id": id.to_string(), "status": "REGISTERED" }));
    assert_eq!(server.register("taken").await["subscription"]["id"], json!(id.to_string()));
    assert_eq!(live(deployment, "taken").await, 1);

    // When theirs has ended too, the path is free: the last one is shown, and ours can be activated again.
    write(&mut deployment.shard(1).await, id, 12, "taken", "deactivated").await;
    assert_eq!(by_path(server, "taken").await["status"], "DEACTIVATED");
    let activated = server.transition("activate", &ours, None).await;
    assert_eq!(activated["subscription"]["status"], "ACTIVE", "{activated}");
    assert_eq!(by_path(server, "taken").await, json!({ "id": ours, "status": "ACTIVE" }));
}

/// A crashed registration gives way to a subscription of NoETL.
async fn crashed(deployment: &Deployment, server: &Server, id: i64) {
    enter(server, "crashed").await;
    // A caller stored its intent and died. Meanwhile NoETL registered the path.
    let intent = "INSERT INTO noetl.subscription_registry (path, subscription_id, intent_after, updated_at)
                  VALUES ('crashed', 77, 0, now() - interval '1 minute')";
    write(&mut deployment.shard(1).await, id, 11, "crashed", "registered").await;
    sqlx::query(intent).execute(&mut deployment.cluster().await).await.unwrap();
    noetl_testkit::eventually("the intent is settled", async || {
        (registry(deployment, "crashed").await == [id]).then_some(())
    })
    .await;
    assert_eq!(server.register("crashed").await["subscription"]["id"], json!(id.to_string()));
    assert_eq!(live(deployment, "crashed").await, 1);
}

/// A path of NoETL that has ended shows its last subscription.
async fn ended(deployment: &Deployment, server: &Server, id: i64) {
    enter(server, "ended").await;
    for (n, change) in [(11, "registered"), (12, "activated"), (13, "deactivated")] {
        write(&mut deployment.shard(1).await, id, n, "ended", change).await;
    }
    assert_eq!(by_path(server, "ended").await, json!({ "id": id.to_string(), "status": "DEACTIVATED" }));
    let ours = server.register("ended").await["subscription"]["id"].clone();
    assert_ne!(ours, json!(id.to_string()));
    assert_eq!(by_path(server, "ended").await["id"], ours);
}

#[tokio::test]
async fn the_lookup_by_path_reads_an_index_and_not_the_log() {
    let deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    let fill = "INSERT INTO noetl.event (execution_id, catalog_id, event_id, event_type, node_name, status)
                SELECT n % 500, 1, n, CASE WHEN n <= 500 THEN 'subscription.registered' ELSE 'call.done' END,
                       'path-' || n % 500, 'REGISTERED'
                FROM generate_series(1, 50000) AS n";
    noetl_testkit::feed::run(&mut shard, fill).await;
    noetl_testkit::feed::run(&mut shard, "ANALYZE noetl.event").await;
    let plan = "EXPLAIN SELECT * FROM noetl.source_subscription WHERE path = 'path-7' ORDER BY id DESC LIMIT 1000";
    let plan: Vec<String> = sqlx::query_scalar(plan).fetch_all(&mut shard).await.unwrap();
    assert!(plan.iter().any(|line| line.contains("event_registered_path_idx")), "{plan:#?}");
    // The other partitions are empty.
    assert!(!plan.iter().any(|line| line.contains("Seq Scan on event_default")), "{plan:#?}");
}
