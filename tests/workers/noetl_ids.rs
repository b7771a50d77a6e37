//! Logs whose ids come from NoETL's function `noetl.snowflake_id()`. Those ids are about twice as large as other ids of
//! the same time. The order of a log is the order of its event ids, in NoETL too, so this server appends with larger ids.
//! Its generator does not follow them.

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

/// The function of NoETL's databases: (milliseconds since 2024-01-01) << 23, a constant shard, and a sequence.
const SNOWFLAKE_ID: &str = "
    CREATE SEQUENCE noetl.snowflake_seq;
    CREATE FUNCTION noetl.snowflake_id() RETURNS bigint LANGUAGE sql VOLATILE AS $$
        SELECT (((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1704067200000) << 23) | (1 << 18)
               | (nextval('noetl.snowflake_seq') % 1024) $$";

/// Milliseconds since 2024-01-01 that an id of this server contains.
fn millis(id: i64) -> i64 {
    id >> 22
}

async fn now_ms(shard: &mut PgConnection) -> i64 {
    let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1704067200000";
    sqlx::query_scalar(now).fetch_one(shard).await.unwrap()
}

async fn snowflake_id(shard: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT noetl.snowflake_id()").fetch_one(shard).await.unwrap()
}

/// Appends an event as NoETL does: without the log's lock, with an id of its own.
async fn append(shard: &mut PgConnection, log: i64, event_type: &str, path: &str, status: &str) {
    let insert =
        "INSERT INTO noetl.event (execution_id, event_id, catalog_id, event_type, node_id, node_name, node_type,
                                           status, context)
                  VALUES ($1, noetl.snowflake_id(), 1, $2, 'n', $3, 'execution', $4, jsonb_build_object('path', $3))";
    sqlx::query(insert).bind(log).bind(event_type).bind(path).bind(status).execute(shard).await.unwrap();
}

/// Returns the types of a log's events in the order of their ids, and the largest id.
async fn log(shard: &mut PgConnection, log: i64) -> (Vec<String>, i64) {
    let types = "SELECT event_type FROM noetl.event WHERE execution_id = $1 ORDER BY event_id";
    let types = sqlx::query_scalar(types).bind(log).fetch_all(&mut *shard).await.unwrap();
    let last = "SELECT max(event_id) FROM noetl.event WHERE execution_id = $1";
    (types, sqlx::query_scalar(last).bind(log).fetch_one(shard).await.unwrap())
}

/// Asserts that the ids that the server makes for other logs still follow the clock, within the range of its lease.
async fn assert_ids_follow_the_clock(deployment: &Deployment, server: &Server, shard: &mut PgConnection) {
    server.register_entry("other", &json!({ "kind": "playbook" })).await;
    let made = server.started(json!({ "path": "other" })).await;
    let now = now_ms(shard).await;
    assert!((millis(made.parse().unwrap()) - now).abs() < 60_000, "{made} is not of now, which is {now}");
    let ceiling = deployment.in_cluster("SELECT max(ceiling_ms) FROM noetl.machine_lease").await;
    assert!(ceiling < now + 600_000, "the lease reserves ids up to {ceiling}; now is {now}");
}

#[tokio::test]
async fn logs_with_ids_of_noetl_keep_the_order_in_which_both_servers_append() {
    let deployment = Deployment::start(0).await;
    let mut shard = deployment.shard(0).await;
    run(&mut shard, SNOWFLAKE_ID).await;
    let server = deployment.replica_without_projector().await;
    an_execution_of_noetl_is_cancelled_after_its_last_event_and_noetl_can_append_to_it(
        &deployment,
        &server,
        &mut shard,
    )
    .await;
    both_servers_append_lifecycle_events_to_one_subscription_in_turns(&deployment, &server, &mut shard).await;
    // It empties the registry.
    of_two_subscriptions_that_have_ended_the_later_one_is_shown_whatever_its_id(&server, &mut shard).await;
}

/// The cancellation follows the events of NoETL, and the next event of NoETL follows it.
async fn an_execution_of_noetl_is_cancelled_after_its_last_event_and_noetl_can_append_to_it(
    deployment: &Deployment,
    server: &Server,
    shard: &mut PgConnection,
) {
    let id = snowflake_id(shard).await;
    append(shard, id, "playbook_started", "theirs", "STARTED").await;
    append(shard, id, "step.enter", "a", "STARTED").await;
    let (_, before) = log(shard, id).await;
    let cancel = "mutation($id: ID!) { cancelExecution(input: {executionId: $id}) {
        execution { status } userErrors { code message } } }";
    let cancelled = server.data(cancel, json!({ "id": id.to_string() })).await["cancelExecution"].clone();
    assert_eq!(cancelled["execution"]["status"], "CANCELLED", "{cancelled}");
    let (types, after) = log(shard, id).await;
    assert_eq!(types, ["playbook_started", "step.enter", "playbook.cancelled"]);
    assert!(after > before);
    assert_ids_follow_the_clock(deployment, server, shard).await;

    // NoETL's next id, at least a millisecond later, is larger than ours.
    append(shard, id, "step.exit", "a", "COMPLETED").await;
    let (types, _) = log(shard, id).await;
    assert_eq!(types, ["playbook_started", "step.enter", "playbook.cancelled", "step.exit"]);
    let query = "query($id: ID!) { execution(id: $id) { status events(first: 10) { nodes { type } } } }";
    let read = server.data(query, json!({ "id": id.to_string() })).await["execution"].clone();
    assert_eq!(read["status"], "CANCELLED");
    let listed: Vec<&Value> = read["events"]["nodes"].as_array().unwrap().iter().map(|node| &node["type"]).collect();
    assert_eq!(listed, ["playbook_started", "step.enter", "playbook.cancelled", "step.exit"]);
}

/// The state of a subscription is that of the last event, whichever server wrote it.
async fn both_servers_append_lifecycle_events_to_one_subscription_in_turns(
    deployment: &Deployment,
    server: &Server,
    shard: &mut PgConnection,
) {
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let id = snowflake_id(shard).await;
    append(shard, id, "subscription.registered", "inbox", "REGISTERED").await;
    let registered = server.register("inbox").await;
    assert_eq!(registered["subscription"]["id"], json!(id.to_string()), "{registered}");
    let inbox = id.to_string();
    let state = async || {
        let query = "{ subscription(by: {path: \"inbox\"}) { status } }";
        server.data(query, Value::Null).await["subscription"]["status"].as_str().unwrap().to_owned()
    };
    let ours = async |action: &str| {
        let changed = server.transition(action, &inbox, None).await;
        assert_eq!(changed["userErrors"], json!([]), "{action}: {changed}");
        changed["subscription"]["lastEventId"].as_str().unwrap().parse::<i64>().unwrap()
    };
    let mut last = ours("activate").await;
    for _ in 0..3 {
        append(shard, id, "subscription.paused", "inbox", "PAUSED").await;
        assert_eq!(state().await, "PAUSED", "a later event of NoETL decides");
        let (_, theirs) = log(shard, id).await;
        assert!(theirs > last, "{theirs} does not follow {last}");
        last = ours("resume").await;
        assert!(last > theirs, "{last} does not follow {theirs}");
        assert_eq!(state().await, "ACTIVE", "a later event of this server decides");
    }
    assert_ids_follow_the_clock(deployment, server, shard).await;
}

/// The later subscription of a path is shown, although its id is smaller.
async fn of_two_subscriptions_that_have_ended_the_later_one_is_shown_whatever_its_id(
    server: &Server,
    shard: &mut PgConnection,
) {
    server.register_entry("outgoing", &json!({ "kind": "subscription" })).await;
    let id = snowflake_id(shard).await;
    append(shard, id, "subscription.registered", "outgoing", "REGISTERED").await;
    append(shard, id, "subscription.deactivated", "outgoing", "DEACTIVATED").await;
    let ours = server.register("outgoing").await["subscription"]["id"].as_str().unwrap().to_owned();
    assert_ne!(ours, id.to_string());
    assert_eq!(server.transition("deactivate", &ours, None).await["userErrors"], json!([]));
    // Without the registry, only the logs say which one was the last.
    run(shard, "DELETE FROM noetl.subscription_registry").await;
    let found = server.data("{ subscription(by: {path: \"outgoing\"}) { id } }", Value::Null).await;
    assert_eq!(found["subscription"]["id"], json!(ours), "{found}");
}
