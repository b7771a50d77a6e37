//! An execution can be run again, with changes of its workload.

use noetl_testkit::recordings::{insert_row, recordings};
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

const FIELDS: &str = "id status path workload executionPool catalogId rerunOf { id }
    parent { execution { id } subscription { id } }";

async fn rerun(server: &Server, input: Value) -> Value {
    let query = format!(
        "mutation($input: RerunExecutionInput!) {{ rerunExecution(input: $input) {{
            execution {{ {FIELDS} }} executionId outcome differs userErrors {{ code field message }} }} }}"
    );
    server.data(&query, json!({ "input": input })).await["rerunExecution"].clone()
}

async fn start(server: &Server, input: Value) -> String {
    let payload = server.execute(input).await;
    payload["executionId"].as_str().unwrap_or_else(|| panic!("{payload}")).to_owned()
}

fn playbook(workload: &Value) -> Value {
    json!({ "kind": "playbook", "workload": workload })
}

#[tokio::test]
async fn a_rerun_has_the_entry_workload_pool_and_subscription_of_its_origin() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let inbox = server.register("inbox").await["subscription"]["id"].clone();
    let version_1 = server.register_entry("flow", &playbook(&json!({ "a": 1 }))).await;
    let input =
        json!({ "path": "flow", "parentExecutionId": inbox, "workload": { "b": { "c": 2 } }, "executionPool": "gpu" });
    let origin = start(&server, input).await;
    let version_2 = server.register_entry("flow", &playbook(&json!({ "a": 9, "new": true }))).await;

    let same = rerun(&server, json!({ "executionId": origin })).await;
    assert_eq!((&same["outcome"], &same["userErrors"]), (&json!("STARTED"), &json!([])));
    let id = same["executionId"].clone();
    assert_ne!(id, json!(origin));
    let expected = json!({ "id": id, "status": "PENDING", "path": "flow", "workload": { "a": 1, "b": { "c": 2 } },
        "executionPool": "gpu", "catalogId": version_1, "rerunOf": { "id": origin },
        "parent": { "execution": null, "subscription": { "id": inbox } } });
    assert_eq!(same["execution"], expected);

    let changes = json!({ "executionId": id, "workload": { "b": 3 }, "newestVersion": true, "executionPool": "cpu" });
    let changed = rerun(&server, changes).await["execution"].clone();
    let workload = json!({ "a": 1, "b": 3, "new": true });
    assert_eq!((&changed["workload"], &changed["executionPool"]), (&workload, &json!("cpu")));
    assert_eq!((&changed["catalogId"], &changed["rerunOf"]["id"]), (&json!(version_2), &id));

    let reruns = "query($id: ID!) { execution(id: $id) { reruns { nodes { id } totalCount { value } } } }";
    for (of, expected) in [(&json!(origin), vec![&id]), (&id, vec![&changed["id"]]), (&changed["id"], vec![])] {
        let found = server.data(reruns, json!({ "id": of })).await["execution"]["reruns"].take();
        let found_ids: Vec<&Value> = found["nodes"].as_array().unwrap().iter().map(|node| &node["id"]).collect();
        assert_eq!((found_ids, &found["totalCount"]["value"]), (expected.clone(), &json!(expected.len())));
    }
}

#[tokio::test]
async fn a_rerun_of_a_child_execution_has_no_parent() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    server.register_entry("flow", &playbook(&json!({}))).await;
    let parent = start(&server, json!({ "path": "flow" })).await;
    let child = start(&server, json!({ "path": "flow", "parentExecutionId": parent })).await;
    let again = rerun(&server, json!({ "executionId": child })).await["execution"].clone();
    assert_eq!((&again["parent"], &again["rerunOf"]["id"]), (&Value::Null, &json!(child)));
    let rerun_of =
        server.data("query($id: ID!) { execution(id: $id) { rerunOf { id } } }", json!({ "id": child })).await;
    assert_eq!(rerun_of["execution"]["rerunOf"], Value::Null);
}

#[tokio::test]
async fn reruns_with_one_dedup_key_start_one_execution() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    server.register_entry("flow", &playbook(&json!({ "a": 1 }))).await;
    let origin = start(&server, json!({ "path": "flow" })).await;
    let input = json!({ "executionId": origin, "dedup": { "key": "again" } });
    let (first, second) = (rerun(&server, input.clone()).await, rerun(&server, input).await);
    assert_eq!((&first["outcome"], &second["outcome"]), (&json!("STARTED"), &json!("DUPLICATE")));
    assert_eq!(first["executionId"], second["executionId"]);
    assert_eq!(second["differs"], false);
}

#[tokio::test]
async fn an_execution_of_noetl_can_be_run_again_if_the_catalog_has_its_entry() {
    // Ids get 19 digits in some years.
    const LONG_ID: i64 = 1_234_567_890_123_456_789;
    let deployment = Deployment::start(0).await;
    let server = deployment.replica().await;
    let recording = recordings().into_iter().find(|one| one.noetl["execution"]["workload"].is_object()).unwrap();
    let mut database = deployment.cluster().await;
    for mut row in recording.rows.clone() {
        row["execution_id"] = json!(LONG_ID);
        insert_row(&mut database, &row).await;
    }
    let origin = LONG_ID.to_string();
    let refused = rerun(&server, json!({ "executionId": origin })).await;
    assert_eq!(
        (&refused["userErrors"][0]["code"], &refused["userErrors"][0]["field"]),
        (&json!("NOT_FOUND"), &json!(["executionId"]))
    );

    let entry: i64 = recording.rows[0]["catalog_id"].as_i64().unwrap();
    server.register_entry("flow", &playbook(&json!({}))).await;
    sqlx::query("UPDATE noetl.catalog SET catalog_id = $1").bind(entry).execute(&mut database).await.unwrap();
    let again = rerun(&server, json!({ "executionId": origin })).await["execution"].clone();
    assert_eq!(again["workload"], recording.noetl["execution"]["workload"]);
    assert_eq!(again["rerunOf"]["id"], origin);

    // The rows of the list can be built again from the logs.
    let id = again["id"].as_str().unwrap();
    sqlx::query("TRUNCATE noetl.execution, noetl.projection_snapshot").execute(&mut database).await.unwrap();
    let advance =
        "mutation($id: ID!) { advanceProjections(input: { executionIds: [$id] }) { results { userErrors { code } } } }";
    server.data(advance, json!({ "id": id })).await;
    let listed = "query($of: ID!) { executions(filter: { rerunOf: $of }) { nodes { id } } }";
    let listed = server.data(listed, json!({ "of": origin })).await["executions"]["nodes"].take();
    assert_eq!(listed, json!([{ "id": id }]));
}

#[tokio::test]
async fn an_invalid_rerun_starts_nothing() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let inbox = server.register("inbox").await["subscription"]["id"].clone();
    server.register_entry("flow", &playbook(&json!({}))).await;
    let origin = start(&server, json!({ "path": "flow" })).await;
    for (input, code, field) in [
        (json!({ "executionId": "17" }), "NOT_FOUND", "executionId"),
        (json!({ "executionId": inbox }), "NOT_FOUND", "executionId"),
        (json!({ "executionId": "x" }), "INVALID_INPUT", "executionId"),
        (json!({ "executionId": origin, "workload": [1] }), "INVALID_INPUT", "workload"),
        (json!({ "executionId": origin, "trace": { "traceparent": "00" } }), "INVALID_INPUT", "trace.traceparent"),
        (json!({ "executionId": origin, "executionPool": "a.b" }), "INVALID_INPUT", "executionPool"),
        (json!({ "executionId": origin, "dedup": { "key": "" } }), "INVALID_INPUT", "dedup.key"),
    ] {
        let refused = rerun(&server, input.clone()).await;
        let error = &refused["userErrors"][0];
        let field: Vec<&str> = field.split('.').collect();
        assert_eq!((&error["code"], &error["field"]), (&json!(code), &json!(field)), "{input}: {refused}");
        assert_eq!((&refused["execution"], &refused["outcome"]), (&Value::Null, &Value::Null));
    }
    assert_eq!(deployment.sum_over_shards("SELECT count(*) FROM noetl.execution").await, 1);
}
