//! Migrations are repeatable, safe in several processes at the same time, and additive on the tables of a NoETL server.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use noetl_testkit::feed::{Reader, run};
use noetl_testkit::worker::event_with;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};

/// The tables of an existing NoETL server.
const NOETL: &str = include_str!("../fixtures/noetl.sql");

/// What the tables of NoETL 3.83 have beyond those.
const NOETL_3_83: &str = include_str!("../fixtures/noetl_3_83.sql");

/// Rows of an existing NoETL server: two live subscriptions, an ended one, a completed execution and a running one.
const ROWS: &str = include_str!("../fixtures/noetl_rows.sql");

const TABLES: [&str; 7] =
    ["resource", "catalog", "event", "execution", "outbox", "subscription_dedup", "projection_snapshot"];

async fn rows(connection: &mut PgConnection, query: &str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(connection).await.unwrap()
}

/// Returns the columns and indexes of the schema.
async fn shape(connection: &mut PgConnection) -> BTreeSet<String> {
    let columns = "SELECT concat_ws(' ', table_name, column_name, data_type, column_default, is_nullable)
                   FROM information_schema.columns WHERE table_schema = 'noetl'";
    let indexes = "SELECT indexdef || ' ' || indisvalid FROM pg_indexes
                   JOIN pg_index ON indexrelid = format('%I.%I', schemaname, indexname)::regclass
                   WHERE schemaname = 'noetl'";
    let mut shape: BTreeSet<String> = rows(connection, columns).await.into_iter().collect();
    shape.extend(rows(connection, indexes).await);
    shape
}

/// Returns the invalid indexes of the event table and the partitions that lack an index.
async fn unsound_indexes(connection: &mut PgConnection) -> Vec<String> {
    let query = "SELECT relation.relname || ' ' || index.relname
        FROM pg_class AS index CROSS JOIN (
            SELECT inhrelid::regclass::oid AS oid FROM pg_inherits WHERE inhparent = 'noetl.event'::regclass
            UNION ALL SELECT 'noetl.event'::regclass::oid
        ) AS expected JOIN pg_class AS relation ON relation.oid = expected.oid
        WHERE index.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'noetl.event'::regclass)
          AND NOT EXISTS (
              SELECT 1 FROM pg_partition_tree(index.oid) AS part JOIN pg_index ON indexrelid = part.relid
              WHERE indrelid = relation.oid AND indisvalid)";
    rows(connection, query).await
}

fn assert_same(one: &BTreeSet<String>, other: &BTreeSet<String>) {
    let differ: Vec<_> = one.symmetric_difference(other).collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

async fn check_empty_migrated(deployment: &Deployment) {
    let mut shapes = vec![shape(&mut deployment.cluster().await).await];
    for shard in 0..deployment.shard_dsns.len() {
        let mut connection = deployment.shard(shard).await;
        assert_eq!(unsound_indexes(&mut connection).await, [""; 0]);
        shapes.push(shape(&mut connection).await);
    }
    // Every database gets the same migrations. Only the partitions differ between the cluster database and the shards.
    assert!(shapes[0].is_subset(&shapes[1]), "{:?}", shapes[0].difference(&shapes[1]));
    assert_same(&shapes[1], &shapes[2]);
}

/// A database with migrations of a later version is served, and these migrations stay.
async fn a_database_with_migrations_of_a_later_version_is_served(deployment: &Deployment) {
    let later = "INSERT INTO noetl._sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (9999, 'later', true, '', 0)";
    run(&mut deployment.cluster().await, later).await;
    run(&mut deployment.shard(0).await, later).await;
    let before = shape(&mut deployment.shard(0).await).await;
    let (plan, _) = migrate_with(deployment, Some("--plan")).await;
    assert_eq!(plan, "the cluster database: nothing to change\nshard 0: nothing to change\n");
    migrate_with(deployment, None).await;
    assert_same(&shape(&mut deployment.shard(0).await).await, &before);
    let stored = rows(&mut deployment.shard(0).await, "SELECT description FROM noetl._sqlx_migrations").await;
    assert!(stored.contains(&"later".to_owned()), "{stored:?}");
    let server = deployment.replica().await;
    server.start_execution().await;
    assert!(server.stop().await.success());
    let only_ours = "DELETE FROM noetl._sqlx_migrations WHERE version = 9999";
    run(&mut deployment.cluster().await, only_ours).await;
    run(&mut deployment.shard(0).await, only_ours).await;
}

/// Runs `migrate` with an argument, and returns its standard output and its log.
async fn migrate_with(deployment: &Deployment, argument: Option<&str>) -> (String, String) {
    let mut command = deployment.command("migrate");
    let output = command.args(argument).output().await.unwrap();
    let [out, log] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{out}{log}");
    (out, log)
}

/// The last part leaves a database that is refused.
#[tokio::test]
async fn migrate_names_its_changes_and_servers_use_only_databases_with_the_migrations_of_a_release() {
    let deployment = Deployment::unmigrated(1).await;
    Box::pin(the_plan_names_each_change_of_a_migration_and_changes_nothing(&deployment)).await;
    Box::pin(no_server_starts_before_the_index_on_keys_of_events_is_built(&deployment)).await;
    Box::pin(a_database_with_migrations_of_a_later_version_is_served(&deployment)).await;
    Box::pin(a_database_with_other_migrations_is_refused(&deployment)).await;
}

/// The plan names each change of a migration, and changes nothing. The deployment is not migrated before.
async fn the_plan_names_each_change_of_a_migration_and_changes_nothing(deployment: &Deployment) {
    let (plan, _) = migrate_with(deployment, Some("--plan")).await;
    for database in ["the cluster database", "shard 0"] {
        assert!(plan.contains(&format!("{database}: apply migration 1: ")), "{plan}");
        let index = "build index outbox_state_idx on noetl.outbox, while writers continue";
        assert!(plan.contains(&format!("{database}: {index}")), "{plan}");
    }
    let schemas = "SELECT nspname::text FROM pg_namespace WHERE nspname = 'noetl'";
    assert_eq!(rows(&mut deployment.shard(0).await, schemas).await, [""; 0]);

    deployment.migrate().await;
    let (plan, _) = migrate_with(deployment, Some("--plan")).await;
    assert_eq!(plan, "the cluster database: nothing to change\nshard 0: nothing to change\n");

    let mut shard = deployment.shard(0).await;
    run(&mut shard, "DROP INDEX noetl.outbox_state_idx").await;
    let before = shape(&mut shard).await;
    let (plan, _) = migrate_with(deployment, Some("--plan")).await;
    let changes: Vec<_> = plan.lines().filter_map(|line| line.strip_prefix("shard 0: ")).collect();
    let expected = "build index outbox_state_idx on noetl.outbox, while writers continue";
    assert_eq!(changes, [expected]);
    assert_same(&shape(&mut shard).await, &before);
    let (_, log) = migrate_with(deployment, None).await;
    assert!(log.contains(expected), "{log}");
    let (plan, _) = migrate_with(deployment, Some("--plan")).await;
    assert!(plan.contains("shard 0: nothing to change"), "{plan}");
}

/// No server starts before the index on keys of events is built: without it, a repeated event with a key would be stored
/// twice. The next part starts a server.
async fn no_server_starts_before_the_index_on_keys_of_events_is_built(deployment: &Deployment) {
    let mut shard = deployment.shard(0).await;
    // As a migration leaves it that was interrupted before it built the indexes.
    let unbuilt = "DROP INDEX noetl.event_key_idx;
        CREATE UNIQUE INDEX event_key_idx ON ONLY noetl.event (execution_id, event_key) WHERE event_key IS NOT NULL";
    run(&mut shard, unbuilt).await;
    let output = deployment.command("serve").output().await.unwrap();
    let log = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(!output.status.success() && log.contains("shard 0 is not migrated"), "{log}");
    deployment.migrate().await;
    assert_eq!(unsound_indexes(&mut shard).await, [""; 0]);
}

/// A database with another migration under a number of this version is refused.
async fn a_database_with_other_migrations_is_refused(deployment: &Deployment) {
    let mut shard = deployment.shard(0).await;
    run(&mut shard, "UPDATE noetl._sqlx_migrations SET checksum = '\\x00' WHERE version = 1").await;
    for (command, refusal) in [("migrate", "shard 0 could not be migrated"), ("serve", "shard 0 is not migrated")] {
        let output = deployment.command(command).output().await.unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && log.contains(refusal), "{command}: {log}");
    }
}

#[tokio::test]
async fn migrating_in_several_processes_at_the_same_time_or_again_leads_to_the_same_tables() {
    let deployment = Deployment::unmigrated(2).await;
    join_all((0..3).map(|_| deployment.migrate())).await;
    check_empty_migrated(&deployment).await;
    let before = shape(&mut deployment.shard(0).await).await;
    deployment.migrate().await;
    assert_same(&shape(&mut deployment.shard(0).await).await, &before);
    deployment.replica().await;
}

/// Returns the rows of every table, without the columns that the migrations added.
async fn contents(connection: &mut PgConnection, columns: &BTreeMap<String, String>) -> Vec<(String, Vec<String>)> {
    let mut contents = Vec::new();
    for (table, listed) in columns {
        let query = format!("SELECT row({listed})::text FROM noetl.{table} ORDER BY 1");
        contents.push((table.clone(), rows(connection, &query).await));
    }
    contents
}

async fn columns(connection: &mut PgConnection) -> BTreeMap<String, String> {
    let mut columns = BTreeMap::new();
    for table in TABLES {
        let query = format!(
            "SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position)
             FROM information_schema.columns WHERE table_schema = 'noetl' AND table_name = '{table}'"
        );
        columns.insert(table.to_owned(), rows(connection, &query).await.remove(0));
    }
    columns
}

/// Returns the storage files of the event partitions. A rewritten table gets another file.
async fn storage(connection: &mut PgConnection) -> Vec<String> {
    let query = "SELECT inhrelid::regclass || ' ' || pg_relation_filenode(inhrelid)
                 FROM pg_inherits WHERE inhparent = 'noetl.event'::regclass AND inhrelid::regclass::text NOT LIKE '%_q_'
                 ORDER BY 1";
    rows(connection, query).await
}

/// Creates a deployment whose only database is one of an existing NoETL server.
async fn existing() -> Deployment {
    let mut deployment = Deployment::unmigrated(1).await;
    deployment.env.retain(|(name, _)| name != "NOETL_SHARDS");
    deployment.shard_dsns = vec![deployment.cluster_dsn.clone()];
    let mut database = deployment.cluster().await;
    run(&mut database, NOETL).await;
    run(&mut database, ROWS).await;
    deployment
}

#[tokio::test]
async fn the_tables_of_a_noetl_server_keep_their_rows_get_all_indexes_and_are_served() {
    let deployment = existing().await;
    Box::pin(migrations_keep_the_rows_of_a_noetl_server_and_rewrite_no_event_table(&deployment)).await;
    Box::pin(a_partition_that_is_created_later_has_all_indexes(&deployment)).await;
    Box::pin(the_server_works_on_the_tables_of_a_noetl_server(&deployment)).await;
}

/// Migrations keep the rows of a NoETL server, and rewrite no event table. The deployment is not migrated before.
async fn migrations_keep_the_rows_of_a_noetl_server_and_rewrite_no_event_table(deployment: &Deployment) {
    let mut database = deployment.cluster().await;
    let columns = columns(&mut database).await;
    let (contents_before, storage_before) = (contents(&mut database, &columns).await, storage(&mut database).await);
    assert!(contents_before.iter().all(|(_, rows)| !rows.is_empty()), "{contents_before:?}");
    deployment.migrate().await;
    assert_eq!(storage(&mut database).await, storage_before);
    for (before, after) in contents_before.iter().zip(contents(&mut database, &columns).await) {
        // The migrations may add resource kinds, but must not delete or change any.
        let kept: Vec<_> = after.1.iter().filter(|row| before.1.contains(row)).cloned().collect();
        assert_eq!((&before.0, &before.1), (&after.0, &kept));
        assert!(before.0 == "resource" || before.1.len() == after.1.len(), "{before:?}\n{after:?}");
    }
    assert_eq!(unsound_indexes(&mut database).await, [""; 0]);
    deployment.migrate().await;
    assert_eq!(storage(&mut database).await, storage_before);
}

const LISTS: &str = "{
    executions(first: 10) { nodes { id path status catalogEntry { path } events(first: 5) { nodes { type } } } }
    subscriptions(first: 10) { nodes { id path status events(first: 10) { nodes { type createdAt } } } }
    catalogEntries(first: 10) { nodes { path version createdAt } }
}";

async fn listed(server: &Server, field: &str, column: &str) -> Vec<String> {
    let lists = server.data(LISTS, Value::Null).await;
    let nodes = lists[field]["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node[column].as_str().unwrap_or("-").to_owned()).collect()
}

/// The server works on the tables of a NoETL server, while that one continues to write.
async fn the_server_works_on_the_tables_of_a_noetl_server(deployment: &Deployment) {
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut reader = Reader::from_latest(&server).await;

    assert_eq!(listed(&server, "subscriptions", "path").await, ["inbox/ended", "inbox/paused", "inbox/live"]);
    assert_eq!(listed(&server, "subscriptions", "status").await, ["DEACTIVATED", "PAUSED", "ACTIVE"]);
    assert_eq!(listed(&server, "executions", "path").await, ["work/flow", "work/flow"]);
    // The row of the first one says RUNNING, but no step has begun in its log.
    assert_eq!(listed(&server, "executions", "status").await, ["PENDING", "COMPLETED"]);
    let entries = listed(&server, "catalogEntries", "createdAt").await;
    assert!(entries.iter().all(|at| at.starts_with("2026-01-0")), "{entries:?}");

    // Registering a path returns the live subscription that the other server created.
    for (path, id) in [("inbox/live", "310000000000000001"), ("inbox/paused", "310000000000000002")] {
        assert_eq!(server.register(path).await["subscription"]["id"], id);
    }
    let resumed = server.transition("resume", "310000000000000002", None).await;
    assert_eq!(resumed["subscription"]["status"], "ACTIVE", "{resumed}");
    let again = server.register("inbox/ended").await;
    assert_ne!(again["subscription"]["id"], "310000000000000003", "{again}");
    server.register_entry("work/flow", &json!({ "kind": "playbook" })).await;
    let executed = server.execute(json!({ "path": "work/flow", "parentExecutionId": "310000000000000001" })).await;
    assert_eq!(executed["outcome"], "STARTED", "{executed}");
    assert_eq!(listed(&server, "executions", "id").await.len(), 3);

    // The other server continues to write, and its view still works.
    let mut database = deployment.cluster().await;
    run(
        &mut database,
        "INSERT INTO noetl.event (execution_id, event_id, catalog_id, event_type, worker_id)
                        VALUES (320000000000000002, 990000000000000001, 1, 'call.done', 'w1')",
    )
    .await;
    assert!(reader.until_seen([(320_000_000_000_000_002, 990_000_000_000_000_001)]).await);
    assert_eq!(reader.seen.len(), 4, "resumed, registered, started, and the other server's: {:?}", reader.seen);
    assert_eq!(rows(&mut database, "SELECT worker_id FROM noetl.event_log WHERE worker_id = 'w1'").await, ["w1"]);
}

#[tokio::test]
async fn the_server_works_on_the_tables_of_noetl_3_83() {
    let deployment = existing().await;
    let mut database = deployment.cluster().await;
    run(&mut database, NOETL_3_83).await;
    deployment.migrate().await;
    let server = deployment.replica().await;
    let started = server.started(json!({ "path": "work/flow" })).await;
    let (execution, without_start) = (started.parse::<i64>().unwrap(), 310_000_000_000_000_009);
    let last = 990_000_000_000_000_000;
    let reference = json!({ "kind": "result_ref", "ref": "noetl://execution/1/result/step/2" });
    let result =
        json!({ "status": "COMPLETED", "context": { "result": { "status": "success", "reference": reference } } });
    let events = [
        event_with(execution, last, &json!({ "result": result })),
        event_with(execution, last + 1, &json!({ "result": { "rows": 1 } })),
        event_with(without_start, last + 2, &json!({ "catalogId": "1" })),
    ];
    let payload = server.project(&events).await;
    assert_eq!((&payload["projected"], &payload["rejected"][0]["index"]), (&json!(2), &json!(1)), "{payload}");
    let message = payload["rejected"][0]["message"].as_str().unwrap();
    assert!(message.contains("chk_event_result_shape"), "{message}");

    // NoETL's server continues to write.
    let ended = format!(
        "INSERT INTO noetl.event (event_id, execution_id, catalog_id, prev_event_id, event_type, node_id, node_name, status,
                                  result, worker_id, created_at)
         SELECT {last} + 3, execution_id, catalog_id, {last}, 'playbook.completed', 'playbook', 'playbook', 'COMPLETED',
                '{{\"status\": \"COMPLETED\"}}', 'w1', now() AT TIME ZONE 'UTC'
         FROM noetl.event WHERE execution_id = {execution} AND event_id = {last}"
    );
    run(&mut database, &ended).await;
    let listed = "SELECT count(*) FROM noetl.execution WHERE (execution_id, status) = ($1, 'COMPLETED')
                  OR (execution_id = $2 AND catalog_id = 1)";
    eventually("both executions are listed", async || {
        let listed = sqlx::query_scalar::<_, i64>(listed).bind(execution).bind(without_start);
        (listed.fetch_one(&mut database).await.unwrap() == 2).then_some(())
    })
    .await;
    let query = "query($id: ID!) { execution(id: $id) { steps { nodes { name result } } } }";
    let found = server.data(query, json!({ "id": started })).await["execution"].take();
    assert_eq!(
        found["steps"]["nodes"],
        json!([{ "name": "step", "result": result }]),
        "a reference is shown as stored"
    );
}

/// A partition that is created after the migration has all indexes.
async fn a_partition_that_is_created_later_has_all_indexes(deployment: &Deployment) {
    let mut database = deployment.cluster().await;
    let made = "CREATE TABLE noetl.event_later PARTITION OF noetl.event
                FOR VALUES FROM (9000000000000000000) TO (9100000000000000000)";
    run(&mut database, made).await;
    assert_eq!(unsound_indexes(&mut database).await, [""; 0]);
    let ours = "SELECT relname::text FROM pg_class WHERE relname LIKE 'event\\_%q_' AND relkind = 'r'";
    assert_eq!(rows(&mut database, ours).await.len(), 3);
}

#[tokio::test]
async fn migrate_waits_for_a_long_transaction_without_blocking_writers() {
    let deployment = existing().await;
    let (mut holder, mut writer) = tokio::join!(deployment.cluster(), deployment.cluster());
    let mut observer = deployment.cluster().await;
    run(&mut holder, "BEGIN; SELECT count(*) FROM noetl.event").await;
    run(&mut writer, "SET lock_timeout = '5s'").await;
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'noetl-graphql'";
    let writes = async {
        eventually("a migration waits for the table", async || {
            let waiting: i64 = sqlx::query_scalar(waits).fetch_one(&mut observer).await.unwrap();
            (waiting == 1).then_some(())
        })
        .await;
        for event in 1..4 {
            // The insert fails if it waits longer than its lock timeout.
            let row = format!("INSERT INTO noetl.event (execution_id, event_id, catalog_id) VALUES (1, {event}, 1)");
            run(&mut writer, &row).await;
        }
        run(&mut holder, "COMMIT").await;
    };
    tokio::join!(deployment.migrate(), writes);
    assert_eq!(unsound_indexes(&mut observer).await, [""; 0]);
}
