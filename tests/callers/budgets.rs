//! One operation reads, keeps and returns a limited number of bytes and rows, for any amount of stored data.

use std::future::poll_fn;
use std::pin::pin;

use noetl_domain::cursor::{CursorKind, encode};
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::list_position::PositionRange;
use noetl_domain::tenant::Scope;
use noetl_storage::budget::{Budget, BudgetLimits, Resource};
use noetl_storage::error::{DatabaseName, StorageError};
use noetl_storage::execution_lists::{self, ExecutionFilter};
use noetl_storage::pools::Database;
use noetl_storage::view::View;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Live, Server, eventually, execute_input};
use serde_json::{Value, json};
use sqlx::PgConnection;

const MIB: u64 = 1 << 20;
const EXECUTIONS: i64 = 100;
/// Number of executions that have events of 1 MiB.
const LARGE: i64 = 50;
const EVENTS: i64 = 20;
/// Settings of a replica without background tasks that read events or outbox rows, whose operations may take long: they
/// must reach their limits before the deadline on a slow machine too.
const QUIET: [(&str, &str); 4] = [
    ("NOETL_PROJECTOR", "false"),
    ("NOETL_OUTBOX_RELAY", "false"),
    ("NOETL_EVENT_STREAM_ENABLED", "false"),
    ("NOETL_OPERATION_DEADLINE_SECS", "50"),
];

/// Inserts executions, and events of 1 MiB each for some of them. Compressed they need little space, so that a gigabyte
/// can be read.
async fn fill(database: &mut PgConnection) {
    let fill = "INSERT INTO noetl.execution (execution_id, catalog_id, status, path)
                SELECT n, 0, 'RUNNING', 'big' FROM generate_series(1, $1) AS n";
    sqlx::query(fill).bind(EXECUTIONS).execute(&mut *database).await.unwrap();
    let big = "CREATE TEMPORARY TABLE big AS
               SELECT to_jsonb(repeat('x', 1 << 20)) AS value, repeat('x', 1 << 20) AS plain";
    sqlx::raw_sql(big).execute(&mut *database).await.unwrap();
    let fill = "INSERT INTO noetl.event (execution_id, event_id, event_type, context, error)
                SELECT execution, execution * 1000 + n, 'call.done', value, plain
                FROM generate_series(1, $1) AS execution, generate_series(1, $2) AS n, big";
    sqlx::query(fill).bind(LARGE).bind(EVENTS).execute(database).await.unwrap();
}

fn assert_stopped(response: &Value, limit: &str, allowed: u64) {
    let errors = response["errors"].as_array().unwrap_or_else(|| panic!("{response:.300}"));
    assert_eq!((errors.len(), response.get("data")), (1, None), "{errors:?}");
    let actual = errors[0]["extensions"]["actual"].as_u64().unwrap_or_default();
    assert!(actual > allowed, "{errors:?}");
    let extensions = json!({
        "code": "LIMIT_EXCEEDED", "limit": limit, "allowed": allowed, "actual": actual, "retryable": false
    });
    assert_eq!(errors[0]["extensions"], extensions, "{errors:?}");
}

#[tokio::test]
async fn an_operation_is_stopped_at_its_limits_of_bytes_and_rows() {
    let deployment = Deployment::start(0).await;
    fill(&mut deployment.cluster().await).await;
    Box::pin(the_row_limit_applies_to_all_statements_of_an_operation_together(&deployment)).await;
    // Each part that measures memory has a process of its own.
    let server = deployment.replica_with(&QUIET).await;
    an_operation_that_reads_too_many_bytes_is_stopped_near_the_limit(&deployment, &server).await;
    drop(server);
    let server = deployment.replica_with(&QUIET).await;
    a_large_value_that_is_selected_many_times_is_stopped_at_the_response_limit(&server).await;
    an_operation_that_reads_too_many_rows_is_stopped_at_the_limit(&deployment, &server).await;
    the_server_info_shows_the_limits(&server).await;
}

/// Neither the process nor the database works on after the limit.
async fn an_operation_that_reads_too_many_bytes_is_stopped_near_the_limit(deployment: &Deployment, server: &Server) {
    server.data("{ executions(first: 100) { nodes { id } } }", Value::Null).await;
    let before = server.peak_memory();
    let nested = "{ executions(first: 100) { nodes { events(first: 100) { nodes { context } } } } }";
    let response = server.send(nested, Value::Null).await.unwrap();
    assert_stopped(&response, "read_bytes", 64 * MIB);
    // The rows have 1 GiB.
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < 400 * MIB, "the process grew by {} MiB", grown / MIB);
    let mut observer = deployment.cluster().await;
    let running = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
                   AND application_name = 'noetl-graphql' AND query LIKE '%FROM noetl.event%'";
    eventually("no statement is running", async || {
        let running: i64 = sqlx::query_scalar(running).fetch_one(&mut observer).await.unwrap();
        (running == 0).then_some(())
    })
    .await;
    server.data("{ executions(first: 100) { nodes { id } } }", Value::Null).await;
}

/// Aliases of one field multiply the response, and not what is read.
async fn a_large_value_that_is_selected_many_times_is_stopped_at_the_response_limit(server: &Server) {
    let alone = r#"{ events(executionId: "1", first: 20) { nodes { context } } }"#;
    let page = server.data(alone, Value::Null).await;
    assert_eq!(page["events"]["nodes"].as_array().unwrap().len(), 20);
    let before = server.peak_memory();
    let aliases = (0..95).map(|n| format!("a{n}: context")).collect::<Vec<_>>().join(" ");
    let often = format!(r#"{{ events(executionId: "1", first: 20) {{ nodes {{ {aliases} }} }} }}"#);
    let response = server.send(&often, Value::Null).await.unwrap();
    assert_stopped(&response, "response_bytes", 32 * MIB);
    // The whole response would have 1.9 GiB.
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < 400 * MIB, "the process grew by {} MiB", grown / MIB);

    // The same operation over a socket, which stays open.
    let mut live = Live::open(&server.url, &often, Value::Null).await;
    assert_eq!(live.errors().await[0]["extensions"]["limit"], "response_bytes");
    live.send(json!({ "type": "ping" })).await.unwrap();
    assert_eq!(live.message().await.unwrap()["type"], "pong");
}

/// Returns a query of pages of events, `pages` of each of 100 executions. Each page has the default size of 25 and reads
/// 26 rows. The pages start after different ids, so that each is read by a statement of its own.
fn pages_of_events(pages: i64) -> String {
    let page = |n: i64| {
        let after = encode(CursorKind::Event, &n.to_be_bytes());
        format!("p{n}: events(after: \"{after}\") {{ pageInfo {{ hasNextPage }} }}")
    };
    let pages: Vec<String> = (0..pages).map(page).collect();
    format!("{{ executions(first: 100) {{ nodes {{ {} }} }} }}", pages.join(" "))
}

/// The newest 100 executions have 26 events each.
async fn an_operation_that_reads_too_many_rows_is_stopped_at_the_limit(deployment: &Deployment, server: &Server) {
    let fill = "INSERT INTO noetl.execution (execution_id, catalog_id, status, path)
                SELECT n, 0, 'RUNNING', 'long' FROM generate_series(1001, 1100) AS n;
                INSERT INTO noetl.event (execution_id, event_id, event_type)
                SELECT execution, execution * 1000 + n, 'call.done'
                FROM generate_series(1001, 1100) AS execution, generate_series(1, 26) AS n";
    run(&mut deployment.cluster().await, fill).await;
    // 100 executions and 38 * 100 * 26 = 98,800 events.
    let data = server.data(&pages_of_events(38), Value::Null).await;
    let nodes = data["executions"]["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), &nodes[99]["p37"]["pageInfo"]["hasNextPage"]), (100, &json!(true)));
    // 100 executions and 39 * 100 * 26 = 101,400 events.
    let response = server.send(&pages_of_events(39), Value::Null).await.unwrap();
    assert_stopped(&response, "read_rows", 100_000);
}

/// Two lists of 100 rows exceed a limit of 150 rows.
async fn the_row_limit_applies_to_all_statements_of_an_operation_together(deployment: &Deployment) {
    let shard = Database::new(DatabaseName::Shard(0), deployment.cluster_dsn.parse().unwrap(), 1);
    let budget = Budget::new(BudgetLimits { read_rows: 150, ..BudgetLimits::default() }, None);
    let range = PositionRange::newest(100);
    let list = async || {
        let filter = ExecutionFilter::default();
        let mut listed = pin!(execution_lists::list(
            View::whole(&shard),
            &Scope::Unrestricted,
            &filter,
            ExecutionOrder::Newest,
            range
        ));
        poll_fn(|cx| budget.enter(|| listed.as_mut().poll(cx))).await
    };
    assert_eq!(list().await.unwrap().len(), 100);
    let Err(StorageError::LimitExceeded(exceeded)) = list().await else { panic!("all 200 rows were read") };
    assert_eq!((exceeded.limit, exceeded.allowed), (Resource::ReadRows, 150));
    budget.renew();
    assert_eq!(list().await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_batch_of_executions_with_a_large_default_workload_uses_bounded_memory() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let workload = json!({ "text": "x".repeat(1 << 20) });
    server.register_entry("big", &json!({ "kind": "playbook", "workload": workload })).await;
    server.execute(json!({ "path": "big" })).await;
    let before = server.peak_memory();
    let request = |n: usize| {
        if n.is_multiple_of(2) {
            json!({ "path": "big" })
        } else {
            json!({ "path": "big", "dedup": { "key": format!("m-{n}") } })
        }
    };
    let query = "mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) {
        results { outcome userErrors { code message } } } }";
    let requests: Vec<Value> = (0..100).map(request).map(execute_input).collect();
    let response = server.send(query, json!({ "input": { "requests": requests } })).await.unwrap();
    assert_eq!(response.get("errors"), None, "{response:.300}");
    let results = response["data"]["executeBatch"]["results"].as_array().unwrap();
    let started = results.iter().filter(|result| result["outcome"] == "STARTED").count();
    assert_eq!(started, 100, "{:.300}", results[1]);
    let large = "SELECT count(*) FROM noetl.event WHERE octet_length(context::text) > 1 << 20";
    assert_eq!(deployment.sum_over_shards(large).await, 101);
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < 200 * MIB, "the process grew by {} MiB", grown / MIB);
}

/// A state and its JSON take about 2.5 MiB of memory. The limit is below what 100 of them take.
#[tokio::test]
async fn states_of_many_executions_are_stored_in_bounded_memory() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&QUIET).await;
    let write = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, meta)
                 SELECT log, log + n, 'step.enter', 'step' || n, jsonb_build_object('command_id', 'c' || n)
                 FROM generate_series(1000000, 999999 + $1) AS log, generate_series(10, 509) AS n";
    sqlx::query(write).bind(EXECUTIONS).execute(&mut deployment.cluster().await).await.unwrap();
    server.advance_projections(&[1_000_000]).await;
    let before = server.peak_memory();
    let ids: Vec<i64> = (1_000_000..1_000_000 + EXECUTIONS).collect();
    let outcome = server.advance_projections(&ids).await;
    assert_eq!(outcome["failed"], json!([]));
    let stored = "SELECT count(*) FROM noetl.projection_snapshot WHERE octet_length(snapshot::text) > 50000";
    assert_eq!(deployment.sum_over_shards(stored).await, EXECUTIONS);
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < 150 * MIB, "the process grew by {} MiB", grown / MIB);
}

/// Callers can query the limits.
async fn the_server_info_shows_the_limits(server: &Server) {
    let query = "{ server { limits { maxResponseBytes maxReadBytes maxReadRows } } }";
    let limits = json!({ "maxResponseBytes": "33554432", "maxReadBytes": "67108864", "maxReadRows": "100000" });
    assert_eq!(server.data(query, Value::Null).await["server"]["limits"], limits);
}

/// Each state has 2 MiB and takes several times as much memory while it is advanced. The limit is below what 14 of them
/// take.
#[tokio::test]
async fn large_states_are_advanced_one_by_one_in_bounded_memory() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&QUIET).await;
    let write = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status, result)
                 SELECT log, log + n, 'call.done', 'step' || n, 'COMPLETED', jsonb_build_object('text', repeat('x', 8192))
                 FROM generate_series(1000000, 1013999, 1000) AS log, generate_series(1, 249) AS n";
    sqlx::query(write).execute(&mut deployment.cluster().await).await.unwrap();
    let ids: Vec<i64> = (1_000_000..1_014_000).step_by(1000).collect();
    assert_eq!(server.advance_projections(&ids).await["failed"], json!([]));
    let stored = "SELECT count(*) FROM noetl.projection_snapshot WHERE octet_length(snapshot::text) > 2000000";
    assert_eq!(deployment.sum_over_shards(stored).await, i64::try_from(ids.len()).unwrap());

    let next = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name)
                SELECT log, log + 1000, 'step.enter', 'last' FROM generate_series(1000000, 1013999, 1000) AS log";
    sqlx::query(next).execute(&mut deployment.cluster().await).await.unwrap();
    let fresh = deployment.replica_with(&QUIET).await;
    fresh.advance_projections(&ids[..1]).await;
    let before = fresh.peak_memory();
    let outcome = fresh.advance_projections(&ids).await;
    let folded: Vec<i64> = outcome["advanced"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["folded"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(folded.iter().sum::<i64>(), i64::try_from(ids.len()).unwrap() - 1, "{outcome}");
    let grown = fresh.peak_memory().saturating_sub(before);
    assert!(grown < 40 * MIB, "the process grew by {} MiB", grown / MIB);
}
