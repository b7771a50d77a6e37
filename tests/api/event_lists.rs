//! Lists of events over all logs, newest first, and the conditions of lists of one log.

use noetl_domain::event::EventFilter;
use noetl_domain::event_list::{EventPosition, LogFilter};
use noetl_domain::page::PageRequest;
use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::event_lists;
use noetl_storage::events::LargeColumns;
use noetl_storage::pools::Database;
use noetl_storage::view::View;
use noetl_testkit::feed::run;
use noetl_testkit::pages::read_pages;
use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::worker::event_with;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

const LIST: &str = "query($filter: EventFilter, $first: Int, $after: String, $last: Int, $before: String) {
    events(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
        nodes { executionId eventId type status } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
        unavailableShards } }";

/// Writes 40 failures and 40 completions in turns, one each minute, in 20 logs on both shards. The ids decrease, so only
/// the times give the order.
async fn with_events(server: &Server) {
    let events: Vec<Value> = (0..80)
        .map(|n: i64| {
            let kind = if n % 2 == 0 { "playbook.failed" } else { "playbook.completed" };
            let fields = json!({
                "type": kind, "status": if n % 4 == 0 { "FAILED" } else { "DONE" }, "nodeName": format!("step{}", n % 5),
                "createdAt": format!("2026-01-01T{:02}:{:02}:00Z", n / 60, n % 60), "error": format!("Attempt {n} failed"),
                "tenantId": if n % 10 == 0 { "acme" } else { "default" },
            });
            event_with(1000 + n % 20, 1000 - n, &fields)
        })
        .collect();
    let payload = server.project(&events).await;
    assert_eq!(payload["projected"], 80, "{payload}");
}

fn numbers(list: &Value) -> Vec<i64> {
    let id = |node: &Value| 1000 - node["eventId"].as_str().unwrap().parse::<i64>().unwrap();
    list["nodes"].as_array().unwrap().iter().map(id).collect()
}

async fn read(server: &Server, variables: Value) -> Value {
    server.data(LIST, variables).await["events"].take()
}

#[tokio::test]
async fn the_latest_events_of_all_logs_are_listed_and_a_text_is_found_within_one_log() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_without_projector().await;
    with_events(&server).await;
    latest(&server).await;
    texts(&deployment, &server).await;
}

/// The latest failures of all executions are listed newest first.
async fn latest(server: &Server) {
    let latest = read(server, json!({ "filter": { "types": ["playbook.failed"] }, "first": 5 })).await;
    assert_eq!(numbers(&latest), [78, 76, 74, 72, 70], "{latest}");
    assert_eq!(latest["unavailableShards"], json!([]));
    let cases: &[(Value, &dyn Fn(i64) -> bool)] = &[
        (json!(null), &|_| true),
        (json!({ "types": ["playbook.*"] }), &|_| true),
        (json!({ "types": ["playbook.c*", "other", "playbook.completed"] }), &|n| n % 2 == 1),
        (json!({ "types": ["playbook"] }), &|_| false),
        (json!({ "types": [] }), &|_| false),
        (json!({ "statuses": ["FAILED"] }), &|n| n % 4 == 0),
        (json!({ "types": ["playbook.f*"], "statuses": ["DONE", "FAILED"] }), &|n| n % 2 == 0),
        (json!({ "nodeNames": ["step1", "step2", "step1"] }), &|n| n % 5 == 1 || n % 5 == 2),
        (json!({ "nodeNames": ["step1"], "types": ["playbook.failed"] }), &|n| n % 10 == 6),
        (json!({ "createdAfter": "2026-01-01T00:30:00Z", "createdBefore": "2026-01-01T01:00:00Z" }), &|n| {
            (30..60).contains(&n)
        }),
        (json!({ "executionIds": ["1001", "1002"], "types": ["playbook.failed"] }), &|n| n % 20 == 2),
        (json!({ "tenantId": "acme" }), &|n| n % 10 == 0),
    ];
    for (filter, matches) in cases {
        let expected: Vec<i64> = (0..80).rev().filter(|n| matches(*n)).collect();
        for (size, backwards) in [(7, false), (7, true), (100, false), (100, true)] {
            let pages = read_pages(size, backwards, async |mut range: Value| {
                range["filter"] = filter.clone();
                read(server, range).await
            })
            .await;
            let found: Vec<i64> = pages.iter().flat_map(numbers).collect();
            assert_eq!(found, expected, "{filter}");
        }
    }
}

#[tokio::test]
async fn a_shard_that_is_down_is_named_and_the_others_are_listed() {
    let mut deployment = Deployment::start(2).await;
    let proxy = deployment.shard_behind_proxy(1).await;
    let server = deployment.replica_without_projector().await;
    with_events(&server).await;
    proxy.set(ForwardingMode::Closed);
    let list = read(&server, json!({ "first": 100 })).await;
    assert_eq!(list["unavailableShards"], json!([1]));
    assert!(!numbers(&list).is_empty() && numbers(&list).len() < 80, "{list}");
}

/// A text is found within one log, and refused over all logs.
async fn texts(deployment: &Deployment, server: &Server) {
    let fields =
        json!({ "type": "call.done", "result": { "Reason": "No ROUTE to 10% of hosts" }, "nodeName": "load_all" });
    server.project(&[event_with(1003, 2000, &fields)]).await;
    let search = async |text: &str, log: Value, more: &str| {
        let query = format!(
            "query($text: String!, $log: ID) {{ events(executionId: $log, filter: {{ text: $text {more} }}) {{ nodes {{ eventId }} }} }}"
        );
        server.send(&query, json!({ "text": text, "log": log })).await.unwrap()
    };
    let found = async |text: &str| {
        let found = search(text, json!("1003"), "").await["data"]["events"].take();
        found["nodes"].as_array().unwrap_or_else(|| panic!("{found}")).len()
    };
    for (text, count) in [
        ("route TO 10% of", 1),
        ("reason", 1),
        ("load_all", 1),
        ("loadXall", 0),
        ("attempt", 4),
        ("FAILED", 4),
        ("%", 1),
    ] {
        assert_eq!(found(text).await, count, "{text}");
    }
    let refused = |answer: &Value| {
        let extensions = &answer["errors"][0]["extensions"];
        assert_eq!(
            (&extensions["code"], answer["data"].get("events")),
            (&json!("INVALID_INPUT"), Some(&Value::Null)),
            "{answer}"
        );
        assert!(extensions["field"].to_string().contains("text"), "{answer}");
    };
    refused(&search("attempt", Value::Null, "").await);
    for text in ["", "a\0", &"x".repeat(201)] {
        refused(&search(text, json!("1003"), "").await);
    }
    let fill = "INSERT INTO noetl.event (execution_id, event_id, event_type, created_at)
                SELECT 1003, 10000 + n, 'call.done', '2026-02-01' FROM generate_series(1, 10001) AS n";
    let shard = usize::from(deployment.ids_on(0, 1003, 1)[0] != 1003);
    run(&mut deployment.shard(shard).await, fill).await;
    refused(&search("attempt", json!("1003"), "").await);
    let within = search("attempt", json!("1003"), "createdBefore: \"2026-01-31T00:00:00Z\"").await;
    assert_eq!(within["data"]["events"]["nodes"].as_array().unwrap().len(), 4, "{within}");
}

/// Returns the number of rows and index entries that the database reads for a page.
async fn work(deployment: &Deployment, filter: &LogFilter) -> i64 {
    let before = deployment.entries_read(0, "event").await;
    let reader = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1);
    let request = PageRequest::<EventPosition> { limit: 20, backwards: false, after: None, before: None };
    let (columns, range) = (LargeColumns::default(), request.newest_events_first(filter));
    let page = event_lists::list(View::whole(&reader), &Scope::Unrestricted, filter, &columns, range, None).await;
    assert!(!page.unwrap().is_empty(), "{filter:?}");
    drop(reader);
    deployment.entries_read(0, "event").await - before
}

#[tokio::test]
async fn a_page_of_all_logs_is_read_along_an_index_whatever_the_condition_is() {
    let deployment = Deployment::start(1).await;
    let fill = "INSERT INTO noetl.event (execution_id, event_id, event_type, status, node_name, created_at)
                SELECT n % 500, n, CASE WHEN n % 8000 = 1 THEN 'playbook.failed' ELSE 'call.' || n % 10 END,
                       CASE WHEN n % 12000 = 2 THEN 'ODD' ELSE 'DONE' END, 'step' || n % 400,
                       timestamp '2026-01-01' + n * interval '2.5 seconds'
                FROM generate_series(1, 40000) AS n";
    let mut shard = deployment.shard(0).await;
    run(&mut shard, fill).await;
    run(&mut shard, "VACUUM ANALYZE noetl.event").await;
    let texts = |texts: &[&str]| Some(texts.iter().map(|one| (*one).to_owned()).collect::<Vec<String>>());
    let none = EventFilter::default;
    let filters = [
        none(),
        EventFilter { types: texts(&["playbook.failed"]), ..none() },
        EventFilter { types: texts(&["playbook.*", "call.7"]), ..none() },
        EventFilter { statuses: texts(&["ODD"]), ..none() },
        EventFilter { node_names: texts(&["step7"]), ..none() },
    ];
    for event in filters {
        let filter = LogFilter { event, created_before: "2026-01-02T00:00:00Z".parse().ok(), ..LogFilter::default() };
        let work = work(&deployment, &filter).await;
        assert!(work < 3000, "{work} rows and index entries were read: {filter:?}");
    }
}
