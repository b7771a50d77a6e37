//! Housekeeping, on command and in the background: expired data is deleted, data in use is kept, and other work
//! continues.

use std::ops::RangeInclusive;

use futures::future::join_all;
use noetl_domain::ids::Id;
use noetl_domain::quarter::Quarter;
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::retention::{KeepReason, Turn};
use noetl_storage::view::View;
use noetl_testkit::feed::{Key, Reader, insert, insert_typed, run};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};
use sqlx::PgConnection;

/// Returns the first id of the n-th old partition. Ids this small were generated on 1 January 2024.
const fn first(partition: i64) -> i64 {
    partition * 1_000_000
}

const RETENTION: (&str, &str) = ("NOETL_EVENT_RETENTION_DAYS", "30");

/// Creates old partitions, as a server did at that time. Rows that are inserted there get a creation time in 2024.
async fn old_partitions(deployment: &Deployment, shard: usize, numbers: RangeInclusive<i64>) {
    let aged = "CREATE OR REPLACE FUNCTION public.aged() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN NEW.created_at := '2024-01-01'; RETURN NEW; END $$";
    run(&mut deployment.shard(shard).await, aged).await;
    for n in numbers {
        let bounds = format!("FROM ({}) TO ({})", first(n), first(n + 1));
        let create = format!(
            "CREATE TABLE noetl.event_old{n} PARTITION OF noetl.event FOR VALUES {bounds};
             CREATE TRIGGER aged BEFORE INSERT ON noetl.event_old{n} FOR EACH ROW EXECUTE FUNCTION public.aged()"
        );
        run(&mut deployment.shard(shard).await, &create).await;
    }
}

/// Returns the old partitions that still exist.
async fn left(deployment: &Deployment, shard: usize) -> Vec<String> {
    let query = "SELECT relname::text FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
                 WHERE inhparent = 'noetl.event'::regclass AND relname LIKE 'event_old%' ORDER BY relname";
    sqlx::query_scalar(query).fetch_all(&mut deployment.shard(shard).await).await.unwrap()
}

/// Runs `maintain` with a retention. The command must succeed. Returns its line about the retention on shard 0.
async fn maintain(deployment: &Deployment) -> String {
    let said = deployment.maintain(&[RETENTION]).await;
    let name = if deployment.shard_dsns[0] == deployment.cluster_dsn { "the cluster database" } else { "shard 0" };
    let line = said.lines().find_map(|line| line.strip_prefix(&format!("{name}: retention: ")));
    line.unwrap_or_else(|| panic!("{said}")).to_owned()
}

async fn ended_execution(shard: &mut PgConnection, id: i64) {
    insert_typed(&mut *shard, (id, 1), "playbook_started").await;
    insert_typed(&mut *shard, (id, 2), "playbook_completed").await;
    // The read model lags behind the log.
    let rows = format!(
        "INSERT INTO noetl.execution (execution_id, catalog_id, status, tenant_id) VALUES ({id}, 0, 'RUNNING', 'acme');
         -- One snapshot was stored before an event of the log named its tenant.
         INSERT INTO noetl.projection_snapshot (aggregate_id, aggregate_type, tenant_id, version, snapshot, checksum)
             VALUES ('{id}', 'noetl_graphql_workflow_state', 'acme', 2, '{{}}', 'x'),
                    ('{id}', 'noetl_graphql_workflow_state', 'default', 1, '{{}}', 'x'),
                    ('{id}', 'orchestrator_workflow_state', 'acme', 2, '{{\"by\": \"NoETL\"}}', 'x');
         INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, status)
             VALUES ({id}, 1, 's', '{{}}', 'PUBLISHED'), ({id}, 2, 's', '{{}}', 'FAILED');"
    );
    run(shard, &rows).await;
}

async fn derived_rows(deployment: &Deployment, id: i64) -> [i64; 3] {
    let mut counts = [0; 3];
    let tables = [
        "execution WHERE execution_id =",
        "projection_snapshot WHERE aggregate_type <> 'orchestrator_workflow_state' AND aggregate_id::bigint =",
        "outbox WHERE execution_id =",
    ];
    for (count, table) in counts.iter_mut().zip(tables) {
        *count = deployment.sum_over_shards(&format!("SELECT count(*) FROM noetl.{table} {id}")).await;
    }
    counts
}

/// The first part uses the partitions 1 and 2, the others use the partition 3.
#[tokio::test]
async fn an_unneeded_partition_is_dropped_while_other_work_continues() {
    let deployment = Deployment::start(1).await;
    Box::pin(feed_and_reads_continue(&deployment)).await;
    Box::pin(a_locked_event_table_keeps_its_partition_and_writers_do_not_wait(&deployment)).await;
    Box::pin(an_event_committed_after_the_partition_was_judged_keeps_the_partition(&deployment)).await;
    deployment.publish_all().await;
    Box::pin(a_replica_drops_old_partitions_without_a_command(&deployment)).await;
}

/// The feed, reads and mutations continue while partitions are dropped, and the rows derived from their logs are deleted.
async fn feed_and_reads_continue(deployment: &Deployment) {
    // Background tasks must not change derived rows or unsettled outbox rows.
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    old_partitions(deployment, 0, 1..=2).await;
    let mut shard = deployment.shard(0).await;
    let (old, foreign) = (first(1) + 5, 77);
    ended_execution(&mut shard, old).await;
    // This id is foreign: it is in no partition with bounds, and its log still exists.
    ended_execution(&mut shard, foreign).await;
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    let young = server.execute(json!({ "path": "flow" })).await["execution"]["id"].clone();
    let mut reader = Reader::from_latest(&server).await;
    deployment.until_nothing_is_left().await;

    let said = maintain(deployment).await;
    assert_eq!(left(deployment, 0).await, [""; 0], "{said}");
    assert!(said.contains("dropped 2 partitions") && said.contains("1 executions"), "{said}");
    // Unsettled outbox rows stay until they are sent or an operator handles them.
    assert_eq!(derived_rows(deployment, old).await, [0, 0, 1]);
    assert_eq!(derived_rows(deployment, foreign).await, [1, 2, 2]);
    let of_noetl = "SELECT count(*) FROM noetl.projection_snapshot
                    WHERE aggregate_type = 'orchestrator_workflow_state' AND snapshot = '{\"by\": \"NoETL\"}'";
    assert_eq!(deployment.sum_over_shards(of_noetl).await, 2, "snapshots of NoETL stay unchanged");

    let key: Key = (first(1) + 6, 1);
    insert(&mut shard, key).await;
    assert!(reader.until_seen([key]).await);
    let lists = server.data("{ executions { nodes { id } } }", Value::Null).await;
    assert_eq!(lists["executions"]["nodes"], json!([{ "id": young }, { "id": "77" }]));
    assert_eq!(server.execute(json!({ "path": "flow" })).await["outcome"], "STARTED");
    assert!(maintain(deployment).await.starts_with("dropped 0 partitions"));
    assert!(server.stop().await.success());
}

/// Inserts an event of the log of a source subscription.
async fn lifecycle(shard: &mut PgConnection, log: i64, event: i64, event_type: &str, status: &str) {
    let row = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status)
         VALUES ({log}, {event}, 'subscription.{event_type}', 'inbox', '{status}')"
    );
    run(shard, &row).await;
}

/// Fills the partitions 5 to 7 with logs that have ended. Those of the partitions 5 and 6 have a recent event: one has a
/// recent id, the other one has a recent time and an id that a worker chose.
async fn ended_logs_with_recent_events(shard: &mut PgConnection, id: impl Fn(i64) -> i64) {
    let young = "SELECT (extract(epoch FROM now() - interval '1 day')::bigint * 1000 - 1704067200000) << 22";
    let young: i64 = sqlx::query_scalar(young).fetch_one(&mut *shard).await.unwrap();
    for n in 5..=7 {
        insert_typed(&mut *shard, (id(n), 1), "playbook_started").await;
    }
    insert_typed(&mut *shard, (id(5), young), "playbook_completed").await;
    insert_typed(&mut *shard, (id(6), 2), "playbook_completed").await;
    let late = format!(
        "UPDATE noetl.event SET created_at = (now() AT TIME ZONE 'UTC') - interval '1 day'
         WHERE execution_id = {} AND event_id = 2",
        id(6)
    );
    run(shard, &late).await;
    insert_typed(&mut *shard, (id(7), 2), "playbook_completed").await;
}

/// Checks that no partition is dropped without a retention, without publishing, or before its events are old enough.
async fn nothing_is_dropped_without_retention_or_without_publishing(deployment: &Deployment, kept: &[&str]) {
    for settings in
        [&[][..], &[RETENTION, ("NOETL_EVENT_STREAM_ENABLED", "false")], &[("NOETL_EVENT_RETENTION_DAYS", "36500")]]
    {
        let (output, said) = deployment.try_maintain(settings).await;
        assert!(output.status.success(), "{said}");
        assert_eq!(left(deployment, 0).await, kept, "{settings:?}: {said}");
    }
    let (output, _) = deployment.try_maintain(&[("NOETL_EVENT_RETENTION_DAYS", "0")]).await;
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn a_partition_is_kept_while_it_holds_an_unpublished_or_recent_event_or_a_log_that_has_not_ended() {
    let deployment = Deployment::start(0).await;
    old_partitions(&deployment, 0, 1..=8).await;
    let mut shard = deployment.shard(0).await;
    let id = |partition| first(partition) + 9;
    lifecycle(&mut shard, id(1), 1, "registered", "REGISTERED").await;
    lifecycle(&mut shard, id(1), 2, "paused", "PAUSED").await;
    insert_typed(&mut shard, (id(2), 1), "playbook_started").await;
    let row = format!("INSERT INTO noetl.execution (execution_id, catalog_id, status) VALUES ({}, 0, 'odd')", id(2));
    run(&mut shard, &row).await;
    // The read model has no row for this execution.
    insert_typed(&mut shard, (id(3), 1), "playbook_started").await;
    insert_typed(&mut shard, (id(4), 1), "call.done").await;
    ended_logs_with_recent_events(&mut shard, id).await;
    let said = maintain(&deployment).await;
    for n in 1..=8 {
        assert!(said.contains(&format!("event_old{n} stays: no feed has begun")), "{said}");
    }

    deployment.publish_all().await;
    insert(&mut shard, (id(8), 1)).await;
    let said = maintain(&deployment).await;
    let kept = ["event_old1", "event_old2", "event_old3", "event_old5", "event_old6", "event_old8"];
    assert_eq!(left(&deployment, 0).await, kept, "{said}");
    assert!(said.contains(&format!("event_old1 stays: it holds the log of source subscription {}", id(1))), "{said}");
    for n in [2, 3] {
        assert!(said.contains(&format!("event_old{n} stays: it holds the log of execution {}", id(n))), "{said}");
    }
    for n in [5, 6] {
        assert!(said.contains(&format!("event_old{n} stays: it holds an event of log {}", id(n))), "{said}");
    }
    assert!(said.contains("event_old8 stays: it holds events that are not published"), "{said}");

    lifecycle(&mut shard, id(1), 3, "deactivated", "DEACTIVATED").await;
    insert_typed(&mut shard, (id(2), 2), "playbook.cancelled").await;
    insert_typed(&mut shard, (id(3), 2), "playbook_failed").await;
    deployment.publish_all().await;
    nothing_is_dropped_without_retention_or_without_publishing(&deployment, &kept).await;
    let said = maintain(&deployment).await;
    assert_eq!(left(&deployment, 0).await, ["event_old5", "event_old6"], "{said}");
}

/// A replica drops an old partition with a published event without a command.
async fn a_replica_drops_old_partitions_without_a_command(deployment: &Deployment) {
    assert_eq!(left(deployment, 0).await, ["event_old3"]);
    let server = deployment.replica_with(&[RETENTION]).await;
    eventually("the partition is dropped", async || left(deployment, 0).await.is_empty().then_some(())).await;
    eventually("the drop is counted", async || (dropped(&server).await > 0.5).then_some(())).await;
}

async fn dropped(server: &Server) -> f64 {
    server.metric("noetl_event_partitions_dropped_total").await
}

/// A locked event table keeps its partition, and writers do not wait.
async fn a_locked_event_table_keeps_its_partition_and_writers_do_not_wait(deployment: &Deployment) {
    old_partitions(deployment, 0, 3..=3).await;
    let (mut holder, mut writer) = tokio::join!(deployment.shard(0), deployment.shard(0));
    run(&mut holder, "BEGIN; SELECT count(*) FROM noetl.event").await;
    run(&mut writer, "SET lock_timeout = '3s'").await;
    let mut maintained = Box::pin(maintain(deployment));
    let mut next = 0;
    let said = loop {
        next += 1;
        // The insert fails if it waits longer than its lock timeout.
        tokio::select! {
            said = &mut maintained => break said,
            () = insert(&mut writer, (1, next)) => {}
        }
    };
    assert!(said.contains("event_old3 stays: the event table is in use"), "{said}");
    assert_eq!(left(deployment, 0).await, ["event_old3"]);
    run(&mut holder, "COMMIT").await;
    maintain(deployment).await;
    assert_eq!(left(deployment, 0).await, [""; 0]);
}

/// An event that is committed after the partition was judged keeps the partition, because it is not published.
async fn an_event_committed_after_the_partition_was_judged_keeps_the_partition(deployment: &Deployment) {
    old_partitions(deployment, 0, 3..=3).await;
    let options = deployment.shard_dsns[0].parse().unwrap();
    let shard = Database::new(DatabaseName::Shard(ShardIndex::default()), options, 2);
    let mut turn = Turn::take(View::whole(&shard)).await.unwrap().unwrap();
    assert!(Turn::take(View::whole(&shard)).await.unwrap().is_none(), "only one process has the turn");
    let partition = turn.partitions().await.unwrap().into_iter().find(|one| one.from == first(3)).unwrap();
    let cutoff = turn.cutoff(30).await.unwrap();
    // The transaction is open while the partition is judged, and commits before the drop.
    let mut late = deployment.shard(0).await;
    run(&mut late, "BEGIN").await;
    insert(&mut late, (first(3) + 1, 1)).await;
    let judged = turn.judge(partition.clone(), cutoff).await.unwrap().unwrap();
    run(&mut late, "COMMIT").await;
    assert_eq!(turn.drop_partition(&judged).await.unwrap(), Some(KeepReason::JustWritten));
    assert_eq!(turn.judge(partition, cutoff).await.unwrap().unwrap_err(), KeepReason::Unpublished);
    assert_eq!(left(deployment, 0).await, ["event_old3"]);
}

#[tokio::test]
async fn runs_continue_after_a_failed_task_beside_other_runs_and_after_a_crash() {
    let deployment = Deployment::start(2).await;
    Box::pin(a_failed_housekeeping_task_is_reported_and_the_others_still_run(&deployment)).await;
    Box::pin(concurrent_runs_drop_each_partition_once_and_clean_up_after_a_crash(&deployment)).await;
}

/// Concurrent runs drop each partition once, and clean up after a run that crashed.
async fn concurrent_runs_drop_each_partition_once_and_clean_up_after_a_crash(deployment: &Deployment) {
    for shard in 0..2 {
        old_partitions(deployment, shard, 1..=3).await;
    }
    let id = deployment.ids_on(0, first(2), 1)[0];
    ended_execution(&mut deployment.shard(0).await, id).await;
    deployment.publish_all().await;
    // As after a process that crashed directly after it dropped this partition.
    run(&mut deployment.shard(0).await, "DROP TABLE noetl.event_old2").await;
    let runs = join_all((0..4).map(|_| deployment.try_maintain(&[RETENTION]))).await;
    let mut dropped = 0;
    for (output, said) in &runs {
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        dropped += said.matches(" was dropped").count();
    }
    assert_eq!(dropped, 5, "{runs:?}");
    for shard in 0..2 {
        assert_eq!(left(deployment, shard).await, [""; 0]);
    }
    assert_eq!(derived_rows(deployment, id).await, [0, 0, 1]);
}

#[tokio::test]
async fn expired_dedup_claims_are_deleted_and_reserved_or_unexpired_ones_are_kept() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    let input = json!({ "path": "flow", "dedup": { "key": "mine", "windowSeconds": 600 } });
    assert_eq!(server.execute(input.clone()).await["outcome"], "STARTED");
    // The sweeper does not finish this reserved claim, because the stored request is unreadable.
    run(
        &mut deployment.cluster().await,
        "INSERT INTO noetl.subscription_dedup (subscription_id, dedup_key, execution_id, state, request, seen_at, expires_at)
         SELECT -1, 'expired ' || n, n, 1, NULL, now() - interval '1 hour', now() - interval '1 second'
         FROM generate_series(1, 2500) AS n
         UNION ALL SELECT -2, 'reserved', 9001, 0, '{}'::jsonb, now() - interval '1 hour', now() - interval '1 hour'
         UNION ALL SELECT -2, 'unexpired', 9002, 1, NULL, now() - interval '1 hour', now() + interval '1 hour'
         UNION ALL SELECT -2, 'noetl, longer ago than any window', 9003, 1, NULL, now() - interval '721 hours', NULL
         UNION ALL SELECT -2, 'noetl, within the longest window', 9004, 1, NULL, now() - interval '719 hours', NULL",
    )
    .await;
    let (output, said) = deployment.try_maintain(&[]).await;
    assert!(output.status.success(), "{said}");
    let keys = "SELECT dedup_key FROM noetl.subscription_dedup ORDER BY dedup_key";
    let keys: Vec<String> = sqlx::query_scalar(keys).fetch_all(&mut deployment.cluster().await).await.unwrap();
    assert_eq!(keys, ["mine", "noetl, within the longest window", "reserved", "unexpired"], "{said}");
    assert_eq!(server.execute(input).await["outcome"], "DUPLICATE");
}

/// A failed housekeeping task is reported, and the others still run.
async fn a_failed_housekeeping_task_is_reported_and_the_others_still_run(deployment: &Deployment) {
    let dead = format!("{},postgres://noetl@127.0.0.1:1/none", deployment.shard_dsns[0]);
    let partition = "SELECT max(relname)::text FROM pg_class WHERE relname ~ '^event_p[0-9]+q[0-9]$'";
    let partition: String = sqlx::query_scalar(partition).fetch_one(&mut deployment.shard(0).await).await.unwrap();
    run(&mut deployment.shard(0).await, &format!("DROP TABLE noetl.{partition}")).await;
    let (output, said) = deployment.try_maintain(&[("NOETL_SHARDS", &dead), RETENTION]).await;
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines_of = |database: &str| said.lines().filter(|line| line.starts_with(&format!("{database}: "))).count();
    let of_each_shard = lines_of("shard 0");
    assert_eq!((of_each_shard, lines_of("the cluster database")), (6, 5), "{said}");
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("FAILED")).collect();
    assert_eq!(failed.len(), of_each_shard, "{said}");
    assert!(failed.iter().all(|line| line.starts_with("shard 1: ")), "{said}");
    assert!(
        said.contains(&format!("shard 0: partitions: made {partition}"))
            && said.contains("shard 0: outbox purge: purged 0 delivered")
            && said.contains("the cluster database: dedup purge"),
        "{said}"
    );
}

#[tokio::test]
async fn a_partition_blocked_by_stray_events_is_created_by_the_statements_of_the_runbook() {
    let deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    let last = "SELECT relname::text, (regexp_match(pg_get_expr(relpartbound, oid), 'FROM \\(''?(\\d+)'))[1]::bigint
                FROM pg_class WHERE relname ~ '^event_p[0-9]+q[0-9]$' ORDER BY 2 DESC LIMIT 1";
    let (partition, from): (String, i64) = sqlx::query_as(last).fetch_one(&mut shard).await.unwrap();
    run(&mut shard, &format!("DROP TABLE noetl.{partition}")).await;
    insert(&mut shard, (from + 1, 1)).await;

    let server = deployment.replica_with(&[("NOETL_EVENT_STREAM_BACKFILL", "true")]).await;
    let blocked = async || server.metric("noetl_event_partitions_blocked_total").await;
    eventually("the blocked partition is counted", async || (blocked().await > 0.5).then_some(())).await;
    let (output, said) = deployment.try_maintain(&[]).await;
    assert_eq!(output.status.code(), Some(1), "{said}");
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("FAILED")).collect();
    assert_eq!(failed.len(), 1, "{said}");
    let end: i64 = Quarter::of(Id::new(from).time()).next().first_id().get();
    let bounds = format!("can't create {partition} FOR VALUES FROM ({from}) TO ({end}), because");
    assert!(failed[0].starts_with(&format!("shard 0: partitions: FAILED: {bounds}")), "{said}");

    deployment.until_all_published().await;
    let transaction = "SELECT tx_id::text FROM noetl.event WHERE execution_id = $1";
    let of_event = sqlx::query_scalar::<_, String>(transaction).bind(from + 1);
    let before = of_event.fetch_one(&mut shard).await.unwrap();
    let (first, end) = (from.to_string(), end.to_string());
    let owner = "SELECT quote_ident(tableowner) FROM pg_tables WHERE schemaname = 'noetl' AND tablename = $1";
    let owner_of = |table| sqlx::query_scalar::<_, String>(owner).bind(table);
    let owner = owner_of("event").fetch_one(&mut shard).await.unwrap();
    let values = [(":\"partition\"", partition.as_str()), (":\"owner\"", &owner), (":first", &first), (":end", &end)];
    let statements = values.into_iter().fold(moves_events(), |text, (name, value)| text.replace(name, value));
    run(&mut shard, &statements).await;
    let (output, said) = deployment.try_maintain(&[]).await;
    assert!(output.status.success(), "{said}");
    let inside = format!("SELECT tx_id::text FROM noetl.{partition} WHERE execution_id = {}", from + 1);
    let after: String = sqlx::query_scalar(sqlx::AssertSqlSafe(inside)).fetch_one(&mut shard).await.unwrap();
    assert_eq!(after, before, "an event with another transaction id would be published again");
    insert(&mut shard, (from + 1, 2)).await;
    deployment.until_all_published().await;
    assert_eq!(deployment.published().await, [(from + 1, 1), (from + 1, 2)]);
}

/// Returns the statements of the runbook that move events from the default partition.
fn moves_events() -> String {
    let runbook = include_str!("../../docs/runbook.md");
    let (_, section) = runbook.split_once("### NoetlEventPartitionsBlocked").unwrap();
    let (_, statements) = section.split_once("<<'EOF'\n").unwrap();
    let (statements, _) = statements.split_once("EOF\n").unwrap();
    statements.to_owned()
}
