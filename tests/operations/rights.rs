//! A role that owns nothing runs servers: with the rights that `migrate --grant-to` grants, and without others.

use std::fs;

use noetl_testkit::feed::{Reader, insert, run};
use noetl_testkit::mover::{buckets, moved, with_executions};
use noetl_testkit::outbox::{NO_RELAY, reference};
use noetl_testkit::worker::event;
use noetl_testkit::{Deployment, NOT_DURABLE, Server, eventually, own_postgres, repository};
use serde_json::{Value, json};
use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::NamedTempFile;

const OWNER: &str = "noetl_owner";
/// A name that SQL must quote.
const SERVER: &str = "noetl-server";
const ROLES: &str = r#"CREATE ROLE noetl_owner LOGIN; CREATE ROLE "noetl-server" LOGIN;
    GRANT pg_read_all_stats TO "noetl-server"; ALTER DATABASE cluster OWNER TO noetl_owner;
    ALTER DATABASE own OWNER TO noetl_owner; ALTER DATABASE other OWNER TO noetl_owner"#;
const LISTS: &str = "{
    catalogEntries { nodes { path } } executions { nodes { id events { nodes { type } } } }
    subscriptions { nodes { path } } outbox { stats { pending dead } entries { nodes { status } } } }";
const CANCEL: &str =
    "mutation($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled userErrors { message } } }";
/// Statements that the role may not run.
const REFUSED: [&str; 11] = [
    "DROP TABLE noetl.outbox",
    "TRUNCATE noetl.event",
    "ALTER TABLE noetl.event ADD COLUMN n int",
    "CREATE TABLE noetl.another (n int)",
    "CREATE SCHEMA another",
    "DELETE FROM noetl.catalog",
    "UPDATE noetl.adopted_table SET table_name = ''",
    "INSERT INTO noetl.event_default (execution_id, event_id, event_type) VALUES (1, 1, '')",
    "SELECT FROM pg_authid",
    "SELECT noetl.index_labels()",
    "SELECT noetl.note_late_execution()",
];

/// Returns a DSN with another role.
pub(super) fn as_role(dsn: &str, role: &str) -> String {
    format!("postgres://{role}@{}", dsn.split_once('@').unwrap().1)
}

/// Changes the settings to the logins of a role.
pub(super) fn log_in(deployment: &mut Deployment, role: &str) {
    let cluster = as_role(&deployment.cluster_dsn, role);
    let shards: Vec<String> = deployment.shard_dsns.iter().map(|dsn| as_role(dsn, role)).collect();
    deployment.env.retain(|(name, _)| name != "NOETL_CLUSTER_DSN");
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), cluster));
    deployment.configure_shards(&shards);
}

/// Runs a command. Returns its exit code and its output.
pub(super) async fn said(deployment: &Deployment, name: &str, options: &[&str]) -> (i32, String) {
    let output = deployment.command(name).args(options).output().await.unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

/// Runs a command that must succeed.
async fn succeeds(deployment: &Deployment, name: &str, options: &[&str]) {
    let (code, text) = said(deployment, name, options).await;
    assert_eq!(code, 0, "{text}");
}

/// Uses each part of the API.
async fn use_api(deployment: &Deployment, server: &Server) {
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let registered = server.register("inbox").await;
    let subscription = registered["subscription"]["id"].as_str().unwrap();
    let payload = server.transition("deactivate", subscription, None).await;
    assert_eq!(payload["userErrors"], json!([]), "{payload}");
    let started = server.execute(json!({ "path": "process", "dedup": { "key": "message" } })).await;
    assert_eq!(started["outcome"], "STARTED", "{started}");
    let claimed = server.claim(json!({ "limit": 1 })).await;
    let published = server.published(&[reference(&claimed["claims"][0])]).await;
    assert_eq!(published["published"], 1, "{published}");
    let cancelled = server.data(CANCEL, json!({ "id": started["executionId"] })).await;
    assert_eq!(cancelled["cancelExecution"]["cancelled"], true, "{cancelled}");
    let lists = server.data(LISTS, Value::Null).await;
    assert_eq!(lists["subscriptions"]["nodes"], json!([{ "path": "inbox" }]), "{lists}");
    deployment.until_all_published().await;
    let mut reader = Reader::from_beginning(server).await;
    assert!(reader.until_seen(deployment.committed().await).await, "the feed ended");
}

/// Starts a server. Returns it with its log.
async fn logged_server(deployment: &Deployment) -> (Server, NamedTempFile) {
    let log = NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.env(NO_RELAY.0, NO_RELAY.1).stderr(log.reopen().unwrap());
    (Server::spawn(command).await, log)
}

/// Drops the partition of the last quarter, as if a quarter had begun since it was created. Returns its name and its
/// first id.
async fn drop_last_partition(admin: &mut PgConnection) -> (String, i64) {
    let last = "SELECT relname::text, (regexp_match(pg_get_expr(relpartbound, oid), 'FROM \\(''?(\\d+)'))[1]::bigint
                FROM pg_class WHERE relname ~ '^event_p[0-9]+q[0-9]$' ORDER BY 2 DESC LIMIT 1";
    let (partition, from): (String, i64) = sqlx::query_as(last).fetch_one(&mut *admin).await.unwrap();
    run(admin, &format!("DROP TABLE noetl.{partition}")).await;
    (partition, from)
}

/// Checks the reports of a role that may not create partitions: shard 0 lacks that of the last quarter, which is left to
/// the owner, and shard 1 also lacks that of the next quarter, which is a failure.
async fn missing_partitions_are_reported(deployment: &Deployment, last: &str, next: &str) {
    let (code, text) = said(deployment, "maintain", &[]).await;
    assert_eq!(code, 1, "{text}");
    let left = format!("shard 0: partitions: made none; left {last} to the role that owns noetl.event\n");
    let failed = format!(
        "shard 1: partitions: FAILED: can't create {next}, because the role of this process does not own \
         noetl.event; run `noetl-graphql maintain`"
    );
    assert_eq!(text.matches("FAILED").count(), 1, "{text}");
    assert!(text.contains(&left) && text.contains(&failed), "{text}");

    let (server, log) = logged_server(deployment).await;
    let lines = eventually("the server reports the partition", async || {
        let lines = fs::read_to_string(log.path()).unwrap();
        lines.lines().any(|line| line.contains("shard 1") && line.contains("does not own")).then_some(lines)
    })
    .await;
    assert_eq!(lines.matches("does not own").count(), 1, "{lines}");
    let counted = server.metric("noetl_event_partitions_blocked_total").await;
    assert!((counted - 1.0).abs() < 0.5, "{counted} partitions are counted, so a correct deployment gets an alert");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_server_works_with_the_granted_rights_and_has_no_others() {
    let (folder, own) = own_postgres(&[NOT_DURABLE]).await;
    own.create_databases(&["cluster".to_owned(), "other".to_owned()]).await.unwrap();
    let mut admin = PgConnection::connect(&own.dsn("own")).await.unwrap();
    run(&mut admin, ROLES).await;
    let mut deployment = Deployment::unmigrated(2).await;
    (deployment.cluster_dsn, deployment.shard_dsns) = (own.dsn("cluster"), vec![own.dsn("own"), own.dsn("other")]);
    log_in(&mut deployment, OWNER);

    let (code, text) = said(&deployment, "migrate", &["--grant-to", "unknown"]).await;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("the role unknown does not exist on the server of the cluster database; nothing"), "{text}");
    let is_untouched = sqlx::query_scalar::<_, bool>("SELECT to_regnamespace('noetl') IS NULL");
    assert!(is_untouched.fetch_one(&mut admin).await.unwrap());
    for _ in 0..2 {
        succeeds(&deployment, "migrate", &["--grant-to", SERVER]).await;
    }

    log_in(&mut deployment, SERVER);
    let (server, log) = logged_server(&deployment).await;
    deployment.feeds_begun().await;
    use_api(&deployment, &server).await;
    let executions = with_executions(&deployment, &server, 2).await;
    log_in(&mut deployment, OWNER);
    moved(&deployment, &buckets(&executions), 1, &[]).await;
    log_in(&mut deployment, SERVER);
    let payload = server.project(&[event(executions[0], 2), event(executions[1], 2)]).await;
    assert_eq!(payload["projected"], 2, "{payload}");
    succeeds(&deployment, "maintain", &[]).await;
    let (_, found) = deployment.check(&[]).await;
    assert_eq!(found["unchecked"], json!([]), "{found}");
    assert!(server.stop().await.success());
    for log in [log.path().to_owned(), folder.path().join("postgres/log")] {
        let lines = fs::read_to_string(&log).unwrap();
        for refusal in ["42501", "permission denied", "must be owner"] {
            assert!(!lines.contains(refusal), "{refusal} in {}:\n{lines}", log.display());
        }
    }

    let (last, from) = drop_last_partition(&mut admin).await;
    let mut other = PgConnection::connect(&own.dsn("other")).await.unwrap();
    drop_last_partition(&mut other).await;
    let (next, _) = drop_last_partition(&mut other).await;
    missing_partitions_are_reported(&deployment, &last, &next).await;
    log_in(&mut deployment, OWNER);
    succeeds(&deployment, "maintain", &[]).await;
    let mut role = PgConnection::connect(&as_role(&own.dsn("own"), SERVER)).await.unwrap();
    insert(&mut role, (from + 1, 1)).await;
    for statement in REFUSED {
        let error = sqlx::raw_sql(statement).execute(&mut role).await.unwrap_err();
        let code = error.as_database_error().and_then(DatabaseError::code);
        assert_eq!(code.as_deref(), Some("42501"), "{statement}: {error}");
    }
}

/// Returns a deployment with one database on the shared server, and a role with the rights of servers in it. The test must
/// drop the role, because roles belong to the whole server.
async fn with_granted_role() -> (Deployment, String) {
    let deployment = Deployment::start(0).await;
    let role = format!("{}_server", deployment.cluster_dsn.rsplit('/').next().unwrap());
    run(&mut deployment.cluster().await, &format!("CREATE ROLE {role} LOGIN")).await;
    succeeds(&deployment, "migrate", &["--grant-to", &role]).await;
    (deployment, role)
}

async fn drop_role(deployment: &Deployment, role: &str) {
    run(&mut deployment.cluster().await, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn the_granted_rights_allow_every_statement_and_missing_ones_are_named_and_granted_again() {
    let (mut deployment, role) = with_granted_role().await;
    Box::pin(the_granted_rights_allow_every_statement_of_the_server(&deployment, &role)).await;
    Box::pin(missing_rights_are_named_at_the_start_and_granted_by_migrate(&mut deployment, &role)).await;
    drop_role(&deployment, &role).await;
}

/// Missing rights are named at the start of each command, and granted by `migrate`.
async fn missing_rights_are_named_at_the_start_and_granted_by_migrate(deployment: &mut Deployment, role: &str) {
    let as_owner = deployment.env.clone();
    log_in(deployment, role);
    let as_server = deployment.env.clone();
    let revoke = format!(
        "REVOKE USAGE ON SCHEMA noetl FROM {role}; REVOKE INSERT, UPDATE ON noetl.event FROM {role};
         REVOKE USAGE ON SEQUENCE noetl.outbox_lease_token FROM {role};
         REVOKE EXECUTE ON FUNCTION noetl.bucket_of(bigint) FROM PUBLIC"
    );
    run(&mut deployment.cluster().await, &revoke).await;
    let named = format!(
        "the role {role} lacks rights in the cluster database: USAGE on SCHEMA noetl; INSERT, UPDATE on TABLE \
         noetl.event; USAGE on SEQUENCE noetl.outbox_lease_token; EXECUTE on FUNCTION noetl.bucket_of(execution \
         bigint); run `noetl-graphql migrate --grant-to {role}`"
    );
    for (command, code) in [("serve", 1), ("maintain", 1), ("check", 2)] {
        let (found, text) = said(deployment, command, &[]).await;
        assert_eq!(found, code, "{command}: {text}");
        assert!(text.contains(&named), "{command}: {text}");
    }
    deployment.env = as_owner;
    succeeds(deployment, "migrate", &["--grant-to", role]).await;
    deployment.env = as_server;
    succeeds(deployment, "maintain", &[]).await;
    let (code, text) = said(deployment, "migrate", &[]).await;
    let owner = "the role may not change the cluster database; run `noetl-graphql migrate` with the role that owns it";
    assert!(code == 1 && text.contains(owner), "{code}: {text}");
}

/// The granted rights allow every statement of the server. `EXPLAIN` checks the rights on tables and functions, and changes
/// nothing.
async fn the_granted_rights_allow_every_statement_of_the_server(deployment: &Deployment, role: &str) {
    let mut session = PgConnection::connect(&as_role(&deployment.cluster_dsn, role)).await.unwrap();
    run(&mut session, "SET plan_cache_mode = force_generic_plan").await;
    let (mut count, mut refused) = (0, Vec::new());
    for file in fs::read_dir(repository().join(".sqlx")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let data: Value = serde_json::from_str(&text).unwrap();
        let query = data["query"].as_str().unwrap();
        let parameters = data["describe"]["parameters"]["Left"].as_array().map_or(0, Vec::len);
        let values = if parameters == 0 { String::new() } else { format!("({})", vec!["NULL"; parameters].join(", ")) };
        let explain = format!("PREPARE statement_{count} AS {query}\n; EXPLAIN EXECUTE statement_{count}{values}");
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(explain)).execute(&mut session).await {
            refused.push(format!("{error}: {query}"));
        }
        count += 1;
    }
    assert!(count > 300, "only {count} statements were found");
    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
}
