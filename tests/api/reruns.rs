//! An execution can be run again, with changes of its workload, alone or with others.

use std::collections::{BTreeMap, BTreeSet};

use noetl_domain::ids::Id;
use noetl_domain::shard::ShardMap;
use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::recordings::{insert_row, recordings};
use noetl_testkit::{Deployment, QUIET, Server, eventually};
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

fn playbook(workload: &Value) -> Value {
    json!({ "kind": "playbook", "workload": workload })
}

#[tokio::test]
async fn a_rerun_has_the_properties_of_its_origin_and_an_invalid_one_starts_nothing() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    rerun_of_a_message(&server).await;
    rerun_of_a_child(&server).await;
    reruns_with_a_key(&server).await;
    invalid_reruns(&deployment, &server).await;
}

/// A rerun has the entry, workload, pool and subscription of its origin.
async fn rerun_of_a_message(server: &Server) {
    let inbox = server.subscribe("inbox").await;
    let version_1 = server.register_entry("flow", &playbook(&json!({ "a": 1 }))).await;
    let input =
        json!({ "path": "flow", "parentExecutionId": inbox, "workload": { "b": { "c": 2 } }, "executionPool": "gpu" });
    let origin = server.started(input).await;
    let version_2 = server.register_entry("flow", &playbook(&json!({ "a": 9, "new": true }))).await;

    let same = rerun(server, json!({ "executionId": origin })).await;
    assert_eq!((&same["outcome"], &same["userErrors"]), (&json!("STARTED"), &json!([])));
    let id = same["executionId"].clone();
    assert_ne!(id, json!(origin));
    let expected = json!({ "id": id, "status": "PENDING", "path": "flow", "workload": { "a": 1, "b": { "c": 2 } },
        "executionPool": "gpu", "catalogId": version_1, "rerunOf": { "id": origin },
        "parent": { "execution": null, "subscription": { "id": inbox } } });
    assert_eq!(same["execution"], expected);

    let changes = json!({ "executionId": id, "workload": { "b": 3 }, "newestVersion": true, "executionPool": "cpu" });
    let changed = rerun(server, changes).await["execution"].clone();
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

/// A rerun of a child execution has no parent.
async fn rerun_of_a_child(server: &Server) {
    server.register_entry("flow", &playbook(&json!({}))).await;
    let parent = server.started(json!({ "path": "flow" })).await;
    let child = server.started(json!({ "path": "flow", "parentExecutionId": parent })).await;
    let again = rerun(server, json!({ "executionId": child })).await["execution"].clone();
    assert_eq!((&again["parent"], &again["rerunOf"]["id"]), (&Value::Null, &json!(child)));
    let rerun_of =
        server.data("query($id: ID!) { execution(id: $id) { rerunOf { id } } }", json!({ "id": child })).await;
    assert_eq!(rerun_of["execution"]["rerunOf"], Value::Null);
}

/// Reruns with one dedup key start one execution.
async fn reruns_with_a_key(server: &Server) {
    server.register_entry("flow", &playbook(&json!({ "a": 1 }))).await;
    let origin = server.started(json!({ "path": "flow" })).await;
    let input = json!({ "executionId": origin, "dedup": { "key": "again" } });
    let (first, second) = (rerun(server, input.clone()).await, rerun(server, input).await);
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

/// An invalid rerun starts nothing.
async fn invalid_reruns(deployment: &Deployment, server: &Server) {
    let inbox = server.subscribe("inbox").await;
    server.register_entry("flow", &playbook(&json!({}))).await;
    let origin = server.started(json!({ "path": "flow" })).await;
    let before = executions(deployment).await;
    for (input, code, field) in [
        (json!({ "executionId": "17" }), "NOT_FOUND", "executionId"),
        (json!({ "executionId": inbox }), "NOT_FOUND", "executionId"),
        (json!({ "executionId": "x" }), "INVALID_INPUT", "executionId"),
        (json!({ "executionId": origin, "workload": [1] }), "INVALID_INPUT", "workload"),
        (json!({ "executionId": origin, "trace": { "traceparent": "00" } }), "INVALID_INPUT", "trace.traceparent"),
        (json!({ "executionId": origin, "executionPool": "a.b" }), "INVALID_INPUT", "executionPool"),
        (json!({ "executionId": origin, "dedup": { "key": "" } }), "INVALID_INPUT", "dedup.key"),
        (json!({ "executionId": origin, "labels": [{ "name": "A", "value": "b" }] }), "INVALID_INPUT", "labels.0.name"),
    ] {
        let refused = rerun(server, input.clone()).await;
        let error = &refused["userErrors"][0];
        let field: Vec<&str> = field.split('.').collect();
        assert_eq!((&error["code"], &error["field"]), (&json!(code), &json!(field)), "{input}: {refused}");
        assert_eq!((&refused["execution"], &refused["outcome"]), (&Value::Null, &Value::Null));
    }
    assert_eq!(executions(deployment).await, before);
}

async fn rerun_all(server: &Server, input: Value) -> Value {
    let query = "mutation($input: RerunExecutionsInput!) { rerunExecutions(input: $input) {
        results { index originId origin { path } executionId execution { workload catalogId executionPool rerunOf { id } }
            outcome userErrors { code field } }
        complete continueWith unavailableShards userErrors { code field message } } }";
    server.data(query, json!({ "input": input })).await["rerunExecutions"].take()
}

/// Returns a field of each result.
fn each<'a>(payload: &'a Value, field: &str) -> Vec<&'a Value> {
    let results = payload["results"].as_array().unwrap_or_else(|| panic!("{payload}"));
    results.iter().map(|result| &result[field]).collect()
}

/// Starts an execution and retires its catalog entry. Returns its id.
async fn start_retired(server: &Server) -> String {
    let entry = server.register_entry("old", &playbook(&json!({}))).await;
    let id = server.started(json!({ "path": "old" })).await;
    let archive = "mutation($id: ID!) { archiveCatalogEntry(input: { catalogId: $id }) { userErrors { code } } }";
    let archived = server.data(archive, json!({ "id": entry })).await;
    assert_eq!(archived["archiveCatalogEntry"]["userErrors"], json!([]));
    id
}

async fn executions(deployment: &Deployment) -> i64 {
    deployment.sum_over_shards("SELECT count(*) FROM noetl.execution").await
}

#[tokio::test]
async fn bulk_reruns_have_a_result_for_each_execution_and_start_each_rerun_once() {
    let deployment = Deployment::start(2).await;
    let (server, other) = tokio::join!(deployment.replica_with(&QUIET), deployment.replica_with(&QUIET));
    several_reruns(&deployment, &server).await;
    dry_run(&deployment, &server).await;
    repeated_bulk_reruns(&deployment, &server, &other).await;
    invalid_bulk_reruns(&deployment, &server).await;
}

/// Several executions are run again with a result for each.
async fn several_reruns(deployment: &Deployment, server: &Server) {
    let version_1 = server.register_entry("several", &playbook(&json!({ "a": 1 }))).await;
    let one = server.started(json!({ "path": "several", "workload": { "b": 1 }, "executionPool": "gpu" })).await;
    let (two, old) = (server.started(json!({ "path": "several" })).await, start_retired(server).await);

    let before = executions(deployment).await;
    // Result i belongs to id i. A repeated id is run again once.
    let input = json!({ "select": { "ids": [one, "7", old, two, one] }, "workload": { "c": 3 } });
    let done = rerun_all(server, input).await;
    assert_eq!((&done["complete"], &done["continueWith"], &done["userErrors"]), (&json!(true), &json!([]), &json!([])));
    assert_eq!(each(&done, "index"), [0, 1, 2, 3, 4]);
    assert_eq!(each(&done, "originId"), [&*one, "7", &*old, &*two, &*one]);
    let started = json!("STARTED");
    assert_eq!(each(&done, "outcome"), [&started, &Value::Null, &Value::Null, &started, &started], "{done}");
    let error = |index: &str| json!([{ "code": "NOT_FOUND", "field": ["select", "ids", index] }]);
    assert_eq!(each(&done, "userErrors"), [&json!([]), &error("1"), &error("2"), &json!([]), &json!([])]);
    let expected = json!({ "workload": { "a": 1, "b": 1, "c": 3 }, "catalogId": version_1, "executionPool": "gpu",
        "rerunOf": { "id": one } });
    assert_eq!(done["results"][0]["execution"], expected);
    assert_eq!(done["results"][0]["executionId"], done["results"][4]["executionId"]);
    assert_eq!(done["results"][2]["origin"], json!({ "path": "old" }));
    assert_eq!(executions(deployment).await, before + 2);

    // The failed executions of a path.
    for shard in 0..2 {
        let fail = sqlx::query("UPDATE noetl.execution SET status = 'FAILED' WHERE execution_id = ANY($1)");
        let ids: Vec<i64> = [&one, &old].iter().map(|id| id.parse().unwrap()).collect();
        fail.bind(ids).execute(&mut *deployment.shard_session(shard).await).await.unwrap();
    }
    let version_2 = server.register_entry("several", &playbook(&json!({ "a": 2 }))).await;
    let input = json!({ "select": { "filter": { "path": "several", "statuses": ["FAILED"] } }, "newestVersion": true,
        "executionPool": "cpu" });
    let done = rerun_all(server, input).await;
    assert_eq!((each(&done, "index"), each(&done, "originId")), (vec![&Value::Null], vec![&json!(one)]), "{done}");
    let expected = json!({ "workload": { "a": 1, "b": 1 }, "catalogId": version_2, "executionPool": "cpu",
        "rerunOf": { "id": one } });
    assert_eq!(done["results"][0]["execution"], expected);
    assert_eq!(executions(deployment).await, before + 3);
}

/// A dry run says what would start, and changes nothing.
async fn dry_run(deployment: &Deployment, server: &Server) {
    server.register_entry("flow", &playbook(&json!({}))).await;
    let (one, two) = (server.started(json!({ "path": "flow" })).await, server.started(json!({ "path": "flow" })).await);
    let old = start_retired(server).await;
    let dedup = json!({ "key": "night" });
    let first = rerun_all(server, json!({ "select": { "ids": [one] }, "dedup": dedup })).await;
    deployment.until_claims_are_settled().await;
    let before = deployment.table_digests().await;

    let select = json!({ "ids": [one, two, "7", old] });
    let dry = rerun_all(server, json!({ "select": select, "dedup": dedup, "dryRun": true })).await;
    let expected = [&json!("DUPLICATE"), &json!("STARTED"), &Value::Null, &Value::Null];
    assert_eq!(each(&dry, "outcome"), expected, "{dry}");
    let rerun = &first["results"][0]["executionId"];
    assert_eq!(each(&dry, "executionId"), [rerun, &Value::Null, &Value::Null, &Value::Null]);
    let codes: Vec<&Value> = each(&dry, "userErrors").into_iter().map(|errors| &errors[0]["code"]).collect();
    assert_eq!(codes, [&Value::Null, &Value::Null, &json!("NOT_FOUND"), &json!("NOT_FOUND")]);
    assert_eq!(deployment.table_digests().await, before);
    // The dry run has not used up the keys.
    let done = rerun_all(server, json!({ "select": select, "dedup": dedup })).await;
    assert_eq!(each(&done, "outcome"), expected, "{done}");
}

/// The workloads are read in batches, which are not charged to the operation. A dry run reads them too. The operation may
/// take long, because the server's code is not optimised.
#[tokio::test]
async fn the_workloads_of_reruns_may_have_more_bytes_than_one_operation_may_read() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[&QUIET[..], &[("NOETL_OPERATION_DEADLINE_SECS", "50")]].concat()).await;
    server.register_entry("flow", &playbook(&json!({}))).await;
    for _ in 0..34 {
        server.started(json!({ "path": "flow" })).await;
    }
    let enlarge = "UPDATE noetl.event SET context = jsonb_set(context, '{workload}',
                       jsonb_build_object('text', repeat('x', 2000000)))
                   WHERE event_type = 'playbook_started'";
    sqlx::query(enlarge).execute(&mut deployment.shard(0).await).await.unwrap();
    let query = "mutation { rerunExecutions(input: { select: { filter: { path: \"flow\" } }, dryRun: true }) {
        results { outcome userErrors { code message } } complete userErrors { code message } } }";
    let done = server.data(query, Value::Null).await["rerunExecutions"].take();
    assert_eq!(each(&done, "outcome"), vec![&json!("STARTED"); 34], "{done}");
    assert_eq!((&done["complete"], each(&done, "userErrors")), (&json!(true), vec![&json!([]); 34]), "{done}");
}

/// Repeated and concurrent bulk reruns with one key start each rerun once. The filter matches the reruns too, so that a
/// request which is sent again selects more than the first one.
async fn repeated_bulk_reruns(deployment: &Deployment, server: &Server, other: &Server) {
    server.register_entry("repeated", &playbook(&json!({}))).await;
    let mut origins = BTreeSet::new();
    for _ in 0..3 {
        origins.insert(server.started(json!({ "path": "repeated" })).await);
    }
    let before = executions(deployment).await;
    let input = json!({ "select": { "filter": { "path": "repeated" } }, "dedup": { "key": "repeated" } });
    let requests = (0..8).map(|n| rerun_all(if n % 2 == 0 { server } else { other }, input.clone()));
    let mut payloads = futures::future::join_all(requests).await;
    payloads.push(rerun_all(other, input).await);
    assert_eq!(executions(deployment).await, before + 3);

    let (mut reruns, mut started) = (BTreeMap::<&str, BTreeSet<&str>>::new(), 0);
    for result in payloads.iter().flat_map(|payload| payload["results"].as_array().unwrap()) {
        let id = |field: &str| result[field].as_str().unwrap_or_else(|| panic!("{result}"));
        started += usize::from(result["outcome"] == "STARTED");
        if origins.contains(id("originId")) {
            reruns.entry(id("originId")).or_default().insert(id("executionId"));
        } else {
            assert_eq!((id("executionId"), &result["outcome"]), (id("originId"), &json!("DUPLICATE")));
        }
    }
    assert_eq!((reruns.len(), started), (3, 3));
    assert!(reruns.values().all(|reruns| reruns.len() == 1), "{reruns:?}");
    assert_eq!(payloads.last().unwrap()["results"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn reruns_of_a_shard_that_is_down_have_one_error_each_and_are_started_by_the_next_request() {
    let mut deployment = Deployment::start(2).await;
    let network = deployment.shard_behind_proxy(1).await;
    let server = deployment.replica_with(&QUIET).await;
    server.register_entry("flow", &playbook(&json!({}))).await;
    let mut by_shard = BTreeMap::new();
    while by_shard.len() < 2 {
        let id = server.started(json!({ "path": "flow" })).await;
        by_shard.insert(ShardMap::even(2).shard_of(Id::new(id.parse().unwrap())), id);
    }
    let (up, down, before) = (by_shard[&0].clone(), by_shard[&1].clone(), executions(&deployment).await);
    network.set(ForwardingMode::Closed);
    eventually("the shard is down", async || {
        let shards = server.data("{ shards { available } }", Value::Null).await;
        (shards["shards"][1]["available"] == false).then_some(())
    })
    .await;
    let input = json!({ "select": { "ids": [down, up] }, "dedup": { "key": "night" } });
    let done = rerun_all(&server, input.clone()).await;
    assert_eq!((&done["complete"], &done["unavailableShards"]), (&json!(false), &json!([1])), "{done}");
    assert_eq!((&done["continueWith"], &done["userErrors"]), (&json!([down]), &json!([])), "{done}");
    assert_eq!(each(&done, "outcome"), [&Value::Null, &json!("STARTED")], "{done}");
    let error = json!([{ "code": "SHARD_UNAVAILABLE", "field": ["select", "ids", "0"] }]);
    assert_eq!(each(&done, "userErrors"), [&error, &json!([])]);

    network.set(ForwardingMode::Normal);
    let again = eventually("the shard can be read", async || {
        let again = rerun_all(&server, input.clone()).await;
        (again["complete"] == true).then_some(again)
    })
    .await;
    assert_eq!(again["results"][1]["outcome"], "DUPLICATE", "{again}");
    assert_eq!(again["results"][1]["executionId"], done["results"][1]["executionId"]);
    assert_eq!(executions(&deployment).await, before + 2);
}

/// An invalid or too large request runs nothing again.
async fn invalid_bulk_reruns(deployment: &Deployment, server: &Server) {
    server.register_entry("flow", &playbook(&json!({}))).await;
    let origin = server.started(json!({ "path": "flow" })).await;
    let insert = "INSERT INTO noetl.execution (execution_id, catalog_id, path, status, start_time)
        SELECT id, 0, 'many', 'FAILED', now() FROM unnest($1::bigint[]) AS id";
    let ids = deployment.ids_on(0, 1, 1001);
    sqlx::query(insert).bind(&ids).execute(&mut deployment.shard(0).await).await.unwrap();
    let before = executions(deployment).await;
    let one = json!({ "ids": [origin] });
    for (input, field) in [
        (json!({ "select": { "filter": { "path": "many" } } }), "select"),
        (json!({ "select": { "ids": ["x"] } }), "select.ids.0"),
        (json!({ "select": one, "workload": [1] }), "workload"),
        (json!({ "select": one, "executionPool": "a.b" }), "executionPool"),
        (json!({ "select": one, "labels": [{ "name": "a", "value": "" }] }), "labels.0.value"),
        (json!({ "select": one, "dedup": { "key": "" } }), "dedup.key"),
        (json!({ "select": one, "dedup": { "key": "k".repeat(1001) } }), "dedup.key"),
        (json!({ "select": one, "dedup": { "key": "k", "windowSeconds": 0 } }), "dedup.windowSeconds"),
    ] {
        let refused = rerun_all(server, input).await;
        let (error, field) = (&refused["userErrors"][0], field.split('.').collect::<Vec<&str>>());
        assert_eq!((&error["code"], &error["field"]), (&json!("INVALID_INPUT"), &json!(field)), "{refused}");
        assert_eq!((&refused["results"], &refused["complete"]), (&json!([]), &json!(false)));
        if field == ["select"] {
            let message = "the selection has 1001 executions; at most 1000 are allowed, so narrow it";
            assert_eq!(error["message"], message);
        }
    }
    assert_eq!(executions(deployment).await, before);
    let delete = format!("DELETE FROM noetl.execution WHERE execution_id = {}", ids[0]);
    deployment.on_shard(0, &delete).await;
    let largest = rerun_all(server, json!({ "select": { "filter": { "path": "many" } }, "dryRun": true })).await;
    assert_eq!(largest["userErrors"], json!([]));
    assert_eq!(largest["results"].as_array().map(Vec::len), Some(1000));
}
