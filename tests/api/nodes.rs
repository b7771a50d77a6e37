//! Every object is found by its id, ids are unique over all types, and objects lead to the objects that they name.

use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

async fn server(deployment: &Deployment) -> Server {
    let server = deployment.replica_with(&[("NOETL_EVENT_STREAM_ENABLED", "false"), NO_RELAY]).await;
    server.register_entry("flow", &json!({ "kind": "playbook", "workload": { "n": 1 } })).await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    server
}

#[tokio::test]
async fn objects_are_found_by_their_ids_and_lead_to_the_objects_that_they_name() {
    let deployment = Deployment::start(2).await;
    let server = server(&deployment).await;
    objects_by_id(&server).await;
    edges(&server).await;
    forms_of_ids(&server).await;
}

/// Each object is found by its id, and no two objects have the same one. Only this part's execution exists.
async fn objects_by_id(server: &Server) {
    let execution = server.execute(json!({ "path": "flow" })).await["execution"]["id"].take();
    let subscription = server.register("inbox").await["subscription"]["id"].take();
    let query = "query($execution: ID!) {
        event: events(executionId: $execution) { nodes { id eventId executionId meta } }
        entry: catalogEntry(by: {path: \"flow\"}) { id catalogId }
        outbox { entries { nodes { id entryId eventId executionId payload } } } }";
    let data = server.data(query, json!({ "execution": execution })).await;
    let (event, entry) = (&data["event"]["nodes"][0], &data["entry"]);
    let row = &data["outbox"]["entries"]["nodes"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    assert_eq!(text(&event["id"]), format!("event-{}-{}", text(&event["executionId"]), text(&event["eventId"])));
    assert_eq!(text(&entry["id"]), format!("catalog-{}", text(&entry["catalogId"])));
    assert_eq!(text(&row["id"]), format!("outbox-{}", text(&row["entryId"])));

    let ids = [&execution, &subscription, &entry["id"], &event["id"], &row["id"]];
    let types = ["Execution", "SourceSubscription", "CatalogEntry", "Event", "OutboxEntry"];
    let query = "query($ids: [ID!]!, $id: ID!) { nodes(ids: $ids) { ...all } node(id: $id) { ...all } }
        fragment all on Node { __typename id ... on Event { meta } ... on OutboxEntry { payload }
            ... on CatalogEntry { workload } ... on Execution { workload } }";
    let unknown = [json!("7"), json!("catalog-7"), json!("event-7-7"), json!("outbox-0-70"), json!("outbox-9-7")];
    let all: Vec<&Value> = ids.into_iter().chain(&unknown).collect();
    for (id, expected) in ids.into_iter().zip(types) {
        let data = server.data(query, json!({ "ids": all, "id": id })).await;
        assert_eq!((&data["node"]["__typename"], &data["node"]["id"]), (&json!(expected), id));
        let found = data["nodes"].as_array().unwrap();
        let listed: Vec<&Value> = found.iter().map(|node| &node["__typename"]).collect();
        assert_eq!(listed[..5], types.map(|name| json!(name)).each_ref());
        assert!(found[5..].iter().all(Value::is_null), "{found:?}");
        assert_eq!((&found[3]["meta"], &found[4]["payload"]), (&event["meta"], &row["payload"]));
        assert_eq!((&found[0]["workload"], &found[2]["workload"]), (&json!({ "n": 1 }), &json!({ "n": 1 })));
    }
    let malformed = json!([execution, "catalog-x"]);
    for (ids, field) in
        [(json!([]), json!(["ids"])), (json!(vec!["1"; 101]), json!(["ids"])), (malformed, json!(["ids", "1"]))]
    {
        let answer = server.send(query, json!({ "ids": ids, "id": execution })).await.unwrap();
        let extensions = &answer["errors"][0]["extensions"];
        assert_eq!((&extensions["code"], &extensions["field"]), (&json!("INVALID_INPUT"), &field), "{answer}");
        if field == json!(["ids"]) {
            assert_eq!(answer["data"]["nodes"], Value::Null, "{answer}");
        } else {
            assert_eq!(answer["errors"][0]["path"], json!(["nodes", 1]), "{answer}");
            assert_eq!(
                (&answer["data"]["nodes"][0]["id"], &answer["data"]["nodes"][1]),
                (&execution, &Value::Null),
                "{answer}"
            );
        }
        assert_eq!(answer["data"]["node"]["id"], execution, "the valid field returns its data");
    }
}

/// Events lead to their log and catalog entry, and outbox entries to their event and execution.
async fn edges(server: &Server) {
    let execution = server.execute(json!({ "path": "flow" })).await["execution"]["id"].take();
    let subscription = server.register("inbox").await["subscription"]["id"].take();
    let edges = "query($log: ID!) { events(executionId: $log) { nodes { catalogEntry { path }
        owner { execution { id } subscription { id path } } } } }";
    let of = async |log: &Value| server.data(edges, json!({ "log": log })).await["events"]["nodes"][0].take();
    let owner = json!({ "execution": { "id": execution }, "subscription": null });
    assert_eq!(of(&execution).await, json!({ "catalogEntry": { "path": "flow" }, "owner": owner }));
    let owner = json!({ "execution": null, "subscription": { "id": subscription, "path": "inbox" } });
    assert_eq!(of(&subscription).await, json!({ "catalogEntry": { "path": "inbox" }, "owner": owner }));
    let bare = json!({ "executionId": "77", "eventId": "1", "type": "call.done" });
    assert_eq!(server.project(&[bare]).await["projected"], 1);
    assert_eq!(of(&json!("77")).await["catalogEntry"], Value::Null, "the event names no entry");
    let outbox = "query($id: ID!) { outbox { entries(filter: { executionId: $id }) { nodes {
        eventId event { eventId type } execution { id status } } } } }";
    let row = server.data(outbox, json!({ "id": execution })).await["outbox"]["entries"]["nodes"][0].take();
    assert_eq!(row["event"], json!({ "eventId": row["eventId"], "type": "playbook_started" }));
    assert_eq!(row["execution"]["id"], execution);
}

/// Inputs accept both forms of an id.
async fn forms_of_ids(server: &Server) {
    let query = "{ catalogEntry(by: {path: \"flow\"}) { id catalogId } }";
    let entry = server.data(query, Value::Null).await["catalogEntry"].take();
    for id in [&entry["id"], &entry["catalogId"]] {
        let started = server.execute(json!({ "catalogId": id })).await["execution"]["id"].take();
        assert!(started.is_string(), "{id}");
        let event = "query($log: ID!) { events(executionId: $log) { nodes { id eventId } } }";
        let event = server.data(event, json!({ "log": started })).await["events"]["nodes"][0].take();
        for id in [&event["id"], &event["eventId"]] {
            let query = "query($log: ID!, $id: ID!) { event(executionId: $log, eventId: $id) { id } }";
            let found = server.data(query, json!({ "log": started, "id": id })).await;
            assert_eq!(found["event"]["id"], event["id"]);
        }
    }
    let claims = server.claim(json!({ "limit": 2 })).await["claims"].take();
    let raw = claims[0]["entryId"].as_str().unwrap();
    let id = if raw.starts_with("outbox-") { raw.to_owned() } else { format!("outbox-{raw}") };
    let settle =
        "mutation($id: ID!, $lease: ID!) { markOutboxPublished(input: { claims: [{ entryId: $id, lease: $lease }] }) {
        published } }";
    let settled = server.data(settle, json!({ "id": id, "lease": claims[0]["lease"] })).await;
    assert_eq!(settled["markOutboxPublished"]["published"], 1);
}
