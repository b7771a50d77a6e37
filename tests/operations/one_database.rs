//! With one database as cluster database and only shard (the default), a request that holds a connection and needs a
//! second one cannot cause a deadlock of the pool.

use std::collections::HashSet;

use futures::future::join_all;
use noetl_testkit::{Deployment, Server};
use serde_json::json;

async fn small_replica(deployment: &Deployment) -> Server {
    deployment.replica_with(&[("NOETL_POOL_SIZE", "4")]).await
}

#[tokio::test]
async fn concurrent_registrations_and_executions_cause_no_deadlock() {
    let deployment = Deployment::start(0).await;
    let (one, other) = tokio::join!(small_replica(&deployment), small_replica(&deployment));
    Box::pin(registrations_of_one_path_cause_no_deadlock([&one, &other])).await;
    Box::pin(registrations_beside_executions_cause_no_deadlock(&one)).await;
}

/// Concurrent registrations of one path through two replicas cause no deadlock.
async fn registrations_of_one_path_cause_no_deadlock(servers: [&Server; 2]) {
    servers[0].register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let answers = join_all((0..64).map(|n| servers[n % 2].register("inbox"))).await;
    let ids: HashSet<String> = answers.iter().map(|answer| answer["subscription"]["id"].to_string()).collect();
    assert_eq!(ids.len(), 1, "{answers:?}");
    assert!(!ids.contains("null"), "{answers:?}");
}

/// Concurrent registrations of several paths beside executions cause no deadlock.
async fn registrations_beside_executions_cause_no_deadlock(server: &Server) {
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    for n in 0..12 {
        server.register_entry(&format!("inbox-{n}"), &json!({ "kind": "subscription" })).await;
    }
    let registers = (0..12).map(|n| {
        let path = format!("inbox-{n}");
        async move { server.register(&path).await["subscription"]["id"].as_str().map(str::to_owned) }
    });
    let executes = (0..12).map(|n| server.execute(json!({ "path": "process", "dedup": { "key": format!("{n}") } })));
    let (ids, executed) = tokio::join!(join_all(registers), join_all(executes));
    let ids: HashSet<String> = ids.into_iter().map(|id| id.expect("a path was not registered")).collect();
    assert_eq!(ids.len(), 12);
    assert!(executed.iter().all(|answer| answer["outcome"] == "STARTED"), "{executed:?}");
    // Deactivating and activating again also uses the registry.
    for action in ["deactivate", "activate"] {
        for answer in join_all(ids.iter().map(|id| server.transition(action, id, None))).await {
            assert_eq!(answer["userErrors"], json!([]), "{action}");
        }
    }
}
