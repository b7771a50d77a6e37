//! A path has at most one live subscription, for any concurrent requests.

use std::collections::HashSet;

use futures::future::join_all;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// Returns the number of live subscriptions of a path.
async fn count_live(deployment: &Deployment, path: &str) -> i64 {
    let live = "SELECT count(*) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'";
    deployment.sum_over_shards(&format!("{live} AND path = '{path}'")).await
}

fn id(payload: &Value) -> &str {
    payload["subscription"]["id"].as_str().unwrap_or_else(|| panic!("{payload}"))
}

#[tokio::test]
async fn concurrent_requests_on_two_replicas_leave_at_most_one_live_subscription_of_a_path() {
    let deployment = Deployment::start(2).await;
    let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
    registrations(&deployment, &one, &other).await;
    registrations_and_activations(&deployment, &one, &other).await;
}

/// Concurrent registrations of one path return one subscription. No other path is registered.
async fn registrations(deployment: &Deployment, one: &Server, other: &Server) {
    one.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let registers = (0..64).map(|n| if n % 2 == 0 { one.register("inbox") } else { other.register("inbox") });
    let payloads = join_all(registers).await;
    let ids: HashSet<&str> = payloads.iter().map(id).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(count_live(deployment, "inbox").await, 1);
    let registered = "SELECT count(*) FROM noetl.event WHERE event_type = 'subscription.registered'";
    assert_eq!(deployment.sum_over_shards(registered).await, 1);
}

/// Concurrent registrations and activations leave at most one live subscription.
async fn registrations_and_activations(deployment: &Deployment, one: &Server, other: &Server) {
    one.register_entry("race", &json!({ "kind": "subscription" })).await;
    let first = one.register("race").await;
    let mut known = vec![id(&first).to_owned()];
    one.transition("deactivate", &known[0], None).await;
    for round in 0..20 {
        let old = &known[round % known.len()];
        let (registered, activated, registered_too) =
            tokio::join!(one.register("race"), other.transition("activate", old, None), other.register("race"),);
        assert_eq!(count_live(deployment, "race").await, 1, "round {round}: {registered} {activated}");
        assert_eq!(id(&registered), id(&registered_too), "round {round}");
        let live = id(&registered).to_owned();
        let ended = one.transition("deactivate", &live, None).await;
        assert_eq!(ended["subscription"]["status"], "DEACTIVATED", "round {round}: {ended}");
        assert_eq!(count_live(deployment, "race").await, 0, "round {round}");
        if !known.contains(&live) {
            known.push(live);
        }
    }
}
