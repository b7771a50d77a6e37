//! Each read of one execution has the state of its whole log, also if nothing stores it in the list. A row of a list
//! contradicts neither itself nor the filter, and is not older than what a live subscription has shown.

use noetl_testkit::feed::run;
use noetl_testkit::worker::event_with;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

const WITHOUT_PROJECTOR: [(&str, &str); 1] = [("NOETL_PROJECTOR", "false")];

async fn write(server: &Server, execution: i64, offset: i64, fields: &Value) {
    let payload = server.project(&[event_with(execution, execution + offset, fields)]).await;
    assert_eq!((&payload["rejected"], &payload["userErrors"]), (&json!([]), &json!([])), "{payload}");
}

/// Reads each group of fields alone and all of them together, of the execution, of its node, and in lists. Asserts that
/// all have the expected values.
async fn assert_reads(server: &Server, execution: i64, expected: &Value) {
    const GROUPS: [&str; 7] = [
        "status",
        "statusText status",
        "endedAt",
        "error",
        "result",
        "steps { nodes { status } } progress { stepsKnown stepsCompleted }",
        "status endedAt error result steps { nodes { status } } progress { stepsKnown stepsCompleted }",
    ];
    let id = execution.to_string();
    for fields in GROUPS {
        let query = format!(
            "query($id: ID!) {{
                execution(id: $id) {{ ...all }}
                node(id: $id) {{ ...all }}
                executions {{ nodes {{ ...all }} }}
                byPath: executions(filter: {{path: \"run\"}}) {{ edges {{ node {{ ...all }} }} }}
            }} fragment all on Execution {{ {fields} }}"
        );
        let data = server.data(&query, json!({ "id": id })).await;
        let of_lists = (&data["executions"]["nodes"][0], &data["byPath"]["edges"][0]["node"]);
        for read in [&data["execution"], &data["node"], of_lists.0, of_lists.1] {
            for (field, value) in read.as_object().unwrap() {
                let value = if field == "endedAt" { &json!(!value.is_null()) } else { value };
                assert_eq!(value, &expected[field.as_str()], "{field} of {fields}: {data:#}");
            }
        }
    }
}

#[tokio::test]
async fn reads_agree_with_the_log_and_with_each_other_without_a_projector() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&WITHOUT_PROJECTOR).await;
    whole_log(&server).await;
    late_failure(&server).await;
    reason_of_an_end(&server).await;
    left_out(&server).await;
    Box::pin(live_subscription(&server)).await;
}

/// Every read has the state of the whole log.
async fn whole_log(server: &Server) {
    let execution = server.start_execution().await;
    let open = |status: &str, steps: &Value| {
        let known = steps.as_array().unwrap().len();
        json!({ "status": status, "statusText": status, "endedAt": false, "error": null, "result": null,
            "steps": { "nodes": steps }, "progress": { "stepsKnown": known, "stepsCompleted": 0 } })
    };
    assert_reads(server, execution, &open("PENDING", &json!([]))).await;

    write(server, execution, 10, &json!({ "type": "step.enter" })).await;
    assert_reads(server, execution, &open("RUNNING", &json!([{ "status": "ENTERED" }]))).await;

    write(server, execution, 11, &json!({ "type": "step.exit", "status": "COMPLETED" })).await;
    write(server, execution, 12, &json!({ "type": "playbook.completed", "result": "done" })).await;
    let mut ended = open("COMPLETED", &json!([{ "status": "COMPLETED" }]));
    (ended["endedAt"], ended["result"], ended["progress"]["stepsCompleted"]) = (json!(true), json!("done"), json!(1));
    assert_reads(server, execution, &ended).await;
}

/// A late failure shows in all fields of an execution whose row has another end.
async fn late_failure(server: &Server) {
    let execution = server.start_execution().await;
    write(server, execution, 10, &json!({ "type": "playbook.completed", "result": "done" })).await;
    server.advance_projections(&[execution]).await;
    write(server, execution, 11, &json!({ "type": "playbook.failed", "error": "too late" })).await;

    let query =
        "query($id: ID!) { execution(id: $id) { FIELDS } executions(first: 1) { nodes { error status result } } }";
    for fields in ["status", "status error", "result", "status error result steps { nodes { name } }"] {
        let data = server.data(&query.replace("FIELDS", fields), json!({ "id": execution.to_string() })).await;
        for read in [&data["execution"], &data["executions"]["nodes"][0]] {
            for (field, value) in [("status", json!("FAILED")), ("error", json!("too late")), ("result", json!(null))] {
                assert!(read.get(field).is_none_or(|read| *read == value), "{fields}: {data:#}");
            }
        }
    }
    // The list shows its own row, unless a field is selected that the row lacks.
    let listed = server.data("{ executions(first: 1) { nodes { status } } }", Value::Null).await;
    assert_eq!(listed["executions"]["nodes"], json!([{ "status": "COMPLETED" }]));
}

/// The reason of an end is the same in a list and in the log.
async fn reason_of_an_end(server: &Server) {
    let places = [
        json!({ "error": "column", "meta": { "error": "no" } }),
        json!({ "meta": { "error": "meta" }, "result": { "error": "no" } }),
        json!({ "result": { "error": "result", "context": { "error": "no" } } }),
        json!({ "result": { "context": { "error": "tool", "result": { "error": "no" } } } }),
        json!({ "result": { "context": { "result": { "error": "wrapped", "context": { "error": "no" } } } } }),
        json!({ "result": { "context": { "result": { "context": { "error": "deepest" } } } }, "context": { "error": "no" } }),
        json!({ "context": { "error": "context", "reason": "no" } }),
        json!({ "result": { "context": { "reason": "reason" } }, "context": { "reason": "no" } }),
    ];
    let mut executions = Vec::new();
    for mut failure in places {
        let execution = server.start_execution().await;
        failure["type"] = json!("playbook.failed");
        write(server, execution, 10, &failure).await;
        executions.push(execution);
    }
    server.advance_projections(&executions).await;
    let data = server.data("{ executions(first: 8) { nodes { error } } }", Value::Null).await;
    let reasons = ["column", "meta", "result", "tool", "wrapped", "deepest", "context", "reason"];
    let newest_first: Vec<Value> = reasons.iter().rev().map(|reason| json!({ "error": reason })).collect();
    assert_eq!(data["executions"]["nodes"], json!(newest_first));
    for (execution, reason) in executions.iter().zip(reasons) {
        let query = "query($id: ID!) { execution(id: $id) { error } }";
        let data = server.data(query, json!({ "id": execution.to_string() })).await;
        assert_eq!(data["execution"]["error"], reason);
    }
}

/// A page leaves out executions that do not match any more, and can be continued.
async fn left_out(server: &Server) {
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(server.start_execution().await);
    }
    write(server, ids[3], 10, &json!({ "type": "playbook.completed" })).await;
    write(server, ids[2], 10, &json!({ "type": "step.enter" })).await;
    let query = "query($after: String) { executions(filter: {statuses: [PENDING]}, first: 2, after: $after) {
        nodes { id status } pageInfo { hasNextPage startCursor endCursor } } }";
    let first = server.data(query, Value::Null).await["executions"].take();
    assert_eq!((&first["nodes"], &first["pageInfo"]["hasNextPage"]), (&json!([]), &json!(true)), "{first}");
    assert_ne!(first["pageInfo"]["startCursor"], first["pageInfo"]["endCursor"]);
    let second = server.data(query, json!({ "after": first["pageInfo"]["endCursor"] })).await;
    let pending = |id: i64| json!({ "id": id.to_string(), "status": "PENDING" });
    assert_eq!(second["executions"]["nodes"], json!([pending(ids[1]), pending(ids[0])]));
}

/// A page is not older than its live subscription.
async fn live_subscription(server: &Server) {
    let execution = server.start_execution().await;
    let id = execution.to_string();
    let all = "id status endedAt steps { nodes { status } }";
    let polled =
        format!("query($id: ID!) {{ execution(id: $id) {{ {all} }} executions(first: 1) {{ nodes {{ {all} }} }} }}");
    let one = format!("subscription($id: ID!) {{ executionUpdates(executionId: $id) {{ execution {{ {all} }} }} }}");
    let list = format!("subscription {{ executionListUpdates {{ kind execution {{ {all} }} }} }}");
    let mut live = [server.live(&one, json!({ "id": id })).await, server.live(&list, Value::Null).await];
    let mut shown = json!({ "id": id, "status": "PENDING", "endedAt": null, "steps": { "nodes": [] } });
    for (offset, event) in [(10, "step.enter"), (11, "step.exit"), (12, "playbook.completed")] {
        for (live, root) in live.iter_mut().zip(["executionUpdates", "executionListUpdates"]) {
            // Until the event is written, nothing later than the last state is shown.
            while live.next().await.unwrap()[root]["execution"] != shown {}
        }
        write(server, execution, offset, &json!({ "type": event, "status": "COMPLETED" })).await;
        let data = server.data(&polled, json!({ "id": id })).await;
        assert_ne!(data["execution"], shown);
        assert_eq!(data["executions"]["nodes"], json!([data["execution"]]));
        shown = data["execution"].clone();
    }
    for (live, root) in live.iter_mut().zip(["executionUpdates", "executionListUpdates"]) {
        while live.next().await.unwrap()[root]["execution"] != shown {}
    }
}

/// A list reads its rows, and then compares them with their logs. A state that is stored in between is not that of the rows.
#[tokio::test]
async fn a_row_whose_state_is_stored_while_a_list_is_read_is_not_shown_as_it_was_before() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_projector().await;
    let mut database = deployment.cluster().await;
    let keep = |name: &str| {
        format!(
            "CREATE TABLE public.{name}_row AS TABLE noetl.execution;
             CREATE TABLE public.{name}_state AS TABLE noetl.projection_snapshot;"
        )
    };
    let store = |name: &str| {
        format!(
            "DELETE FROM noetl.execution; INSERT INTO noetl.execution TABLE public.{name}_row;
             DELETE FROM noetl.projection_snapshot; INSERT INTO noetl.projection_snapshot TABLE public.{name}_state;"
        )
    };
    let execution = server.start_execution().await;
    write(&server, execution, 10, &json!({ "type": "step.enter" })).await;
    server.advance_projections(&[execution]).await;
    run(&mut database, &keep("early")).await;
    write(&server, execution, 20, &json!({ "type": "playbook.completed" })).await;
    server.advance_projections(&[execution]).await;
    run(&mut database, &(keep("late") + &store("early"))).await;

    run(&mut database, "BEGIN; LOCK TABLE noetl.projection_snapshot IN ACCESS EXCLUSIVE MODE").await;
    let list = server.data("{ executions { nodes { status endedAt } } }", Value::Null);
    let stored = async {
        let mut observer = deployment.cluster().await;
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'noetl-graphql')";
        eventually("the comparison waits", async || {
            sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut observer).await.unwrap().then_some(())
        })
        .await;
        run(&mut database, &(store("late") + "COMMIT")).await;
    };
    let (listed, ()) = tokio::join!(list, stored);
    let row = &listed["executions"]["nodes"][0];
    assert_eq!((&row["status"], row["endedAt"].is_string()), (&json!("COMPLETED"), true), "{row}");
}
