//! The history of executions: its numbers equal those of the executions at any moment, whichever part of them the
//! background task has counted.

use chrono::{DateTime, TimeDelta, Utc};
use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::plans::{deployment_with_plans, rows_read};
use noetl_testkit::random::{Random, below, seeded};
use noetl_testkit::{Deployment, QUIET, Server, eventually};
use serde_json::{Value, json};

const QUERY: &str =
    "query($interval: HistoryInterval!, $from: DateTime!, $to: DateTime!, $filter: ExecutionHistoryFilter) {
    executionHistory(interval: $interval, from: $from, to: $to, filter: $filter) {
        buckets { from to started completed failed cancelled durationSeconds { p50 p95 p99 } waitSeconds { p50 p95 p99 } }
        unavailableShards } }";
/// Names of the intervals, and their seconds.
const INTERVALS: [(&str, i64); 3] = [("MINUTE", 60), ("HOUR", 3600), ("DAY", 86400)];

/// An execution in the list.
#[derive(Debug, Clone)]
struct Listed {
    id: i64,
    shard: usize,
    tenant: &'static str,
    path: Option<&'static str>,
    pool: Option<&'static str>,
    status: &'static str,
    start: DateTime<Utc>,
    end: Option<DateTime<Utc>>,
    first_step: Option<DateTime<Utc>>,
}

impl Listed {
    /// Returns a random execution that started up to 3 days ago.
    fn random(random: &mut Random, id: i64, shard: usize, now: DateTime<Utc>) -> Self {
        let mut one_of = |texts: [&'static str; 3]| texts[usize::try_from(below(random, 3)).unwrap()];
        let (path, pool) = (one_of(["a", "b", ""]), one_of(["large", "", ""]));
        let (tenant, status) = (one_of(["default", "acme", "globex"]), one_of(["COMPLETED", "error", "RUNNING"]));
        let status = if status == "RUNNING" { one_of(["RUNNING", "CANCELLED", "success"]) } else { status };
        let mut seconds = |most| i64::try_from(below(random, most)).unwrap();
        let start = now - TimeDelta::seconds(2 + seconds(3 * 86400));
        // Durations from milliseconds to hours.
        let power = u32::try_from(seconds(24)).unwrap();
        let end = start + TimeDelta::milliseconds(seconds(2_u64.pow(power)));
        let ended = status != "RUNNING" && end < now;
        let status = if ended { status } else { "RUNNING" };
        // A third has no step, as executions that are cancelled early.
        let wait = TimeDelta::milliseconds(seconds(90_000));
        let first_step = Some(start + wait).filter(|_| seconds(3) > 0);
        let named = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        let (path, pool, end) = (named(path), named(pool), ended.then_some(end));
        Self { id, shard, tenant, path, pool, status, start, end, first_step }
    }

    async fn insert(&self, deployment: &Deployment) {
        let insert = "INSERT INTO noetl.execution (execution_id, catalog_id, tenant_id, path, execution_pool, status,
                                                   start_time, end_time, first_step_time)
                      VALUES ($1, 0, $2, $3, $4, $5, $6, $7, $8)";
        let insert = sqlx::query(insert).bind(self.id).bind(self.tenant).bind(self.path).bind(self.pool);
        let insert = insert.bind(self.status).bind(self.start).bind(self.end).bind(self.first_step);
        insert.execute(&mut *deployment.shard_session(self.shard).await).await.unwrap();
    }
}

/// Inserts this many random executions on each shard.
async fn inserted(deployment: &Deployment, count: usize, now: DateTime<Utc>) -> Vec<Listed> {
    let (mut random, mut all) = (seeded(7, 0), Vec::new());
    for shard in 0..deployment.shard_dsns.len() {
        for id in deployment.ids_on(shard, 1, count) {
            let one = Listed::random(&mut random, id, shard, now);
            one.insert(deployment).await;
            all.push(one);
        }
    }
    all
}

async fn database_time(deployment: &Deployment) -> DateTime<Utc> {
    sqlx::query_scalar("SELECT now()").fetch_one(&mut *deployment.shard_session(0).await).await.unwrap()
}

async fn history(server: &Server, variables: Value) -> Vec<Value> {
    let history = server.data(QUERY, variables).await["executionHistory"].take();
    assert_eq!(history["unavailableShards"], json!([]));
    history["buckets"].as_array().unwrap().clone()
}

/// Returns the number of executions that started in all buckets.
fn started(buckets: &[Value]) -> i64 {
    buckets.iter().map(|bucket| bucket["started"].as_i64().unwrap()).sum()
}

/// Compares the history of the last days, or hours for minutes, with these executions.
async fn assert_history(server: &Server, listed: &[Listed], now: DateTime<Utc>) {
    for (interval, seconds) in INTERVALS {
        let from = now - if seconds == 60 { TimeDelta::hours(20) } else { TimeDelta::days(4) };
        let (from, to) = (from.to_rfc3339(), now.to_rfc3339());
        let variables = |filter: Value| json!({ "interval": interval, "from": from, "to": to, "filter": filter });
        for bucket in history(server, variables(Value::Null)).await {
            assert_bucket(&bucket, listed.iter(), seconds);
        }
        let with_filter: [(Value, Vec<&Listed>); 4] = [
            (json!({ "paths": ["a", "a", "unknown"] }), listed.iter().filter(|one| one.path == Some("a")).collect()),
            (json!({ "executionPools": ["large"] }), listed.iter().filter(|one| one.pool.is_some()).collect()),
            (json!({ "tenantId": "acme" }), listed.iter().filter(|one| one.tenant == "acme").collect()),
            (json!({ "organizationId": "other" }), Vec::new()),
        ];
        for (filter, wanted) in with_filter {
            for bucket in history(server, variables(filter)).await {
                assert_bucket(&bucket, wanted.iter().copied(), seconds);
            }
        }
    }
}

/// Compares a bucket with these executions.
fn assert_bucket<'a>(bucket: &Value, listed: impl Iterator<Item = &'a Listed> + Clone, seconds: i64) {
    let time = |name: &str| bucket[name].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    let (from, to) = (time("from"), time("to"));
    assert_eq!((to - from, from.timestamp() % seconds), (TimeDelta::seconds(seconds), 0), "{bucket}");
    let within = |time: DateTime<Utc>| from <= time && time < to;
    assert_eq!(bucket["started"], listed.clone().filter(|one| within(one.start)).count(), "{bucket}");
    let ended: Vec<&Listed> = listed.filter(|one| one.end.is_some_and(within)).collect();
    for (field, names) in
        [("completed", ["COMPLETED", "success"]), ("failed", ["FAILED", "error"]), ("cancelled", ["CANCELLED", ""])]
    {
        let expected = ended.iter().filter(|one| names.contains(&one.status)).count();
        assert_eq!(bucket[field], expected, "{field} of {bucket}");
    }
    let until = |time: Option<DateTime<Utc>>, one: &Listed| time.map(|time| (time - one.start).as_seconds_f64());
    assert_percentiles(bucket, "durationSeconds", ended.iter().filter_map(|one| until(one.end, one)).collect());
    assert_percentiles(bucket, "waitSeconds", ended.iter().filter_map(|one| until(one.first_step, one)).collect());
}

/// Compares the percentiles in a field of a bucket with those of these durations.
fn assert_percentiles(bucket: &Value, field: &str, mut durations: Vec<f64>) {
    durations.sort_by(f64::total_cmp);
    let Some(last) = durations.len().checked_sub(1) else {
        assert_eq!(bucket[field], Value::Null, "{field} of {bucket}");
        return;
    };
    for (name, percent) in [("p50", 50), ("p95", 95), ("p99", 99)] {
        let exact = durations[(durations.len() * percent).div_ceil(100).saturating_sub(1).min(last)];
        let shown = bucket[field][name].as_f64().unwrap();
        assert!((shown - exact).abs() <= (exact * 0.0501).max(0.001), "{field}: {name} is {exact}: {bucket}");
    }
}

#[tokio::test]
async fn buckets_equal_the_executions_before_and_after_they_are_closed_and_after_late_changes() {
    let deployment = Deployment::start(2).await;
    let now = database_time(&deployment).await;
    let mut listed = inserted(&deployment, 120, now).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    assert_history(&server, &listed, now).await;
    deployment.close_history(&[]).await;
    let stored = "SELECT sum(started)::bigint FROM noetl.execution_history WHERE span = 3600";
    assert!(deployment.sum_over_shards(stored).await > 200, "most executions are in closed hours");
    assert_history(&server, &listed, now).await;

    // Late changes: an end, another path, a first step, a deleted row, and a row that arrives later.
    let old = now - TimeDelta::hours(30);
    for (place, one) in listed.iter_mut().enumerate().filter(|(_, one)| one.start < old) {
        match place % 4 {
            0 => {
                (one.status, one.end) = ("CANCELLED", Some(one.start + TimeDelta::hours(1)));
                let update =
                    "UPDATE noetl.execution SET status = 'CANCELLED', end_time = start_time + interval '1 hour'";
                deployment.on_shard(one.shard, &format!("{update} WHERE execution_id = {}", one.id)).await;
            }
            1 => {
                one.path = Some("a");
                let update = format!("UPDATE noetl.execution SET path = 'a' WHERE execution_id = {}", one.id);
                deployment.on_shard(one.shard, &update).await;
            }
            2 => {
                one.first_step = Some(one.start + TimeDelta::minutes(5));
                let update = "UPDATE noetl.execution SET first_step_time = start_time + interval '5 minutes'";
                deployment.on_shard(one.shard, &format!("{update} WHERE execution_id = {}", one.id)).await;
            }
            _ => {}
        }
    }
    let gone = listed.swap_remove(0);
    deployment.on_shard(gone.shard, &format!("DELETE FROM noetl.execution WHERE execution_id = {}", gone.id)).await;
    let id = deployment.ids_on(gone.shard, i64::MAX / 2, 1)[0];
    let arrived = Listed { id, path: Some("b"), ..gone };
    arrived.insert(&deployment).await;
    listed.push(arrived);
    assert_history(&server, &listed, now).await;
    deployment.close_history(&[]).await;
    assert_history(&server, &listed, now).await;
    let another = deployment.replica_with(&[NO_RELAY]).await;
    assert_history(&another, &listed, now).await;
}

#[tokio::test]
async fn the_wait_of_an_execution_is_from_its_start_to_the_first_event_of_a_worker() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    let now = database_time(&deployment).await;
    let id = deployment.ids_on(0, 1000, 1)[0];
    for (number, event_type, step, after) in [
        (1, "playbook_started", None, 0),
        (2, "command.issued", Some("a"), 1),
        (3, "command.claimed", Some("a"), 40),
        (4, "command.started", Some("a"), 45),
        (5, "command.completed", Some("a"), 90),
        (6, "playbook.completed", None, 100),
    ] {
        let insert = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, created_at)
                      VALUES ($1, $1 + $2, $3, $4, $5)";
        let at = (now - TimeDelta::seconds(200 - after)).naive_utc();
        let insert = sqlx::query(insert).bind(id).bind(number).bind(event_type).bind(step).bind(at);
        insert.execute(&mut deployment.shard(0).await).await.unwrap();
    }
    server.advance_projections(&[id]).await;
    let times =
        json!({ "interval": "DAY", "from": (now - TimeDelta::seconds(200)).to_rfc3339(), "to": now.to_rfc3339() });
    let buckets = history(&server, times).await;
    let ended = buckets.iter().find(|bucket| bucket["completed"] == 1).unwrap();
    assert_percentiles(ended, "waitSeconds", vec![40.0]);
    assert_percentiles(ended, "durationSeconds", vec![100.0]);
}

#[tokio::test]
async fn a_minute_is_closed_when_the_transactions_of_its_time_have_ended() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    let (mut late, mut shard) = (deployment.shard(0).await, deployment.shard(0).await);
    let insert =
        "INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time) VALUES (5, 0, 'RUNNING', now())";
    run(&mut late, &format!("BEGIN; {insert}")).await;
    let now = database_time(&deployment).await;
    // As a later run stores it, while the transaction is in progress.
    let plan = "UPDATE noetl.execution_history_progress
                SET closed_to = coalesce(closed_to, noetl.span_start(now() - interval '1 hour', 3600)),
                    next_to = noetl.span_start(now() + interval '10 minutes', 60), next_xid = pg_current_xact_id()";
    run(&mut shard, plan).await;
    let closed = "SELECT count(*) FROM noetl.execution_history_progress WHERE closed_to > now()";
    for _ in 0..3 {
        deployment.maintain(&[]).await;
        assert_eq!(deployment.sum_over_shards(closed).await, 0, "the transaction is in progress");
    }
    run(&mut late, "COMMIT").await;
    eventually("the minute is closed", async || {
        deployment.maintain(&[]).await;
        (deployment.sum_over_shards(closed).await == 1).then_some(())
    })
    .await;
    let variables =
        json!({ "interval": "MINUTE", "from": (now - TimeDelta::minutes(1)).to_rfc3339(), "to": now.to_rfc3339() });
    let buckets = history(&server, variables).await;
    assert_eq!(started(&buckets), 1, "{buckets:?}");
}

#[tokio::test]
async fn the_history_is_computed_again_after_it_was_deleted() {
    let deployment = Deployment::start(2).await;
    let now = database_time(&deployment).await;
    let listed = inserted(&deployment, 60, now).await;
    // Times that are in no span.
    let ids = deployment.ids_on(0, 1_000_000, 2);
    let odd = format!(
        "INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time, end_time)
         VALUES ({}, 0, 'RUNNING', 'infinity', NULL), ({}, 0, 'FAILED', NULL, '-infinity')",
        ids[0], ids[1]
    );
    deployment.on_shard(0, &odd).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.close_history(&[]).await;
    let reset = "DELETE FROM noetl.execution_history; UPDATE noetl.execution_history_progress SET closed_to = NULL";
    for shard in 0..2 {
        deployment.on_shard(shard, reset).await;
    }
    assert_history(&server, &listed, now).await;
    deployment.close_history(&[]).await;
    assert_history(&server, &listed, now).await;
    let last = json!({ "interval": "HOUR", "from": "9999-12-31T00:00:00Z", "to": "9999-12-31T01:00:00Z" });
    assert!(history(&server, last).await.iter().all(|bucket| bucket["started"] == 0));
}

#[tokio::test]
async fn the_history_outlives_executions_that_the_retention_deletes() {
    const RETENTION: [(&str, &str); 1] = [("NOETL_EVENT_RETENTION_DAYS", "1")];
    let deployment = Deployment::start(2).await;
    let now = database_time(&deployment).await;
    let mut listed = inserted(&deployment, 60, now).await;
    // Ids of 2024 without a log. Those with a time of the last day have another id.
    for one in &mut listed {
        if one.end.unwrap_or(one.start).max(one.start) > now - TimeDelta::hours(25) {
            let id = deployment.ids_on(one.shard, i64::MAX / 2 + 1000 * one.id, 1)[0];
            let update = format!("UPDATE noetl.execution SET execution_id = {id} WHERE execution_id = {}", one.id);
            deployment.on_shard(one.shard, &update).await;
            one.id = id;
        }
    }
    // One of them ended within the retention. It stays, because the hour of its end is computed again.
    let (start, end) = (now - TimeDelta::hours(50), Some(now - TimeDelta::hours(2)));
    let id = deployment.ids_on(0, 1_000_000, 1)[0];
    let young = Listed { id, shard: 0, status: "COMPLETED", start, end, first_step: None, ..listed[0].clone() };
    young.insert(&deployment).await;
    listed.push(young);
    let old = format!("SELECT count(*) FROM noetl.execution WHERE execution_id < {}", i64::MAX / 2);
    let count = deployment.sum_over_shards(&old).await;
    assert!(count > 30, "{count}");
    let server = deployment.replica_with(&[NO_RELAY]).await;
    // No task of the server computes rows before the retention runs.
    let mut tasks = Vec::new();
    for shard in 0..2 {
        let mut session = deployment.shard(shard).await;
        run(&mut session, "SELECT pg_advisory_lock(hashtextextended('noetl.execution_history', 0))").await;
        deployment.on_shard(shard, "UPDATE noetl.execution_history_progress SET closed_to = NULL").await;
        tasks.push(session);
    }
    deployment.maintain(&RETENTION).await;
    assert_eq!(deployment.sum_over_shards(&old).await, count, "executions that are not counted stay");
    assert_history(&server, &listed, now).await;
    drop(tasks);
    deployment.close_history(&[]).await;
    // A late change, which the retention must not lose.
    let changed = listed.iter_mut().find(|one| one.id < i64::MAX / 2 && one.path == Some("b")).unwrap();
    changed.path = Some("a");
    let late = format!("UPDATE noetl.execution SET path = 'a' WHERE execution_id = {}", changed.id);
    deployment.on_shard(changed.shard, &late).await;
    eventually("the executions are deleted", async || {
        deployment.maintain(&RETENTION).await;
        assert_history(&server, &listed, now).await;
        (deployment.sum_over_shards(&old).await == 1).then_some(())
    })
    .await;
    deployment.close_history(&[]).await;
    assert_history(&server, &listed, now).await;
}

#[tokio::test]
async fn an_hour_is_not_computed_again_while_the_retention_makes_it_final() {
    let deployment = Deployment::start(1).await;
    let now = database_time(&deployment).await;
    let listed = inserted(&deployment, 40, now).await;
    deployment.close_history(&[]).await;
    let mut retention = deployment.shard(0).await;
    // No minute is due, so that only the computation of a noted hour locks the progress.
    let note = "INSERT INTO noetl.execution_history_late (hour)
                SELECT noetl.span_start(start_time, 3600) FROM noetl.execution ORDER BY start_time LIMIT 1;
                UPDATE noetl.execution_history_progress SET next_to = closed_to + interval '1 minute'";
    deployment.on_shard(0, note).await;
    let purge = "BEGIN;
                 UPDATE noetl.execution_history_progress SET final_to = noetl.span_start(now() - interval '1 day', 3600);
                 DELETE FROM noetl.execution
                 WHERE greatest(start_time, end_time) < noetl.span_start(now() - interval '1 day', 3600)";
    run(&mut retention, purge).await;
    let task = async { deployment.maintain(&[]).await };
    let commit = async {
        let waits = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'
                       AND query LIKE '%execution_history_progress%FOR UPDATE%'";
        eventually("the task waits", async || (deployment.sum_over_shards(waits).await > 0).then_some(())).await;
        run(&mut retention, "COMMIT").await;
    };
    tokio::join!(task, commit);
    deployment.close_history(&[]).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    assert_history(&server, &listed, now).await;
}

#[tokio::test]
async fn a_run_computes_a_limited_number_of_hours_again() {
    let deployment = Deployment::start(1).await;
    deployment.close_history(&[]).await;
    let note = "INSERT INTO noetl.execution_history_late (hour)
                SELECT noetl.span_start(now(), 3600) - n * interval '1 hour' FROM generate_series(2, 61) AS n";
    deployment.on_shard(0, note).await;
    deployment.maintain(&[]).await;
    let noted = deployment.sum_over_shards("SELECT count(*) FROM noetl.execution_history_late").await;
    assert!((12..60).contains(&noted), "a run has at most 48 steps: {noted}");
    deployment.close_history(&[]).await;
    the_hour_that_was_closed_last_is_computed_again(&deployment).await;
}

/// Also the last closed hour is computed again after a late change.
async fn the_hour_that_was_closed_last_is_computed_again(deployment: &Deployment) {
    let mut blocking = deployment.shard(0).await;
    // No further minute is closed while the transaction is in progress.
    run(&mut blocking, "BEGIN; SELECT pg_current_xact_id()").await;
    let note = "UPDATE noetl.execution_history_progress
                SET closed_to = noetl.span_start(now(), 3600), next_to = noetl.span_start(now() + interval '10 minutes', 60),
                    next_xid = pg_current_xact_id();
                INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time)
                VALUES (5, 0, 'RUNNING', noetl.span_start(now(), 3600) - interval '10 minutes')";
    deployment.on_shard(0, note).await;
    deployment.maintain(&[]).await;
    let counted = "SELECT coalesce(sum(started), 0)::bigint FROM noetl.execution_history WHERE span = 3600";
    assert_eq!(deployment.sum_over_shards(counted).await, 1);
    drop(blocking);
}

/// Executions and rows of 20 days: 60 paths and tenants for each hour and each day.
const PLANTED: &str = "
    INSERT INTO noetl.execution (execution_id, catalog_id, status, path, start_time, end_time)
    SELECT n, 0, 'COMPLETED', 'path' || n % 20, at, at FROM generate_series(1, 20000) AS n
    CROSS JOIN LATERAL (SELECT noetl.span_start(now(), 86400) - n * interval '86 seconds' AS at) AS moment;
    DELETE FROM noetl.execution_history_late;
    DELETE FROM noetl.execution_history;
    INSERT INTO noetl.execution_history (span, at, tenant_id, organization_id, path, execution_pool, started, completed,
                                         failed, cancelled, classes, counts)
    SELECT span, at, CASE WHEN n = 0 THEN 'tiny' WHEN n < 30 THEN 'acme' ELSE 'default' END, 'default', 'path' || n, '',
           span / 3600, span / 3600, 0, 0, '{0}', ARRAY[span / 3600]::bigint[]
    FROM (VALUES (3600), (86400)) AS length (span)
    CROSS JOIN LATERAL generate_series(noetl.span_start(now(), 86400) - interval '20 days',
                                       noetl.span_start(now(), 86400) - interval '1 hour',
                                       make_interval(secs => span)) AS at
    CROSS JOIN generate_series(0, 59) AS n;
    UPDATE noetl.execution_history_progress SET closed_to = noetl.span_start(now(), 60);
    -- The second noted hour is final.
    UPDATE noetl.execution_history_progress SET final_to = noetl.span_start(now(), 86400) - interval '10 days';
    INSERT INTO noetl.execution_history_late (hour)
    SELECT noetl.span_start(now(), 86400) - days * interval '1 day' FROM unnest(ARRAY[8, 12]) AS days";

#[tokio::test]
async fn a_read_is_along_an_index_and_counts_only_the_hours_with_late_changes() {
    let (deployment, mut log, _server) = deployment_with_plans().await;
    deployment.close_history(&[]).await;
    let mut database = deployment.cluster().await;
    // No task changes the planted rows.
    run(&mut database, "SELECT pg_advisory_lock(hashtextextended('noetl.execution_history', 0))").await;
    run(&mut database, "SET auto_explain.log_min_duration = -1").await;
    run(&mut database, "ANALYZE").await;
    run(&mut database, PLANTED).await;
    let now = database_time(&deployment).await;
    let today = DateTime::from_timestamp(now.timestamp() / 86400 * 86400, 0).unwrap();
    let (from, to) = ((today - TimeDelta::days(15)).to_rfc3339(), (today + TimeDelta::days(1)).to_rfc3339());
    let mut server = None;
    for (statistics, plans) in [
        ("stale statistics", "force_custom_plan"),
        ("stale statistics", "force_generic_plan"),
        ("fresh statistics", "force_custom_plan"),
        ("fresh statistics", "force_generic_plan"),
    ] {
        if statistics == "fresh statistics" {
            run(&mut database, "ANALYZE").await;
        }
        // PostgreSQL chooses between both kinds of plans by their cost.
        run(&mut database, &format!("ALTER DATABASE own SET plan_cache_mode = {plans}")).await;
        let replica = deployment.replica_with(&QUIET).await;
        let server = server.insert(replica);
        for (interval, filter, most) in [
            // 15 days of 60 rows, the hours of the day with the noted one, and the executions of this hour.
            ("DAY", json!({}), 3000.0),
            ("DAY", json!({ "tenantId": "tiny" }), 400.0),
            ("HOUR", json!({ "tenantId": "tiny" }), 800.0),
            ("HOUR", json!({ "paths": ["path7", "path8"] }), 1200.0),
            ("HOUR", json!({ "paths": ["path0"], "tenantId": "tiny" }), 800.0),
        ] {
            log.plans();
            let variables = json!({ "interval": interval, "from": from, "to": to, "filter": filter });
            assert!(history(server, variables).await.len() >= 16);
            let is_read = |plan: &Value| plan["Query Text"].as_str().is_some_and(|text| text.contains("uncounted AS"));
            let of_read = log.plans().into_iter().filter(is_read);
            let rows: Vec<f64> = of_read.map(|plan| rows_read(&plan["Plan"])).collect();
            let bounded = rows.len() == 1 && rows.iter().all(|rows| *rows <= most);
            assert!(bounded, "{statistics}, {plans}: {interval} with {filter} read {rows:?} rows");
        }
    }
    let server = server.unwrap();
    for filter in [json!({}), json!({ "tenantId": "tiny" }), json!({ "paths": ["path7", "path8"] })] {
        let variables = |interval| json!({ "interval": interval, "from": from, "to": to, "filter": filter });
        let (days, hours) = (history(&server, variables("DAY")).await, history(&server, variables("HOUR")).await);
        assert!(started(&days) > 300, "{days:?}");
        assert_eq!(started(&days), started(&hours), "{filter}");
    }
}

#[tokio::test]
async fn a_shard_that_is_down_is_named_in_the_history() {
    let deployment = Deployment::start(2).await;
    let now = database_time(&deployment).await;
    let listed = inserted(&deployment, 20, now).await;
    let dead = format!("{},postgres://noetl@127.0.0.1:1/none", deployment.shard_dsns[0]);
    let server = deployment.replica_with(&[("NOETL_SHARDS", &dead), NO_RELAY]).await;
    let variables =
        json!({ "interval": "DAY", "from": (now - TimeDelta::days(4)).to_rfc3339(), "to": now.to_rfc3339() });
    let history = server.data(QUERY, variables).await["executionHistory"].take();
    assert_eq!(history["unavailableShards"], json!([1]));
    for bucket in history["buckets"].as_array().unwrap() {
        assert_bucket(bucket, listed.iter().filter(|one| one.shard == 0), 86400);
    }
}
