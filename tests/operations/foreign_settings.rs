//! Databases, roles and sessions with settings of their own: the server and its commands work, or say at the start what
//! to change.

use noetl_storage::error::DatabaseName;
use noetl_storage::machines;
use noetl_storage::pools::Database;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, eventually};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::rights::{as_role, log_in, said};

/// Settings of a role with which the server works, each with a value that could hinder it.
const HARMLESS: [&str; 33] = [
    "client_encoding = 'LATIN1'",
    "search_path = 'public'",
    "standard_conforming_strings = off",
    "quote_all_identifiers = on",
    "transform_null_equals = on",
    "array_nulls = off",
    "backslash_quote = off",
    "escape_string_warning = off",
    "bytea_output = 'escape'",
    "xmloption = 'document'",
    "DateStyle = 'German'",
    "IntervalStyle = 'sql_standard'",
    "TimeZone = 'Asia/Kathmandu'",
    "extra_float_digits = 0",
    "default_transaction_isolation = 'serializable'",
    "default_transaction_deferrable = on",
    "synchronous_commit = off",
    "statement_timeout = '1ms'",
    "lock_timeout = '1ms'",
    "idle_in_transaction_session_timeout = '1ms'",
    "row_security = off",
    "check_function_bodies = off",
    "default_tablespace = 'missing'",
    "default_table_access_method = 'missing'",
    "enable_indexscan = off",
    "enable_nestloop = off",
    "enable_partition_pruning = off",
    "plan_cache_mode = 'force_custom_plan'",
    "cursor_tuple_fraction = 1",
    "jit = on",
    "jit_above_cost = 0",
    "max_parallel_workers = 0",
    "work_mem = '64kB'",
];

/// Raises an error in a session in which the settings have other effects than those of the server.
const REQUIRE_SETTINGS: &str = "
    CREATE FUNCTION public.require_settings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (current_setting('enable_indexscan'), current_setting('enable_nestloop'),
            current_setting('enable_partition_pruning'), current_setting('synchronous_commit'),
            current_setting('quote_all_identifiers')) <> ('on', 'on', 'on', 'on', 'off') THEN
            RAISE 'the settings of the session do not hold';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER require_settings BEFORE INSERT ON noetl.execution EXECUTE FUNCTION public.require_settings();
    CREATE TRIGGER require_settings BEFORE INSERT ON noetl.tail_cursor EXECUTE FUNCTION public.require_settings()";

fn database_name(deployment: &Deployment) -> &str {
    deployment.cluster_dsn.rsplit('/').next().unwrap()
}

/// Executes, lists and publishes with a server, then runs the other commands.
async fn works(deployment: &Deployment) {
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let id = server.start_execution().await.to_string();
    let lists = server
        .data(
            "{ executions { nodes { id events { nodes { type } } } } catalogEntries { nodes { path } }
               subscriptions { nodes { path } } outbox { stats { pending } entries { nodes { status } } } }",
            json!(null),
        )
        .await;
    assert_eq!(lists["executions"]["nodes"][0]["id"], json!(id), "{lists}");
    deployment.until_all_published().await;
    for command in ["migrate", "maintain", "check"] {
        let (code, text) = said(deployment, command, &[]).await;
        assert_eq!(code, 0, "{command}: {text}");
    }
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn settings_do_not_hinder_the_server_or_are_refused_before_anything_is_changed() {
    let mut deployment = Deployment::unmigrated(0).await;
    Box::pin(what_the_server_can_not_work_with_is_refused_before_anything_is_changed(&deployment)).await;
    Box::pin(settings_of_the_role_do_not_hinder_the_server(&mut deployment)).await;
}

/// Settings of the role of the server do not hinder it. The database is empty.
async fn settings_of_the_role_do_not_hinder_the_server(deployment: &mut Deployment) {
    let mut admin = deployment.cluster().await;
    let role = format!("{}_server", database_name(deployment));
    // A superuser may have each setting.
    run(&mut admin, &format!("CREATE ROLE {role} LOGIN SUPERUSER")).await;
    for setting in HARMLESS {
        run(&mut admin, &format!("ALTER ROLE {role} SET {setting}")).await;
    }
    log_in(deployment, &role);
    deployment.migrate().await;
    run(&mut admin, REQUIRE_SETTINGS).await;
    works(deployment).await;
    run(&mut admin, &format!("REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// Panics unless a statement that is given up is cancelled, and its session used again.
async fn cancels(deployment: &Deployment, role: &str) {
    let (mut admin, mut blocker) = (deployment.cluster().await, deployment.cluster().await);
    let dsn = as_role(&deployment.cluster_dsn, role);
    let database = Database::new(DatabaseName::Cluster, dsn.parse().unwrap(), 1);
    machines::release(&database, Uuid::nil(), 1, 0).await.unwrap();
    run(&mut blocker, "BEGIN; LOCK TABLE noetl.machine_lease").await;
    // The first cancellation also opens a connection, so it may miss its deadline on a busy machine. Not checked.
    give_up(&mut admin, &database, role).await;
    eventually("no statement waits", async || blocked(&mut admin, role).await.is_none().then_some(())).await;
    let session = give_up(&mut admin, &database, role).await;
    let idle = "SELECT pid FROM pg_stat_activity WHERE pid = $1 AND state = 'idle'";
    eventually("the session is used again", async || {
        sqlx::query_scalar::<_, i32>(idle).bind(session).fetch_optional(&mut admin).await.unwrap()
    })
    .await;
    run(&mut blocker, "ROLLBACK").await;
}

/// Gives up a statement that waits for a lock. Returns the process id of its session.
async fn give_up(admin: &mut PgConnection, database: &Database, role: &str) -> i32 {
    tokio::select! {
        written = machines::release(database, Uuid::nil(), 1, 0) => panic!("the table is not locked: {written:?}"),
        session = eventually("a statement waits", async || blocked(&mut *admin, role).await) => session,
    }
}

/// Returns the process id of the role's session that waits for a lock.
async fn blocked(admin: &mut PgConnection, role: &str) -> Option<i32> {
    let waiting = "SELECT pid FROM pg_stat_activity WHERE usename = $1 AND wait_event_type = 'Lock'";
    sqlx::query_scalar(waiting).bind(role).fetch_optional(admin).await.unwrap()
}

#[tokio::test]
async fn a_role_that_becomes_another_one_at_login_works_and_cancels_statements() {
    let mut deployment = Deployment::unmigrated(0).await;
    let mut admin = deployment.cluster().await;
    let name = database_name(&deployment).to_owned();
    let (login, owner) = (format!("{name}_login"), format!("{name}_owner"));
    let roles = format!(
        "CREATE ROLE {owner}; CREATE ROLE {login} LOGIN NOINHERIT; GRANT {owner} TO {login};
         ALTER ROLE {login} SET role = '{owner}'; ALTER DATABASE {name} OWNER TO {owner}"
    );
    run(&mut admin, &roles).await;
    log_in(&mut deployment, &login);
    deployment.migrate().await;
    let owners = "SELECT count(*) FROM pg_tables WHERE schemaname = 'noetl' AND tableowner <> $1";
    let others: i64 = sqlx::query_scalar(owners).bind(&owner).fetch_one(&mut admin).await.unwrap();
    assert_eq!(others, 0);
    works(&deployment).await;
    cancels(&deployment, &login).await;
    let drop = format!(
        "REASSIGN OWNED BY {owner} TO CURRENT_USER; DROP OWNED BY {owner}; DROP ROLE {login}; DROP ROLE {owner}"
    );
    run(&mut admin, &drop).await;
}

/// What the server can't work with is refused before anything is changed. Leaves an empty database without settings.
async fn what_the_server_can_not_work_with_is_refused_before_anything_is_changed(deployment: &Deployment) {
    let name = database_name(deployment);
    let mut admin = PgConnection::connect(&std::env::var("NOETL_TEST_PG").unwrap()).await.unwrap();
    let all = ["migrate", "serve", "maintain", "check"].as_slice();
    for (encoding, setting, commands, expected) in [
        ("LATIN1", "work_mem = '4MB'", all, "its encoding is LATIN1"),
        ("SQL_ASCII", "work_mem = '4MB'", all, "its encoding is SQL_ASCII"),
        ("UTF8", "session_replication_role = replica", all, "session_replication_role = replica"),
        ("UTF8", "default_transaction_read_only = on", &all[..1], "read-only transaction"),
    ] {
        run(&mut admin, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
        let create =
            format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'");
        run(&mut admin, &create).await;
        run(&mut admin, &format!("ALTER DATABASE {name} SET {setting}")).await;
        for command in commands {
            let (code, text) = said(deployment, command, &[]).await;
            assert!(code != 0 && text.contains(expected), "{encoding}, {setting}, {command}: {text}");
        }
        let exists = sqlx::query_scalar("SELECT to_regnamespace('noetl') IS NOT NULL");
        let mut session = deployment.cluster().await;
        let exists: bool = exists.fetch_one(&mut session).await.unwrap();
        assert!(!exists, "{encoding}, {setting}");
        session.close().await.unwrap();
    }
    run(&mut admin, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
    run(&mut admin, &format!("CREATE DATABASE {name}")).await;
}
