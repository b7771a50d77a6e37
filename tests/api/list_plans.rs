//! Plans of the statements of lists of executions, events, outbox rows, catalog entries and subscriptions on filled
//! tables, made while the tables were nearly empty, with stale statistics and with fresh ones. PostgreSQL logs each plan
//! with the numbers of rows that it read.

use std::collections::BTreeSet;

use noetl_testkit::feed::run;
use noetl_testkit::plans::{PlanLog, deployment_with_plans, rows_read};
use noetl_testkit::{Deployment, QUIET, Server, TokenFile};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

/// Rows that a statement may read for a page of 20 or a count up to 100. The tables have many more.
const MAX_ROWS: f64 = 4000.0;
/// Name of the check before the tables are filled. It makes plans that are outdated later.
const EMPTY_TABLES: &str = "nearly empty tables";
/// Name of the check with plans that were made before the tables were filled.
const OUTDATED_PLANS: &str = "plans of nearly empty tables";
/// Name of the check with plans that are made after the filled tables were analyzed.
const FRESH_STATISTICS: &str = "fresh statistics";
/// A few rows, with which the statistics are made that are stale later.
const FEW: i64 = 20;
const MANY: i64 = 30_000;
/// Number of filters that one operation has. Their statements run one after the other, because connections are few.
const AT_ONCE: usize = 4;
/// Scope of callers that read the rows of all tenants.
const NO_TENANT: &str = "no tenant";
/// Scope of callers whose tenant has a fifth of the rows.
const LARGE_TENANT: &str = "tenant acme";
/// Scope of callers whose tenant has a few of the oldest rows.
const SMALL_TENANT: &str = "tenant tiny";
/// Paths of 6,000 executions.
const COMMON: [&str; 8] = [
    "team1/flow1",
    "team1/flow9",
    "team1/flow13",
    "team1/flow17",
    "team1/flow21",
    "team1/flow29",
    "team1/flow33",
    "team1/flow37",
];
/// Entries of an index that the counts of executions with a label or an end in a time may read. The index has more.
const MAX_COUNTED: f64 = 8000.0;
/// The count in a selection.
const COUNT: &str = "totalCount(upTo: 100) { value }";

/// Rows `$1` to `$2` of each table, one every two seconds. The rows with rare values are the oldest ones. A parent has
/// few events, because the events of a parent are read whatever their tenant is.
const FILL: [&str; 5] = [
    "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time, end_time, path,
                                  tenant_id, organization_id, execution_pool, rerun_of, failed_steps, error, labels)
     SELECT 380000000000000000 + n * 1000, n % 40, CASE WHEN n % 3 = 0 THEN 7 WHEN n < 12 THEN 9 WHEN n > 20000 THEN 6 END,
            CASE WHEN n < 12 THEN 'FAILED' WHEN n > 29500 THEN 'RUNNING' ELSE 'COMPLETED' END,
            timestamptz '2026-01-01' + n * interval '2 seconds',
            CASE WHEN n <= 29500 THEN timestamptz '2026-01-01' + (2 * n + n % 600) * interval '1 second' END,
            CASE WHEN n < 12 THEN 'rare/old' WHEN n % 5 = 0 AND n % 25 > 0 THEN 'wide/flow' || n
                 ELSE 'team' || n % 4 || '/flow' || n % 40 END,
            CASE WHEN n < 12 THEN 'tiny' WHEN n % 5 = 0 THEN 'acme' ELSE 'default' END,
            CASE WHEN n < 12 THEN 'lab' ELSE 'default' END,
            CASE WHEN n < 12 THEN 'rare' WHEN n % 2 = 0 THEN 'pool' || n % 20 END,
            CASE WHEN n < 12 THEN 3 WHEN n % 7 = 0 THEN 5 END,
            CASE WHEN n < 12 THEN 2 WHEN n % 49 = 0 THEN 1 WHEN n % 2 = 0 THEN 0 END,
            CASE WHEN n < 12 THEN 'No connection to host ' || n END,
            CASE WHEN n < 12 THEN jsonb_build_object('team', 'rare', 'order', n::text)
                 WHEN n < 2600 AND n % 4 = 0 THEN jsonb_build_object('team', 'team' || n % 20, 'order', n::text, 'old', 'x')
                 WHEN n % 4 = 0 THEN jsonb_build_object('team', 'team' || n % 20, 'order', n::text) END
     FROM generate_series($1::bigint, $2) AS n",
    "INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_execution_id, created_at, event_type, status,
                              node_name, tenant_id, organization_id)
     SELECT 380000000000000000 + n % 1500 * 1000, n, 1, CASE WHEN n % 30 = 0 THEN 7 WHEN n < 12 THEN 9 END,
            timestamp '2026-01-01' + n * interval '2 seconds',
            CASE WHEN n < 12 THEN 'playbook.failed' ELSE 'call.' || n % 5 END,
            CASE WHEN n < 12 THEN 'ODD' ELSE 'DONE' END, CASE WHEN n < 12 THEN 'rare' ELSE 'step' || n % 20 END,
            CASE WHEN n < 12 THEN 'tiny' WHEN n % 5 = 0 THEN 'acme' ELSE 'default' END,
            CASE WHEN n < 12 THEN 'lab' ELSE 'default' END
     FROM generate_series($1::bigint, $2) AS n",
    "INSERT INTO noetl.event (execution_id, event_id, catalog_id, created_at, event_type, node_name, status, tenant_id)
     SELECT 1000 + n, 10 + k, 1, timestamp '2026-01-01' + n * interval '2 seconds',
            CASE k WHEN 0 THEN 'subscription.registered' ELSE 'subscription.activated' END, 'inbox' || n % 7 || '/' || n,
            CASE k WHEN 0 THEN 'REGISTERED' ELSE 'ACTIVE' END, CASE WHEN n % 5 = 0 THEN 'acme' ELSE 'default' END
     FROM generate_series($1::bigint, $2 / 6) AS n, generate_series(0, 1) AS k",
    "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, status, attempts, available_at, created_at,
                               tenant_id, organization_id)
     SELECT 380000000000000000 + n % 1500 * 1000, n, 'noetl.executions.shared.x', '{}',
            CASE WHEN n < 12 THEN 'FAILED' WHEN n > 29500 THEN 'PENDING' ELSE 'PUBLISHED' END,
            CASE WHEN n < 12 THEN 5 ELSE 1 + n % 3 END, CASE WHEN n < 6 THEN 'infinity' ELSE now() END,
            timestamptz '2026-01-01' + n * interval '2 seconds',
            CASE WHEN n < 12 THEN 'tiny' WHEN n % 5 = 0 THEN 'acme' ELSE 'default' END,
            CASE WHEN n < 12 OR n % 50 = 0 THEN 'lab' WHEN n % 5 = 0 THEN 'plant' ELSE 'default' END
     FROM generate_series($1::bigint, $2) AS n",
    "INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, name, created_at, archived_at)
     SELECT n, CASE WHEN n < 12 THEN 'zoo' ELSE 'team' || n % 4 END || '/flow' || lpad(n::text, 8, '0'), 1, 'playbook', '{}',
            'flow' || n, timestamp '2026-01-01' + n * interval '2 seconds',
            CASE WHEN n % 3 = 0 THEN timestamptz '2026-02-01' - n * interval '2 seconds' END
     FROM generate_series($1::bigint, $2 / 6) AS n",
];

/// A list of the API: its filter type, its selection, and filters. Every condition of the filter type is in one of them.
struct List {
    filter_type: &'static str,
    /// Selection with `FILTER` in the place of the arguments.
    selection: &'static str,
    filters: Vec<Value>,
}

/// Returns the lists, with that of the oldest executions: it is offered with each filter of the newest ones.
fn lists() -> Vec<List> {
    let mut lists = lists_but_oldest();
    let oldest = List {
        filter_type: "ExecutionFilter",
        selection: "executions(order: OLDEST, FILTER) { nodes { id } pageInfo { endCursor } }",
        filters: lists[0].filters.clone(),
    };
    lists.push(oldest);
    lists
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn lists_but_oldest() -> Vec<List> {
    let execution = |n: i64| (380_000_000_000_000_000 + n * 1000).to_string();
    vec![
        List {
            filter_type: "ExecutionFilter",
            selection: "executions(FILTER) { nodes { id } pageInfo { endCursor } totalCount(upTo: 100) { value } }",
            filters: vec![
                json!({}),
                json!({ "statuses": ["FAILED"] }),
                json!({ "statuses": ["COMPLETED", "RUNNING"] }),
                json!({ "statuses": ["CANCELLED"] }),
                json!({ "path": "rare/old" }),
                json!({ "path": "team1/flow1", "statuses": ["FAILED"] }),
                json!({ "path": "none" }),
                json!({ "path": "team1/flow1", "version": 3 }),
                json!({ "paths": ["rare/old", "none", "team1/flow1"] }),
                json!({ "paths": ["team1/flow1", "team1/flow5"], "statuses": ["FAILED"] }),
                json!({ "pathPrefix": "rare/" }),
                json!({ "pathPrefix": "team1/" }),
                json!({ "pathPrefix": "team", "statuses": ["FAILED", "CANCELLED"] }),
                json!({ "pathPrefix": "none" }),
                // Of the 4,800 paths, none has such an execution. The limit is 4,000.
                json!({ "pathPrefix": "wide/", "statuses": ["FAILED"] }),
                json!({ "idPrefix": execution(7) }),
                json!({ "idPrefix": &execution(7)[..15] }),
                json!({ "dedupKey": "none" }),
                json!({ "parentExecutionId": "7" }),
                json!({ "parentExecutionId": "9" }),
                json!({ "parentExecutionId": "7", "statuses": ["FAILED"] }),
                json!({ "parentExecutionId": "8" }),
                json!({ "rootsOnly": true }),
                json!({ "rootsOnly": true, "statuses": ["FAILED"] }),
                json!({ "rerunOf": "3" }),
                json!({ "rerunOf": "5", "statuses": ["FAILED"] }),
                json!({ "isRerun": true }),
                json!({ "isRerun": true, "paths": COMMON }),
                json!({ "isRerun": true, "statuses": ["FAILED"] }),
                json!({ "isRerun": true, "statuses": ["CANCELLED"] }),
                json!({ "isRerun": true, "startedBefore": "2026-01-01T00:00:10Z" }),
                json!({ "isRerun": true, "labels": [{ "name": "order", "exists": true }] }),
                json!({ "isRerun": false }),
                json!({ "hasFailedSteps": true }),
                json!({ "hasFailedSteps": true, "path": "team1/flow1" }),
                json!({ "hasFailedSteps": true, "endedAfter": "2026-01-01T05:00:00Z" }),
                json!({ "hasFailedSteps": true, "statuses": ["FAILED"] }),
                json!({ "hasFailedSteps": true, "statuses": ["CANCELLED"] }),
                json!({ "hasFailedSteps": false }),
                json!({ "errorContains": "CONNECTION" }),
                json!({ "errorContains": "host 7" }),
                json!({ "errorContains": "none" }),
                json!({ "errorContains": "connection", "path": "rare/old" }),
                json!({ "errorContains": "connection", "statuses": ["COMPLETED"] }),
                json!({ "executionPools": ["rare"] }),
                json!({ "executionPools": ["pool2", "none", "pool4"] }),
                json!({ "executionPools": ["pool2", "rare"], "statuses": ["FAILED"] }),
                json!({ "labels": [{ "name": "team", "equals": "rare" }] }),
                json!({ "labels": [{ "name": "team", "equals": "team4" }] }),
                json!({ "labels": [{ "name": "team", "equals": "none" }] }),
                json!({ "labels": [{ "name": "team", "in": ["team4", "none", "rare"] }] }),
                json!({ "labels": [{ "name": "order", "exists": true }] }),
                json!({ "labels": [{ "name": "team", "equals": "team4" }], "statuses": ["FAILED"] }),
                json!({ "labels": [{ "name": "order", "exists": true }], "statuses": ["FAILED"] }),
                // Most executions meet the first condition, one the second.
                json!({ "labels": [{ "name": "team", "exists": true }, { "name": "order", "equals": "40" }] }),
                // 7,500 executions meet the first condition, 650 the second; they are the oldest ones.
                json!({ "labels": [{ "name": "team", "exists": true }, { "name": "old", "exists": true }] }),
                // Executions of a rare path or with failed steps, and a common label.
                json!({ "path": "rare/old", "labels": [{ "name": "team", "exists": true }] }),
                json!({ "hasFailedSteps": true, "statuses": ["FAILED"], "labels": [{ "name": "order", "exists": true }] }),
                json!({ "executionPools": ["rare"], "labels": [{ "name": "order", "exists": true }] }),
                // Common paths, and a rare label or end.
                json!({ "paths": COMMON, "labels": [{ "name": "order", "equals": "40" }] }),
                json!({ "paths": COMMON, "endedAfter": "2026-01-01T05:00:00Z", "endedBefore": "2026-01-01T05:00:10Z" }),
                json!({ "paths": COMMON, "endedAfter": "2026-01-01T05:00:00Z", "endedBefore": "2026-01-01T05:00:10Z",
                    "statuses": ["COMPLETED"] }),
                json!({ "pathPrefix": "team1/", "endedAfter": "2026-01-01T05:00:00Z", "endedBefore": "2026-01-01T05:00:10Z" }),
                // A parent with many executions, and a rare label or end.
                json!({ "parentExecutionId": "7", "labels": [{ "name": "order", "equals": "60" }] }),
                json!({ "parentExecutionId": "7", "endedAfter": "2026-01-01T05:00:00Z", "endedBefore": "2026-01-01T05:00:10Z" }),
                json!({ "startedAfter": "2026-01-01T10:00:00Z" }),
                json!({ "startedBefore": "2026-01-01T00:00:10Z" }),
                json!({ "startedAfter": "2026-01-01T05:00:00Z", "startedBefore": "2026-01-01T05:00:10Z", "statuses": ["FAILED"] }),
                json!({ "endedAfter": "2026-01-01T16:29:00Z" }),
                json!({ "endedAfter": "2026-01-01T16:29:00Z", "statuses": ["FAILED"] }),
                json!({ "endedBefore": "2026-01-01T00:00:10Z" }),
                json!({ "endedAfter": "2026-01-01T05:00:00Z", "endedBefore": "2026-01-01T05:00:10Z" }),
                json!({ "tenantId": "tiny" }),
                json!({ "tenantId": "acme" }),
                json!({ "tenantId": "acme", "statuses": ["FAILED"] }),
                json!({ "tenantId": "acme", "pathPrefix": "team1/" }),
                json!({ "tenantId": "tiny", "path": "rare/old" }),
                json!({ "tenantId": "acme", "paths": ["rare/old", "team1/flow5"] }),
                json!({ "tenantId": "acme", "rootsOnly": true }),
                json!({ "tenantId": "acme", "executionPools": ["pool10", "pool0"] }),
                json!({ "tenantId": "acme", "labels": [{ "name": "team", "equals": "team0" }] }),
                json!({ "tenantId": "acme", "labels": [{ "name": "team", "equals": "rare" }] }),
                json!({ "tenantId": "acme", "isRerun": true }),
                json!({ "tenantId": "acme", "hasFailedSteps": true }),
                json!({ "tenantId": "acme", "hasFailedSteps": false }),
                json!({ "tenantId": "acme", "errorContains": "connection" }),
                json!({ "tenantId": "tiny", "errorContains": "connection" }),
                json!({ "tenantId": "acme", "endedAfter": "2026-01-01T16:29:00Z" }),
                json!({ "organizationId": "lab" }),
                json!({ "organizationId": "none" }),
            ],
        },
        List {
            filter_type: "ExecutionFilter",
            selection: "executions(order: LAST_ENDED, FILTER) { nodes { id } pageInfo { endCursor } }",
            filters: vec![
                json!({}),
                json!({ "statuses": ["FAILED"] }),
                json!({ "statuses": ["COMPLETED", "RUNNING"] }),
                json!({ "statuses": ["CANCELLED"] }),
                json!({ "endedAfter": "2026-01-01T16:29:00Z" }),
                json!({ "endedBefore": "2026-01-01T00:00:10Z" }),
                json!({ "endedAfter": "2026-01-01T05:00:00Z", "endedBefore": "2026-01-01T05:00:10Z", "statuses": ["FAILED"] }),
                json!({ "tenantId": "tiny" }),
                json!({ "tenantId": "acme" }),
                json!({ "tenantId": "acme", "statuses": ["FAILED"] }),
            ],
        },
        List {
            filter_type: "ExecutionFilter",
            selection: "executions(order: LONGEST, FILTER) { nodes { id } pageInfo { endCursor } }",
            filters: vec![
                json!({}),
                json!({ "statuses": ["FAILED"] }),
                json!({ "statuses": ["COMPLETED", "RUNNING"] }),
                json!({ "tenantId": "tiny" }),
                json!({ "tenantId": "acme", "statuses": ["FAILED"] }),
            ],
        },
        List {
            filter_type: "EventFilter",
            selection: "events(FILTER) { nodes { id } pageInfo { endCursor } totalCount(upTo: 100) { value } }",
            filters: vec![
                json!({}),
                json!({ "types": ["playbook.failed"] }),
                json!({ "types": ["playbook.*", "call.3"] }),
                json!({ "types": ["none"] }),
                json!({ "statuses": ["ODD"] }),
                json!({ "statuses": ["DONE"], "types": ["call.*"] }),
                json!({ "nodeNames": ["step7", "rare"] }),
                json!({ "nodeNames": ["step7"], "types": ["playbook.failed"] }),
                json!({ "nodeNames": ["step7"], "statuses": ["ODD"] }),
                json!({ "createdAfter": "2026-01-01T10:00:00Z" }),
                json!({ "createdBefore": "2026-01-01T00:00:10Z" }),
                json!({ "createdBefore": "2026-01-01T00:00:10Z", "nodeNames": ["step7"] }),
                json!({ "executionIds": [execution(7), execution(8)] }),
                json!({ "parentExecutionId": "7" }),
                json!({ "parentExecutionId": "9", "types": ["playbook.*"] }),
                json!({ "tenantId": "tiny" }),
                json!({ "tenantId": "acme", "types": ["playbook.failed"] }),
                json!({ "tenantId": "acme", "nodeNames": ["rare"] }),
                json!({ "organizationId": "lab" }),
            ],
        },
        List {
            filter_type: "EventFilter",
            selection: r#"events(executionId: "380000000000007000", FILTER) {
                nodes { id } pageInfo { endCursor } totalCount(upTo: 100) { value } }"#,
            filters: vec![json!({}), json!({ "types": ["call.*"] }), json!({ "text": "step" })],
        },
        List {
            filter_type: "OutboxFilter",
            selection: "outbox { entries(FILTER) { nodes { id } pageInfo { endCursor } totalCount(upTo: 100) { value } } }",
            filters: vec![
                json!({}),
                json!({ "statuses": ["FAILED"] }),
                json!({ "statuses": ["DEAD", "IN_FLIGHT"] }),
                json!({ "statuses": ["PUBLISHED"] }),
                json!({ "executionId": execution(7) }),
                json!({ "executionId": execution(7), "statuses": ["DEAD"] }),
                json!({ "minAttempts": 1 }),
                json!({ "minAttempts": 2 }),
                json!({ "minAttempts": 4 }),
                json!({ "minAttempts": 100 }),
                json!({ "tenantId": "tiny" }),
                json!({ "tenantId": "acme", "statuses": ["FAILED"] }),
                json!({ "organizationId": "lab" }),
                json!({ "organizationId": "lab", "statuses": ["FAILED"] }),
                json!({ "organizationId": "lab", "tenantId": "tiny" }),
                json!({ "organizationId": "lab", "tenantId": "none" }),
                json!({ "organizationId": "none" }),
            ],
        },
        List {
            filter_type: "CatalogFilter",
            selection: "catalogEntries(FILTER) { nodes { id } pageInfo { endCursor } totalCount(upTo: 100) { value } }",
            filters: vec![
                json!({}),
                json!({ "latestOnly": false }),
                json!({ "kinds": ["PLAYBOOK"] }),
                json!({ "pathPrefix": "team1/" }),
                json!({ "pathPrefix": "team1/flow0000412" }),
                json!({ "pathPrefix": "zoo" }),
                json!({ "pathPrefix": "none" }),
                json!({ "text": "flow" }),
                json!({ "includeArchived": true }),
                json!({ "includeArchived": true, "latestOnly": false }),
                json!({ "includeArchived": true, "pathPrefix": "zoo" }),
                json!({ "path": "team1/flow00000413" }),
                json!({ "path": "none", "latestOnly": false }),
            ],
        },
        List {
            filter_type: "CatalogFilter",
            selection: "catalogEntries(order: NEWEST, FILTER) {
                nodes { id } pageInfo { endCursor } totalCount(upTo: 100) { value } }",
            filters: vec![
                json!({}),
                json!({ "path": "team1/flow00000413" }),
                json!({ "path": "none" }),
                json!({ "createdAfter": "2026-01-01T02:46:00Z" }),
                json!({ "createdBefore": "2026-01-01T00:00:10Z" }),
                json!({ "createdAfter": "2026-01-01T01:00:00Z", "createdBefore": "2026-01-01T01:00:10Z" }),
                json!({ "path": "team1/flow00000413", "createdAfter": "2026-01-01T02:46:00Z" }),
            ],
        },
        List {
            filter_type: "CatalogFilter",
            selection: "catalogEntries(order: LAST_RETIRED, FILTER) {
                nodes { id } pageInfo { endCursor } totalCount(upTo: 100) { value } }",
            filters: vec![
                json!({}),
                json!({ "path": "team1/flow00000045" }),
                json!({ "path": "none" }),
                json!({ "archivedAfter": "2026-01-31T23:59:50Z" }),
                json!({ "archivedBefore": "2026-01-31T21:14:00Z" }),
                json!({ "path": "team1/flow00000045", "archivedBefore": "2026-01-31T21:14:00Z" }),
            ],
        },
    ]
}

/// Lists of subscriptions by path. Their other conditions have no index, because subscriptions are few.
fn subscriptions() -> List {
    List {
        filter_type: "SubscriptionFilter",
        selection: "subscriptions(FILTER) { nodes { id } pageInfo { endCursor } totalCount(upTo: 100) { value } }",
        filters: vec![
            json!({ "pathPrefix": "inbox" }),
            json!({ "pathPrefix": "inbox1/4" }),
            json!({ "pathPrefix": "inbox1/4", "statuses": ["PAUSED"] }),
            json!({ "pathPrefix": "inbox1/4", "labels": [{ "name": "team", "equals": "none" }] }),
            json!({ "pathPrefix": "none" }),
        ],
    }
}

/// Returns the fields of an input type of the schema.
fn fields(schema: &str, input: &str) -> BTreeSet<String> {
    let body = schema.split(&format!("\ninput {input} {{\n")).nth(1).and_then(|rest| rest.split("\n}").next());
    let lines = body.unwrap_or_else(|| panic!("no input {input}")).lines();
    lines.filter_map(|line| line.strip_prefix('\t')?.split_once(": ").map(|(name, _)| name.to_owned())).collect()
}

#[test]
fn every_condition_of_the_filters_has_a_case() {
    let schema = include_str!("../../schema.graphql");
    let lists = lists();
    let offered: BTreeSet<&str> = schema
        .lines()
        .filter_map(|line| line.trim().strip_prefix("filter: "))
        .map(|rest| rest.trim_end_matches([',', '!']))
        // The lists of tables that grow with the work.
        .filter(|name| ["ExecutionFilter", "EventFilter", "OutboxFilter", "CatalogFilter"].contains(name))
        .collect();
    assert_eq!(offered, lists.iter().map(|list| list.filter_type).collect::<BTreeSet<_>>());
    for filter_type in offered {
        let of_type = lists.iter().filter(|list| list.filter_type == filter_type);
        let keys =
            of_type.flat_map(|list| &list.filters).flat_map(|filter| filter.as_object().unwrap().keys().cloned());
        assert_eq!(keys.collect::<BTreeSet<_>>(), fields(schema, filter_type), "{filter_type}");
    }
}

/// Texts that only the statements of lists and of their counts have.
const OF_LISTS: [&str; 5] = [
    "noetl.list_time(",
    "AS log (id)",
    "noetl.outbox_state(status, available_at) = ",
    "noetl.source_subscription",
    "AS entry",
];

fn is_of_list(text: &str) -> bool {
    let is_of_history = text.contains("noetl.execution_history");
    text.contains(" LIMIT ") && !is_of_history && OF_LISTS.iter().any(|part| text.contains(part))
}

/// Returns whether a statement counts executions before a list is read.
fn is_of_count(text: &str) -> bool {
    text.contains(" AS matched")
}

/// Returns the pages that a caller reads of a list. Only the first one has a count.
///
/// A connection plans each statement once, without its values, so the pages of a caller show the plan for all callers with
/// the same statement. In the small tenant, a plan along an index without the tenant reads all rows. In the large one, a
/// plan without the order reads all of the tenant. Plans for both directions exist before the tables are filled.
fn pages(list: &List, scope: &str, statistics: &str) -> &'static [&'static str] {
    match scope {
        // A later page has the statement of the first one.
        NO_TENANT if statistics == FRESH_STATISTICS => &["first", "last", "next"],
        // The list of the oldest executions has the statements of the newest ones, which are read from both ends.
        _ if list.selection.contains("order: OLDEST") => &[],
        LARGE_TENANT if statistics != EMPTY_TABLES => &["last"],
        SMALL_TENANT => &["first"],
        _ => &["first", "last"],
    }
}

/// Panics on a plan that reads a whole table.
fn assert_along_indexes(node: &Value) {
    assert_ne!(node["Node Type"], "Seq Scan", "{node:#}");
    node["Plans"].as_array().into_iter().flatten().for_each(assert_along_indexes);
}

/// Callers: their scope, and their token.
type Callers<'a> = [(&'a str, String)];

struct Setup {
    deployment: Deployment,
    log: PlanLog,
    tokens: TokenFile,
    database: PgConnection,
}

impl List {
    /// Returns a root field: a page with the variable `$f<n>` as its filter. The first page has a count.
    fn page(&self, name: &str, n: usize, range: &str) -> String {
        let page = self.selection.replace("FILTER", &format!("filter: $f{n}, {range}"));
        let page = if name == "first" { page } else { page.replace(COUNT, "") };
        format!("{name}{n}: {page}")
    }

    /// Reads pages with these filters, each a variable, in one operation.
    async fn read(&self, server: &Server, token: &str, filters: &[&Value], pages: &[String]) -> Value {
        let variables: Vec<String> = (0..filters.len()).map(|n| format!("$f{n}: {}", self.filter_type)).collect();
        let query = format!("query({}) {{ {} }}", variables.join(", "), pages.join(" "));
        let filters: Map<String, Value> =
            filters.iter().enumerate().map(|(n, filter)| (format!("f{n}"), (*filter).clone())).collect();
        let mut response = server.send_as(token, &query, Value::Object(filters)).await;
        assert!(response["errors"].is_null(), "{query}: {response}");
        response["data"].take()
    }
}

/// Returns the cursor of the last item of a root field; `None` if the page is empty.
fn end_cursor(field: &Value) -> Option<&str> {
    let page = if field["entries"].is_object() { &field["entries"] } else { field };
    page["pageInfo"]["endCursor"].as_str()
}

impl Setup {
    async fn fill(&mut self, from: i64, to: i64) {
        for rows in FILL {
            sqlx::query(rows).bind(from).bind(to).execute(&mut self.database).await.unwrap();
        }
    }

    /// Starts a server whose connections have this `plan_cache_mode`, except for statements that are planned once. It has
    /// few connections, so its plans are used again.
    async fn server(&mut self, mode: &str) -> Server {
        run(&mut self.database, &format!("ALTER DATABASE own SET plan_cache_mode = {mode}")).await;
        let (name, path) = self.tokens.setting();
        let settings = [&QUIET[..], &[(name, path.as_str()), ("NOETL_POOL_SIZE", "2")]].concat();
        self.deployment.replica_with(&settings).await
    }

    /// Reads [`pages`] of each list with each filter, for each caller, and checks the plans.
    async fn check(&mut self, server: &Server, lists: &[List], callers: &Callers<'_>, plans: &str) {
        for (scope, token) in callers {
            self.log.plans_of(|_| false);
            let nodes = "{ nodes(ids: [\"outbox-0-7\", \"outbox-0-8\"]) { id } }";
            let nodes = server.send_as(token, nodes, Value::Null).await;
            assert!(nodes["errors"].is_null(), "{nodes}");
            self.check_plans(&[&Value::Null], *scope == NO_TENANT, &format!("{plans}, {scope}: outbox entries by id"));
            for (list, pages) in lists.iter().map(|list| (list, pages(list, scope, plans))) {
                if pages.is_empty() {
                    continue;
                }
                // The statement of a caller's tenant is that of a filter on it.
                let is_of_scope = |filter: &&Value| *scope == NO_TENANT || !filter["tenantId"].is_string();
                // No index has both the tenant and the number of claims, or the tenant of a subscription.
                let has_index = |filter: &&Value| {
                    let every_path = filter["pathPrefix"] == "inbox";
                    *scope == NO_TENANT || !(filter["minAttempts"].is_i64() || every_path)
                };
                // While the outbox is nearly empty, its indexes on states, tenants and organizations cost the same, so a
                // plan of that time may use any. PostgreSQL makes it again when autovacuum analyzes the grown table.
                let names_owner = |filter: &Value| {
                    *scope != NO_TENANT || filter["tenantId"].is_string() || filter["organizationId"].is_string()
                };
                let is_sure = |filter: &&Value| {
                    plans != OUTDATED_PLANS || list.filter_type != "OutboxFilter" || !names_owner(filter)
                };
                let filters = list.filters.iter().filter(is_of_scope).filter(has_index).filter(is_sure);
                let filters: Vec<&Value> = filters.collect();
                for filters in filters.chunks(AT_ONCE) {
                    let case = format!("{plans}, {scope}: {} with one of {}", list.selection, json!(filters));
                    self.log.plans_of(|_| false);
                    read_pages(server, token, list, filters, pages).await;
                    self.check_plans(filters, *scope == NO_TENANT, &case);
                }
            }
        }
    }

    /// Checks the plans that were logged while lists with these filters were read.
    fn check_plans(&mut self, filters: &[&Value], is_everything_read: bool, case: &str) {
        let plans = self.log.plans_of(|text| is_of_count(text) || is_of_list(text));
        let is_count = |plan: &Value| is_of_count(plan["Query Text"].as_str().unwrap_or_default());
        let (counts, plans): (Vec<Value>, Vec<Value>) = plans.into_iter().partition(is_count);
        for plan in counts {
            assert_along_indexes(&plan["Plan"]);
            let rows = rows_read(&plan["Plan"]);
            assert!(rows <= MAX_COUNTED, "{rows} rows were counted: {case}\n{plan:#}");
        }
        let is_empty = |filter: &&&Value| filter["dedupKey"].is_string() || filter["version"].is_i64();
        let empty = filters.iter().filter(is_empty).count();
        assert!(plans.len() + empty >= filters.len() || !is_everything_read, "no plan was logged: {case}");
        for plan in plans {
            assert_along_indexes(&plan["Plan"]);
            let rows = rows_read(&plan["Plan"]);
            assert!(rows <= MAX_ROWS, "{rows} rows were read: {case}\n{plan:#}");
        }
    }
}

async fn read_pages(server: &Server, token: &str, list: &List, filters: &[&Value], pages: &[&str]) {
    let ends: Vec<&str> = pages.iter().copied().filter(|page| *page != "next").collect();
    let of_filter = |n| ends.iter().map(move |end| list.page(end, n, &format!("{end}: 20")));
    let ends: Vec<String> = (0..filters.len()).flat_map(of_filter).collect();
    let read = list.read(server, token, filters, &ends).await;
    if !pages.contains(&"next") {
        return;
    }
    let cursors = (0..filters.len()).map(|n| end_cursor(&read[format!("first{n}")]));
    let next: Vec<(&Value, &str)> =
        filters.iter().zip(cursors).filter_map(|(filter, cursor)| Some((*filter, cursor?))).collect();
    if next.is_empty() {
        return;
    }
    let (filters, cursors): (Vec<&Value>, Vec<&str>) = next.into_iter().unzip();
    let pages = cursors.iter().enumerate();
    let pages: Vec<String> =
        pages.map(|(n, cursor)| list.page("next", n, &format!("first: 20, after: \"{cursor}\""))).collect();
    list.read(server, token, &filters, &pages).await;
}

#[tokio::test]
async fn every_filter_reads_few_rows_along_an_index_whatever_the_statistics_are() {
    let (deployment, log, _server) = deployment_with_plans().await;
    let database = deployment.cluster().await;
    let mut setup = Setup { deployment, log, tokens: TokenFile::new(), database };
    run(&mut setup.database, "SET auto_explain.log_min_duration = -1").await;
    let callers = [
        (NO_TENANT, setup.tokens.add(&["--role", "admin", "--subject", "root"])),
        (LARGE_TENANT, setup.tokens.add(&["--role", "admin", "--subject", "a", "--tenant", "acme"])),
        (SMALL_TENANT, setup.tokens.add(&["--role", "admin", "--subject", "t", "--tenant", "tiny"])),
    ];
    let mut lists = lists();
    lists.push(subscriptions());
    setup.fill(1, FEW).await;
    run(&mut setup.database, "ANALYZE").await;

    let early = setup.server("force_generic_plan").await;
    // Both tenants have the same statements.
    setup.check(&early, &lists, &callers[..2], EMPTY_TABLES).await;
    setup.fill(FEW + 1, MANY).await;
    setup.check(&early, &lists, &callers, OUTDATED_PLANS).await;
    early.stop().await;

    let late = setup.server("force_custom_plan").await;
    setup.check(&late, &lists, &callers, "stale statistics").await;
    run(&mut setup.database, "ANALYZE").await;
    setup.check(&late, &lists, &callers, FRESH_STATISTICS).await;
    late.stop().await;
}
