//! Event logs that NoETL's server and worker wrote are read as they are: nothing was projected before, and no execution
//! has a row in the list.

use std::collections::BTreeMap;

use noetl_testkit::feed::run;
use noetl_testkit::projections::fill_has_ended;
use noetl_testkit::recordings::{Recording, insert_row, recordings};
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// Step fields in which the result differs from NoETL's: file, step, field. docs/design/noetl-results.md has the
/// reasons.
const EXCEPTIONS: [(&str, &str, &str); 9] = [
    ("big_result", "start", "result"),
    ("tool_exit_1", "start", "error"),
    ("v3_83_container_failed", "start", "error"),
    ("v3_83_exit_failed", "start", "error"),
    ("v3_83_exit_failed", "start", "status"),
    ("v3_83_inline_failure", "start", "result"),
    ("v3_83_lean_results", "start", "result"),
    ("v3_83_lean_results", "use", "error"),
    ("v3_83_lean_results", "use", "result"),
];

const QUERY: &str = "query($id: ID!) { execution(id: $id) {
    id path status workload steps { nodes { name status error result } } events(first: 100) { nodes { id: eventId } } } }";

/// Returns the steps of NoETL's result by name: state, error, result.
fn steps_of_noetl(noetl: &Value) -> BTreeMap<String, Value> {
    let step = |(name, step): (&String, &Value)| {
        let state = step["state"].as_str().unwrap().to_uppercase();
        (name.clone(), json!({ "status": state, "error": step["error"], "result": step["result"] }))
    };
    noetl["state"]["steps"].as_object().unwrap().iter().map(step).collect()
}

fn steps_of_api(execution: &Value) -> BTreeMap<String, Value> {
    let steps = execution["steps"]["nodes"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let mut step = step.as_object().unwrap().clone();
            let name = step.remove("name").unwrap().as_str().unwrap().to_owned();
            (name, Value::Object(step))
        })
        .collect()
}

async fn execution(server: &Server, recording: &Recording) -> Value {
    let id = recording.rows[0]["execution_id"].to_string();
    server.data(QUERY, json!({ "id": id })).await["execution"].clone()
}

#[tokio::test]
async fn logs_that_noetl_wrote_are_read_as_noetl_shows_them() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_feed().await;
    let recordings = recordings();
    assert!(recordings.len() >= 22, "{} recordings", recordings.len());
    let mut database = deployment.cluster().await;
    fill_has_ended(&mut database).await;
    for recording in &recordings {
        // The order of the rows must not matter.
        for row in recording.rows.iter().rev() {
            insert_row(&mut database, row).await;
        }
    }
    a_log_that_noetl_wrote_gives_noetls_result_without_a_projection(&server, &recordings).await;
    frames_of_a_cursor_loop_are_read_page_by_page(&server, &recordings).await;
}

/// The state of a log is that of NoETL, except in [`EXCEPTIONS`].
async fn a_log_that_noetl_wrote_gives_noetls_result_without_a_projection(server: &Server, recordings: &[Recording]) {
    for recording in recordings {
        let (name, found) = (&recording.name, execution(server, recording).await);
        // Its pool has no worker. NoETL shows such an execution as running.
        let unbegun = *name == "left_running";
        let status = if unbegun { &json!("PENDING") } else { &recording.noetl["status"]["status"] };
        assert_eq!(&found["status"], status, "{name}");
        assert_eq!(found["path"], recording.noetl["execution"]["path"], "{name}");
        assert_eq!(found["workload"], recording.noetl["execution"]["workload"], "{name}");
        let events = found["events"]["nodes"].as_array().unwrap().len();
        assert_eq!(events, recording.rows.len().min(100), "{name}");
        let (mut expected, mut steps) = (steps_of_noetl(&recording.noetl), steps_of_api(&found));
        for (_, step, field) in EXCEPTIONS.iter().filter(|(file, ..)| file == name) {
            for steps in [&mut expected, &mut steps] {
                steps.get_mut(*step).unwrap().as_object_mut().unwrap().remove(*field);
            }
        }
        assert_eq!(steps, expected, "{name}");
    }
}

/// The frames of a cursor loop have one order in pages of any direction.
async fn frames_of_a_cursor_loop_are_read_page_by_page(server: &Server, recordings: &[Recording]) {
    let recording = recordings.iter().find(|recording| recording.name == "cursor_loop").unwrap();
    let id = &recording.rows[0]["execution_id"];
    let page = async |arguments: &str| {
        let query = format!(
            "{{ execution(id: \"{id}\") {{ steps {{ nodes {{ name frames({arguments}) {{
                nodes {{ index claimCompleted bodyIssued bodyCompleted }} totalCount {{ value }}
                pageInfo {{ hasNextPage startCursor endCursor }} }} }} }} }} }}"
        );
        let mut steps = server.data(&query, Value::Null).await["execution"]["steps"]["nodes"].take();
        let loops = steps.as_array_mut().unwrap().iter_mut().filter(|step| !step["frames"].is_null());
        let [drain] = &mut loops.collect::<Vec<_>>()[..] else { panic!("one step is a cursor loop") };
        assert_eq!((&drain["name"], &drain["frames"]["totalCount"]["value"]), (&json!("drain"), &json!(4)));
        drain["frames"].take()
    };
    let frame = |index: i64, rows: i64| json!({ "index": index, "claimCompleted": true, "bodyIssued": rows, "bodyCompleted": rows });
    let first = page("first: 3").await;
    assert_eq!(first["nodes"], json!([frame(0, 2), frame(1, 2), frame(2, 1)]));
    assert_eq!(first["pageInfo"]["hasNextPage"], true);
    let rest = page(&format!("first: 3, after: {}", first["pageInfo"]["endCursor"])).await;
    assert_eq!((&rest["nodes"], &rest["pageInfo"]["hasNextPage"]), (&json!([frame(3, 0)]), &json!(false)));
    let back = page(&format!("last: 2, before: {}", rest["pageInfo"]["startCursor"])).await;
    assert_eq!(back["nodes"], json!([frame(1, 2), frame(2, 1)]));
}

/// The started events of NoETL name no labels. One that names some gives its execution only these.
#[tokio::test]
async fn an_execution_of_noetl_has_the_labels_of_its_document() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_projector().await;
    let mut database = deployment.cluster().await;
    let document = json!({ "kind": "playbook", "metadata": {
        "labels": { "said": "nothing", "team": "a" }, "searchable": { "said": "{{ workload.message }}" } } });
    let label = |name: &str, value: &str| json!({ "name": name, "value": value });
    let (recordings, mut expected) = (recordings(), Vec::new());
    for (name, named, labels) in [
        ("linear", None, json!([label("said", "Hello World"), label("team", "a")])),
        ("child", None, json!([label("said", "nothing"), label("team", "a")])),
        ("parent", Some(json!({ "only": "x" })), json!([label("only", "x")])),
    ] {
        let recording = recordings.iter().find(|recording| recording.name == name).unwrap();
        let (start, rest) = recording.rows.split_first().unwrap();
        let (mut start, id) = (start.clone(), recording.execution_id());
        let entry = "INSERT INTO noetl.catalog (catalog_id, path, version, kind, content)
                     VALUES ($1, $2, 1, 'playbook', $3)";
        let entry = sqlx::query(entry).bind(start["catalog_id"].as_i64()).bind(name).bind(document.to_string());
        entry.execute(&mut database).await.unwrap();
        // The started event may be committed last.
        for row in rest {
            insert_row(&mut database, row).await;
        }
        server.advance_projections(&[id.parse().unwrap()]).await;
        if let Some(named) = named {
            start["meta"]["labels"] = named;
        }
        insert_row(&mut database, &start).await;
        server.advance_projections(&[id.parse().unwrap()]).await;
        expected.push((id, labels));
    }
    let assert_found = async || {
        let list = "query($filter: ExecutionFilter) { executions(filter: $filter) {
            nodes { id labels { name value } } } }";
        for (id, labels) in &expected {
            let equal = |label: &Value| json!({ "name": label["name"], "equals": label["value"] });
            let conditions: Vec<Value> = labels.as_array().unwrap().iter().map(equal).collect();
            let found = server.data(list, json!({ "filter": { "labels": conditions } })).await;
            assert_eq!(found["executions"]["nodes"], json!([{ "id": id, "labels": labels }]));
        }
    };
    assert_found().await;

    run(&mut database, "DELETE FROM noetl.execution; DELETE FROM noetl.projection_snapshot").await;
    for (id, labels) in &expected {
        let query = "query($id: ID!) { execution(id: $id) { labels { name value } } }";
        let found = server.data(query, json!({ "id": id })).await;
        assert_eq!(found["execution"]["labels"], *labels, "read without a row in the list");
    }
    deployment.check(&["--repair"]).await;
    assert_found().await;
}
