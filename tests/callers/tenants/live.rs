//! Checks of the live subscriptions.

use serde_json::{Value, json};

use super::queries::pending;
use super::world::{Side, World, list};

pub(super) async fn events(world: &World, own: &Side, other: &Side) {
    let query = |filter: &str| {
        format!(
            "subscription {{ events(start: {{ beginning: true }}, filter: {{ {filter} }}) {{
                __typename ... on EventDelivery {{ event {{ tenantId organizationId shard }} }} }} }}"
        )
    };
    world.deployment.until_all_published().await;
    let mut live = world.live(own, &query("")).await;
    let mut shards = [0, 0];
    loop {
        let item = live.next().await.unwrap()["events"].take();
        match item["__typename"].as_str() {
            Some("CaughtUp") => break,
            Some("EventDelivery") => {
                assert_eq!(item["event"]["tenantId"], own.tenant);
                shards[usize::try_from(item["event"]["shard"].as_u64().unwrap()).unwrap()] += 1;
            }
            _ => {}
        }
    }
    let stored = format!("SELECT count(*) FROM noetl.event WHERE tenant_id = '{}'", own.tenant);
    assert_eq!(shards[0] + shards[1], world.count(&stored).await);
    assert!(shards.iter().all(|events| *events > 0), "{shards:?}");
    let mut none = world.live(own, &query(&format!("tenantId: \"{}\"", other.tenant))).await;
    assert_eq!(none.next().await.unwrap()["events"]["__typename"], "CaughtUp");
}

pub(super) async fn execution_updates(world: &World, own: &Side, other: &Side) {
    let query = |id: &str| {
        format!("subscription {{ executionUpdates(executionId: \"{id}\") {{ execution {{ id tenantId }} }} }}")
    };
    let mut live = world.live(own, &query(&own.executions[0])).await;
    let expected = json!({ "id": own.executions[0], "tenantId": own.tenant });
    assert_eq!(live.next().await.unwrap()["executionUpdates"]["execution"], expected);
    for foreign in [&other.executions[0], &other.listed[1]] {
        let errors = world.live(own, &query(foreign)).await.errors().await;
        assert_eq!(errors[0]["extensions"]["code"], "NOT_FOUND");
    }
}

pub(super) async fn execution_list_updates(world: &World, own: &Side, other: &Side) {
    let query = "subscription { executionListUpdates { kind execution { id tenantId } } }";
    let mut live = world.live(own, query).await;
    let listed = format!("SELECT count(*) FROM noetl.execution WHERE tenant_id = '{}'", own.tenant);
    let mut current = 0;
    loop {
        let item = live.next().await.unwrap()["executionListUpdates"].take();
        if item["kind"] == "CAUGHT_UP" {
            break;
        }
        assert_eq!(item["execution"]["tenantId"], own.tenant);
        current += i64::from(item["kind"] == "CURRENT");
    }
    assert_eq!(current, world.count(&listed).await);
    let mut started = Vec::new();
    for side in [other, own] {
        let query = "mutation { execute(input: { entry: { path: \"flow\" } }) { executionId } }";
        started.push(world.data(side, query).await["execute"]["executionId"].take());
    }
    loop {
        let execution = live.next().await.unwrap()["executionListUpdates"]["execution"].take();
        assert_eq!(execution["tenantId"], own.tenant);
        if execution["id"] == started[1] {
            break;
        }
    }
}

pub(super) async fn subscription_updates(world: &World, own: &Side, other: &Side) {
    let query = "subscription { subscriptionUpdates { kind subscription { id tenantId } } }";
    let mut live = world.live(own, query).await;
    let (path, present) = (format!("changes/{}", own.tenant), "SELECT count(*) FROM noetl.source_subscription");
    let present = world.count(&format!("{present} WHERE tenant_id = '{}'", own.tenant)).await;
    for _ in 0..present {
        assert_eq!(live.next().await.unwrap()["subscriptionUpdates"]["subscription"]["tenantId"], own.tenant);
    }
    assert_eq!(live.next().await.unwrap()["subscriptionUpdates"]["kind"], "CAUGHT_UP");
    world.subscribe(other, &format!("{path}/1")).await;
    let ours = world.subscribe(own, &format!("{path}/2")).await;
    let expected = json!({ "id": ours, "tenantId": own.tenant });
    assert_eq!(live.next().await.unwrap()["subscriptionUpdates"]["subscription"], expected);
    let both = list(&[other.subscription.clone(), own.subscription.clone()]);
    let named =
        format!("subscription {{ subscriptionUpdates(subscriptionIds: {both}) {{ kind subscription {{ id }} }} }}");
    let mut live = world.live(own, &named).await;
    for expected in [
        json!({ "kind": "CURRENT", "subscription": { "id": own.subscription } }),
        json!({ "kind": "CAUGHT_UP", "subscription": null }),
    ] {
        assert_eq!(live.next().await.unwrap()["subscriptionUpdates"], expected);
    }
}

pub(super) async fn system_status(world: &World, own: &Side, _: &Side) {
    let query = "subscription { systemStatus(everySeconds: 1) { outbox { pending } } }";
    let pending = world.count(&pending(own.tenant)).await;
    let mut live = world.live(own, query).await;
    let status: Value = live.next().await.unwrap()["systemStatus"]["outbox"]["pending"].take();
    assert_eq!(status, json!(pending));
}
