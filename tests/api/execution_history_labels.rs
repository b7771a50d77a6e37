//! The history of executions with labels: its numbers equal those of the executions. A request reads a limited number
//! of them, or is refused.

use chrono::{DateTime, TimeDelta, Utc};
use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::plans::{PlanLog, deployment_with_plans, rows_read};
use noetl_testkit::{Deployment, QUIET, Server, TokenFile};
use serde_json::{Value, json};

const QUERY: &str = "query($from: DateTime!, $to: DateTime!, $filter: ExecutionHistoryFilter) {
    executionHistory(interval: HOUR, from: $from, to: $to, filter: $filter) {
        buckets { started completed failed cancelled durationSeconds { p50 } waitSeconds { p50 } } unavailableShards } }";

/// An execution: tenant, path, pool, labels, status, and the hours from its start and from its end to the present.
type Row = (&'static str, &'static str, Option<&'static str>, Option<&'static str>, &'static str, i64, Option<i64>);

const ROWS: [Row; 7] = [
    // It started before the time.
    ("default", "a", Some("large"), Some(r#"{"team": "shop", "order": "1"}"#), "COMPLETED", 20, Some(5)),
    ("default", "a", None, Some(r#"{"team": "shop", "order": "2"}"#), "error", 4, Some(3)),
    ("default", "b", Some("large"), Some(r#"{"team": "web"}"#), "RUNNING", 2, None),
    ("acme", "a", Some("large"), Some(r#"{"team": "shop", "order": "1"}"#), "CANCELLED", 3, Some(2)),
    ("default", "a", Some("large"), None, "COMPLETED", 3, Some(2)),
    // It also ended before the time.
    ("default", "a", Some("large"), Some(r#"{"team": "shop"}"#), "COMPLETED", 40, Some(30)),
    ("acme", "a", None, Some(r#"{"team": "web", "order": "3"}"#), "success", 6, Some(1)),
];

async fn insert(deployment: &Deployment, shard: usize, id: i64, row: Row, now: DateTime<Utc>) {
    let (tenant, path, pool, labels, status, started, ended) = row;
    let start = now - TimeDelta::hours(started);
    let insert =
        "INSERT INTO noetl.execution (execution_id, catalog_id, tenant_id, path, execution_pool, labels, status,
                                               start_time, end_time, first_step_time)
                  VALUES ($1, 0, $2, $3, $4, $5::text::jsonb, $6, $7, $8, $9)";
    let insert = sqlx::query(insert).bind(id).bind(tenant).bind(path).bind(pool).bind(labels).bind(status);
    let insert = insert.bind(start).bind(ended.map(|hours| now - TimeDelta::hours(hours)));
    let insert = insert.bind(start + TimeDelta::seconds(90));
    insert.execute(&mut *deployment.shard_session(shard).await).await.unwrap();
}

/// Returns the numbers of executions that started, were completed, failed, and were cancelled.
fn sums(buckets: &[Value]) -> [i64; 4] {
    let sum = |field: &str| buckets.iter().map(|bucket| bucket[field].as_i64().unwrap()).sum::<i64>();
    ["started", "completed", "failed", "cancelled"].map(sum)
}

#[tokio::test]
async fn a_history_with_labels_equals_the_executions_that_have_them() {
    let deployment = Deployment::start(2).await;
    let tokens = TokenFile::new();
    let root = tokens.add(&["--role", "admin", "--subject", "root"]);
    let acme = tokens.add(&["--role", "admin", "--subject", "a", "--tenant", "acme"]);
    let (name, path) = tokens.setting();
    let server = deployment.replica_with(&[NO_RELAY, (name, &path)]).await;
    let now: DateTime<Utc> =
        sqlx::query_scalar("SELECT now()").fetch_one(&mut *deployment.shard_session(0).await).await.unwrap();
    for shard in 0..2 {
        for (id, row) in deployment.ids_on(shard, 1, ROWS.len()).into_iter().zip(ROWS) {
            insert(&deployment, shard, id, row, now).await;
        }
    }
    // A row of a bucket that the other shard has.
    let foreign = deployment.ids_on(0, 1_000_000, 1)[0];
    insert(&deployment, 1, foreign, ROWS[1], now).await;

    let shop = json!({ "name": "team", "equals": "shop" });
    let order = |values: &[&str]| json!({ "name": "order", "in": values });
    let read = async |token: &str, filter: Value| -> Vec<Value> {
        let (from, to) = ((now - TimeDelta::hours(10)).to_rfc3339(), now.to_rfc3339());
        let variables = json!({ "from": from, "to": to, "filter": filter });
        let response = server.send_as(token, QUERY, variables).await;
        assert!(response["errors"].is_null(), "{response}");
        response["data"]["executionHistory"]["buckets"].as_array().unwrap().clone()
    };
    for (token, filter, expected) in [
        (&root, json!({ "labels": [shop] }), [2, 1, 1, 1]),
        (&root, json!({ "labels": [{ "name": "team", "in": ["web", "none", "shop", "web"] }] }), [4, 2, 1, 1]),
        (&root, json!({ "labels": [{ "name": "order", "exists": true }] }), [3, 2, 1, 1]),
        (&root, json!({ "labels": [shop, order(&["1"])] }), [1, 1, 0, 1]),
        (&root, json!({ "labels": [order(&["2", "3"]), shop] }), [1, 0, 1, 0]),
        (&root, json!({ "labels": [{ "name": "team", "equals": "none" }] }), [0; 4]),
        (&root, json!({ "labels": [shop], "tenantId": "acme" }), [1, 0, 0, 1]),
        (&root, json!({ "labels": [shop], "tenantId": "default" }), [1, 1, 1, 0]),
        (&root, json!({ "labels": [shop], "paths": ["a"], "executionPools": ["large"] }), [1, 1, 0, 1]),
        (&root, json!({ "labels": [{ "name": "team", "exists": true }], "paths": ["b", "none"] }), [1, 0, 0, 0]),
        (&root, json!({ "labels": [shop], "organizationId": "other" }), [0; 4]),
        (&acme, json!({ "labels": [shop] }), [1, 0, 0, 1]),
        (&acme, json!({ "labels": [shop], "tenantId": "default" }), [0; 4]),
    ] {
        let buckets = read(token, filter.clone()).await;
        assert_eq!(sums(&buckets), expected.map(|count| 2 * count), "{filter}");
    }
    let buckets = read(&root, json!({ "labels": [order(&["1"])], "tenantId": "default" })).await;
    let ended = buckets.iter().find(|bucket| bucket["completed"] == 2).unwrap();
    for (field, exact) in [("durationSeconds", 15.0 * 3600.0), ("waitSeconds", 90.0)] {
        let shown = ended[field]["p50"].as_f64().unwrap();
        assert!((shown - exact).abs() < exact * 0.0501, "{field}: {ended}");
    }
}

/// 30,003 executions, one every four seconds. 20,002 of them have the label.
const PLANTED: &str = "
    INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time, end_time, labels)
    SELECT n, 0, 'COMPLETED', at, at + interval '1 second',
           CASE WHEN n = 1 THEN jsonb_build_object('team', 'shop', 'order', '1')
                WHEN n % 3 > 0 THEN jsonb_build_object('team', 'shop') END
    FROM generate_series(1, 30003) AS n CROSS JOIN LATERAL (SELECT now() - n * interval '4 seconds' AS at) AS moment";

/// Returns the response of a history with these labels over a time, the numbers of entries that each statement
/// counted, and of rows that each statement read.
async fn read_rows(
    server: &Server,
    log: &mut PlanLog,
    (from, to): (DateTime<Utc>, DateTime<Utc>),
    labels: &[&Value],
) -> (Value, Vec<f64>, Vec<f64>) {
    log.plans();
    let variables = json!({ "from": from.to_rfc3339(), "to": to.to_rfc3339(), "filter": { "labels": labels } });
    let response = server.send(QUERY, variables).await.unwrap();
    let plans = log.plans();
    let rows = |part: &str| -> Vec<f64> {
        let is_wanted = |plan: &&Value| plan["Query Text"].as_str().is_some_and(|text| text.contains(part));
        plans.iter().filter(is_wanted).map(|plan| rows_read(&plan["Plan"])).collect()
    };
    (response, rows(" AS matched"), rows("candidate AS"))
}

/// Asserts that executions were read by one statement, which read at most this many rows. Returns the number of those
/// that started.
fn started((response, counted, read): &(Value, Vec<f64>, Vec<f64>), most: f64) -> i64 {
    assert!(response["errors"].is_null(), "{response}");
    assert!(counted.iter().all(|rows| *rows <= 20_001.0), "{counted:?} entries were counted");
    assert!(read.len() == 1 && read[0] <= most, "{read:?} rows were read");
    sums(response["data"]["executionHistory"]["buckets"].as_array().unwrap())[0]
}

#[tokio::test]
async fn a_history_reads_the_executions_of_the_rarest_label_or_those_of_the_time_or_is_refused() {
    let (deployment, mut log, _server) = deployment_with_plans().await;
    let mut database = deployment.cluster().await;
    run(&mut database, "SET auto_explain.log_min_duration = -1").await;
    run(&mut database, "ANALYZE").await;
    run(&mut database, PLANTED).await;
    let now: DateTime<Utc> = sqlx::query_scalar("SELECT now()").fetch_one(&mut database).await.unwrap();
    let server = deployment.replica_with(&QUIET).await;
    let (shop, order) = (json!({ "name": "team", "equals": "shop" }), json!({ "name": "order", "exists": true }));
    let (all, hour) = ((now - TimeDelta::hours(48), now), (now - TimeDelta::hours(1), now));
    let in_hour = "SELECT count(*) FROM noetl.execution
                   WHERE labels IS NOT NULL AND start_time >= noetl.span_start($1, 3600)";
    let in_hour: i64 = sqlx::query_scalar(in_hour).bind(hour.0).fetch_one(&mut database).await.unwrap();
    for statistics in ["stale", "fresh"] {
        if statistics == "fresh" {
            run(&mut database, "ANALYZE").await;
        }
        let rare = read_rows(&server, &mut log, all, &[&shop, &order]).await;
        assert_eq!(started(&rare, 10.0), 1, "{statistics}");
        // 1,800 executions in two hours, which are read by their start, by their end, and by their id.
        let short = read_rows(&server, &mut log, hour, &[&shop]).await;
        assert_eq!(started(&short, 5_500.0), in_hour, "{statistics}");
        let (refused, _, read) = read_rows(&server, &mut log, all, &[&shop]).await;
        let (error, extensions) = (&refused["errors"][0], &refused["errors"][0]["extensions"]);
        assert_eq!((&extensions["code"], read.len()), (&json!("LIMIT_EXCEEDED"), 0), "{refused}");
        assert_eq!((&extensions["limit"], &extensions["allowed"]), (&json!("labelled_executions"), &json!(20_000)));
        assert!(error["message"].as_str().unwrap().contains("rarer label"), "{refused}");
    }
    // As many as are read.
    run(&mut database, "DELETE FROM noetl.execution WHERE execution_id IN (4, 5)").await;
    let most = read_rows(&server, &mut log, all, &[&shop]).await;
    assert_eq!(started(&most, 40_100.0), 20_000);
}
