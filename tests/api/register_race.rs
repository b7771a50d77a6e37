//! A path has at most one live subscription, for any concurrent requests.

use std::collections::HashSet;

use futures::future::join_all;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

const LIVE: &str = "SELECT count(*) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'";

async fn with_entry(deployment: &Deployment) -> (Server, Server) {
    let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
    one.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    (one, other)
}

fn id(payload: &Value) -> &str {
    payload["subscription"]["id"].as_str().unwrap_or_else(|| panic!("{payload}"))
}

#[tokio::test]
async fn concurrent_registrations_of_one_path_return_one_subscription() {
    let deployment = Deployment::start(2).await;
    let (one, other) = with_entry(&deployment).await;
    let registers = (0..64).map(|n| if n % 2 == 0 { one.register("inbox") } else { other.register("inbox") });
    let payloads = join_all(registers).await;
    let ids: HashSet<&str> = payloads.iter().map(id).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(deployment.sum_over_shards(LIVE).await, 1);
    let registered = "SELECT count(*) FROM noetl.event WHERE event_type = 'subscription.registered'";
    assert_eq!(deployment.sum_over_shards(registered).await, 1);
}

#[tokio::test]
async fn concurrent_register_and_activate_leave_at_most_one_live_subscription() {
    let deployment = Deployment::start(2).await;
    let (one, other) = with_entry(&deployment).await;
    let first = one.register("inbox").await;
    let mut known = vec![id(&first).to_owned()];
    one.transition("deactivate", &known[0], None).await;
    for round in 0..20 {
        let old = &known[round % known.len()];
        let (registered, activated, registered_too) =
            tokio::join!(one.register("inbox"), other.transition("activate", old, None), other.register("inbox"),);
        assert_eq!(deployment.sum_over_shards(LIVE).await, 1, "round {round}: {registered} {activated}");
        assert_eq!(id(&registered), id(&registered_too), "round {round}");
        let live = id(&registered).to_owned();
        let ended = one.transition("deactivate", &live, None).await;
        assert_eq!(ended["subscription"]["status"], "DEACTIVATED", "round {round}: {ended}");
        assert_eq!(deployment.sum_over_shards(LIVE).await, 0, "round {round}");
        if !known.contains(&live) {
            known.push(live);
        }
    }
}
