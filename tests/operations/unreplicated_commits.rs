//! A commit that a synchronous standby has not confirmed can be lost. No request is acknowledged because of it, also not one
//! that is repeated and finds its rows.

use futures::future::join_all;
use noetl_testkit::copies::{own_server, standby};
use noetl_testkit::feed::run;
use noetl_testkit::outbox::{NO_RELAY, references};

use noetl_testkit::worker::event;
use noetl_testkit::{Deployment, Server, eventually, execute_input};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

/// A mutation whose repetition is safe, and the condition under which its payload acknowledges it.
struct Mutation {
    query: &'static str,
    variables: Value,
    is_acknowledged: fn(&Value) -> bool,
}

impl Mutation {
    async fn is_acknowledged(&self, server: &Server) -> bool {
        let response = server.send(self.query, self.variables.clone()).await.unwrap();
        response.get("errors").is_none() && (self.is_acknowledged)(&response["data"])
    }
}

fn mutations(execution: i64, claim: &Value) -> [Mutation; 4] {
    [
        Mutation {
            query: "mutation($input: ExecuteInput!) { execute(input: $input) { outcome userErrors { code } } }",
            variables: json!({ "input": execute_input(json!({ "path": "p", "dedup": { "key": "k", "windowSeconds": 3600 } })) }),
            is_acknowledged: |data| data["execute"]["outcome"].is_string(),
        },
        Mutation {
            query: "mutation($events: [EventInput!]!) { projectEvents(input: { events: $events }) { projected duplicates } }",
            variables: json!({ "events": [event(execution, execution + 1_000_001)] }),
            is_acknowledged: |data| data["projectEvents"]["projected"] == 1 || data["projectEvents"]["duplicates"] == 1,
        },
        Mutation {
            query: "mutation($claims: [OutboxClaimRef!]!) { markOutboxPublished(input: { claims: $claims }) {
                        results { userErrors { code } } userErrors { code } } }",
            variables: json!({ "claims": [claim] }),
            is_acknowledged: |data| {
                let payload = &data["markOutboxPublished"];
                payload["userErrors"] == json!([]) && payload["results"][0]["userErrors"] == json!([])
            },
        },
        Mutation {
            query: "mutation($id: ID!) { cancelExecution(input: { executionId: $id }) { userErrors { code } } }",
            variables: json!({ "id": execution.to_string() }),
            is_acknowledged: |data| data["cancelExecution"]["userErrors"] == json!([]),
        },
    ]
}

#[tokio::test]
async fn no_repeated_request_is_acknowledged_because_of_a_commit_that_no_standby_has() {
    let (mut primary, folder) = own_server().await;
    let shared = std::env::var("NOETL_TEST_PG").unwrap();
    let mut deployment = Deployment::on_servers(&shared, &[&primary.dsn("postgres")]).await;
    let mut standby = standby(&primary, &folder.path().join("standby")).await;
    let mut settings = PgConnection::connect(&primary.dsn("postgres")).await.unwrap();
    run(&mut settings, "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    run(&mut settings, "SELECT pg_reload_conf()").await;
    let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    eventually("the standby is synchronous", async || {
        let standbys: i64 = sqlx::query_scalar(synchronous).fetch_one(&mut settings).await.unwrap();
        (standbys == 1).then_some(())
    })
    .await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    server.register_entry("p", &json!({ "kind": "playbook" })).await;
    let started = server.execute(json!({ "path": "p" })).await;
    let execution: i64 = started["executionId"].as_str().unwrap().parse().unwrap();
    let claim = references(&server.claim(json!({ "leaseSeconds": 600 })).await).remove(0);
    let mutations = mutations(execution, &claim);

    standby.pause().await;
    for attempt in ["first", "second"] {
        let acknowledged = join_all(mutations.iter().map(|mutation| mutation.is_acknowledged(&server))).await;
        assert_eq!(acknowledged, [false; 4], "{attempt} attempt");
    }
    primary.kill_9().await;
    standby.resume();
    assert!(server.stop().await.success());

    let name = deployment.shard_dsns[0].rsplit('/').next().unwrap().to_owned();
    deployment.shard_dsns[0] = standby.dsn(&name);
    deployment.configure_shards(&[standby.dsn(&name)]);
    run(&mut deployment.shard(0).await, "SELECT pg_promote()").await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    for mutation in &mutations {
        eventually("the request is acknowledged", async || mutation.is_acknowledged(&server).await.then_some(())).await;
    }
    let key = "SELECT execution_id FROM noetl.subscription_dedup WHERE dedup_key = 'k'";
    let keyed: i64 = sqlx::query_scalar(key).fetch_one(&mut deployment.cluster().await).await.unwrap();
    let executions = "SELECT count(*) FROM noetl.execution WHERE execution_id = ANY($1)";
    let executions: i64 = sqlx::query_scalar(executions)
        .bind([keyed, execution])
        .fetch_one(&mut deployment.shard(0).await)
        .await
        .unwrap();
    assert_eq!(executions, 2);
    assert_eq!(deployment.outbox_rows("status = 'PUBLISHED'").await, 1);
    let event = execution + 1_000_001;
    assert_eq!(deployment.committed().await.into_iter().filter(|key| key.1 == event).count(), 1);
}
