//! Settings that the database or its roles have: time limits do not end the server's own long work, and a session that
//! began while the database was read-only is closed.

use std::collections::BTreeSet;

use noetl_storage::error::DatabaseName;
use noetl_storage::machines;
use noetl_storage::pools::Database;
use noetl_testkit::feed::{assert_exactly, run};
use noetl_testkit::{Deployment, eventually};
use serde_json::json;
use uuid::Uuid;

const BATCH: i64 = 20_000;

#[tokio::test]
async fn time_limits_of_the_database_do_not_end_the_leaders_session() {
    let deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    let name = "SELECT current_database()";
    let name: String = sqlx::query_scalar(name).fetch_one(&mut shard).await.unwrap();
    let first = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(1, 1..=1).await;
    deployment.until_all_published().await;
    assert!(first.stop().await.success());
    let limits = ["statement_timeout = '20ms'", "idle_session_timeout = '100ms'", "lock_timeout = '1ms'"];
    for limit in limits {
        run(&mut shard, &format!("ALTER DATABASE {name} SET {limit}")).await;
    }
    run(&mut shard, &format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
         SELECT 7 + n % 10, n, 'call.done', jsonb_build_object('text', repeat('x', 500)) FROM generate_series(2, {BATCH}) AS n"
    ))
    .await;
    let fence = "SELECT fence FROM noetl.tail_cursor";
    let before: i64 = sqlx::query_scalar(fence).fetch_one(&mut shard).await.unwrap();
    let _server = deployment.replica().await;
    let published = "SELECT published_events FROM noetl.tail_cursor WHERE target IS NULL";
    eventually("the batch is published", async || {
        let published: Option<i64> = sqlx::query_scalar(published).fetch_optional(&mut shard).await.unwrap();
        (published? == BATCH).then_some(())
    })
    .await;
    let after: i64 = sqlx::query_scalar(fence).fetch_one(&mut shard).await.unwrap();
    assert_eq!(after, before + 1, "one leader published everything");
    let mut committed = BTreeSet::from([(1, 1)]);
    committed.extend((2..=BATCH).map(|event| (7 + event % 10, event)));
    assert_exactly(&deployment.stored(0).await, &committed);
}

/// A session that began while the database was read-only is not used again.
async fn a_session_that_began_while_the_database_was_read_only_is_not_used_again(deployment: &Deployment) {
    let mut cluster = deployment.cluster().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut cluster).await.unwrap();
    let database = Database::new(DatabaseName::Cluster, deployment.cluster_dsn.parse().unwrap(), 1);
    let write = async || machines::release(&database, Uuid::nil(), 1, 0).await;
    run(&mut cluster, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    write().await.unwrap_err();
    run(&mut cluster, &format!("ALTER DATABASE {name} RESET default_transaction_read_only")).await;
    write().await.unwrap();
}

#[tokio::test]
async fn sessions_of_a_read_only_time_and_functions_of_other_schemas_are_never_used() {
    let deployment = Deployment::start(1).await;
    Box::pin(a_session_that_began_while_the_database_was_read_only_is_not_used_again(&deployment)).await;
    Box::pin(functions_and_operators_of_other_schemas_are_never_called(&deployment)).await;
}

/// Roles that may create objects in `public` can't make the server run them, although they fit its columns better than
/// PostgreSQL's own functions and operators do.
async fn functions_and_operators_of_other_schemas_are_never_called(deployment: &Deployment) {
    let hostile = "
        CREATE FUNCTION public.hostile(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile code runs'; END $$;
        CREATE FUNCTION public.upper(varchar) RETURNS text LANGUAGE sql AS $$ SELECT public.hostile($1) $$;
        CREATE FUNCTION public.lower(varchar) RETURNS text LANGUAGE sql AS $$ SELECT public.hostile($1) $$;
        CREATE FUNCTION public.left(varchar, integer) RETURNS text LANGUAGE sql AS $$ SELECT public.hostile($1) $$;
        CREATE FUNCTION public.same(varchar, varchar) RETURNS boolean LANGUAGE sql AS $$ SELECT public.hostile($1) IS NULL $$;
        CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.same);
        CREATE OPERATOR public.<> (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.same)";
    run(&mut deployment.cluster().await, hostile).await;
    run(&mut deployment.shard(0).await, hostile).await;
    let server = deployment.replica().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    server.register("inbox").await;
    let execution = server.execute(json!({ "path": "process", "dedup": { "key": "order-17" } })).await;
    let id = execution["executionId"].as_str().unwrap();
    let read = "query($id: ID!) {
        execution(id: $id) { status events(filter: { types: [\"playbook_started\"], statuses: [\"STARTED\"] }) { nodes { id } } }
        executions(filter: { statuses: [PENDING], path: \"process\" }, first: 5) { nodes { id status } }
        catalogEntries(filter: { kinds: [PLAYBOOK], text: \"pro\" }, first: 5) { nodes { id } }
        subscriptions(first: 5) { nodes { id status } }
        events(filter: { types: [\"playbook_started\"] }, first: 5) { nodes { id } }
        executionStats { total }
        outbox { stats { pending } entries(first: 5) { nodes { id } } } }";
    let read = server.send(read, json!({ "id": id })).await.unwrap();
    assert_eq!(read.get("errors"), None, "{read}");
    let cancel = "mutation($id: ID!) { cancelExecution(input: { executionId: $id }) {
        execution { status } userErrors { message } } }";
    let cancelled = server.data(cancel, json!({ "id": id })).await;
    assert_eq!(cancelled["cancelExecution"]["execution"]["status"], "CANCELLED", "{cancelled}");
    deployment.until_all_published().await;
    deployment.maintain(&[]).await;
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, &found["differences"]), (0, &json!([])), "{found:#}");
}
