//! Source subscriptions that NoETL's server registers in the same databases are found by path, and a path that has one
//! gets no second one.

use futures::future::join_all;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

const LIVE: &str = "SELECT count(*) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'";

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

/// Returns a deployment of two shards with the catalog entry `inbox`, a replica, and an id of the second shard.
async fn with_entry() -> (Deployment, Server, i64) {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let id = deployment.ids_on(1, 300_000_000_000_000_000, 1)[0];
    (deployment, server, id)
}

async fn by_path(server: &Server, path: &str) -> Value {
    let query = "query($path: String!) { subscription(by: {path: $path}) { id status } }";
    server.data(query, json!({ "path": path })).await["subscription"].clone()
}

async fn registry(deployment: &Deployment) -> Vec<i64> {
    let query = "SELECT subscription_id FROM noetl.subscription_registry WHERE path = 'inbox' AND intent_after IS NULL";
    sqlx::query_scalar(query).fetch_all(&mut deployment.cluster().await).await.unwrap()
}

#[tokio::test]
async fn a_subscription_of_noetl_is_found_by_path_and_adopted() {
    let (deployment, server, id) = with_entry().await;
    write(&mut deployment.shard(1).await, id, 11, "inbox", "registered").await;
    write(&mut deployment.shard(1).await, id, 12, "inbox", "activated").await;
    write(&mut deployment.shard(1).await, id + 1, 13, "inbox/other", "registered").await;
    assert_eq!(by_path(&server, "inbox").await, json!({ "id": id.to_string(), "status": "ACTIVE" }));
    assert_eq!(registry(&deployment).await, [id]);
    let registered = server.register("inbox").await;
    assert_eq!(registered["subscription"]["id"], json!(id.to_string()), "{registered}");
    assert_eq!(deployment.sum_over_shards(LIVE).await, 2);
    assert_eq!(by_path(&server, "nowhere").await, Value::Null);
}

#[tokio::test]
async fn concurrent_registrations_of_a_path_that_noetl_registered_return_its_subscription() {
    let (deployment, server, id) = with_entry().await;
    let other = deployment.replica().await;
    write(&mut deployment.shard(1).await, id, 11, "inbox", "registered").await;
    let registers = (0..32).map(|n| if n % 2 == 0 { server.register("inbox") } else { other.register("inbox") });
    for registered in join_all(registers).await {
        assert_eq!(registered["subscription"]["id"], json!(id.to_string()), "{registered}");
    }
    assert_eq!(deployment.sum_over_shards(LIVE).await, 1);
    assert_eq!(registry(&deployment).await, [id]);
}

#[tokio::test]
async fn a_subscription_that_noetl_registers_after_ours_has_ended_takes_its_path() {
    let (deployment, server, id) = with_entry().await;
    let ours = server.register("inbox").await["subscription"]["id"].as_str().unwrap().to_owned();
    server.transition("deactivate", &ours, None).await;
    assert_eq!(by_path(&server, "inbox").await, json!({ "id": ours, "status": "DEACTIVATED" }));
    write(&mut deployment.shard(1).await, id, 11, "inbox", "registered").await;
    let refused = server.transition("activate", &ours, None).await;
    assert_eq!(refused["userErrors"][0]["code"], "INVALID_TRANSITION", "{refused}");
    assert_eq!(by_path(&server, "inbox").await, json!({ "id": id.to_string(), "status": "REGISTERED" }));
    assert_eq!(server.register("inbox").await["subscription"]["id"], json!(id.to_string()));
    assert_eq!(deployment.sum_over_shards(LIVE).await, 1);

    // When theirs has ended too, the path is free: the last one is shown, and ours can be activated again.
    write(&mut deployment.shard(1).await, id, 12, "inbox", "deactivated").await;
    assert_eq!(by_path(&server, "inbox").await["status"], "DEACTIVATED");
    let activated = server.transition("activate", &ours, None).await;
    assert_eq!(activated["subscription"]["status"], "ACTIVE", "{activated}");
    assert_eq!(by_path(&server, "inbox").await, json!({ "id": ours, "status": "ACTIVE" }));
}

#[tokio::test]
async fn a_crashed_registration_gives_way_to_a_subscription_of_noetl() {
    let (deployment, server, id) = with_entry().await;
    // A caller stored its intent and died. Meanwhile NoETL registered the path.
    let intent = "INSERT INTO noetl.subscription_registry (path, subscription_id, intent_after, updated_at)
                  VALUES ('inbox', 77, 0, now() - interval '1 minute')";
    write(&mut deployment.shard(1).await, id, 11, "inbox", "registered").await;
    sqlx::query(intent).execute(&mut deployment.cluster().await).await.unwrap();
    noetl_testkit::eventually("the intent is settled", async || (registry(&deployment).await == [id]).then_some(()))
        .await;
    assert_eq!(server.register("inbox").await["subscription"]["id"], json!(id.to_string()));
    assert_eq!(deployment.sum_over_shards(LIVE).await, 1);
}

#[tokio::test]
async fn a_path_of_noetl_that_has_ended_shows_its_last_subscription() {
    let (deployment, server, id) = with_entry().await;
    for (n, change) in [(11, "registered"), (12, "activated"), (13, "deactivated")] {
        write(&mut deployment.shard(1).await, id, n, "inbox", change).await;
    }
    assert_eq!(by_path(&server, "inbox").await, json!({ "id": id.to_string(), "status": "DEACTIVATED" }));
    let ours = server.register("inbox").await["subscription"]["id"].clone();
    assert_ne!(ours, json!(id.to_string()));
    assert_eq!(by_path(&server, "inbox").await["id"], ours);
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
