//! One database that is cluster and only shard, the default: what holds a connection to the one while it waits for the
//! other can't stand in its own way.

use std::collections::HashSet;

use futures::future::join_all;
use serde_json::json;

use crate::common::{Deployment, Server};

async fn small_replica(deployment: &Deployment) -> Server {
    deployment.replica_with(&[("NOETL_POOL_SIZE", "4")]).await
}

#[tokio::test]
async fn registers_of_one_path_give_one_id() {
    let deployment = Deployment::start(0).await;
    let (one, other) = tokio::join!(small_replica(&deployment), small_replica(&deployment));
    one.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let answers = join_all((0..64).map(|n| [&one, &other][n % 2].register("inbox"))).await;
    let ids: HashSet<String> = answers.iter().map(|answer| answer["subscription"]["id"].to_string()).collect();
    assert_eq!(ids.len(), 1, "{answers:?}");
    assert!(!ids.contains("null"), "{answers:?}");
}

#[tokio::test]
async fn registers_of_many_paths_and_all_else_go_on_together() {
    let deployment = Deployment::start(0).await;
    let server = small_replica(&deployment).await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    for n in 0..24 {
        server.register_entry(&format!("inbox-{n}"), &json!({ "kind": "subscription" })).await;
    }
    let registers = (0..24).map(|n| {
        let path = format!("inbox-{n}");
        let server = &server;
        async move { server.register(&path).await["subscription"]["id"].as_str().map(str::to_owned) }
    });
    let executes = (0..24).map(|n| server.execute(json!({ "path": "process", "dedup": { "key": format!("{n}") } })));
    let (ids, executed) = tokio::join!(join_all(registers), join_all(executes));
    let ids: HashSet<String> = ids.into_iter().map(|id| id.expect("a path was not registered")).collect();
    assert_eq!(ids.len(), 24);
    assert!(executed.iter().all(|answer| answer["outcome"] == "STARTED"), "{executed:?}");
    // Ended, and made live again, which goes through the registry too.
    for action in ["deactivate", "activate"] {
        for answer in join_all(ids.iter().map(|id| server.transition(action, id, None))).await {
            assert_eq!(answer["userErrors"], json!([]), "{action}");
        }
    }
}
