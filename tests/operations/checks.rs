//! `check` finds each kind of difference between the databases and the streams. `check --repair` removes those that can
//! be repaired. The work of running servers is no difference.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, QUIET, Server, eventually, own_postgres};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

/// Returns the number of differences of each kind that are left.
fn left(document: &Value) -> BTreeMap<&str, u64> {
    let differences = document["differences"].as_array().unwrap().iter();
    let left = differences.map(|one| (one["kind"].as_str().unwrap(), one["left"].as_u64().unwrap()));
    left.filter(|(_, left)| *left > 0).collect()
}

/// Causes a difference with `cause`. It must be found alone, and must be gone after the repair. A second repair must
/// find nothing.
async fn assert_repaired(deployment: &Deployment, kind: &str, cause: impl AsyncFnOnce()) {
    cause().await;
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, left(&found)), (1, BTreeMap::from([(kind, 1)])), "{found:#}");
    let (code, repaired) = deployment.check(&["--repair"]).await;
    assert_eq!((code, left(&repaired).len()), (0, 0), "{kind}: {repaired:#}");
    assert_eq!(repaired["differences"][0]["repaired"], 1, "{repaired:#}");
    for options in [&["--repair"][..], &[]] {
        let (code, clean) = deployment.check(options).await;
        assert_eq!((code, &clean["differences"]), (0, &json!([])), "{kind}");
    }
}

/// Returns the first id of a query on a shard.
async fn id_on(deployment: &Deployment, shard: usize, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut deployment.shard(shard).await).await.unwrap()
}

fn message(inbox: &str, key: &str) -> Value {
    json!({ "path": "process", "parentExecutionId": inbox, "dedup": { "key": key, "windowSeconds": 3600 } })
}

async fn deliver(server: &Server, inbox: &str, key: &str) -> (String, String) {
    let payload = server.execute(message(inbox, key)).await;
    let text = |name: &str| payload[name].as_str().unwrap_or_else(|| panic!("{payload}")).to_owned();
    (text("executionId"), text("outcome"))
}

/// Creates catalog entries, a live subscription and `count` messages that ran. Returns the subscription's id.
async fn with_messages(deployment: &Deployment, server: &Server, count: usize) -> String {
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let inbox = server.register("inbox").await["subscription"]["id"].as_str().unwrap().to_owned();
    server.transition("activate", &inbox, None).await;
    for n in 0..count {
        deliver(server, &inbox, &format!("m-{n}")).await;
    }
    let reserved = "SELECT count(*) FROM noetl.subscription_dedup WHERE state = 0";
    eventually("the claims are settled", async || (deployment.in_cluster(reserved).await == 0).then_some(())).await;
    inbox
}

#[tokio::test]
async fn claims_and_executions_that_lack_each_other_are_repaired() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let inbox = with_messages(&deployment, &server, 20).await;
    let (code, clean) = deployment.check(&[]).await;
    assert_eq!((code, &clean), (0, &json!({ "differences": [], "unchecked": [] })));

    let execution = id_on(&deployment, 0, "SELECT max(execution_id) FROM noetl.execution").await;
    let key = "SELECT meta #>> '{dedup,key}' FROM noetl.event WHERE execution_id = $1 AND meta ? 'dedup'";
    let key: String = sqlx::query_scalar(key).bind(execution).fetch_one(&mut deployment.shard(0).await).await.unwrap();
    assert_repaired(&deployment, "claim without execution", async || {
        let lost = format!(
            "DELETE FROM noetl.event WHERE execution_id = {execution};
             DELETE FROM noetl.execution WHERE execution_id = {execution};
             DELETE FROM noetl.outbox WHERE execution_id = {execution}"
        );
        run(&mut deployment.shard(0).await, &lost).await;
    })
    .await;
    let (again, outcome) = deliver(&server, &inbox, &key).await;
    assert!(outcome == "STARTED" && again != execution.to_string(), "{outcome} {again}");
    assert_eq!(deliver(&server, &inbox, &key).await, (again.clone(), "DUPLICATE".to_owned()));

    let original: Vec<(Vec<u8>, bool)> = claims(&deployment, &key).await;
    assert_repaired(&deployment, "execution without claim", async || {
        let lost = format!(
            "UPDATE noetl.subscription_dedup SET state = 1, expires_at = now() WHERE dedup_key = '{key}';
             DELETE FROM noetl.subscription_dedup WHERE dedup_key = '{key}'"
        );
        run(&mut deployment.cluster().await, &lost).await;
    })
    .await;
    assert_eq!(claims(&deployment, &key).await, original);
    assert_eq!(deliver(&server, &inbox, &key).await, (again, "DUPLICATE".to_owned()));
    // The request without a parent belongs to another scope.
    let alone = json!({ "path": "process", "dedup": { "key": "alone", "windowSeconds": 3600 } });
    let first = server.execute(alone.clone()).await["executionId"].clone();
    eventually("the claim is settled", async || {
        let settled = "SELECT count(*) FROM noetl.subscription_dedup WHERE dedup_key = 'alone' AND state = 1";
        (deployment.in_cluster(settled).await == 1).then_some(())
    })
    .await;
    assert_repaired(&deployment, "execution without claim", async || {
        let lost = "UPDATE noetl.subscription_dedup SET expires_at = now() WHERE dedup_key = 'alone';
                    DELETE FROM noetl.subscription_dedup WHERE dedup_key = 'alone'";
        run(&mut deployment.cluster().await, lost).await;
    })
    .await;
    let second = server.execute(alone).await;
    assert_eq!((&second["executionId"], &second["outcome"]), (&first, &json!("DUPLICATE")));
}

/// Returns the hash of the request of a claim, and whether it expires in about an hour.
async fn claims(deployment: &Deployment, key: &str) -> Vec<(Vec<u8>, bool)> {
    let query = "SELECT request_hash, expires_at BETWEEN now() + interval '59 min' AND now() + interval '60 min'
                 FROM noetl.subscription_dedup WHERE dedup_key = $1 AND state = 1";
    sqlx::query_as(query).bind(key).fetch_all(&mut deployment.cluster().await).await.unwrap()
}

#[tokio::test]
async fn an_execution_whose_window_has_passed_needs_no_claim() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 1).await;
    let past = "UPDATE noetl.execution SET start_time = now() - interval '2 hours'";
    run(&mut deployment.shard(0).await, past).await;
    let gone = "UPDATE noetl.subscription_dedup SET expires_at = now(); DELETE FROM noetl.subscription_dedup";
    run(&mut deployment.cluster().await, gone).await;
    assert_eq!(deployment.check(&[]).await.0, 0);
}

#[tokio::test]
async fn unfinished_claims_and_registrations_are_finished() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 1).await;
    assert!(server.stop().await.success());
    for (point, kind, old) in [
        (
            "execute.claimed",
            "unfinished claim",
            "UPDATE noetl.subscription_dedup SET seen_at = now() - interval '1 min' WHERE state = 0",
        ),
        (
            "register.reserved",
            "unfinished registration",
            "UPDATE noetl.subscription_registry SET updated_at = now() - interval '1 min'
             WHERE intent_after IS NOT NULL",
        ),
    ] {
        assert_repaired(&deployment, kind, async || {
            let mut settings = QUIET.to_vec();
            settings.push(("NOETL_FAULT_POINT", point));
            let mut doomed = deployment.replica_with(&settings).await;
            let operation = if point == "execute.claimed" {
                let input =
                    json!({ "entry": { "path": "process" }, "dedup": { "key": "last", "windowSeconds": 3600 } });
                let query = "mutation($input: ExecuteInput!) { execute(input: $input) { outcome } }";
                doomed.send(query, json!({ "input": input })).await
            } else {
                let content = json!({ "kind": "subscription" }).to_string();
                let query = "mutation($content: String!) {
                    registerCatalogEntry(input: {path: \"other\", content: $content}) { catalogEntry { id } } }";
                doomed.send(query, json!({ "content": content })).await.unwrap();
                let query = "mutation { registerSubscription(input: {path: \"other\"}) { subscription { id } } }";
                doomed.send(query, Value::Null).await
            };
            assert!(operation.is_err(), "{operation:?}");
            assert!(!doomed.ended().await.success());
            run(&mut deployment.cluster().await, old).await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_repair_finishes_a_registration_that_began_just_before() {
    let deployment = Deployment::start(2).await;
    let settings = [&QUIET[..], &[("NOETL_FAULT_POINT", "register.reserved")]].concat();
    let mut doomed = deployment.replica_with(&settings).await;
    doomed.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let register = "mutation { registerSubscription(input: {path: \"inbox\"}) { subscription { id } } }";
    assert!(doomed.send(register, Value::Null).await.is_err());
    assert!(!doomed.ended().await.success());
    let open = "SELECT count(*) FROM noetl.subscription_registry WHERE intent_after IS NOT NULL";
    assert_eq!(deployment.in_cluster(open).await, 1);
    let (code, repaired) = deployment.check(&["--repair"]).await;
    assert_eq!((code, deployment.in_cluster(open).await), (0, 0), "{repaired:#}");
}

#[tokio::test]
async fn rows_that_contradict_their_logs_are_built_again() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 20).await;
    let query = "mutation($ids: [ID!]!) { advanceProjections(input: {executionIds: $ids}) { __typename } }";
    let id = id_on(&deployment, 1, "SELECT max(execution_id) FROM noetl.execution").await;
    server.data(query, json!({ "ids": [id.to_string()] })).await;
    let contents = format!(
        "SELECT (SELECT count(*) FROM noetl.execution WHERE execution_id = {id} AND status = 'PENDING'
                 AND last_event_type = 'playbook_started')
              + (SELECT count(*) FROM noetl.projection_snapshot, noetl.execution
                 WHERE aggregate_id = '{id}' AND execution_id = {id} AND version = last_event_id
                   AND (meta ->> 'applied_count')::int = 1)"
    );
    assert_eq!(id_on(&deployment, 1, &contents).await, 2);
    let cases = [
        ("log without list row", format!("DELETE FROM noetl.execution WHERE execution_id = {id}")),
        (
            "list row after log",
            format!(
                "UPDATE noetl.execution SET last_event_id = last_event_id + 1, status = 'RUNNING',
                     last_event_type = 'step.enter' WHERE execution_id = {id}"
            ),
        ),
        (
            "list row behind log",
            format!(
                "WITH old AS (UPDATE noetl.event SET created_at = created_at - interval '2 min' WHERE execution_id = {id})
                 UPDATE noetl.execution SET last_event_id = last_event_id - 1 WHERE execution_id = {id}"
            ),
        ),
        (
            "snapshot after log",
            format!(
                "UPDATE noetl.projection_snapshot SET version = version + 1,
                     meta = jsonb_set(meta, '{{applied_count}}', '2') WHERE aggregate_id = '{id}'"
            ),
        ),
    ];
    for (kind, cause) in cases {
        assert_repaired(&deployment, kind, async || run(&mut deployment.shard(1).await, &cause).await).await;
        assert_eq!(id_on(&deployment, 1, &contents).await, 2, "{kind}");
    }
    let next = id + (1 << 22);
    let unlogged = deployment.ids_on(1, next, 1)[0];
    assert_repaired(&deployment, "list row without log", async || {
        let row = format!(
            "INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time)
             VALUES ({unlogged}, 0, 'PENDING', now())"
        );
        run(&mut deployment.shard(1).await, &row).await;
    })
    .await;
    assert_repaired(&deployment, "outbox row without event", async || {
        let row = format!(
            "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_codec)
             VALUES ({unlogged}, {unlogged}, 'noetl.executions.shared.{unlogged}', '{{}}', 'json')"
        );
        run(&mut deployment.shard(1).await, &row).await;
    })
    .await;
    assert_eq!(deployment.sum_over_shards("SELECT count(*) FROM noetl.outbox").await, 20);
}

#[tokio::test]
async fn rows_that_retention_left_behind_are_no_differences() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 1).await;
    let old = "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time)
                   VALUES (1000000, 0, 1000001, 'COMPLETED', now());
               INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_codec)
                   VALUES (1000000, 1000001, 'noetl.executions.shared.1000000', '{}', 'json')";
    run(&mut deployment.shard(0).await, old).await;
    let claim = "INSERT INTO noetl.subscription_dedup (subscription_id, dedup_key, execution_id, state, expires_at)
                 VALUES (0, 'old', 1000000, 1, now() + interval '1 day')";
    run(&mut deployment.cluster().await, claim).await;
    let (code, document) = deployment.check(&[]).await;
    assert_eq!(code, 0, "{document:#}");
}

#[tokio::test]
async fn a_path_gets_the_registration_that_its_logs_show() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let inbox = with_messages(&deployment, &server, 1).await;
    let number: i64 = inbox.parse().unwrap();
    let shard = usize::from(deployment.ids_on(0, number, 1)[0] != number);
    assert_repaired(&deployment, "live subscription not registered", async || {
        run(&mut deployment.cluster().await, "DELETE FROM noetl.subscription_registry").await;
    })
    .await;
    assert_eq!(server.register("inbox").await["subscription"]["id"], inbox.as_str());

    // The registration is restored to a time at which an earlier subscription was registered.
    server.transition("deactivate", &inbox, None).await;
    let later = server.register("inbox").await["subscription"]["id"].as_str().unwrap().to_owned();
    assert_ne!(later, inbox);
    assert_repaired(&deployment, "live subscription not registered", async || {
        let earlier = format!("UPDATE noetl.subscription_registry SET subscription_id = {inbox}");
        run(&mut deployment.cluster().await, &earlier).await;
    })
    .await;
    assert_eq!(server.register("inbox").await["subscription"]["id"], later.as_str());

    // The shard of the earlier subscription is restored to a time before its deactivation.
    for registered in [&inbox, &later] {
        assert_repaired(&deployment, "several live subscriptions", async || {
            let log = format!(
                "DELETE FROM noetl.event WHERE execution_id = {inbox} AND event_type = 'subscription.deactivated'"
            );
            run(&mut deployment.shard(shard).await, &log).await;
            let row = format!("UPDATE noetl.subscription_registry SET subscription_id = {registered}");
            run(&mut deployment.cluster().await, &row).await;
        })
        .await;
        assert_eq!(server.register("inbox").await["subscription"]["id"], later.as_str());
    }
    assert_eq!(
        deployment.sum_over_shards("SELECT count(*) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'").await,
        1
    );
}

/// The messages of the subscription name its id, so it keeps it: another id would have other dedup keys.
#[tokio::test]
async fn a_subscription_whose_log_is_lost_is_registered_again_under_its_id() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    let inbox = with_messages(&deployment, &server, 3).await;
    let tenant = "UPDATE noetl.subscription_registry SET intent_tenant_id = 'acme', intent_organization_id = 'west'";
    run(&mut deployment.cluster().await, tenant).await;
    let lost = format!("DELETE FROM noetl.event WHERE execution_id = {inbox}");
    run(&mut deployment.shard(0).await, &lost).await;
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, left(&found)), (1, BTreeMap::from([("registration without log", 1), ("missing parent", 3)])));
    let (code, repaired) = deployment.check(&["--repair"]).await;
    assert_eq!((code, left(&repaired).len()), (0, 0), "{repaired:#}");
    let again = "SELECT count(*) FROM noetl.source_subscription WHERE state = 'REGISTERED' AND tenant_id = 'acme'
                 AND organization_id = 'west'";
    assert_eq!(deployment.sum_over_shards(again).await, 1);
    assert_eq!(deployment.check(&[]).await.0, 0);
}

#[tokio::test]
async fn differences_that_a_person_must_decide_are_reported_and_left() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 1).await;
    let newest = "SELECT coalesce(max(event_id), 0) FROM noetl.event";
    let later = id_on(&deployment, 0, newest).await.max(id_on(&deployment, 1, newest).await);
    let (here, there) = (deployment.ids_on(0, later + 1, 1)[0], deployment.ids_on(1, later + 1, 2));
    let parents = format!(
        "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, last_event_id, start_time)
         VALUES ({here}, 77, {}, 'PENDING', {here}, now());
         INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ({here}, {here}, 'playbook_started')",
        there[0]
    );
    run(&mut deployment.shard(0).await, &parents).await;
    let other = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ({0}, {0}, 'call.done')",
        there[1]
    );
    run(&mut deployment.shard(0).await, &other).await;
    let expected = [("unknown catalog entry", 1), ("missing parent", 1), ("log on other shard", 1)];
    for options in [&[][..], &["--repair"]] {
        let (code, found) = deployment.check(options).await;
        assert_eq!((code, left(&found)), (1, BTreeMap::from(expected)), "{found:#}");
    }
    let output = deployment.command("check").output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(&format!("parent {} on shard 1 of execution {here}", there[0])), "{said}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("3 differences"));
}

/// The cluster database is restored to a time before the machine id was leased again.
#[tokio::test]
async fn ids_after_the_ranges_of_the_leases_are_covered_before_an_id_is_made() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 1).await;
    assert!(server.stop().await.success());
    // An id of a clock that was an hour ahead.
    let ahead = id_on(&deployment, 0, "SELECT max(event_id) FROM noetl.event").await + (3_600_000 << 22);
    let event = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type)
         SELECT execution_id, {ahead}, 'call.done' FROM noetl.execution LIMIT 1"
    );
    run(&mut deployment.shard(0).await, &event).await;
    assert_repaired(&deployment, "id after range", async || {}).await;
    let ceiling = format!("SELECT (max(ceiling_ms) >= {ahead}::bigint >> 22)::int::bigint FROM noetl.machine_lease");
    let covered: i64 =
        sqlx::query_scalar(AssertSqlSafe(ceiling)).fetch_one(&mut deployment.cluster().await).await.unwrap();
    assert_eq!(covered, 1);
}

#[tokio::test]
async fn differences_of_the_streams_are_reported_with_the_reaction_of_the_tailer() {
    let mut deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    with_messages(&deployment, &server, 5).await;
    deployment.until_all_published().await;
    assert!(server.stop().await.success());
    assert_eq!(deployment.check(&[]).await.0, 0);

    let (context, stream) = deployment.stream(0).await;
    context.publish("noetl.events.foreign", "{}".into()).await.unwrap().await.unwrap();
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, left(&found)), (1, BTreeMap::from([("foreign message", 1)])), "{found:#}");
    assert_eq!(found["differences"][0]["repairedBy"], "servers");
    assert_eq!(deployment.check(&["--repair"]).await.0, 0);
    let last = stream.get_info().await.unwrap().state.last_sequence;
    stream.delete_message(last).await.unwrap();

    // The database is restored to a time before its last two events were published.
    let restored = "UPDATE noetl.tail_cursor SET last_sequence = last_sequence - 2";
    run(&mut deployment.shard(0).await, restored).await;
    assert_eq!(deployment.check(&[]).await.0, 0, "the database has the events");
    let lost = "DELETE FROM noetl.outbox; DELETE FROM noetl.execution
                WHERE execution_id = (SELECT max(execution_id) FROM noetl.event);
                DELETE FROM noetl.event WHERE execution_id = (SELECT max(execution_id) FROM noetl.event)";
    run(&mut deployment.shard(0).await, lost).await;
    let (_, found) = deployment.check(&[]).await;
    assert_eq!(left(&found)["published event missing"], 1, "{found:#}");

    deployment.kill_broker_and_delete_store().await;
    deployment.nats.restart().await.unwrap();
    let (_, found) = deployment.check(&["--repair"]).await;
    assert_eq!(left(&found), BTreeMap::from([("stream behind cursor", 1)]), "{found:#}");
    let _server = deployment.replica().await;
    eventually("the servers have published again", async || (deployment.check(&[]).await.0 == 0).then_some(())).await;
}

#[tokio::test]
async fn a_part_that_cant_be_reached_is_named_and_the_others_are_checked() {
    let (_folder, mut down) = own_postgres(&[]).await;
    let shared = std::env::var("NOETL_TEST_PG").unwrap();
    let mut deployment = Deployment::on_servers(&shared, &[&shared, &down.dsn("postgres")]).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 20).await;
    assert!(server.stop().await.success());
    run(&mut deployment.shard(0).await, "DELETE FROM noetl.execution").await;
    down.stop().await;
    deployment.nats.stop().await;
    let (code, found) = deployment.check(&[]).await;
    assert_eq!(code, 2);
    assert!(left(&found)["log without list row"] > 0, "{found:#}");
    let unchecked = found["unchecked"].as_array().unwrap().iter().map(|one| one["part"].as_str().unwrap());
    assert!(unchecked.clone().any(|part| part == "shard 1"), "{found:#}");
    assert!(!unchecked.clone().any(|part| part == "shard 0"), "{found:#}");

    down.restart().await.unwrap();
    deployment.nats.restart().await.unwrap();
    assert_eq!(deployment.check(&["--repair"]).await.0, 0);
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), "postgres://noetl@127.0.0.1:1/none".to_owned()));
    let output = deployment.command("check").output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("could not check: the cluster database is unavailable"));
}

#[tokio::test]
async fn the_work_of_running_servers_is_no_difference_and_a_repair_does_not_disturb_it() {
    let deployment = Deployment::start(2).await;
    let servers = [deployment.replica().await, deployment.replica().await];
    deployment.feeds_begun().await;
    let inbox = with_messages(&deployment, &servers[0], 10).await;
    for n in 0..4 {
        servers[0].register_entry(&format!("busy/{n}"), &json!({ "kind": "subscription" })).await;
    }
    let enough = AtomicBool::new(false);
    let deliver = async |n: usize| {
        let mut sent = 0;
        while !enough.load(Ordering::Relaxed) {
            deliver(&servers[n % 2], &inbox, &format!("load-{n}-{sent}")).await;
            sent += 1;
        }
        sent
    };
    let churn = async |n: usize| {
        let path = format!("busy/{n}");
        while !enough.load(Ordering::Relaxed) {
            let id = servers[n % 2].register(&path).await["subscription"]["id"].as_str().unwrap().to_owned();
            servers[n % 2].transition("activate", &id, None).await;
            servers[(n + 1) % 2].transition("deactivate", &id, None).await;
        }
    };
    let checking = async {
        for options in [&[][..], &["--repair"], &[]] {
            let (code, found) = deployment.check(options).await;
            assert_eq!((code, &found["differences"]), (0, &json!([])), "{found:#}");
        }
        enough.store(true, Ordering::Relaxed);
    };
    let ((), sent, _) = tokio::join!(checking, join_all((0..4).map(deliver)), join_all((0..4).map(churn)));
    let sent: i64 = sent.into_iter().sum();
    assert!(sent > 0);
    assert_eq!(deployment.sum_over_shards("SELECT count(*) FROM noetl.execution").await, sent + 10);
}

#[tokio::test]
async fn a_check_needs_the_broker_unless_nothing_is_published() {
    let deployment = Deployment::start(0).await;
    let mut command = deployment.command("check");
    let output = command.env_remove("NOETL_NATS_URL").output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("NOETL_NATS_URL"), "{output:?}");
    let output = command.env("NOETL_EVENT_STREAM_ENABLED", "false").output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
}
