//! Cancellations of executions, of their descendants, and of many executions.

use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

const CANCEL: &str = "mutation($input: CancelExecutionInput!) { cancelExecution(input: $input) {
    execution { id status } cancelled complete unavailableShards
    results { id cancelled execution { status error } userErrors { code } } userErrors { code } } }";

async fn started() -> (Deployment, Server) {
    let deployment = Deployment::start(3).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    (deployment, server)
}

async fn start(server: &Server, parent: Option<&str>) -> String {
    let payload = server.execute(json!({ "path": "run", "parentExecutionId": parent })).await;
    payload["execution"]["id"].as_str().unwrap().to_owned()
}

async fn cancel(server: &Server, id: &str, cascade: bool) -> Value {
    let input = json!({ "id": id, "reason": "enough", "cascade": cascade });
    server.data(CANCEL, json!({ "input": input })).await["cancelExecution"].take()
}

async fn status(server: &Server, id: &str) -> String {
    let query = "query($id: ID!) { execution(id: $id) { status } }";
    let found = server.data(query, json!({ "id": id })).await;
    found["execution"]["status"].as_str().unwrap().to_owned()
}

fn cancelled_ids(payload: &Value) -> Vec<&str> {
    let results = payload["results"].as_array().unwrap().iter().filter(|result| result["cancelled"] == true);
    results.map(|result| result["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_cascade_cancels_the_running_descendants_on_all_shards_and_can_be_repeated() {
    let (deployment, server) = started().await;
    let root = start(&server, None).await;
    let (one, two) = (start(&server, Some(&root)).await, start(&server, Some(&root)).await);
    let (below, other) = (start(&server, Some(&one)).await, start(&server, None).await);
    let ended: i64 = two.parse().unwrap();
    let event =
        "INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ($1, $1 + 1000000, 'playbook.completed')";
    let shard = noetl_domain::shard::ShardMap::even(3).shard_of(noetl_domain::ids::Id::new(ended));
    sqlx::query(event).bind(ended).execute(&mut deployment.shard(shard.into()).await).await.unwrap();

    // Without a cascade, the children keep running. A second cancellation writes nothing.
    let alone = cancel(&server, &root, false).await;
    assert_eq!((&alone["cancelled"], &alone["results"], &alone["complete"]), (&json!(true), &json!([]), &json!(true)));
    assert_eq!(status(&server, &one).await, "PENDING");
    let events = "SELECT count(*) FROM noetl.event WHERE event_type = 'playbook.cancelled'";
    assert_eq!(deployment.sum_over_shards(events).await, 1);

    // The execution that is cancelled already leads to its descendants.
    let cascade = cancel(&server, &root, true).await;
    assert_eq!((&cascade["cancelled"], &cascade["userErrors"]), (&json!(false), &json!([])), "{cascade}");
    assert_eq!((&cascade["execution"]["status"], &cascade["complete"]), (&json!("CANCELLED"), &json!(true)));
    assert_eq!(cancelled_ids(&cascade), [&one, &below], "{cascade}");
    for result in cascade["results"].as_array().unwrap() {
        assert_eq!(result["execution"], json!({ "status": "CANCELLED", "error": "enough" }));
    }
    let statuses = [status(&server, &two).await, status(&server, &other).await];
    assert_eq!(statuses, ["COMPLETED", "PENDING"]);
    let again = cancel(&server, &root, true).await;
    assert_eq!((&again["results"], &again["userErrors"]), (&json!([]), &json!([])), "{again}");
    assert_eq!(deployment.sum_over_shards(events).await, 3);
}

#[tokio::test]
async fn a_cascade_visits_a_bounded_number_of_descendants_and_says_so() {
    let (deployment, server) = started().await;
    let root = start(&server, None).await;
    let insert = "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time)
        SELECT id, 0, $1, 'COMPLETED', now() FROM generate_series(1, 1001) AS id";
    let root_id: i64 = root.parse().unwrap();
    sqlx::query(insert).bind(root_id).execute(&mut deployment.shard(0).await).await.unwrap();
    let payload = cancel(&server, &root, true).await;
    assert_eq!((&payload["cancelled"], &payload["complete"]), (&json!(true), &json!(false)), "{payload}");
}

const CANCEL_ALL: &str = "mutation($input: CancelExecutionsInput!) { cancelExecutions(input: $input) {
    results { id cancelled execution { status } userErrors { code field } } complete unavailableShards
    userErrors { code field } } }";

async fn cancel_all(server: &Server, input: Value) -> Value {
    server.data(CANCEL_ALL, json!({ "input": input })).await["cancelExecutions"].take()
}

#[tokio::test]
async fn many_executions_are_cancelled_with_a_result_for_each() {
    let (_deployment, server) = started().await;
    let (one, two) = (start(&server, None).await, start(&server, None).await);
    let child = start(&server, Some(&two)).await;
    cancel(&server, &one, false).await;
    let unbegun = json!({ "select": { "filter": { "statuses": ["PENDING"] } }, "dryRun": true, "cascade": true });
    let dry = cancel_all(&server, unbegun).await;
    assert_eq!(cancelled_ids(&dry), [&child, &two], "{dry}");
    assert_eq!([status(&server, &two).await, status(&server, &child).await], ["PENDING", "PENDING"]);

    let done = cancel_all(&server, json!({ "select": { "ids": [one, two, two, "7"] }, "cascade": true })).await;
    assert_eq!(cancelled_ids(&done), [&two, &child], "{done}");
    let results = done["results"].as_array().unwrap();
    assert_eq!((&results[0]["cancelled"], &results[0]["userErrors"]), (&json!(false), &json!([])));
    assert_eq!(results[2]["userErrors"], json!([{ "code": "NOT_FOUND", "field": ["id"] }]));
    assert_eq!((&done["complete"], results.len()), (&json!(true), 4));
    assert_eq!(status(&server, &child).await, "CANCELLED");
    let all = cancel_all(&server, json!({ "select": { "all": true } })).await;
    assert_eq!((cancelled_ids(&all), all["results"].as_array().unwrap().len()), (Vec::new(), 3));
}

#[tokio::test]
async fn an_incomplete_selection_cancels_nothing() {
    let (_deployment, server) = started().await;
    let id = start(&server, None).await;
    for select in
        [json!({ "filter": {} }), json!({ "ids": [] }), json!({ "all": false }), json!({ "filter": { "path": null } })]
    {
        let refused = cancel_all(&server, json!({ "select": select })).await;
        assert_eq!(refused["userErrors"][0]["code"], "INVALID_INPUT", "{select}: {refused}");
    }
    let undefined = "mutation($path: String) { cancelExecutions(input: { select: { filter: { path: $path } } }) {
        results { id } userErrors { code field } } }";
    let refused = server.data(undefined, json!({})).await["cancelExecutions"].take();
    assert_eq!((&refused["results"], &refused["userErrors"][0]["code"]), (&json!([]), &json!("INVALID_INPUT")));
    assert_eq!(status(&server, &id).await, "PENDING");
}
