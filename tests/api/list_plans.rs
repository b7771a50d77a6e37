//! Plans of the statements of lists of executions, events, outbox rows, catalog entries and subscriptions on filled
//! tables, made while the tables were nearly empty, with stale statistics and with fresh ones. PostgreSQL logs each plan
//! with the numbers of rows that it read.

use std::collections::BTreeSet;

use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::plans::{PlanLog, deployment_with_plans, rows_read};
use noetl_testkit::projections::NO_PROJECTOR_NO_STREAM;
use noetl_testkit::{Deployment, Server, TokenFile, eventually};
use serde_json::{Value, json};
use sqlx::PgConnection;

/// Rows that a statement may read for a page of 20 or a count up to 100. The tables have many more.
const MAX_ROWS: f64 = 4000.0;
/// Name of the check with plans that were made before the tables were filled.
const OUTDATED_PLANS: &str = "plans of nearly empty tables";
/// A few rows, with which the statistics are made that are stale later.
const FEW: i64 = 20;
const MANY: i64 = 60_000;

/// Rows `$1` to `$2` of each table. The rows with rare values are the oldest ones. A parent has few events, because the
/// events of a parent are read whatever their tenant is.
const FILL: [&str; 5] = [
    "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time, end_time, path,
                                  tenant_id, organization_id)
     SELECT 380000000000000000 + n * 1000, n % 40, CASE WHEN n % 3 = 0 THEN 7 WHEN n < 12 THEN 9 END,
            CASE WHEN n < 12 THEN 'FAILED' WHEN n > 59000 THEN 'RUNNING' ELSE 'COMPLETED' END,
            timestamptz '2026-01-01' + n * interval '1 second',
            CASE WHEN n <= 59000 THEN timestamptz '2026-01-01' + (n + n % 600) * interval '1 second' END,
            CASE WHEN n < 12 THEN 'rare/old' WHEN n % 10 = 5 THEN 'wide/flow' || n
                 ELSE 'team' || n % 4 || '/flow' || n % 40 END,
            CASE WHEN n < 12 THEN 'tiny' WHEN n % 5 = 0 THEN 'acme' ELSE 'default' END,
            CASE WHEN n < 12 THEN 'lab' ELSE 'default' END
     FROM generate_series($1::bigint, $2) AS n",
    "INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_execution_id, created_at, event_type, status,
                              node_name, tenant_id, organization_id)
     SELECT 380000000000000000 + n % 3000 * 1000, n, 1, CASE WHEN n % 30 = 0 THEN 7 WHEN n < 12 THEN 9 END,
            timestamp '2026-01-01' + n * interval '1 second',
            CASE WHEN n < 12 THEN 'playbook.failed' ELSE 'call.' || n % 5 END,
            CASE WHEN n < 12 THEN 'ODD' ELSE 'DONE' END, CASE WHEN n < 12 THEN 'rare' ELSE 'step' || n % 20 END,
            CASE WHEN n < 12 THEN 'tiny' WHEN n % 5 = 0 THEN 'acme' ELSE 'default' END,
            CASE WHEN n < 12 THEN 'lab' ELSE 'default' END
     FROM generate_series($1::bigint, $2) AS n",
    "INSERT INTO noetl.event (execution_id, event_id, catalog_id, created_at, event_type, node_name, status, tenant_id)
     SELECT 1000 + n, 10 + k, 1, timestamp '2026-01-01' + n * interval '1 second',
            CASE k WHEN 0 THEN 'subscription.registered' ELSE 'subscription.activated' END, 'inbox' || n % 7 || '/' || n,
            CASE k WHEN 0 THEN 'REGISTERED' ELSE 'ACTIVE' END, CASE WHEN n % 5 = 0 THEN 'acme' ELSE 'default' END
     FROM generate_series($1::bigint, $2 / 6) AS n, generate_series(0, 1) AS k",
    "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, status, attempts, available_at, created_at,
                               tenant_id, organization_id)
     SELECT 380000000000000000 + n % 3000 * 1000, n, 'noetl.executions.shared.x', '{}',
            CASE WHEN n < 12 THEN 'FAILED' WHEN n > 59000 THEN 'PENDING' ELSE 'PUBLISHED' END,
            CASE WHEN n < 12 THEN 5 ELSE 1 + n % 3 END, CASE WHEN n < 6 THEN 'infinity' ELSE now() END,
            timestamptz '2026-01-01' + n * interval '1 second',
            CASE WHEN n < 12 THEN 'tiny' WHEN n % 5 = 0 THEN 'acme' ELSE 'default' END,
            CASE WHEN n < 12 OR n % 50 = 0 THEN 'lab' WHEN n % 5 = 0 THEN 'plant' ELSE 'default' END
     FROM generate_series($1::bigint, $2) AS n",
    "INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, name)
     SELECT n, CASE WHEN n < 12 THEN 'zoo' ELSE 'team' || n % 4 END || '/flow' || lpad(n::text, 8, '0'), 1, 'playbook', '{}',
            'flow' || n
     FROM generate_series($1::bigint, $2 / 6) AS n",
];

/// A list of the API: its filter type, its selection, and filters. Every condition of the filter type is in one of them.
struct List {
    filter_type: &'static str,
    /// Selection with `FILTER` in the place of the arguments.
    selection: &'static str,
    filters: Vec<Value>,
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn lists() -> Vec<List> {
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
                json!({ "pathPrefix": "rare/" }),
                json!({ "pathPrefix": "team1/" }),
                json!({ "pathPrefix": "team", "statuses": ["FAILED", "CANCELLED"] }),
                json!({ "pathPrefix": "none" }),
                // Of the 6,000 paths, none has such an execution.
                json!({ "pathPrefix": "wide/", "statuses": ["FAILED"] }),
                json!({ "idPrefix": execution(7) }),
                json!({ "idPrefix": &execution(7)[..15] }),
                json!({ "dedupKey": "none" }),
                json!({ "parentExecutionId": "7" }),
                json!({ "parentExecutionId": "9" }),
                json!({ "parentExecutionId": "7", "statuses": ["FAILED"] }),
                json!({ "parentExecutionId": "8" }),
                json!({ "startedAfter": "2026-01-01T10:00:00Z" }),
                json!({ "startedBefore": "2026-01-01T00:00:10Z" }),
                json!({ "startedAfter": "2026-01-01T05:00:00Z", "startedBefore": "2026-01-01T05:00:10Z", "statuses": ["FAILED"] }),
                json!({ "endedAfter": "2026-01-01T16:29:00Z" }),
                json!({ "endedAfter": "2026-01-01T16:29:00Z", "statuses": ["FAILED"] }),
                json!({ "endedBefore": "2026-01-01T00:00:10Z" }),
                json!({ "endedAfter": "2026-01-01T05:00:00Z", "endedBefore": "2026-01-01T05:00:02Z" }),
                json!({ "tenantId": "tiny" }),
                json!({ "tenantId": "acme" }),
                json!({ "tenantId": "acme", "statuses": ["FAILED"] }),
                json!({ "tenantId": "acme", "pathPrefix": "team1/" }),
                json!({ "tenantId": "tiny", "path": "rare/old" }),
                json!({ "tenantId": "acme", "endedAfter": "2026-01-01T16:29:00Z" }),
                json!({ "organizationId": "lab" }),
                json!({ "organizationId": "none" }),
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
                json!({ "ids": ["0-7", "0-8"] }),
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
                json!({ "pathPrefix": "team1/flow0000512" }),
                json!({ "pathPrefix": "zoo" }),
                json!({ "pathPrefix": "none" }),
                json!({ "text": "flow" }),
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
            json!({ "pathPrefix": "inbox1/8" }),
            json!({ "pathPrefix": "inbox1/8", "statuses": ["PAUSED"] }),
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

fn is_of_list(plan: &Value) -> bool {
    let text = plan["Query Text"].as_str().unwrap_or_default();
    text.contains(" LIMIT ") && OF_LISTS.iter().any(|part| text.contains(part))
}

/// Panics on a plan that reads a whole table.
fn assert_along_indexes(node: &Value) {
    assert_ne!(node["Node Type"], "Seq Scan", "{node:#}");
    node["Plans"].as_array().into_iter().flatten().for_each(assert_along_indexes);
}

struct Setup {
    deployment: Deployment,
    log: PlanLog,
    tokens: TokenFile,
    database: PgConnection,
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
        let settings = [&NO_PROJECTOR_NO_STREAM[..], &[NO_RELAY, (name, &path), ("NOETL_POOL_SIZE", "2")]].concat();
        self.deployment.replica_with(&settings).await
    }

    /// Reads two pages and a count of each list with each filter, forwards and backwards, and checks the plans.
    async fn check(&mut self, server: &Server, lists: &[List], plans: &str) {
        for (scope, token) in [
            ("no tenant", self.tokens.add(&["--role", "admin", "--subject", "root"])),
            ("tenant acme", self.tokens.add(&["--role", "admin", "--subject", "a", "--tenant", "acme"])),
            ("tenant tiny", self.tokens.add(&["--role", "admin", "--subject", "t", "--tenant", "tiny"])),
        ] {
            eventually("the token is known", async || {
                server.send_as(&token, "{ __typename }", Value::Null).await["errors"].is_null().then_some(())
            })
            .await;
            for list in lists {
                // No index has both the tenant and the number of claims, or the tenant of a subscription.
                let has_index = |filter: &&Value| {
                    let every_path = filter["pathPrefix"] == "inbox";
                    scope == "no tenant" || !(filter["minAttempts"].is_i64() || every_path)
                };
                // While the outbox is nearly empty, its indexes on states, tenants and organizations cost the same, so a
                // plan of that time may use any. PostgreSQL makes it again when autovacuum analyzes the grown table.
                let names_owner = |filter: &Value| {
                    scope != "no tenant" || filter["tenantId"].is_string() || filter["organizationId"].is_string()
                };
                let is_sure = |filter: &&Value| {
                    plans != OUTDATED_PLANS || list.filter_type != "OutboxFilter" || !names_owner(filter)
                };
                for filter in list.filters.iter().filter(has_index).filter(is_sure) {
                    let case = format!("{plans}, {scope}: {} {filter}", list.selection);
                    self.check_case(server, &token, list, filter, &case).await;
                }
            }
        }
    }

    async fn check_case(&mut self, server: &Server, token: &str, list: &List, filter: &Value, case: &str) {
        self.log.plans();
        let query = format!(
            "query($filter: {}, $first: Int, $last: Int, $after: String) {{ {} }}",
            list.filter_type,
            list.selection.replace("FILTER", "filter: $filter, first: $first, last: $last, after: $after")
        );
        let first = server.send_as(token, &query, json!({ "filter": filter, "first": 20 })).await;
        assert!(first["errors"].is_null(), "{case}: {first}");
        let root = first["data"].as_object().unwrap().values().next().unwrap();
        let page = if root["entries"].is_object() { &root["entries"] } else { root };
        let cursor = page["pageInfo"]["endCursor"].clone();
        let next = json!({ "filter": filter, "first": 20, "after": cursor });
        for variables in [next, json!({ "filter": filter, "last": 20 })] {
            let page = server.send_as(token, &query, variables).await;
            assert!(page["errors"].is_null(), "{case}: {page}");
        }
        let plans: Vec<Value> = self.log.plans().into_iter().filter(is_of_list).collect();
        let is_empty = filter["dedupKey"].is_string() || filter["version"].is_i64();
        assert!(!plans.is_empty() || is_empty || case.contains("tenant "), "no plan was logged: {case}");
        for plan in plans {
            assert_along_indexes(&plan["Plan"]);
            let rows = rows_read(&plan["Plan"]);
            assert!(rows <= MAX_ROWS, "{rows} rows were read: {case}\n{plan:#}");
        }
    }
}

#[tokio::test]
async fn every_filter_reads_few_rows_along_an_index_whatever_the_statistics_are() {
    let (deployment, log, _server) = deployment_with_plans().await;
    let database = deployment.cluster().await;
    let mut setup = Setup { deployment, log, tokens: TokenFile::new(), database };
    run(&mut setup.database, "SET auto_explain.log_min_duration = -1").await;
    let (mut lists, planned_for_values) = (lists(), ["OutboxFilter", "CatalogFilter", "SubscriptionFilter"]);
    lists.push(subscriptions());
    setup.fill(1, FEW).await;
    run(&mut setup.database, "ANALYZE").await;

    let early = setup.server("force_generic_plan").await;
    setup.check(&early, &lists, "nearly empty tables").await;
    setup.fill(FEW + 1, MANY).await;
    setup.check(&early, &lists, OUTDATED_PLANS).await;
    early.stop().await;

    let late = setup.server("force_custom_plan").await;
    setup.check(&late, &lists, "stale statistics").await;
    run(&mut setup.database, "ANALYZE").await;
    setup.check(&late, &lists, "fresh statistics").await;
    late.stop().await;

    lists.retain(|list| planned_for_values.contains(&list.filter_type));
    let generic = setup.server("force_generic_plan").await;
    setup.check(&generic, &lists, "fresh statistics, plans for any values").await;
    generic.stop().await;
}
