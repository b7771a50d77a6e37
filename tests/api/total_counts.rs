//! Lists count their items over all shards, up to a limit.

use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// Number of executions of the path `flow`.
const FLOWS: i64 = 12;

async fn deployment_with_rows() -> (Deployment, Server, Value) {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    for path in ["inbox/a", "inbox/b", "inbox/c"] {
        server.register_entry(path, &json!({ "kind": "subscription" })).await;
    }
    let inbox = server.register("inbox/a").await["subscription"]["id"].clone();
    server.register("inbox/b").await;
    let ended = server.register("inbox/c").await["subscription"]["id"].clone();
    server.transition("deactivate", ended.as_str().unwrap(), None).await;
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    server.register_entry("other", &json!({ "kind": "playbook" })).await;
    for _ in 0..FLOWS {
        server.execute(json!({ "path": "flow", "parentExecutionId": inbox })).await;
    }
    server.execute(json!({ "path": "other" })).await;
    for shard in 0..2 {
        let rows = deployment.sum_over_shards("SELECT count(*) FROM noetl.execution").await;
        assert_eq!(rows, FLOWS + 1);
        let on_shard: i64 = sqlx::query_scalar("SELECT count(*) FROM noetl.execution")
            .fetch_one(&mut deployment.shard(shard).await)
            .await
            .unwrap();
        assert!(on_shard > 0, "shard {shard} has no execution");
    }
    (deployment, server, inbox)
}

fn total(value: i64, capped: bool) -> Value {
    json!({ "value": value, "capped": capped })
}

#[tokio::test]
async fn lists_count_their_items_over_all_shards_up_to_a_valid_limit() {
    let (_deployment, server, inbox) = deployment_with_rows().await;
    capped_counts(&server, &inbox).await;
    other_lists(&server, &inbox).await;
    events(&server, &inbox).await;
    invalid_limits(&server).await;
    backlog(&server, &inbox).await;
}

/// A count does not depend on the page, and is capped at its limit.
async fn capped_counts(server: &Server, inbox: &Value) {
    let query = "query($filter: ExecutionFilter, $upTo: Int) {
        executions(filter: $filter, first: 1) { nodes { id } totalCount(upTo: $upTo) { value capped } } }";
    for (filter, up_to, expected) in [
        (json!({}), None, total(13, false)),
        (json!({}), Some(13), total(13, false)),
        (json!({}), Some(12), total(12, true)),
        (json!({}), Some(1), total(1, true)),
        (json!({ "pathPrefix": "flow" }), None, total(12, false)),
        (json!({ "parentExecutionId": inbox }), Some(100_000), total(12, false)),
        (json!({ "statuses": ["PENDING"] }), None, total(13, false)),
        (json!({ "statuses": ["COMPLETED"] }), None, total(0, false)),
        (json!({ "startedAfter": "2100-01-01T00:00:00Z" }), None, total(0, false)),
        (json!({ "startedBefore": "2100-01-01T00:00:00Z" }), None, total(13, false)),
    ] {
        let data = server.data(query, json!({ "filter": filter, "upTo": up_to })).await;
        assert_eq!(data["executions"]["totalCount"], expected, "{filter} {up_to:?}");
    }
}

/// Children, subscriptions and outbox rows are counted.
async fn other_lists(server: &Server, inbox: &Value) {
    let query = "query($id: ID!) {
        subscription(by: { id: $id }) {
            all: executions(first: 1) { totalCount { value capped } }
            some: executions { totalCount(upTo: 5) { value capped } }
            none: executions(filter: { pathPrefix: \"x\" }) { totalCount { value capped } }
            notMine: executions(filter: { parentExecutionId: \"17\" }) { totalCount { value capped } }
        }
        subscriptions { totalCount { value capped } }
        ended: subscriptions(filter: { statuses: [DEACTIVATED] }) { totalCount { value capped } }
        inboxes: subscriptions(filter: { pathPrefix: \"inbox/\" }, first: 1) { totalCount(upTo: 2) { value capped } }
        outbox {
            entries(first: 1) { totalCount { value capped } }
            dead: entries(filter: { statuses: [DEAD] }) { totalCount { value capped } }
            pending: entries(filter: { statuses: [PENDING] }) { totalCount(upTo: 12) { value capped } }
        }
    }";
    let data = server.data(query, json!({ "id": inbox })).await;
    let counted = |list: &Value| list["totalCount"].clone();
    let of_inbox = &data["subscription"];
    assert_eq!(counted(&of_inbox["all"]), total(FLOWS, false));
    assert_eq!(counted(&of_inbox["some"]), total(5, true));
    assert_eq!(counted(&of_inbox["none"]), total(0, false));
    assert_eq!(counted(&of_inbox["notMine"]), total(0, false));
    assert_eq!(counted(&data["subscriptions"]), total(3, false));
    assert_eq!(counted(&data["ended"]), total(1, false));
    assert_eq!(counted(&data["inboxes"]), total(2, true));
    assert_eq!(counted(&data["outbox"]["entries"]), total(FLOWS + 1, false));
    assert_eq!(counted(&data["outbox"]["dead"]), total(0, false));
    assert_eq!(counted(&data["outbox"]["pending"]), total(12, true));
}

/// The backlog of a subscription is its executions that have not ended. Ends some of them.
async fn backlog(server: &Server, inbox: &Value) {
    let read = async || {
        let query = "query($id: ID!) { subscription(by: { id: $id }) {
            executions(first: 5) { nodes { id } } backlog { value capped } few: backlog(upTo: 2) { value capped } } }";
        server.data(query, json!({ "id": inbox })).await["subscription"].take()
    };
    let before = read().await;
    assert_eq!(before["backlog"], total(FLOWS, false));
    let ids: Vec<&Value> = before["executions"]["nodes"].as_array().unwrap().iter().map(|node| &node["id"]).collect();
    let cancel = "mutation($ids: [ID!]!) { cancelExecutions(input: { select: { ids: $ids } }) { complete } }";
    assert_eq!(server.data(cancel, json!({ "ids": ids })).await["cancelExecutions"]["complete"], true);
    let after = read().await;
    assert_eq!((&after["backlog"], &after["few"]), (&total(FLOWS - 5, false), &total(2, true)));
}

/// Events of one log and of all logs are counted.
async fn events(server: &Server, inbox: &Value) {
    let query = "query($filter: EventFilter, $id: ID, $upTo: Int) {
        events(executionId: $id, filter: $filter, first: 1) { totalCount(upTo: $upTo) { value capped } } }";
    let (started, lifecycle) = (FLOWS + 1, 4);
    for (id, filter, up_to, expected) in [
        (None, json!({}), None, total(started + lifecycle, false)),
        (None, json!({}), Some(started), total(started, true)),
        (None, json!({ "types": ["playbook_*", "playbook_started"] }), None, total(started, false)),
        (None, json!({ "types": ["subscription.registered"] }), Some(3), total(3, false)),
        (None, json!({ "types": [] }), None, total(0, false)),
        (None, json!({ "nodeNames": ["flow"] }), None, total(FLOWS, false)),
        (None, json!({ "nodeNames": ["flow", "other", "other"] }), None, total(started, false)),
        (None, json!({ "nodeNames": ["flow", "other"] }), Some(5), total(5, true)),
        (None, json!({ "statuses": ["STARTED", "REGISTERED"] }), None, total(started + 3, false)),
        (None, json!({ "executionIds": [inbox] }), None, total(1, false)),
        (None, json!({ "parentExecutionId": inbox }), None, total(FLOWS, false)),
        (None, json!({ "createdAfter": "2100-01-01T00:00:00Z" }), None, total(0, false)),
        (None, json!({ "createdBefore": "2100-01-01T00:00:00Z" }), None, total(started + lifecycle, false)),
        (Some(inbox), json!({}), None, total(1, false)),
        (Some(inbox), json!({ "text": "INBOX/A" }), Some(1), total(1, false)),
        (Some(inbox), json!({ "text": "inbox/b" }), None, total(0, false)),
        (Some(inbox), json!({ "executionIds": ["1"] }), None, total(0, false)),
    ] {
        let data = server.data(query, json!({ "filter": filter, "id": id, "upTo": up_to })).await;
        assert_eq!(data["events"]["totalCount"], expected, "{id:?} {filter} {up_to:?}");
    }
}

/// An invalid limit fails the count and not the list.
async fn invalid_limits(server: &Server) {
    let query = "query($upTo: Int) { executions(first: 2) { nodes { path } totalCount(upTo: $upTo) { value } } }";
    for up_to in [0, -1, 100_001] {
        let response = server.send(query, json!({ "upTo": up_to })).await.unwrap();
        assert_eq!(response["data"]["executions"]["nodes"].as_array().unwrap().len(), 2, "{response}");
        assert_eq!(response["data"]["executions"]["totalCount"], Value::Null);
        let error = &response["errors"][0];
        assert_eq!(
            (&error["extensions"]["code"], &error["extensions"]["field"]),
            (&json!("INVALID_INPUT"), &json!(["upTo"]))
        );
        assert_eq!(error["path"], json!(["executions", "totalCount"]));
    }
}
