//! The rows that start an execution, its parent and children, its cancellation, and the order of executions over all
//! shards.

use chrono::{DateTime, Utc};
use futures::future::join_all;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::pages::{read_pages, texts};
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::FromRow;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER_TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

async fn execution(server: &Server, id: &str, fields: &str) -> Value {
    let query = format!("query($id: ID!) {{ execution(id: $id) {{ {fields} }} }}");
    server.data(&query, json!({ "id": id })).await["execution"].clone()
}

async fn cancel(server: &Server, id: &str, reason: Option<&str>) -> Value {
    let query = "mutation($input: CancelExecutionInput!) { cancelExecution(input: $input) {
        execution { id status error endedAt } cancelled userErrors { code field message } } }";
    server.data(query, json!({ "input": { "executionId": id, "reason": reason } })).await["cancelExecution"].clone()
}

#[derive(Debug, FromRow)]
struct Started {
    event_id: i64,
    catalog_id: i64,
    parent_execution_id: Option<i64>,
    event_type: String,
    node_id: String,
    node_name: String,
    node_type: String,
    status: String,
    context: Value,
    meta: Value,
    tenant_id: String,
    organization_id: String,
    same_transaction: bool,
}

#[derive(Debug, FromRow)]
struct Outgoing {
    event_id: i64,
    subject: String,
    payload: Value,
    payload_codec: String,
    status: String,
    attempts: i32,
}

#[tokio::test]
async fn executions_are_started_listed_and_cancelled_with_their_parents_and_traces() {
    let deployment = Deployment::start(2).await;
    let (server, other) = tokio::join!(deployment.replica_with(&[NO_RELAY]), deployment.replica_with(&[NO_RELAY]));
    pages(&deployment, &server).await;
    rows_of_a_start(&deployment, &server).await;
    traces(&server).await;
    parents_and_children(&server).await;
    concurrent_cancellations(&server, &other).await;
    cancellation_after_the_end(&deployment, &server).await;
}

/// A start writes the specified event and outbox row in one transaction. The path `process` is not in use before.
async fn rows_of_a_start(deployment: &Deployment, server: &Server) {
    let inbox = server.subscribe("inbox").await;
    let content = json!({ "kind": "playbook", "workload": { "a": 1, "b": { "c": 2 } } });
    let catalog_id = server.register_entry("process", &content).await;
    let given = json!({ "path": "process", "parentExecutionId": inbox, "workload": { "b": { "d": 3 }, "e": [4] },
        "executionPool": "gpu", "trace": { "traceparent": TRACE } });
    let full = server.started(given).await;
    let bare = server.started(json!({ "catalogId": catalog_id })).await;

    for (id, parent, pool, workload) in [
        (&full, Some(&inbox), Some("gpu"), json!({ "a": 1, "b": { "d": 3 }, "e": [4] })),
        (&bare, None, None, json!({ "a": 1, "b": { "c": 2 } })),
    ] {
        let query = "SELECT *, tx_id::xid = (SELECT xmin FROM noetl.outbox AS o WHERE o.event_id = e.event_id)
                        AS same_transaction FROM noetl.event AS e WHERE execution_id = $1";
        let events: Vec<Started> = deployment.rows(query, id).await;
        let [event] = &events[..] else { panic!("{events:?}") };
        assert_eq!(event.event_id, id.parse::<i64>().unwrap() + 1);
        assert_eq!(event.catalog_id.to_string(), catalog_id);
        assert_eq!(event.parent_execution_id.map(|id| id.to_string()).as_ref(), parent);
        assert_eq!((&*event.event_type, &*event.status), ("playbook_started", "STARTED"));
        assert_eq!((&*event.node_id, &*event.node_name, &*event.node_type), ("playbook", "process", "execution"));
        assert_eq!((&*event.tenant_id, &*event.organization_id), ("default", "default"));
        let context = json!({ "catalog_id": catalog_id, "execution_id": id, "path": "process", "workload": workload });
        assert_eq!(event.context, context);
        let mut meta = event.meta.as_object().unwrap().clone();
        let emitted = meta.remove("emitted_at").unwrap();
        assert!(DateTime::parse_from_rfc3339(emitted.as_str().unwrap()).is_ok(), "{emitted}");
        let trace = pool.map(|_| json!({ "traceparent": TRACE }));
        let mut expected = json!({ "emitter": "control_plane" });
        let mut payload = json!({ "execution_id": id, "event_id": event.event_id.to_string(),
            "catalog_id": catalog_id, "path": "process", "pool": pool.unwrap_or("shared"),
            "tenant_id": "default", "organization_id": "default" });
        if let (Some(pool), Some(trace)) = (pool, trace) {
            expected["execution_pool"] = json!(pool);
            expected["trace"] = trace.clone();
            payload["trace"] = trace;
        }
        assert_eq!(Value::Object(meta), expected);
        assert!(event.same_transaction, "the outbox row was written in another transaction");

        let outbox: Vec<Outgoing> = deployment.rows("SELECT * FROM noetl.outbox WHERE execution_id = $1", id).await;
        let [row] = &outbox[..] else { panic!("{outbox:?}") };
        assert_eq!(row.event_id, event.event_id);
        assert_eq!(row.subject, format!("noetl.executions.{}.{id}", pool.unwrap_or("shared")));
        assert_eq!(row.payload, payload);
        assert_eq!((&*row.payload_codec, &*row.status, row.attempts), ("json", "PENDING", 0));

        let seen = execution(
            server,
            id,
            "status path workload endedAt trace { traceparent tracestate } catalogEntry { id: catalogId version }",
        )
        .await;
        assert_eq!(seen["workload"], workload);
        assert_eq!(
            (&seen["status"], &seen["path"], &seen["endedAt"]),
            (&json!("PENDING"), &json!("process"), &Value::Null)
        );
        assert_eq!(seen["catalogEntry"], json!({ "id": catalog_id, "version": 1 }));
    }
}

/// A trace is inherited from the parent unless given.
async fn traces(server: &Server) {
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    let (of_parent, other) = (
        json!({ "traceparent": TRACE, "tracestate": "a=1" }),
        json!({ "traceparent": OTHER_TRACE, "tracestate": null }),
    );
    let parent = server.started(json!({ "path": "process", "trace": of_parent })).await;
    let child = server.started(json!({ "path": "process", "parentExecutionId": parent })).await;
    let grandchild = server.started(json!({ "path": "process", "parentExecutionId": child })).await;
    let stranger = server.started(json!({ "path": "process", "parentExecutionId": parent, "trace": other })).await;
    let orphan = server.started(json!({ "path": "process" })).await;
    for (id, trace) in [(child, &of_parent), (grandchild, &of_parent), (stranger, &other), (orphan, &Value::Null)] {
        assert_eq!(&execution(server, &id, "trace { traceparent tracestate }").await["trace"], trace);
    }
}

/// Executions show their parent and their children.
async fn parents_and_children(server: &Server) {
    server.register_entry("process", &json!({ "kind": "agent" })).await;
    let inbox = server.subscribe("inbox/children").await;
    let mut of_inbox = Vec::new();
    for _ in 0..7 {
        of_inbox.push(server.started(json!({ "path": "process", "parentExecutionId": inbox })).await);
    }
    let mut of_first = Vec::new();
    for _ in 0..3 {
        of_first.push(server.started(json!({ "path": "process", "parentExecutionId": of_inbox[0] })).await);
    }
    let parent = "parent { execution { id } subscription { id } }";
    let first = execution(server, &of_inbox[0], &format!("{parent} children {{ nodes {{ id }} }}")).await;
    assert_eq!(first["parent"], json!({ "execution": null, "subscription": { "id": inbox } }));
    assert_eq!(texts(&first["children"]["nodes"], "id"), reversed(&of_first));
    let child = execution(server, &of_first[0], parent).await;
    assert_eq!(child["parent"], json!({ "execution": { "id": of_inbox[0] }, "subscription": null }));
    let orphan = server.started(json!({ "path": "process" })).await;
    assert_eq!(execution(server, &orphan, parent).await["parent"], Value::Null);

    let query = "query($id: ID!, $first: Int, $after: String) { subscription(by: {id: $id}) {
        executions(first: $first, after: $after) { nodes { id } pageInfo { hasNextPage endCursor } } } }";
    let pages = read_pages(3, false, async |mut range: Value| {
        range["id"] = json!(inbox);
        server.data(query, range).await["subscription"]["executions"].take()
    })
    .await;
    let found: Vec<String> = pages.iter().flat_map(|page| texts(&page["nodes"], "id")).collect();
    assert_eq!(found, reversed(&of_inbox), "only the executions of this parent, newest first");
}

/// Only one of many concurrent cancellations on two replicas ends an execution.
async fn concurrent_cancellations(server: &Server, other: &Server) {
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    let inbox = server.subscribe("inbox").await;
    let id = server.started(json!({ "path": "process", "parentExecutionId": inbox })).await;
    let answers = join_all((0..16).map(|n| cancel([server, other][n % 2], &id, Some("operator said so")))).await;
    assert_eq!(answers.iter().filter(|answer| answer["cancelled"] == true).count(), 1, "{answers:?}");
    for answer in &answers {
        let ended = &answer["execution"];
        assert_eq!((&ended["status"], &ended["error"]), (&json!("CANCELLED"), &json!("operator said so")), "{answer}");
        assert!(ended["endedAt"].is_string() && answer["userErrors"] == json!([]), "{answer}");
    }
    let log =
        "events { nodes { id: eventId type status nodeId nodeType nodeName context meta parentExecutionId catalogId } }
        catalogEntry { id: catalogId }";
    let seen = execution(server, &id, log).await;
    let [started, cancelled] = &seen["events"]["nodes"].as_array().unwrap()[..] else { panic!("{seen}") };
    assert!(numeric(&cancelled["id"]) > numeric(&started["id"]));
    let shape = ["type", "status", "nodeId", "nodeType", "nodeName"].map(|field| cancelled[field].as_str().unwrap());
    assert_eq!(shape, ["playbook.cancelled", "CANCELLED", "playbook", "execution", "process"]);
    assert_eq!(
        (&cancelled["parentExecutionId"], &cancelled["catalogId"]),
        (&json!(inbox), &seen["catalogEntry"]["id"])
    );
    assert_eq!(cancelled["context"]["reason"], "operator said so");
    assert_eq!(cancelled["meta"]["emitter"], "control_plane");

    for unknown in ["1", &inbox, seen["catalogEntry"]["id"].as_str().unwrap()] {
        let answer = cancel(server, unknown, None).await;
        let error = &answer["userErrors"][0];
        assert_eq!((&error["code"], &error["field"]), (&json!("NOT_FOUND"), &json!(["executionId"])), "{answer}");
    }
}

/// An execution whose log has an ending event cannot be cancelled.
async fn cancellation_after_the_end(deployment: &Deployment, server: &Server) {
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    for ending in ["playbook_completed", "playbook.completed", "playbook_failed", "playbook.failed"] {
        let id = server.started(json!({ "path": "process" })).await;
        // Another server wrote a worker's event. The read model does not show it yet.
        let event = "INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ($1, $1 + 1000000, $2)";
        let execution: i64 = id.parse().unwrap();
        let shard = usize::from(deployment.ids_on(0, execution, 1)[0] != execution);
        let insert = sqlx::query(event).bind(execution).bind(ending);
        insert.execute(&mut *deployment.shard_session(shard).await).await.unwrap();
        let answer = cancel(server, &id, None).await;
        assert_eq!(answer["userErrors"][0]["code"], "INVALID_TRANSITION", "{ending}: {answer}");
        assert_eq!((&answer["execution"]["id"], &answer["cancelled"]), (&json!(id), &json!(false)), "{answer}");
        let log = format!("SELECT count(*) FROM noetl.event WHERE execution_id = {execution}");
        assert_eq!(deployment.sum_over_shards(&log).await, 2, "{ending}");
    }
}

fn reversed(ids: &[String]) -> Vec<String> {
    ids.iter().rev().cloned().collect()
}

fn numeric(id: &Value) -> i64 {
    id.as_str().unwrap().parse().unwrap()
}

const LIST: &str = "query($filter: ExecutionFilter, $first: Int, $after: String, $last: Int, $before: String) {
    executions(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
        nodes { id } edges { cursor node { id } } unavailableShards
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }";

/// Reads a whole list in pages of `size`, forwards or backwards. Returns the ids in the order of the list.
async fn walk(server: &Server, filter: &Value, size: usize, backwards: bool) -> Vec<String> {
    let (cursor, came_from) = if backwards { ("before", "hasNextPage") } else { ("after", "hasPreviousPage") };
    let pages = read_pages(size, backwards, async |mut range: Value| {
        let is_first = range[cursor].is_null();
        range["filter"] = filter.clone();
        let page = server.data(LIST, range).await["executions"].take();
        assert!(page["nodes"].as_array().unwrap().len() <= size);
        assert_eq!(page["unavailableShards"], json!([]));
        assert_eq!(page["pageInfo"][came_from], !is_first);
        page
    })
    .await;
    pages.iter().flat_map(|page| texts(&page["nodes"], "id")).collect()
}

/// Pages over all shards form one list, newest first. Only this part's executions exist.
async fn pages(deployment: &Deployment, server: &Server) {
    for path in ["team-a/process", "team-b/process"] {
        server.register_entry(path, &json!({ "kind": "playbook" })).await;
    }
    let inbox = server.subscribe("inbox").await;
    let mut all: Vec<(String, bool, bool)> = Vec::new();
    let mut middle = Utc::now();
    for n in 0..31 {
        let (team_a, has_parent) = (n % 2 == 0, n % 3 == 0);
        let path = if team_a { "team-a/process" } else { "team-b/process" };
        let parent = has_parent.then_some(&inbox);
        all.push((server.started(json!({ "path": path, "parentExecutionId": parent })).await, team_a, has_parent));
        if n == 15 {
            let began = execution(server, &all[15].0, "startedAt").await["startedAt"].clone();
            middle = serde_json::from_value(began).unwrap();
        }
    }
    for id in all.iter().step_by(5).map(|(id, ..)| id) {
        assert_eq!(cancel(server, id, None).await["userErrors"], json!([]));
    }
    for shard in 0..2 {
        let held: i64 = sqlx::query_scalar("SELECT count(*) FROM noetl.execution")
            .fetch_one(&mut deployment.shard(shard).await)
            .await
            .unwrap();
        assert!(held > 3, "shard {shard} holds only {held}");
    }
    let numbers: Vec<i64> = all.iter().map(|(id, ..)| id.parse().unwrap()).collect();
    assert!(numbers.is_sorted(), "the ids of one replica must increase");
    let picked = |pick: &dyn Fn(usize) -> bool| -> Vec<String> {
        (0..all.len()).rev().filter(|n| pick(*n)).map(|n| all[n].0.clone()).collect()
    };
    let cases: [(Value, Vec<String>); 9] = [
        (Value::Null, picked(&|_| true)),
        (json!({ "pathPrefix": "team-a/" }), picked(&|n| all[n].1)),
        (json!({ "statuses": ["CANCELLED"] }), picked(&|n| n % 5 == 0)),
        (json!({ "statuses": ["RUNNING", "PENDING"] }), picked(&|n| n % 5 != 0)),
        (json!({ "parentExecutionId": inbox }), picked(&|n| all[n].2)),
        (json!({ "startedAfter": middle }), picked(&|n| n >= 15)),
        (json!({ "startedBefore": middle }), picked(&|n| n < 15)),
        (
            json!({ "pathPrefix": "team-a/", "parentExecutionId": inbox, "statuses": ["CANCELLED"] }),
            picked(&|n| n % 2 == 0 && n % 3 == 0 && n % 5 == 0),
        ),
        (json!({ "pathPrefix": "team-%" }), Vec::new()),
    ];
    for (filter, expected) in cases {
        let sizes: &[usize] = if filter.is_null() { &[1, 7, 100] } else { &[4, 100] };
        for &size in sizes {
            for backwards in [false, true] {
                let found = walk(server, &filter, size, backwards).await;
                assert_eq!(found, expected, "{filter} in pages of {size}, backwards: {backwards}");
            }
        }
    }
    // A page can be bounded by two cursors.
    let page = server.data(LIST, json!({ "first": 100 })).await["executions"].clone();
    let cursor = |n: usize| page["edges"][n]["cursor"].clone();
    let between = server.data(LIST, json!({ "first": 100, "after": cursor(9), "before": cursor(20) })).await;
    assert_eq!(texts(&between["executions"]["nodes"], "id"), texts(&page["nodes"], "id")[10..20]);
}
