//! Filters and numbers of executions, and what an execution shows of its log.

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::pages::texts;
use noetl_testkit::projections::insert_step_event;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};
use sqlx::PgConnection;

pub(super) async fn ids(server: &Server, filter: Value) -> Vec<String> {
    let query = "query($filter: ExecutionFilter) { executions(filter: $filter) { nodes { id } totalCount { value } } }";
    let found = server.data(query, json!({ "filter": filter })).await["executions"].take();
    let ids = texts(&found["nodes"], "id");
    assert_eq!(found["totalCount"]["value"], ids.len());
    ids
}

#[tokio::test]
async fn executions_are_counted_and_filtered_by_what_they_run_where_they_come_from_and_how_they_ended() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.feeds_begun().await;
    numbers(&deployment, &server).await;
    let others = simple_filters(&server).await;
    filters_of_sets_and_parents(&server, &others).await;
}

/// Filters by path, version, end, id and dedup key. Returns the ids of the executions, newest first; only they exist.
async fn simple_filters(server: &Server) -> Vec<String> {
    for path in ["flow", "flow/b"] {
        server.register_entry(path, &json!({ "kind": "playbook" })).await;
    }
    let first = server.started(json!({ "path": "flow", "dedup": { "key": "k" } })).await;
    server.register_entry("flow", &json!({ "kind": "playbook", "workload": { "n": 2 } })).await;
    let second = server.started(json!({ "path": "flow" })).await;
    let below = server.started(json!({ "path": "flow/b" })).await;
    assert_eq!(ids(server, json!({ "path": "flow" })).await, [&*second, &*first]);
    assert_eq!(ids(server, json!({ "pathPrefix": "flow" })).await, [&*below, &*second, &*first]);
    assert_eq!(ids(server, json!({ "path": "flow", "version": 1 })).await, [&*first]);
    assert_eq!(ids(server, json!({ "path": "flow", "version": 2 })).await, [&*second]);
    assert!(ids(server, json!({ "path": "flow", "version": 3 })).await.is_empty());
    assert_eq!(ids(server, json!({ "dedupKey": "k" })).await, [&*first]);
    assert!(ids(server, json!({ "dedupKey": "other" })).await.is_empty());
    assert!(ids(server, json!({ "dedupKey": "k", "path": "flow/b" })).await.is_empty());
    assert_eq!(ids(server, json!({ "idPrefix": below })).await, [&*below]);
    assert_eq!(ids(server, json!({ "idPrefix": &below[..3] })).await, [&*below, &*second, &*first]);
    assert!(ids(server, json!({ "idPrefix": format!("{below}0")[..19.min(below.len() + 1)] })).await.len() <= 1);

    let cancel = "mutation($id: ID!) { cancelExecution(input: { executionId: $id }) { execution { endedAt } } }";
    let cancelled = server.data(cancel, json!({ "id": second })).await["cancelExecution"].take();
    let end = &cancelled["execution"]["endedAt"];
    assert_eq!(ids(server, json!({ "endedAfter": "2020-01-01T00:00:00Z" })).await, [&*second]);
    assert!(ids(server, json!({ "endedBefore": "2020-01-01T00:00:00Z" })).await.is_empty());
    assert!(ids(server, json!({ "endedBefore": end })).await.is_empty());
    for (filter, field) in [
        (json!({ "version": 1 }), "version"),
        (json!({ "path": "flow", "version": 40_000 }), "version"),
        (json!({ "idPrefix": "12x" }), "idPrefix"),
        (json!({ "idPrefix": "" }), "idPrefix"),
        (json!({ "paths": vec!["a"; 101] }), "paths"),
        (json!({ "executionPools": vec!["a"; 101] }), "executionPools"),
    ] {
        let query =
            "query($filter: ExecutionFilter) { server { version } executions(filter: $filter) { nodes { id } } }";
        let response = server.send(query, json!({ "filter": filter })).await.unwrap();
        let error = &response["errors"][0];
        assert_eq!(error["extensions"]["code"], "INVALID_INPUT", "{response}");
        assert_eq!(error["extensions"]["field"], json!(["filter", field]), "{response}");
        assert!(response["data"]["server"]["version"].is_string(), "{response}");
    }
    vec![below, second, first]
}

/// Filters by paths, pools, origin, and whether an execution has a parent. `others` are the executions that exist before,
/// newest first. They have no parent.
async fn filters_of_sets_and_parents(server: &Server, others: &[String]) {
    let inbox = server.subscribe("inbox").await;
    for path in ["a", "b", "c"] {
        server.register_entry(path, &json!({ "kind": "playbook" })).await;
    }
    let a = server.started(json!({ "path": "a", "executionPool": "gpu" })).await;
    let b = server.started(json!({ "path": "b", "executionPool": "cpu" })).await;
    let c = server.started(json!({ "path": "c" })).await;
    let child = server.started(json!({ "path": "a", "parentExecutionId": a })).await;
    let message = server.started(json!({ "path": "b", "parentExecutionId": inbox })).await;
    let rerun = "mutation($id: ID!) { rerunExecution(input: { executionId: $id }) { executionId } }";
    let again = server.data(rerun, json!({ "id": a })).await["rerunExecution"]["executionId"].take();
    let again = again.as_str().unwrap().to_owned();
    let own = |ids: &[&String]| ids.iter().copied().cloned().collect::<Vec<String>>();
    let and_others = |ids: &[&String]| ids.iter().copied().chain(others).cloned().collect::<Vec<String>>();
    for (filter, expected) in [
        (json!({ "paths": ["a", "b", "a"] }), own(&[&again, &message, &child, &b, &a])),
        (json!({ "paths": ["c", "none"] }), own(&[&c])),
        (json!({ "paths": [] }), own(&[])),
        (json!({ "paths": ["a", "b"], "path": "b" }), own(&[&message, &b])),
        (json!({ "paths": ["a", "b"], "path": "c" }), own(&[])),
        (json!({ "paths": ["a", "b"], "pathPrefix": "b" }), own(&[&message, &b])),
        (json!({ "executionPools": ["gpu"] }), own(&[&again, &a])),
        (json!({ "executionPools": ["gpu", "cpu", "cpu"] }), own(&[&again, &b, &a])),
        (json!({ "executionPools": ["gpu", "cpu"], "paths": ["b"] }), own(&[&b])),
        (json!({ "executionPools": ["none"] }), own(&[])),
        (json!({ "rootsOnly": true }), and_others(&[&again, &c, &b, &a])),
        (json!({ "rootsOnly": true, "paths": ["b"] }), own(&[&b])),
        (json!({ "rootsOnly": true, "parentExecutionId": a }), own(&[])),
        (json!({ "rootsOnly": false }), and_others(&[&again, &message, &child, &c, &b, &a])),
        (json!({ "rerunOf": a }), own(&[&again])),
        (json!({ "rerunOf": b }), own(&[])),
        (json!({ "isRerun": true }), own(&[&again])),
        (json!({ "isRerun": true, "path": "a" }), own(&[&again])),
        (json!({ "isRerun": true, "path": "b" }), own(&[])),
        (json!({ "isRerun": true, "statuses": ["FAILED"] }), own(&[])),
        (json!({ "isRerun": false, "path": "a" }), own(&[&child, &a])),
    ] {
        assert_listed(server, &filter, &expected).await;
    }
}

/// Panics unless the list, the live list and the statistics have these executions for a filter. The newest is first.
pub(super) async fn assert_listed(server: &Server, filter: &Value, expected: &[impl AsRef<str>]) {
    let expected: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    assert_eq!(ids(server, filter.clone()).await, expected, "{filter}");
    let mut live = live_ids(server, filter).await;
    live.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(live, expected, "{filter}");
    let stats = "query($filter: ExecutionFilter) { executionStats(filter: $filter) { total } }";
    let total = server.data(stats, json!({ "filter": filter })).await["executionStats"]["total"].take();
    assert_eq!(total, expected.len(), "{filter}");
}

/// Returns the ids of the executions that a live list sends first, until it is complete.
async fn live_ids(server: &Server, filter: &Value) -> Vec<String> {
    let query = "subscription($filter: ExecutionFilter) { executionListUpdates(filter: $filter) { kind executionId } }";
    let mut live = server.live(query, json!({ "filter": filter })).await;
    let mut ids = Vec::new();
    loop {
        let item = live.next().await.expect("the live subscription continues")["executionListUpdates"].take();
        if item["kind"] == "CAUGHT_UP" {
            return ids;
        }
        // Changes that were published before come again.
        let id = item["executionId"].as_str().unwrap().to_owned();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
}

#[tokio::test]
async fn an_execution_at_the_bound_of_a_time_is_after_it_and_not_before_it() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.feeds_begun().await;
    let id = server.start_execution().await.to_string();
    let cancel = "mutation($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }";
    server.data(cancel, json!({ "id": id })).await;
    let times = "query($id: ID!) { execution(id: $id) { startedAt endedAt } }";
    let execution = server.data(times, json!({ "id": id })).await["execution"].take();
    for (bound, time, nanoseconds, found) in [
        ("startedAfter", "startedAt", 0, true),
        ("startedBefore", "startedAt", 0, false),
        ("endedAfter", "endedAt", 0, true),
        ("endedBefore", "endedAt", 0, false),
        // Times are stored in microseconds.
        ("startedAfter", "startedAt", 1, false),
        ("startedBefore", "startedAt", 1, true),
        ("endedAfter", "endedAt", 1, false),
        ("endedBefore", "endedAt", 1, true),
    ] {
        let time: DateTime<Utc> = serde_json::from_value(execution[time].clone()).unwrap();
        let filter = json!({ bound: time + TimeDelta::nanoseconds(nanoseconds) });
        let expected = if found { vec![id.clone()] } else { Vec::new() };
        assert_listed(&server, &filter, &expected).await;
    }
}

/// Inserts executions `$1` to `$2` with paths of their own below `team/idle/`, and 1,000 newer ones with paths of their own
/// below `team/busy/`.
const IDLE_PATHS: &str = "INSERT INTO noetl.execution (execution_id, catalog_id, status, path, start_time, tenant_id)
    SELECT n, 0, 'COMPLETED', 'team/idle/' || lpad(n::text, 5, '0'), now() - interval '1 day', 'acme'
    FROM generate_series($1::bigint, $2) AS n
    UNION ALL
    SELECT 100000 + n, 0, 'COMPLETED', 'team/busy/' || lpad(n::text, 5, '0'), now(), 'acme' FROM generate_series(1, 1000) AS n
    ON CONFLICT DO NOTHING";

#[tokio::test]
async fn a_path_prefix_of_too_many_idle_paths_is_refused() {
    let deployment = Deployment::start(0).await;
    let server = deployment.feed_replica().await;
    let mut shard = deployment.shard(0).await;
    let insert = async |shard: &mut PgConnection, from: i64, to: i64| {
        sqlx::query(IDLE_PATHS).bind(from).bind(to).execute(shard).await.unwrap();
    };
    let list = "query($filter: ExecutionFilter) { executions(filter: $filter, first: 2) { nodes { id } } }";
    let stats = "query($filter: ExecutionFilter) { executionStats(filter: $filter) { total } }";
    let found = async |query: &str, filter: &Value| server.send(query, json!({ "filter": filter })).await.unwrap();
    let (of_all, of_tenant) =
        (json!({ "pathPrefix": "team/idle/" }), json!({ "pathPrefix": "team/idle/", "tenantId": "acme" }));
    insert(&mut shard, 1, 4000).await;
    // Another tenant has one of the paths. In the order of the index, it comes after the 4,000.
    let other = "INSERT INTO noetl.execution (execution_id, catalog_id, status, path, start_time, tenant_id)
        VALUES (0, 0, 'COMPLETED', 'team/idle/00001', now() - interval '2 days', 'other')";
    sqlx::query(other).execute(&mut shard).await.unwrap();
    for (filter, total) in [(&of_all, 4001), (&of_tenant, 4000)] {
        let listed = found(list, filter).await;
        assert_eq!(listed["data"]["executions"]["nodes"], json!([{ "id": "4000" }, { "id": "3999" }]), "{listed}");
        assert_eq!(found(stats, filter).await["data"]["executionStats"]["total"], total);
    }
    insert(&mut shard, 4001, 4001).await;
    let check_refusal = |response: &Value| {
        let error = &response["errors"][0];
        assert_eq!(error["extensions"]["code"], "INVALID_INPUT", "{response}");
        assert_eq!(error["extensions"]["field"], json!(["filter", "pathPrefix"]), "{response}");
        assert!(error["message"].as_str().unwrap().starts_with("more than 4000 combinations "));
    };
    for filter in [&of_all, &of_tenant] {
        for query in [list, stats] {
            check_refusal(&found(query, filter).await);
        }
        let updates = "subscription($filter: ExecutionFilter) { executionListUpdates(filter: $filter) { kind } }";
        let errors = server.live(updates, json!({ "filter": filter })).await.errors().await;
        check_refusal(&json!({ "errors": errors }));
    }
    // The page is filled by the newest executions, and only their number needs all paths.
    let filter = json!({ "filter": { "pathPrefix": "team/" } });
    let page = "query($filter: ExecutionFilter) {
        executions(filter: $filter, first: 1) { nodes { id } totalCount { value } } }";
    let filled = server.send(page, filter).await.unwrap();
    assert_eq!(filled["data"]["executions"], json!({ "nodes": [{ "id": "101000" }], "totalCount": null }), "{filled}");
    check_refusal(&filled);
    let longer = found(stats, &json!({ "pathPrefix": "team/idle/01" })).await;
    assert_eq!(longer["data"]["executionStats"]["total"], 1000, "{longer}");
    // A bulk operation selects among all executions that have not ended.
    let unended = "UPDATE noetl.execution SET status = 'RUNNING'";
    sqlx::query(unended).execute(&mut shard).await.unwrap();
    let cancel = "mutation($prefix: String!) {
        cancelExecutions(input: { select: { filter: { pathPrefix: $prefix } } }) { userErrors { code field message } } }";
    for (prefix, field, message) in [
        ("team/idle/", json!(["select", "filter", "pathPrefix"]), "more than 4000 combinations "),
        ("team/", json!(["select"]), "the selection has more than 1000 executions "),
    ] {
        let payload = server.data(cancel, json!({ "prefix": prefix })).await["cancelExecutions"].take();
        let refusal = &payload["userErrors"][0];
        assert_eq!((&refusal["code"], &refusal["field"]), (&json!("INVALID_INPUT"), &field), "{payload}");
        assert!(refusal["message"].as_str().unwrap().starts_with(message), "{payload}");
    }
}

/// One query counts the executions by status and by path over all shards. Only this part's executions exist. They are
/// deleted at the end.
async fn numbers(deployment: &Deployment, server: &Server) {
    for (shard, statuses) in [(0, ["RUNNING", "STARTED", "FAILED"]), (1, ["COMPLETED", "FAILED", "weird"])] {
        let insert = "INSERT INTO noetl.execution (execution_id, catalog_id, status, path, start_time)
            SELECT 10 * $1 + n, 0, status, CASE n WHEN 1 THEN 'a' ELSE 'b' END, now()
            FROM unnest($2::text[]) WITH ORDINALITY AS row (status, n)";
        let insert = sqlx::query(insert).bind(i64::try_from(shard).unwrap()).bind(statuses.to_vec());
        insert.execute(&mut deployment.shard(shard).await).await.unwrap();
    }
    let query = "query($filter: ExecutionFilter) { executionStats(filter: $filter) {
        total capped morePaths unavailableShards byStatus { status count } byPath { path count } } }";
    let stats = server.data(query, Value::Null).await["executionStats"].take();
    let status = |status: &str, count: i64| json!({ "status": status, "count": count });
    let path = |path: &str, count: i64| json!({ "path": path, "count": count });
    assert_eq!(
        stats,
        json!({
            "total": 6, "capped": false, "morePaths": false, "unavailableShards": [],
            "byStatus": [status("RUNNING", 2), status("COMPLETED", 1), status("FAILED", 2), status("UNKNOWN", 1)],
            "byPath": [path("b", 4), path("a", 2)],
        })
    );
    let failed = server.data(query, json!({ "filter": { "statuses": ["FAILED"] } })).await["executionStats"].take();
    assert_eq!((&failed["total"], &failed["byStatus"]), (&json!(2), &json!([status("FAILED", 2)])));
    for shard in 0..2 {
        deployment.on_shard(shard, "DELETE FROM noetl.execution").await;
    }
}

#[tokio::test]
async fn an_execution_shows_its_result_its_progress_its_durations_its_failed_steps_and_pages_of_its_steps() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_projector().await;
    failed_steps(&deployment, &server).await;
    durations(&deployment, &server).await;
    result_and_progress(&deployment, &server).await;
    pages_of_steps(&deployment, &server).await;
}

/// An execution shows its result, its number of events and its progress.
async fn result_and_progress(deployment: &Deployment, server: &Server) {
    let id = server.start_execution().await;
    let query = "query($id: ID!) { execution(id: $id) { result eventCount progress { stepsCompleted stepsKnown } } }";
    let shown = async || server.data(query, json!({ "id": id.to_string() })).await["execution"].take();
    let begun = json!({ "result": null, "eventCount": "1", "progress": { "stepsCompleted": 0, "stepsKnown": 0 } });
    assert_eq!(shown().await, begun);
    let mut shard = deployment.shard(0).await;
    insert_step_event(&mut shard, id, 10, "step.enter", "{}", "{}").await;
    let entered = shown().await;
    assert_eq!(entered["progress"], json!({ "stepsCompleted": 0, "stepsKnown": 1 }));
    insert_step_event(&mut shard, id, 11, "step.exit", "{}", "{}").await;
    let end = "INSERT INTO noetl.event (execution_id, event_id, event_type, result)
        VALUES ($1, $1 + 12, 'playbook.completed', '{\"rows\": [1, 2]}')";
    sqlx::query(end).bind(id).execute(&mut shard).await.unwrap();
    let ended = eventually("the result is shown", async || {
        let shown = shown().await;
        (!shown["result"].is_null()).then_some(shown)
    })
    .await;
    let expected = json!({ "result": { "rows": [1, 2] }, "eventCount": "4",
        "progress": { "stepsCompleted": 1, "stepsKnown": 1 } });
    assert_eq!(ended, expected);
}

/// Inserts the events `$2` to `$3` of an execution whose step `a` fails, is tried again, and completes. The events happen
/// some seconds after 12:00.
const RETRIED: &str = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, meta, created_at)
    SELECT $1, $1 + n, event_type, node, jsonb_build_object('command_id', command),
           timestamp '2026-01-31 12:00' + seconds * interval '1 second'
    FROM (VALUES (1, 0, 'playbook_started', NULL, NULL), (2, 1.5, 'step.enter', 'a', NULL),
                 (3, 2, 'command.issued', 'a', 'one'), (4, 3, 'command.started', 'a', 'one'),
                 (5, 10, 'command.failed', 'a', 'one'), (6, 11, 'command.issued', 'a', 'two'),
                 (7, 20, 'command.started', 'a', 'two'), (8, 31.75, 'command.completed', 'a', 'two'),
                 (9, 32, 'step.exit', 'a', NULL), (10, 40.25, 'playbook.completed', NULL, NULL)
         ) AS event (n, seconds, event_type, node, command)
    WHERE n BETWEEN $2 AND $3";

/// Executions with failed steps are found, and show their number. Only this part's executions exist.
async fn failed_steps(deployment: &Deployment, server: &Server) {
    let mut shard = deployment.shard(0).await;
    // The step of the first execution stays failed; that of the second one is tried again.
    for (id, first, last) in [(1000_i64, 1, 5), (1000, 10, 10), (2000, 1, 10)] {
        sqlx::query(RETRIED).bind(id).bind(first).bind(last).execute(&mut shard).await.unwrap();
    }
    server.advance_projections(&[1000, 2000]).await;
    let query = "query($filter: ExecutionFilter) { executions(filter: $filter) { nodes { id status failedSteps } } }";
    let row = |id: &str, failed: Option<i32>| json!({ "id": id, "status": "COMPLETED", "failedSteps": failed });
    let found =
        async |filter: &Value| server.data(query, json!({ "filter": filter })).await["executions"]["nodes"].take();
    for (filter, expected) in [
        (json!({ "hasFailedSteps": true }), vec![row("1000", Some(1))]),
        (json!({ "hasFailedSteps": true, "statuses": ["COMPLETED"] }), vec![row("1000", Some(1))]),
        (json!({ "hasFailedSteps": true, "statuses": ["FAILED"] }), vec![]),
        (json!({ "hasFailedSteps": false }), vec![row("2000", Some(0))]),
        (json!({}), vec![row("2000", Some(0)), row("1000", Some(1))]),
    ] {
        assert_eq!(found(&filter).await, json!(expected), "{filter}");
        assert_eq!(ids(server, filter.clone()).await.len(), expected.len(), "{filter}");
    }
    let past = "{ executionState(executionId: \"2000\", at: { eventId: \"2005\" }) { status failedSteps } }";
    let past = server.data(past, json!({})).await["executionState"].take();
    assert_eq!(past, json!({ "status": "FAILED", "failedSteps": 1 }), "before the second attempt");

    // Rows of other programs have no number.
    sqlx::query("UPDATE noetl.execution SET failed_steps = NULL").execute(&mut shard).await.unwrap();
    assert_eq!(found(&json!({ "hasFailedSteps": false })).await, json!([row("2000", Some(0))]));
    assert_eq!(found(&json!({})).await, json!([row("2000", Some(0)), row("1000", Some(1))]));

    // A worker may leave the step with an error after the end. No projector runs.
    let late = "UPDATE noetl.execution SET failed_steps = 0 WHERE execution_id = 2000;
                INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status)
                VALUES (2000, 2011, 'step.exit', 'a', 'FAILED')";
    sqlx::raw_sql(late).execute(&mut shard).await.unwrap();
    assert_eq!(found(&json!({})).await, json!([row("2000", Some(1)), row("1000", Some(1))]));
    assert_eq!(found(&json!({ "hasFailedSteps": false })).await, json!([]));
}

/// A step shows its last start, and steps and executions show how long they took. The other executions have smaller ids.
async fn durations(deployment: &Deployment, server: &Server) {
    let mut shard = deployment.shard(0).await;
    let id = 3000_i64;
    let query =
        "query($id: ID!) { execution(id: $id) { durationSeconds steps { nodes { startedAt durationSeconds } } } }";
    for (first, last, started, of_step, of_execution) in [
        (1, 3, None, Value::Null, Value::Null),
        (4, 6, Some(3), Value::Null, Value::Null),
        (7, 9, Some(20), json!(30.5), Value::Null),
        (10, 10, Some(20), json!(30.5), json!(40.25)),
    ] {
        let insert = sqlx::query(RETRIED).bind(id).bind(first).bind(last);
        insert.execute(&mut shard).await.unwrap();
        let shown = server.data(query, json!({ "id": id.to_string() })).await["execution"].take();
        let step = &shown["steps"]["nodes"][0];
        let time: Option<DateTime<Utc>> = serde_json::from_value(step["startedAt"].clone()).unwrap();
        let expected = started.map(|second| Utc.with_ymd_and_hms(2026, 1, 31, 12, 0, second).unwrap());
        assert_eq!((time, &step["durationSeconds"]), (expected, &of_step), "up to event {last}: {shown}");
        assert_eq!(shown["durationSeconds"], of_execution, "up to event {last}: {shown}");
    }
    // The list has a row of its own.
    server.advance_projections(&[id]).await;
    let listed = server.data("{ executions(first: 1) { nodes { durationSeconds } } }", Value::Null).await;
    assert_eq!(listed["executions"]["nodes"], json!([{ "durationSeconds": 40.25 }]));
}

/// The steps of an execution are read page by page.
async fn pages_of_steps(deployment: &Deployment, server: &Server) {
    let id = server.start_execution().await;
    let begun = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name)
        SELECT $1, $1 + 1000 + n, 'step.enter', 's' || n FROM generate_series(1, 250) n";
    sqlx::query(begun).bind(id).execute(&mut deployment.shard(0).await).await.unwrap();
    let page = async |arguments: &str| {
        let query = format!(
            "{{ execution(id: \"{id}\") {{ steps{arguments} {{ nodes {{ name }} pageInfo {{ hasNextPage hasPreviousPage
                startCursor endCursor }} totalCount {{ value capped }} }} }} }}"
        );
        server.data(&query, Value::Null).await["execution"]["steps"].take()
    };
    let names = |page: &Value| texts(&page["nodes"], "name");
    let expected = |range: std::ops::RangeInclusive<i32>| range.map(|n| format!("s{n}")).collect::<Vec<_>>();
    let first = page("").await;
    assert_eq!(names(&first), expected(1..=25));
    assert_eq!(first["totalCount"], json!({ "value": 250, "capped": false }));
    assert_eq!(first["pageInfo"]["hasNextPage"], true);
    let next = page(&format!("(first: 50, after: {})", first["pageInfo"]["endCursor"])).await;
    assert_eq!(names(&next), expected(26..=75));
    let last = page("(last: 30)").await;
    assert_eq!((names(&last), &last["pageInfo"]["hasNextPage"]), (expected(221..=250), &json!(false)));
    let before = page(&format!("(last: 20, before: {})", last["pageInfo"]["startCursor"])).await;
    assert_eq!(names(&before), expected(201..=220));
    let other = server.start_execution().await;
    let query = format!(
        "{{ execution(id: \"{other}\") {{ steps(after: {}) {{ nodes {{ name }} }} }} }}",
        first["pageInfo"]["endCursor"]
    );
    let refused = server.send(&query, Value::Null).await.unwrap();
    let error = &refused["errors"][0]["extensions"];
    assert_eq!(error, &json!({ "code": "INVALID_INPUT", "field": ["after"], "retryable": false }), "{refused}");
}
