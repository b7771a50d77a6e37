//! Cancellations of executions, of their descendants, and of many executions.

use noetl_domain::ids::Id;
use noetl_domain::shard::ShardMap;
use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

const SHARDS: u16 = 2;
const CANCEL: &str = "mutation($input: CancelExecutionInput!) { cancelExecution(input: $input) {
    execution { id status } cancelled complete unavailableShards
    results { executionId cancelled execution { status error } userErrors { code } } userErrors { code field } } }";

async fn started() -> (Deployment, Server) {
    let deployment = Deployment::start(SHARDS.into()).await;
    let server = deployment.replica_with(&[NO_RELAY, ("NOETL_OPERATION_DEADLINE_SECS", "50")]).await;
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    (deployment, server)
}

async fn start(server: &Server, parent: Option<&str>) -> String {
    server.started(json!({ "path": "run", "parentExecutionId": parent })).await
}

async fn cancel(server: &Server, id: &str, cascade: bool) -> Value {
    let input = json!({ "executionId": id, "reason": "enough", "cascade": cascade });
    server.data(CANCEL, json!({ "input": input })).await["cancelExecution"].take()
}

async fn status(server: &Server, id: &str) -> String {
    let query = "query($id: ID!) { execution(id: $id) { status } }";
    let found = server.data(query, json!({ "id": id })).await;
    found["execution"]["status"].as_str().unwrap().to_owned()
}

/// Writes the event that completes an execution.
async fn complete(deployment: &Deployment, id: &str) {
    let id: i64 = id.parse().unwrap();
    let event =
        "INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ($1, $1 + 1000000, 'playbook.completed')";
    let shard = ShardMap::even(SHARDS).shard_of(Id::new(id));
    sqlx::query(event).bind(id).execute(&mut *deployment.shard_session(shard.into()).await).await.unwrap();
}

fn cancelled_ids(payload: &Value) -> Vec<&str> {
    let results = payload["results"].as_array().unwrap().iter().filter(|result| result["cancelled"] == true);
    results.map(|result| result["executionId"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_cascade_cancels_all_descendants_that_have_not_ended_whatever_their_number_and_depth() {
    let (deployment, server) = started().await;
    // These two count all executions that have not ended.
    passes_through_deep_trees(&deployment, &server).await;
    cancels_any_number_of_descendants(&deployment, &server).await;
    cancels_running_descendants(&deployment, &server).await;
    cancels_what_an_ended_execution_started(&deployment, &server).await;
}

/// A cascade cancels the running descendants on all shards, and can be repeated.
async fn cancels_running_descendants(deployment: &Deployment, server: &Server) {
    let events = "SELECT count(*) FROM noetl.event WHERE event_type = 'playbook.cancelled'";
    let before = deployment.sum_over_shards(events).await;
    let root = start(server, None).await;
    let (one, two) = (start(server, Some(&root)).await, start(server, Some(&root)).await);
    let (below, other) = (start(server, Some(&one)).await, start(server, None).await);
    complete(deployment, &two).await;

    // Without a cascade, the children keep running. A second cancellation writes nothing.
    let alone = cancel(server, &root, false).await;
    assert_eq!((&alone["cancelled"], &alone["results"], &alone["complete"]), (&json!(true), &json!([]), &json!(true)));
    assert_eq!(status(server, &one).await, "PENDING");
    assert_eq!(deployment.sum_over_shards(events).await, before + 1);

    // The execution that is cancelled already leads to its descendants.
    let cascade = cancel(server, &root, true).await;
    assert_eq!((&cascade["cancelled"], &cascade["userErrors"]), (&json!(false), &json!([])), "{cascade}");
    assert_eq!((&cascade["execution"]["status"], &cascade["complete"]), (&json!("CANCELLED"), &json!(true)));
    assert_eq!(cancelled_ids(&cascade), [&one, &below], "{cascade}");
    for result in cascade["results"].as_array().unwrap() {
        assert_eq!(result["execution"], json!({ "status": "CANCELLED", "error": "enough" }));
    }
    let statuses = [status(server, &two).await, status(server, &other).await];
    assert_eq!(statuses, ["COMPLETED", "PENDING"]);
    let again = cancel(server, &root, true).await;
    assert_eq!((&again["results"], &again["userErrors"]), (&json!([]), &json!([])), "{again}");
    assert_eq!(deployment.sum_over_shards(events).await, before + 3);
}

/// Writes executions to the list: `count` children of a parent on each shard, with ids from `from` on.
async fn insert_children(deployment: &Deployment, parent: &str, status: &str, from: i64, count: i64) -> Vec<i64> {
    let insert = "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time)
        SELECT id, 0, $1, $2, now() FROM unnest($3::bigint[]) AS id";
    let parent: i64 = parent.parse().unwrap();
    let mut all = Vec::new();
    for shard in 0..usize::from(SHARDS) {
        let ids = deployment.ids_on(shard, from, usize::try_from(count).unwrap());
        let insert = sqlx::query(insert).bind(parent).bind(status).bind(&ids);
        insert.execute(&mut *deployment.shard_session(shard).await).await.unwrap();
        all.extend(ids);
    }
    all
}

const OPEN_ROWS: &str = "SELECT count(*) FROM noetl.execution WHERE status <> ALL ('{COMPLETED,CANCELLED}')";

/// A repeated cascade cancels any number of descendants, and ends.
async fn cancels_any_number_of_descendants(deployment: &Deployment, server: &Server) {
    let root = start(server, None).await;
    // The ended children have the smallest ids. One of them has a child that has not ended.
    let ended = insert_children(deployment, &root, "COMPLETED", 1, 600).await;
    insert_children(deployment, &root, "RUNNING", 1_000_000, 510).await;
    let below = insert_children(deployment, &ended[0].to_string(), "RUNNING", 2_000_000, 1).await;

    let filter = json!({ "select": { "filter": { "path": "run" } }, "cascade": true });
    let first = cancel_all(server, filter).await;
    let errors = &first["userErrors"];
    assert_eq!((&first["complete"], &first["continueWith"]), (&json!(false), &json!([root])), "{errors}");
    assert_eq!(cancelled_ids(&first).len(), 1001);
    // It continues by id.
    let more = json!({ "select": { "ids": first["continueWith"] }, "cascade": true });
    let second = cancel_all(server, more).await;
    assert_eq!((&second["complete"], &second["continueWith"]), (&json!(true), &json!([])), "{}", second["userErrors"]);
    let cancelled = cancelled_ids(&second);
    assert_eq!(cancelled.len(), 2 * 510 - 1000 + 2);
    assert!(below.iter().all(|id| cancelled.contains(&id.to_string().as_str())), "{cancelled:?}");
    assert_eq!(deployment.sum_over_shards(OPEN_ROWS).await, 0);
    let third = cancel(server, &root, true).await;
    assert_eq!((&third["results"], &third["complete"]), (&json!([]), &json!(true)));
}

/// A cascade passes through deep trees of ended executions.
async fn passes_through_deep_trees(deployment: &Deployment, server: &Server) {
    let root = start(server, None).await;
    let (mut parent, mut open) = (root.clone(), Vec::new());
    for level in 1..=40 {
        let status = if level % 3 == 0 { "RUNNING" } else { "COMPLETED" };
        let child = insert_children(deployment, &parent, status, 10_000_000 + level * 1000, 1).await[0];
        if level % 3 == 0 {
            open.push(child.to_string());
        }
        parent = child.to_string();
    }
    let payload = cancel(server, &root, true).await;
    let cancelled = cancelled_ids(&payload);
    assert!(open.iter().all(|id| cancelled.contains(&id.as_str())), "{payload}");
    assert_eq!((&payload["complete"], deployment.sum_over_shards(OPEN_ROWS).await), (&json!(true), 0));
}

/// Removes indexes of lists of executions, which a cascade does not use. Each makes it slower to write many rows.
const WITHOUT_INDEXES_OF_LISTS: &str = "DROP INDEX noetl.execution_time_idx, noetl.execution_catalog_status_idx,
    noetl.execution_path_status_idx, noetl.execution_ended_idx, noetl.execution_status_time_idx";

#[tokio::test]
async fn a_cascade_over_too_many_ended_executions_is_refused_after_the_root_is_cancelled() {
    let (deployment, server) = started().await;
    let root = start(&server, None).await;
    // Few of them have the same parent, because the children of an execution are sorted for each page of them.
    let insert = "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time)
        SELECT id, 0, CASE WHEN id <= 10000 THEN $1::bigint ELSE id % 10000 + 1 END, 'COMPLETED', now()
        FROM generate_series(1, 100001) AS id";
    let root_id: i64 = root.parse().unwrap();
    let mut shard = deployment.shard(0).await;
    run(&mut shard, WITHOUT_INDEXES_OF_LISTS).await;
    sqlx::query(insert).bind(root_id).execute(&mut shard).await.unwrap();
    let payload = cancel(&server, &root, true).await;
    assert_eq!((&payload["cancelled"], &payload["complete"]), (&json!(true), &json!(false)), "{payload}");
    assert_eq!(payload["userErrors"], json!([{ "code": "INVALID_INPUT", "field": ["cascade"] }]));
}

/// A cascade of an ended execution cancels what it started.
async fn cancels_what_an_ended_execution_started(deployment: &Deployment, server: &Server) {
    let root = start(server, None).await;
    let child = start(server, Some(&root)).await;
    complete(deployment, &root).await;
    let alone = cancel(server, &root, false).await;
    assert_eq!(alone["userErrors"], json!([{ "code": "INVALID_TRANSITION", "field": ["executionId"] }]));
    let cascade = cancel(server, &root, true).await;
    assert_eq!((&cascade["cancelled"], &cascade["userErrors"]), (&json!(false), &json!([])), "{cascade}");
    assert_eq!((&cascade["complete"], cancelled_ids(&cascade)), (&json!(true), vec![child.as_str()]));
    let many = cancel_all(server, json!({ "select": { "ids": [root] }, "cascade": true })).await;
    let result = &many["results"][0];
    assert_eq!((&result["cancelled"], &result["userErrors"]), (&json!(false), &json!([])), "{many}");
    assert_eq!(many["complete"], true);
}

/// Starts an execution on the first shard, and one that it starts, on the second. Returns their ids.
async fn on_both_shards(server: &Server) -> [String; 2] {
    let shard_of = |id: &str| ShardMap::even(SHARDS).shard_of(Id::new(id.parse().unwrap()));
    let first = loop {
        let id = start(server, None).await;
        if shard_of(&id) == 0 {
            break id;
        }
    };
    let second = loop {
        let id = start(server, Some(&first)).await;
        if shard_of(&id) == 1 {
            break id;
        }
    };
    [first, second]
}

#[tokio::test]
async fn a_failure_to_read_descendants_does_not_hide_that_the_root_was_cancelled() {
    let (deployment, server) = started().await;
    let [root, child] = on_both_shards(&server).await;
    let mut admin = deployment.cluster().await;
    let name = deployment.shard_dsns[1].rsplit('/').next().unwrap();
    run(&mut admin, &format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")).await;
    let close = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    run(&mut admin, &close).await;
    let payload = cancel(&server, &root, true).await;
    assert_eq!((&payload["cancelled"], &payload["complete"]), (&json!(true), &json!(false)), "{payload}");
    assert_eq!((&payload["unavailableShards"], &payload["userErrors"]), (&json!([1]), &json!([])), "{payload}");
    run(&mut admin, &format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")).await;
    // The shard counts as down until a probe finds it up.
    let again = eventually("a request cancels the descendant", async || {
        let again = cancel(&server, &root, true).await;
        cancelled_ids(&again).contains(&child.as_str()).then_some(again)
    })
    .await;
    assert_eq!(again["complete"], true);
}

#[tokio::test]
async fn executions_of_a_shard_that_is_down_have_one_error_each() {
    let mut deployment = Deployment::start(SHARDS.into()).await;
    let network = deployment.shard_behind_proxy(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    let [up, down] = on_both_shards(&server).await;
    network.set(ForwardingMode::Closed);
    let done = cancel_all(&server, json!({ "select": { "ids": [down, up, down] } })).await;
    assert_eq!((&done["complete"], &done["unavailableShards"]), (&json!(false), &json!([1])), "{done}");
    assert_eq!((&done["continueWith"], &done["userErrors"]), (&json!([down]), &json!([])), "{done}");
    let error = |index: &str| json!([{ "code": "SHARD_UNAVAILABLE", "field": ["select", "ids", index] }]);
    let results = done["results"].as_array().unwrap();
    let errors: Vec<&Value> = results.iter().map(|result| &result["userErrors"]).collect();
    assert_eq!(errors, [&error("0"), &json!([]), &error("2")], "{done}");
    assert_eq!(cancelled_ids(&done), [&up]);
}

const CANCEL_ALL: &str = "mutation($input: CancelExecutionsInput!) { cancelExecutions(input: $input) {
    results { index executionId cancelled execution { status } userErrors { code field } } complete unavailableShards
    continueWith userErrors { code field } } }";

async fn cancel_all(server: &Server, input: Value) -> Value {
    server.data(CANCEL_ALL, json!({ "input": input })).await["cancelExecutions"].take()
}

#[tokio::test]
async fn a_bulk_cancellation_has_a_result_for_each_selected_execution_and_refuses_incomplete_selections() {
    let (deployment, server) = started().await;
    results_of_many(&server).await;
    selects_unended(&deployment, &server).await;
    incomplete_selection_cancels_nothing(&server).await;
}

/// Each id has a result. Only this part's executions exist.
async fn results_of_many(server: &Server) {
    let (one, two) = (start(server, None).await, start(server, None).await);
    let child = start(server, Some(&two)).await;
    cancel(server, &one, false).await;
    let unbegun = json!({ "select": { "filter": { "statuses": ["PENDING"] } }, "dryRun": true, "cascade": true });
    let dry = cancel_all(server, unbegun).await;
    assert_eq!(cancelled_ids(&dry), [&child, &two], "{dry}");
    assert_eq!([status(server, &two).await, status(server, &child).await], ["PENDING", "PENDING"]);

    // Result i belongs to id i, also if an id is repeated. The results of descendants follow.
    let done = cancel_all(server, json!({ "select": { "ids": [one, two, two, "7"] }, "cascade": true })).await;
    assert_eq!(cancelled_ids(&done), [&two, &two, &child], "{done}");
    let results = done["results"].as_array().unwrap();
    let indexes: Vec<&Value> = results.iter().map(|result| &result["index"]).collect();
    assert_eq!(indexes, [&json!(0), &json!(1), &json!(2), &json!(3), &json!(null)]);
    assert_eq!((&results[0]["cancelled"], &results[0]["userErrors"]), (&json!(false), &json!([])));
    assert_eq!(results[3]["userErrors"], json!([{ "code": "NOT_FOUND", "field": ["select", "ids", "3"] }]));
    assert_eq!((&done["complete"], results.len()), (&json!(true), 5));
    assert_eq!(status(server, &child).await, "CANCELLED");
}

/// A filter and `all` select only executions that have not ended. All others have ended before.
async fn selects_unended(deployment: &Deployment, server: &Server) {
    let (ended, open) = (start(server, None).await, start(server, None).await);
    let parent = start(server, None).await;
    cancel(server, &parent, false).await;
    insert_children(deployment, &parent, "COMPLETED", 1, 501).await;
    complete(deployment, &ended).await;
    for select in [
        json!({ "all": true }),
        json!({ "filter": { "path": "run" } }),
        json!({ "filter": { "path": "run", "statuses": ["PENDING", "CANCELLED", "COMPLETED"] } }),
    ] {
        let payload = cancel_all(server, json!({ "select": select, "dryRun": true })).await;
        assert_eq!((&payload["complete"], &payload["userErrors"]), (&json!(true), &json!([])), "{select}");
        let results = payload["results"].as_array().unwrap();
        assert_eq!(results.len(), 1, "{select}: {payload}");
        assert_eq!(cancelled_ids(&payload), [&open], "{select}");
    }
    let none = cancel_all(server, json!({ "select": { "filter": { "statuses": ["COMPLETED"] } } })).await;
    assert_eq!((&none["results"], &none["complete"]), (&json!([]), &json!(true)), "{none}");

    insert_children(deployment, &parent, "RUNNING", 1_000_000, 501).await;
    let select = json!({ "filter": { "parentExecutionId": parent } });
    let many = "mutation($select: ExecutionSelector!) { it: cancelExecutions(input: { select: $select }) {
        results { executionId } userErrors { message field } } }";
    let refused = server.data(many, json!({ "select": select })).await["it"].take();
    let message = "the selection has 1002 executions that have not ended; at most 1000 are allowed, so narrow it";
    assert_eq!(refused, json!({ "results": [], "userErrors": [{ "message": message, "field": ["select"] }] }));
}

/// An incomplete selection cancels nothing.
async fn incomplete_selection_cancels_nothing(server: &Server) {
    let id = start(server, None).await;
    for select in
        [json!({ "filter": {} }), json!({ "ids": [] }), json!({ "all": false }), json!({ "filter": { "path": null } })]
    {
        let refused = cancel_all(server, json!({ "select": select })).await;
        assert_eq!(refused["userErrors"][0]["code"], "INVALID_INPUT", "{select}: {refused}");
    }
    let undefined = "mutation($path: String) { cancelExecutions(input: { select: { filter: { path: $path } } }) {
        results { executionId } userErrors { code field } } }";
    let refused = server.data(undefined, json!({})).await["cancelExecutions"].take();
    assert_eq!((&refused["results"], &refused["userErrors"][0]["code"]), (&json!([]), &json!("INVALID_INPUT")));
    assert_eq!(status(server, &id).await, "PENDING");
}
