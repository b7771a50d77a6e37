//! A deployment gets further shards while it serves. Databases that can't be shards are refused before they change.

use std::process::Output;

use noetl_testkit::feed::Reader;
use noetl_testkit::pages::texts;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};

/// Runs `noetl-graphql shards` with these arguments.
async fn try_shards(deployment: &Deployment, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    deployment.command("shards").args(arguments).envs(settings.iter().copied()).output().await.unwrap()
}

/// Runs `noetl-graphql shards` with these arguments, which must succeed, and returns its standard output.
async fn shards(deployment: &Deployment, arguments: &[&str]) -> String {
    let output = try_shards(deployment, arguments, &[]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `noetl-graphql shards` with these arguments, which must be refused, and returns the exit code and the message.
async fn refused(deployment: &Deployment, arguments: &[&str]) -> (Option<i32>, String) {
    let output = try_shards(deployment, arguments, &[]).await;
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the state and the number of buckets of each shard, from the output of `noetl-graphql shards`.
async fn states(deployment: &Deployment) -> Vec<(String, String)> {
    let table = shards(deployment, &[]).await;
    let is_row = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
    let cells = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        (cells[1].to_owned(), cells[2].to_owned())
    };
    table.lines().filter(is_row).map(cells).collect()
}

fn row(state: &str, buckets: &str) -> (String, String) {
    (state.to_owned(), buckets.to_owned())
}

async fn has_tables(database: &mut PgConnection) -> bool {
    let schema = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'noetl')";
    sqlx::query_scalar(AssertSqlSafe(schema)).fetch_one(database).await.unwrap()
}

async fn execute(server: &Server, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let payload = server.execute(json!({ "path": "run" })).await;
        assert_eq!(payload["userErrors"], json!([]), "{payload}");
        ids.push(payload["executionId"].as_str().unwrap().to_owned());
    }
    ids
}

/// Checks that the replica finds each of the executions by its id and in the list.
async fn finds(server: &Server, ids: &[String]) {
    let list = "{ executions(first: 100) { nodes { id } unavailableShards } }";
    let data = server.data(list, Value::Null).await;
    assert_eq!(data["executions"]["unavailableShards"], json!([]));
    let mut listed = texts(&data["executions"]["nodes"], "id");
    listed.sort_unstable();
    let mut wanted: Vec<&str> = ids.iter().map(String::as_str).collect();
    wanted.sort_unstable();
    assert_eq!(listed, wanted);
    for id in ids {
        let found = server.data("query($id: ID!) { execution(id: $id) { path } }", json!({ "id": id })).await;
        assert_eq!(found["execution"]["path"], "run", "{id}");
    }
}

#[tokio::test]
async fn an_added_shard_serves_beside_replicas_with_the_old_list() {
    // Given a replica with two shards, and a reader.
    let mut deployment = Deployment::start(2).await;
    let old = deployment.replica().await;
    old.register_entry("run", &json!({ "kind": "playbook" })).await;
    deployment.feeds_begun().await;
    let mut ids = execute(&old, 6).await;
    deployment.until_all_published().await;
    let mut follower = Reader::from_beginning(&old).await;

    // When a third database is named and added.
    deployment.add_database().await;
    assert_eq!(states(&deployment).await, [row("ready", "2520"), row("ready", "2520"), row("new", "0")]);
    assert_eq!(shards(&deployment, &["add", "--dry-run"]).await, "shard 2: can be added\n");
    assert!(!has_tables(&mut deployment.shard(2).await).await, "a dry run changes nothing");
    let added = shards(&deployment, &["add"]).await;
    assert!(added.starts_with("shard 2: added, with 0 buckets\n"), "{added}");
    assert_eq!(states(&deployment).await, [row("ready", "2520"), row("ready", "2520"), row("ready", "0")]);

    // Then a repetition changes nothing, and replicas with either list find and write all executions.
    let again = shards(&deployment, &["add"]).await;
    assert_eq!(again, "every configured shard is a part of the deployment\n");
    let new = deployment.replica().await;
    ids.extend(execute(&new, 3).await);
    ids.extend(execute(&old, 3).await);
    finds(&old, &ids).await;
    finds(&new, &ids).await;

    // The reader continues on either replica without a gap or a repetition.
    let committed = deployment.committed().await;
    for server in [&new, &old, &new] {
        follower.reconnect(server).await;
        follower.caught_up().await;
        assert!(follower.gaps().is_empty(), "{:?}", follower.gaps());
    }
    follower.read_exactly(&committed).await;
    the_status_estimates_the_rows_and_names_shards_that_are_unavailable(&mut deployment, ids.len()).await;
}

#[tokio::test]
async fn a_deployment_of_one_database_gets_further_shards_also_after_interruptions() {
    let mut deployment = Deployment::start(0).await;
    a_deployment_of_one_database_gets_a_second_shard(&mut deployment).await;
    an_interrupted_addition_is_completed_by_the_next_one(&mut deployment).await;
}

/// Replicas with one and with two databases find and write all executions.
async fn a_deployment_of_one_database_gets_a_second_shard(deployment: &mut Deployment) {
    let old = deployment.replica().await;
    old.register_entry("run", &json!({ "kind": "playbook" })).await;
    let mut ids = execute(&old, 4).await;

    deployment.add_database().await;
    shards(deployment, &["add"]).await;
    assert_eq!(states(deployment).await, [row("ready", "5040"), row("ready", "0")]);

    let new = deployment.replica().await;
    ids.extend(execute(&new, 3).await);
    ids.extend(execute(&old, 3).await);
    finds(&old, &ids).await;
    finds(&new, &ids).await;
    // Migrations find both databases in their places.
    deployment.migrate().await;
}

/// An addition that was killed at any point shows a new shard, and the next one makes it a part of the deployment.
async fn an_interrupted_addition_is_completed_by_the_next_one(deployment: &mut Deployment) {
    let mut expected = vec![row("ready", "5040"), row("ready", "0")];
    for point in ["shards_add.migrated", "shards_add.partitioned"] {
        deployment.add_database().await;
        let killed = try_shards(deployment, &["add"], &[("NOETL_FAULT_POINT", point)]).await;
        assert!(!killed.status.success(), "{point} was not reached");
        assert_eq!(states(deployment).await, [&expected[..], &[row("new", "0")]].concat(), "{point}");
        shards(deployment, &["add"]).await;
        expected.push(row("ready", "0"));
        assert_eq!(states(deployment).await, expected, "{point}");
        assert!(deployment.replica().await.stop().await.success());
    }
}

#[tokio::test]
async fn the_plan_and_refused_additions_change_nothing() {
    let mut deployment = Deployment::start(2).await;
    the_plan_names_the_fewest_moves_and_changes_nothing(&mut deployment).await;
    databases_that_can_t_be_shards_are_refused_and_not_changed(&mut deployment).await;
}

/// The third database that the settings name is not a shard, or is not the next one.
async fn databases_that_can_t_be_shards_are_refused_and_not_changed(deployment: &mut Deployment) {
    let [first, second, third] = [0, 1, 2].map(|shard: usize| deployment.shard_dsns[shard].clone());

    // The new database is not named after the existing ones.
    deployment.configure_shards(&[first.clone(), third.clone(), second.clone()]);
    let (code, message) = refused(deployment, &["add"]).await;
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("assigns 2520 buckets to shard 1"), "{message}");
    // An existing shard is not named.
    deployment.configure_shards(std::slice::from_ref(&first));
    let (code, message) = refused(deployment, &["add"]).await;
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("names shard 1"), "{message}");
    // The same database is named twice.
    deployment.configure_shards(&[first.clone(), second.clone(), second.clone()]);
    let (code, message) = refused(deployment, &["add"]).await;
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("configured as shard 2 is shard 1"), "{message}");
    // The database belongs to another deployment.
    let other = Deployment::start(1).await;
    deployment.configure_shards(&[first.clone(), second.clone(), other.shard_dsns[0].clone()]);
    let (code, message) = refused(deployment, &["add"]).await;
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("shard 0 of another deployment"), "{message}");
    assert!(!has_tables(&mut deployment.shard(2).await).await);

    // The database has an execution, as one of NoETL's own server.
    deployment.configure_shards(&[first, second, third]);
    let statement = "CREATE SCHEMA noetl; CREATE TABLE noetl.execution (execution_id BIGINT PRIMARY KEY);
                     INSERT INTO noetl.execution VALUES (1)";
    sqlx::raw_sql(statement).execute(&mut deployment.shard(2).await).await.unwrap();
    for arguments in [&["add", "--dry-run"][..], &["add"]] {
        let (code, message) = refused(deployment, arguments).await;
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains("shard 2 can't be added: it holds executions"), "{message}");
    }
    let tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'noetl'::regnamespace AND relkind = 'r'";
    let tables: i64 = sqlx::query_scalar(tables).fetch_one(&mut deployment.shard(2).await).await.unwrap();
    assert_eq!(tables, 1);
}

/// The numbers of the status are those of the statistics of the databases.
async fn the_status_estimates_the_rows_and_names_shards_that_are_unavailable(
    deployment: &mut Deployment,
    executions: usize,
) {
    let executions = u64::try_from(executions).unwrap();
    // The server's sessions report their rows with a delay. Those reported after an ANALYZE are counted twice until the
    // next one.
    eventually("the status shows all executions", async || {
        for shard in 0..3 {
            deployment.on_shard(shard, "ANALYZE noetl.execution").await;
        }
        let estimate = "SELECT greatest(reltuples::bigint, pg_stat_get_live_tuples(oid)) FROM pg_class
                        WHERE oid = 'noetl.execution'::regclass";
        if deployment.sum_over_shards(estimate).await.cast_unsigned() != executions {
            return None;
        }
        let table = shards(deployment, &[]).await;
        let cell = |line: &str| line.split_whitespace().nth(4).and_then(|cell| cell.parse::<u64>().ok());
        (table.lines().filter_map(cell).sum::<u64>() == executions).then_some(())
    })
    .await;

    // No server listens on the address of shard 1.
    let (server, database) = deployment.shard_dsns[1].rsplit_once('/').unwrap();
    let nowhere = format!("{}:1/{database}", server.rsplit_once(':').unwrap().0);
    deployment.configure_shards(&[deployment.shard_dsns[0].clone(), nowhere, deployment.shard_dsns[2].clone()]);
    assert_eq!(states(deployment).await, [row("ready", "2520"), row("unavailable", "2520"), row("ready", "0")]);
}

/// The plan moves buckets only to the added database, and as few as possible.
async fn the_plan_names_the_fewest_moves_and_changes_nothing(deployment: &mut Deployment) {
    assert_eq!(shards(deployment, &["rebalance", "--plan"]).await, "0 of 5040 buckets move\n");
    deployment.add_database().await;
    let plan = shards(deployment, &["rebalance", "--plan"]).await;
    let expected = "840 buckets from shard 0 to shard 2: 2-5036/6\n840 buckets from shard 1 to shard 2: 5-5039/6\n\
                    1680 of 5040 buckets move\n";
    assert_eq!(plan, expected);
    assert_eq!(states(deployment).await[..2], [row("ready", "2520"), row("ready", "2520")]);
    let (code, message) = refused(deployment, &["rebalance"]).await;
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("--plan"), "{message}");
}
