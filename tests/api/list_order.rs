//! Lists of executions and of source subscriptions are ordered by time, then by id, also in a database in which NoETL's
//! function `noetl.snowflake_id()` made some of the ids: those are about twice as large as other ids of the same time.

use noetl_domain::cursor::{CursorKind, encode};
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::list_position::PositionRange;
use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::execution_lists::{self, ExecutionFilter, OwnerKind};
use noetl_storage::pools::Database;
use noetl_storage::subscriptions::{self, SubscriptionFilter};
use noetl_storage::view::View;
use noetl_testkit::feed::run;
use noetl_testkit::pages::read_pages;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

/// Milliseconds from 2024-01-01 to 2026-01-01.
const BASE_MS: i64 = 63_158_400_000;
const PARENT: i64 = 4_000_000_000;

/// An item of a list: its time in milliseconds after 2024-01-01, and its id.
type Item = (Option<i64>, i64);

/// Returns items on both shards, the newest half only on one. Three items have each time, with ids of both sizes, and
/// some items have no time.
fn items(deployment: &Deployment) -> Vec<(usize, Item)> {
    let mut items = Vec::new();
    for n in 0..36 {
        let shard = usize::from(n % 2 == 1 && n < 18);
        let ms = BASE_MS + n / 3 * 1_000;
        let id = if n % 4 < 2 { ms << 22 } else { (ms << 23) | (1 << 18) };
        let id = deployment.ids_on(shard, id + n * 100, 1)[0];
        items.push((shard, ((n % 9 != 8).then_some(ms), id)));
    }
    items
}

/// Returns the ids in the order of the list: newest first, then those without a time.
fn ordered(items: &[(usize, Item)]) -> Vec<String> {
    let mut items: Vec<Item> = items.iter().map(|(_, item)| *item).collect();
    items.sort_unstable_by(|one, other| other.cmp(one));
    items.iter().map(|(_, id)| id.to_string()).collect()
}

fn time(ms: Option<i64>) -> String {
    ms.map_or_else(|| "NULL".to_owned(), |ms| format!("timestamptz '2024-01-01 00:00:00+00' + {ms} * interval '1 ms'"))
}

async fn insert_execution(shard: &mut PgConnection, (ms, id): Item) {
    let insert = format!(
        "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, path, start_time)
         VALUES ({id}, 0, {PARENT}, 'RUNNING', 'listed', {})",
        time(ms)
    );
    run(shard, &insert).await;
}

async fn insert_subscription(shard: &mut PgConnection, (ms, id): Item) {
    let insert = format!(
        "INSERT INTO noetl.event (execution_id, event_id, catalog_id, event_type, node_name, status, created_at)
         VALUES ({id}, {id} + 1, 0, 'subscription.registered', 'inbox/{id}', 'REGISTERED', ({}) AT TIME ZONE 'UTC')",
        time(ms)
    );
    run(shard, &insert).await;
}

/// Lists of the API: the query, and where in its data the connection is.
const EXECUTIONS: (&str, &str) = (
    "query($first: Int, $after: String, $last: Int, $before: String) {
        list: executions(first: $first, after: $after, last: $last, before: $before) {
            edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }",
    "/list",
);
const CHILDREN: (&str, &str) = (
    "query($first: Int, $after: String, $last: Int, $before: String) {
        execution(id: \"4000000000\") {
            list: children(first: $first, after: $after, last: $last, before: $before) {
                edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } }",
    "/execution/list",
);
const SUBSCRIPTIONS: (&str, &str) = (
    "query($first: Int, $after: String, $last: Int, $before: String) {
        list: subscriptions(first: $first, after: $after, last: $last, before: $before) {
            edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }",
    "/list",
);

async fn page(server: &Server, list: (&str, &str), variables: Value) -> Value {
    server.data(list.0, variables).await.pointer(list.1).unwrap().clone()
}

fn ids(page: &Value) -> Vec<String> {
    page["edges"].as_array().unwrap().iter().map(|edge| edge["node"]["id"].as_str().unwrap().to_owned()).collect()
}

/// Reads a whole list in pages and returns the ids in the order of the list. Calls `between` between two pages.
async fn walk(
    server: &Server,
    list: (&str, &str),
    size: usize,
    backwards: bool,
    mut between: impl AsyncFnMut(),
) -> Vec<String> {
    let mut is_first = true;
    let pages = read_pages(size, backwards, async |range: Value| {
        if !std::mem::take(&mut is_first) {
            between().await;
        }
        page(server, list, range).await
    })
    .await;
    pages.iter().flat_map(ids).collect()
}

async fn assert_order(server: &Server, list: (&str, &str), expected: &[String]) {
    for size in [1, 5, 100] {
        for backwards in [false, true] {
            let found = walk(server, list, size, backwards, async || {}).await;
            assert_eq!(found, expected, "{} in pages of {size}, backwards: {backwards}", list.1);
        }
    }
}

#[tokio::test]
async fn executions_children_and_subscriptions_with_ids_of_both_servers_are_ordered_by_time() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_without_projector().await;
    ordered_executions(&deployment, &server).await;
    delete_executions(&deployment).await;
    orders(&deployment, &server).await;
    // The subscriptions have ids of the executions.
    delete_executions(&deployment).await;
    ordered_subscriptions(&deployment, &server).await;
}

/// Deletes the executions, which have no logs.
async fn delete_executions(deployment: &Deployment) {
    for shard in 0..2 {
        deployment.on_shard(shard, "DELETE FROM noetl.execution").await;
    }
}

/// Executions and children. Only this part's executions exist.
async fn ordered_executions(deployment: &Deployment, server: &Server) {
    let mut shards = [deployment.shard(0).await, deployment.shard(1).await];
    let all = items(deployment);
    for (shard, item) in &all {
        insert_execution(&mut shards[*shard], *item).await;
    }
    let expected = ordered(&all);
    assert_order(server, EXECUTIONS, &expected).await;
    // The parent is an execution too. It is older than the others.
    let (shard, parent) = (deployment.ids_on(0, PARENT, 1)[0] != PARENT, (Some(0), PARENT));
    insert_execution(&mut shards[usize::from(shard)], parent).await;
    run(
        &mut shards[usize::from(shard)],
        "UPDATE noetl.execution SET parent_execution_id = NULL WHERE start_time < '2025-01-01'",
    )
    .await;
    assert_order(server, CHILDREN, &expected).await;

    // Newer executions come before the first page. They do not move the later ones.
    let mut added = 0;
    let found = walk(server, EXECUTIONS, 5, false, async || {
        added += 1;
        let ms = BASE_MS + 3_600_000 + added;
        let id = if added % 2 == 0 { ms << 22 } else { ms << 23 };
        insert_execution(&mut shards[1], (Some(ms), deployment.ids_on(1, id, 1)[0])).await;
    })
    .await;
    let untimed = all.iter().filter(|(_, (ms, _))| ms.is_none()).count();
    let timed = expected.len() - untimed;
    let with_parent = [&expected[..timed], &[PARENT.to_string()], &expected[timed..]].concat();
    assert_eq!(found, with_parent);
    let of_another_list = encode(CursorKind::Subscription, &[0; 16]);
    let refused = server.send(EXECUTIONS.0, json!({ "first": 1, "after": of_another_list })).await.unwrap();
    assert_eq!(refused["errors"][0]["extensions"]["code"], "INVALID_INPUT", "{refused}");
}

const ORDERS: [&str; 4] = ["NEWEST", "OLDEST", "LONGEST", "LAST_ENDED"];

/// Condition of a filter.
type Wanted = fn(&Run) -> bool;

/// An execution: its start and end in milliseconds after 2024-01-01.
struct Run {
    shard: usize,
    id: i64,
    started: Option<i64>,
    ended: Option<i64>,
    status: &'static str,
    tenant: &'static str,
}

/// Returns executions on both shards, many with equal starts, ends and durations, also over shards. Some have not ended,
/// one has no start, and one ended before its start.
fn runs(deployment: &Deployment) -> Vec<Run> {
    let run = |n: i64| {
        let shard = usize::from(n % 2 == 1);
        let at = BASE_MS + n / 4 * 1_000;
        let ended = (n % 6 != 5).then_some(if n == 9 { at - 500 } else { at + n / 2 % 3 * 1_000 });
        Run {
            shard,
            id: deployment.ids_on(shard, (at << 22) + n * 1_000, 1)[0],
            started: (n != 8).then_some(at),
            ended,
            status: match n % 4 {
                _ if ended.is_none() => "RUNNING",
                0 => "FAILED",
                3 => "CANCELLED",
                _ => "COMPLETED",
            },
            tenant: if n % 5 < 2 { "acme" } else { "default" },
        }
    };
    (0..24).map(run).collect()
}

impl Run {
    /// Returns whether the list with an order has the execution.
    fn is_in(&self, order: &str) -> bool {
        self.ended.is_some() || !["LONGEST", "LAST_ENDED"].contains(&order)
    }

    /// Returns the value by which an order sorts; an execution without it is the first one in ascending order.
    fn value(&self, order: &str) -> Option<i64> {
        match order {
            "LONGEST" => self.started.zip(self.ended).map(|(started, ended)| (ended - started).max(0)),
            "LAST_ENDED" => self.ended,
            _ => self.started,
        }
    }
}

/// Executions have each order over all shards, and cursors of one order only. Only this part's executions exist.
async fn orders(deployment: &Deployment, server: &Server) {
    let mut shards = [deployment.shard(0).await, deployment.shard(1).await];
    let runs = runs(deployment);
    for Run { shard, id, started, ended, status, tenant } in &runs {
        let insert = format!(
            "INSERT INTO noetl.execution (execution_id, catalog_id, status, path, tenant_id, start_time, end_time)
             VALUES ({id}, 0, '{status}', 'listed', '{tenant}', {}, {})",
            time(*started),
            time(*ended)
        );
        run(&mut shards[*shard], &insert).await;
    }
    let query = |order: &str, filter: &str| {
        EXECUTIONS.0.replace("executions(", &format!("executions(order: {order}, filter: {{ {filter} }}, "))
    };
    let filters: [(&str, Wanted, &[&str]); 4] = [
        ("", |_| true, &ORDERS),
        ("statuses: [FAILED, CANCELLED]", |run| ["FAILED", "CANCELLED"].contains(&run.status), &ORDERS),
        ("tenantId: \"acme\"", |run| run.tenant == "acme", &ORDERS),
        (
            "endedAfter: \"2026-01-01T00:00:02Z\", endedBefore: \"2026-01-01T00:00:04Z\"",
            |run| run.ended.is_some_and(|at| (BASE_MS + 2_000..BASE_MS + 4_000).contains(&at)),
            &["LAST_ENDED"],
        ),
    ];
    for (filter, wanted, orders) in filters {
        for &order in orders {
            let listed = runs.iter().filter(|run| wanted(run) && run.is_in(order));
            let mut listed: Vec<Item> = listed.map(|run| (run.value(order), run.id)).collect();
            listed.sort_unstable();
            if order != "OLDEST" {
                listed.reverse();
            }
            let expected: Vec<String> = listed.iter().map(|(_, id)| id.to_string()).collect();
            assert!(!expected.is_empty(), "{order} {filter}");
            assert_order(server, (query(order, filter).as_str(), "/list"), &expected).await;
        }
    }
    for order in ORDERS {
        let first = page(server, (query(order, "").as_str(), "/list"), json!({ "first": 3 })).await;
        let cursor = &first["pageInfo"]["endCursor"];
        for other in ORDERS.into_iter().filter(|other| *other != order) {
            let refused = server.send(&query(other, ""), json!({ "first": 3, "after": cursor })).await.unwrap();
            let extensions = &refused["errors"][0]["extensions"];
            assert_eq!(
                (&extensions["code"], &extensions["field"]),
                (&json!("INVALID_INPUT"), &json!(["after"])),
                "{refused}"
            );
        }
    }
    let refused = server.send(&query("LONGEST", "pathPrefix: \"listed\""), json!({ "first": 3 })).await.unwrap();
    let message = refused["errors"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("LONGEST") && message.contains("pathPrefix"), "{refused}");
}

/// Subscriptions. Only this part's subscriptions exist.
async fn ordered_subscriptions(deployment: &Deployment, server: &Server) {
    let mut shards = [deployment.shard(0).await, deployment.shard(1).await];
    let all: Vec<(usize, Item)> = items(deployment).into_iter().filter(|(_, (ms, _))| ms.is_some()).collect();
    for (shard, item) in &all {
        insert_subscription(&mut shards[*shard], *item).await;
    }
    let expected = ordered(&all);
    assert_order(server, SUBSCRIPTIONS, &expected).await;
    let bulk =
        "mutation { transitionSubscriptions(input: {action: ACTIVATE, select: {filter: {pathPrefix: \"inbox\"}}, dryRun: true}) {
        results { subscription { id } } userErrors { code message } } }";
    let bulk = server.data(bulk, Value::Null).await["transitionSubscriptions"].clone();
    let matched: Vec<&str> =
        bulk["results"].as_array().unwrap().iter().map(|one| one["subscription"]["id"].as_str().unwrap()).collect();
    assert_eq!(matched, expected);
}

#[tokio::test]
async fn a_page_of_many_executions_or_subscriptions_reads_an_index() {
    let deployment = Deployment::start(0).await;
    let mut shard = deployment.shard(0).await;
    let fill = "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, path, start_time)
                SELECT CASE WHEN n % 2 = 0 THEN n << 22 ELSE (n << 23) + n END, 0, n % 2, 'COMPLETED', 'listed',
                       now() - n * interval '1 s'
                FROM generate_series(1::bigint, 20000) AS n;
                INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status, created_at)
                SELECT CASE WHEN n % 2 = 0 THEN n << 22 ELSE (n << 23) + n END, n,
                       'subscription.registered', 'inbox/' || n, 'ACTIVE', now() - n * interval '1 s'
                FROM generate_series(1::bigint, 5000) AS n";
    run(&mut shard, fill).await;
    run(&mut shard, "VACUUM ANALYZE noetl.execution").await;
    run(&mut shard, "VACUUM ANALYZE noetl.event").await;
    // A single connection, so that its plans are cached.
    let reader = || Database::new(DatabaseName::Cluster, deployment.cluster_dsn.parse().unwrap(), 1);
    let (everyone, every_execution) = (Scope::Unrestricted, ExecutionFilter::default());
    let database = reader();
    let newest = PositionRange::newest(10_000);
    let middle =
        execution_lists::list(View::whole(&database), &everyone, &every_execution, ExecutionOrder::Newest, newest)
            .await
            .unwrap();
    drop(database);
    let middle = middle.last().unwrap().position();
    let old = ExecutionFilter { started_before: Some(middle.at), ..ExecutionFilter::default() };
    for descending in [true, false] {
        let all = PositionRange { descending, ..PositionRange::newest(26) };
        for range in [all, PositionRange { below: middle, ..all }, PositionRange { above: middle, ..all }] {
            let before = deployment.entries_read(0, "execution").await;
            let database = reader();
            for _ in 0..10 {
                for (filter, range) in [(&every_execution, range), (&old, all)] {
                    let view = View::whole(&database);
                    let page =
                        execution_lists::list(view, &everyone, filter, ExecutionOrder::Newest, range).await.unwrap();
                    assert_eq!(page.len(), 26);
                }
                let (view, kind) = (View::whole(&database), OwnerKind::Parent);
                let children = execution_lists::of_owners(view, &everyone, kind, &[0, 1], &every_execution, range);
                assert_eq!(children.await.unwrap().len(), 52);
            }
            drop(database);
            let read = deployment.entries_read(0, "execution").await - before;
            assert!(read < 10 * 300, "{read} rows and entries for ten of each list: {range:?}");
        }
        let before = deployment.entries_read(0, "event").await;
        let database = reader();
        for _ in 0..10 {
            let every = SubscriptionFilter::default();
            let page = subscriptions::list(View::whole(&database), &everyone, &every, all).await.unwrap();
            assert_eq!(page.len(), 26);
        }
        drop(database);
        let read = deployment.entries_read(0, "event").await - before;
        assert!(read < 10 * 200, "{read} rows and entries for ten pages of subscriptions, descending: {descending}");
    }
}
