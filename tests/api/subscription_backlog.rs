//! The endpoint for autoscalers shows the active subscriptions and their executions that have not ended.

use noetl_testkit::feed::insert_typed;
use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

async fn subscribed(server: &Server, path: &str, actions: &[&str]) -> String {
    let id = server.subscribe(path).await;
    for action in actions {
        server.transition(action, &id, None).await;
    }
    id
}

#[tokio::test]
async fn the_scaler_endpoint_shows_active_subscriptions_with_their_backlog() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let scaler = async || server.get("/scaler/subscriptions").await.unwrap().json::<Value>().await.unwrap();
    assert_eq!(scaler().await, json!({ "active": 0, "backlog": 0, "subscriptions": [] }));
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    let busy = subscribed(&server, "inbox/busy", &["activate"]).await;
    let idle = subscribed(&server, "inbox/idle", &["activate"]).await;
    let paused = subscribed(&server, "inbox/paused", &["activate", "pause"]).await;
    subscribed(&server, "inbox/registered", &[]).await;
    let mut started = Vec::new();
    for parent in [&busy, &busy, &busy, &paused] {
        let execution = server.execute(json!({ "path": "flow", "parentExecutionId": parent })).await;
        started.push(execution["execution"]["id"].as_str().unwrap().parse::<i64>().unwrap());
    }
    let expected = |open: i64| {
        json!({ "active": 2, "backlog": open, "subscriptions": [
            { "id": busy, "path": "inbox/busy", "backlog": open },
            { "id": idle, "path": "inbox/idle", "backlog": 0 },
        ] })
    };
    assert_eq!(scaler().await, expected(3));

    // The projector updates the list after the end of an execution.
    let shard = server.data(&format!("{{ execution(id: \"{}\") {{ shard }} }}", started[0]), Value::Null).await;
    let shard = usize::try_from(shard["execution"]["shard"].as_u64().unwrap()).unwrap();
    insert_typed(&mut deployment.shard(shard).await, (started[0], started[0] + 100_000), "playbook.completed").await;
    eventually("the ended execution is not counted", async || (scaler().await == expected(2)).then_some(())).await;
}

#[tokio::test]
async fn the_scaler_endpoint_names_a_shard_that_is_down_and_fails_without_shards() {
    let mut deployment = Deployment::start(2).await;
    let networks = [deployment.shard_behind_proxy(0).await, deployment.shard_behind_proxy(1).await];
    let server = deployment.replica().await;
    assert_eq!(server.get("/scaler/subscriptions").await.unwrap().status(), 200);
    networks[1].set(ForwardingMode::Closed);
    let answer = server.get("/scaler/subscriptions").await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json::<Value>().await.unwrap()["unavailableShards"], json!([1]));
    networks[0].set(ForwardingMode::Closed);
    let answer = server.get("/scaler/subscriptions").await.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.json::<Value>().await.unwrap()["error"].is_string());
}

#[tokio::test]
async fn published_events_are_counted_by_type_and_the_last_event_is_shown() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut shard = deployment.shard(0).await;
    let metric = async |labels: &str| server.metric(&format!("noetl_event_stream_published_total{labels}")).await;
    for (event, event_type) in [(1, "playbook_started"), (2, "call.done"), (3, "call.done"), (4, "my.own.type")] {
        insert_typed(&mut shard, (7, event), event_type).await;
    }
    for (event_type, count) in [("playbook_started", 1.0), ("call.done", 2.0), ("other", 1.0)] {
        let labels = format!("{{shard=\"0\",event_type=\"{event_type}\"}}");
        eventually("the type is counted", async || ((metric(&labels).await - count).abs() < 0.1).then_some(())).await;
    }
    eventually("the last event is shown", async || {
        let last = server.metric("noetl_event_stream_last_event_id{shard=\"0\"}").await;
        ((last - 4.0).abs() < 0.1).then_some(())
    })
    .await;
}
