//! `check` finds each kind of difference between the databases and the streams. `check --repair` removes those that can
//! be repaired. The work of running servers is no difference.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use noetl_testkit::feed::run;
use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::{Deployment, QUIET, Server, eventually};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

/// Returns the number of differences of each kind that are left.
fn left(document: &Value) -> BTreeMap<&str, u64> {
    numbers(document, "left")
}

/// Returns a number of each kind of differences, without zeros.
fn numbers<'a>(document: &'a Value, name: &str) -> BTreeMap<&'a str, u64> {
    let differences = document["differences"].as_array().unwrap().iter();
    let numbers = differences.map(|one| (one["kind"].as_str().unwrap(), one[name].as_u64().unwrap()));
    numbers.filter(|(_, number)| *number > 0).collect()
}

/// Causes differences with `cause`. Exactly the expected ones must be found, and be gone after the repair. A second
/// repair must find nothing.
async fn assert_repaired<const N: usize>(
    deployment: &Deployment,
    expected: [(&str, u64); N],
    cause: impl AsyncFnOnce(),
) {
    cause().await;
    let expected = BTreeMap::from(expected);
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, left(&found)), (1, expected.clone()), "{found:#}");
    let (code, document) = deployment.check(&["--repair"]).await;
    assert_eq!((code, left(&document).len()), (0, 0), "{document:#}");
    let repaired = numbers(&document, "repaired");
    assert!(expected.iter().all(|(kind, number)| repaired.get(kind) == Some(number)), "{document:#}");
    let (code, clean) = deployment.check(&["--repair"]).await;
    assert_eq!((code, &clean["differences"]), (0, &json!([])), "after the repair of {expected:?}");
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
    let inbox = server.subscribe("inbox").await;
    server.transition("activate", &inbox, None).await;
    for n in 0..count {
        deliver(server, &inbox, &format!("m-{n}")).await;
    }
    deployment.until_claims_are_settled().await;
    inbox
}

/// Returns the execution and the dedup key of the newest message on a shard.
async fn newest_message(deployment: &Deployment, shard: usize) -> (i64, String) {
    let query = "SELECT execution_id, meta #>> '{dedup,key}' FROM noetl.event WHERE meta #>> '{dedup,key}' LIKE 'm-%'
                 ORDER BY execution_id DESC LIMIT 1";
    sqlx::query_as(query).fetch_one(&mut deployment.shard(shard).await).await.unwrap()
}

/// The parts share databases without differences. The last part leaves some.
#[tokio::test]
async fn only_differences_are_reported_and_those_with_a_repair_are_repaired() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    Box::pin(claims_and_executions_that_lack_each_other_are_repaired(&deployment, &server)).await;
    Box::pin(the_broker_is_needed_unless_nothing_is_published(&deployment)).await;
    Box::pin(a_path_gets_the_registration_that_its_logs_show(&deployment, &server)).await;
    Box::pin(rows_that_retention_left_behind_are_no_differences(&deployment)).await;
    Box::pin(executions_whose_windows_have_passed_need_no_claims(&deployment)).await;
    Box::pin(differences_that_a_person_must_decide_are_reported_and_left(&deployment)).await;
}

/// Claims and executions that lack each other are repaired: a message runs again if its execution is lost, and never
/// twice.
async fn claims_and_executions_that_lack_each_other_are_repaired(deployment: &Deployment, server: &Server) {
    let inbox = with_messages(deployment, server, 20).await;
    // The request without a parent belongs to another scope.
    let alone = json!({ "path": "process", "dedup": { "key": "alone", "windowSeconds": 3600 } });
    let first = server.execute(alone.clone()).await["executionId"].clone();
    deployment.until_claims_are_settled().await;
    let (code, clean) = deployment.check(&[]).await;
    assert_eq!((code, &clean), (0, &json!({ "differences": [], "unchecked": [] })));

    let (lost, lost_key) = newest_message(deployment, 0).await;
    let (kept, unclaimed_key) = newest_message(deployment, 1).await;
    let original = claims(deployment, &unclaimed_key).await;
    let differences = [("claim without execution", 1), ("execution without claim", 2)];
    assert_repaired(deployment, differences, async || {
        let execution = format!(
            "DELETE FROM noetl.event WHERE execution_id = {lost};
             DELETE FROM noetl.execution WHERE execution_id = {lost};
             DELETE FROM noetl.outbox WHERE execution_id = {lost}"
        );
        run(&mut deployment.shard(0).await, &execution).await;
        let claims = format!(
            "UPDATE noetl.subscription_dedup SET state = 1, expires_at = now()
             WHERE dedup_key IN ('{unclaimed_key}', 'alone');
             DELETE FROM noetl.subscription_dedup WHERE dedup_key IN ('{unclaimed_key}', 'alone')"
        );
        run(&mut deployment.cluster().await, &claims).await;
    })
    .await;
    let (again, outcome) = deliver(server, &inbox, &lost_key).await;
    assert!(outcome == "STARTED" && again != lost.to_string(), "{outcome} {again}");
    assert_eq!(deliver(server, &inbox, &lost_key).await, (again, "DUPLICATE".to_owned()));
    assert_eq!(claims(deployment, &unclaimed_key).await, original);
    assert_eq!(deliver(server, &inbox, &unclaimed_key).await, (kept.to_string(), "DUPLICATE".to_owned()));
    let second = server.execute(alone).await;
    assert_eq!((&second["executionId"], &second["outcome"]), (&first, &json!("DUPLICATE")));
}

/// Returns the hash of the request of a claim, and whether it expires in about an hour.
async fn claims(deployment: &Deployment, key: &str) -> Vec<(Vec<u8>, bool)> {
    let query = "SELECT request_hash, expires_at BETWEEN now() + interval '55 min' AND now() + interval '60 min'
                 FROM noetl.subscription_dedup WHERE dedup_key = $1 AND state = 1";
    sqlx::query_as(query).bind(key).fetch_all(&mut deployment.cluster().await).await.unwrap()
}

/// An execution whose deduplication window has passed needs no claim.
async fn executions_whose_windows_have_passed_need_no_claims(deployment: &Deployment) {
    let past = "UPDATE noetl.execution SET start_time = now() - interval '2 hours'";
    for shard in 0..2 {
        run(&mut deployment.shard(shard).await, past).await;
    }
    let gone = "UPDATE noetl.subscription_dedup SET expires_at = now(); DELETE FROM noetl.subscription_dedup";
    run(&mut deployment.cluster().await, gone).await;
    let (code, document) = deployment.check(&[]).await;
    assert_eq!(code, 0, "{document:#}");
}

/// Sends an operation to a server that crashes at a point of its code.
async fn crash(deployment: &Deployment, point: &str, operation: &str, variables: Value) {
    let settings = [&QUIET[..], &[("NOETL_FAULT_POINT", point)]].concat();
    let mut doomed = deployment.replica_with(&settings).await;
    let response = doomed.send(operation, variables).await;
    assert!(response.is_err(), "{response:?}");
    assert!(!doomed.ended().await.success(), "{point}");
}

#[tokio::test]
async fn unfinished_claims_and_registrations_are_finished_even_if_they_began_just_before_the_repair() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 1).await;
    for path in ["young", "other"] {
        server.register_entry(path, &json!({ "kind": "subscription" })).await;
    }
    assert!(server.stop().await.success());
    let register = |path: &str| {
        format!("mutation {{ registerSubscription(input: {{path: \"{path}\"}}) {{ subscription {{ id }} }} }}")
    };
    crash(&deployment, "register.reserved", &register("young"), Value::Null).await;
    let open = "SELECT count(*) FROM noetl.subscription_registry WHERE intent_after IS NOT NULL";
    assert_eq!(deployment.in_cluster(open).await, 1);
    let (code, repaired) = deployment.check(&["--repair"]).await;
    assert_eq!((code, deployment.in_cluster(open).await), (0, 0), "{repaired:#}");

    let differences = [("unfinished claim", 1), ("unfinished registration", 1)];
    assert_repaired(&deployment, differences, async || {
        let mut cluster = deployment.cluster().await;
        let input = json!({ "entry": { "path": "process" }, "dedup": { "key": "last", "windowSeconds": 3600 } });
        let execute = "mutation($input: ExecuteInput!) { execute(input: $input) { outcome } }";
        crash(&deployment, "execute.claimed", execute, json!({ "input": input })).await;
        // So young that the second server does not finish it.
        let young = "UPDATE noetl.subscription_dedup SET seen_at = now() + interval '1 min' WHERE state = 0";
        run(&mut cluster, young).await;
        crash(&deployment, "register.reserved", &register("other"), Value::Null).await;
        let old = "UPDATE noetl.subscription_dedup SET seen_at = now() - interval '1 min' WHERE state = 0;
                   UPDATE noetl.subscription_registry SET updated_at = now() - interval '1 min'
                   WHERE intent_after IS NOT NULL";
        run(&mut cluster, old).await;
    })
    .await;
}

#[tokio::test]
async fn rows_registrations_and_ranges_of_ids_are_built_again_from_the_logs() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    Box::pin(rows_that_contradict_their_logs_are_built_again(&deployment, &server)).await;
    Box::pin(a_subscription_whose_log_is_lost_is_registered_again_under_its_id(&deployment, &server)).await;
    assert!(server.stop().await.success());
    Box::pin(ids_after_the_ranges_of_the_leases_are_covered_before_an_id_is_made(&deployment)).await;
}

/// Rows that contradict their logs are built again. The deployment has no executions yet.
async fn rows_that_contradict_their_logs_are_built_again(deployment: &Deployment, server: &Server) {
    with_messages(deployment, server, 4).await;
    let team = json!([{ "name": "team", "value": "a" }]);
    let labelled = server.execute(json!({ "path": "process", "labels": team })).await["executionId"].take();
    let labelled = labelled.as_str().unwrap();
    let ids = "SELECT execution_id FROM noetl.execution ORDER BY execution_id";
    let ids: Vec<i64> = sqlx::query_scalar(ids).fetch_all(&mut deployment.shard(0).await).await.unwrap();
    let [unlisted, ahead, behind, later, last] = ids[..] else { panic!("{ids:?}") };
    let named: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let query = "mutation($ids: [ID!]!) { advanceProjections(input: {executionIds: $ids}) { __typename } }";
    server.data(query, json!({ "ids": named })).await;
    // Numbers of the list rows and of the snapshots that fit the logs.
    let fitting = "SELECT (SELECT count(*) FROM noetl.execution
                           WHERE status = 'PENDING' AND last_event_type = 'playbook_started')
                        + 10 * (SELECT count(*) FROM noetl.projection_snapshot, noetl.execution
                                WHERE aggregate_id = execution_id::text AND version = last_event_id
                                  AND (meta ->> 'applied_count')::int = 1)";
    assert_eq!(id_on(deployment, 0, fitting).await, 55);
    // Ids that no log has.
    let (listed, queued) = (last + (1 << 22), last + (1 << 22) + 1);
    let differences = [
        ("log without list row", 1),
        ("list row after log", 1),
        ("list row behind log", 1),
        ("labels not indexed", 2),
        ("snapshot after log", 1),
        ("list row without log", 1),
        ("outbox row without event", 1),
    ];
    assert_repaired(deployment, differences, async || {
        let causes = format!(
            "DELETE FROM noetl.execution WHERE execution_id = {unlisted};
             UPDATE noetl.execution SET last_event_id = last_event_id + 1, status = 'RUNNING',
                 last_event_type = 'step.enter' WHERE execution_id = {ahead};
             UPDATE noetl.event SET created_at = created_at - interval '2 min' WHERE execution_id = {behind};
             UPDATE noetl.execution SET last_event_id = last_event_id - 1 WHERE execution_id = {behind};
             UPDATE noetl.projection_snapshot SET version = version + 1,
                 meta = jsonb_set(meta, '{{applied_count}}', '2') WHERE aggregate_id = '{later}';
             INSERT INTO noetl.execution_label (execution_id, label, label_tenant, label_status)
                 VALUES ({behind}, 'team', 'default', 'PENDING');
             DELETE FROM noetl.execution_label WHERE execution_id = {labelled};
             UPDATE noetl.event SET meta = meta - 'labels' WHERE execution_id = {labelled};
             INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time)
                 VALUES ({listed}, 0, 'PENDING', now());
             INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_codec)
                 VALUES ({queued}, {queued}, 'noetl.executions.shared.{queued}', '{{}}', 'json')"
        );
        run(&mut deployment.shard(0).await, &causes).await;
    })
    .await;
    assert_eq!(id_on(deployment, 0, fitting).await, 55);
    assert_eq!(deployment.sum_over_shards("SELECT count(*) FROM noetl.outbox").await, 5);
    // The row keeps its labels, which are not read from the log.
    let query = r#"{ executions(filter: { labels: [{ name: "team", equals: "a" }] }) { nodes { id } } }"#;
    let found = server.data(query, Value::Null).await["executions"]["nodes"].take();
    assert_eq!(found, json!([{ "id": labelled }]));
}

#[tokio::test]
async fn hours_of_the_history_with_other_numbers_than_the_executions_are_computed_again() {
    let deployment = Deployment::start(1).await;
    // One each in the hours 18:00, 20:00 and 22:00 of a day, and one in the first hour of the next day. Logs with such ids
    // count as dropped by retention.
    let listed = "INSERT INTO noetl.execution (execution_id, catalog_id, status, path, start_time, end_time,
                                               first_step_time)
                  SELECT 1000 + n, 0, 'COMPLETED', 'a', at, at + interval '20 s', at + interval '5 s'
                  FROM generate_series(0, 3) AS n CROSS JOIN LATERAL (
                      SELECT noetl.span_start(now(), 86400) - interval '54 hours' + n * interval '2 hours' AS at) AS moment";
    deployment.on_shard(0, listed).await;
    deployment.close_history(&[]).await;
    // The first hour and its day, the minutes of the second one, the third one and its minutes, and the second day.
    assert_repaired(&deployment, [("history differs", 6)], async || {
        let causes = "UPDATE noetl.execution_history SET started = started + 1
                      WHERE span = 3600 AND at = (SELECT start_time FROM noetl.execution WHERE execution_id = 1000);
                      DELETE FROM noetl.execution_history
                      WHERE span = 60 AND at = (SELECT start_time FROM noetl.execution WHERE execution_id = 1001);
                      ALTER TABLE noetl.execution DISABLE TRIGGER execution_history_update;
                      UPDATE noetl.execution SET path = 'b' WHERE execution_id = 1002;
                      ALTER TABLE noetl.execution ENABLE ALWAYS TRIGGER execution_history_update;
                      UPDATE noetl.execution_history SET wait_counts = '{2}'
                      WHERE span = 86400 AND at = (SELECT start_time FROM noetl.execution WHERE execution_id = 1003)";
        deployment.on_shard(0, causes).await;
    })
    .await;
    deployment.close_history(&[]).await;
    let numbers = "SELECT sum(started)::bigint + 100 * count(*) FILTER (WHERE path = 'b')
                          + 1000 * sum((SELECT sum(waits) FROM unnest(wait_counts) AS waits))::bigint
                   FROM noetl.execution_history";
    assert_eq!(deployment.sum_over_shards(numbers).await, 12 + 300 + 12_000, "rows of minutes, hours and days");
    assert_eq!(deployment.check(&[]).await.0, 0);
}

/// Rows that retention left behind are no differences: a listed execution, its outbox row and its claim.
async fn rows_that_retention_left_behind_are_no_differences(deployment: &Deployment) {
    let [execution, parent] = deployment.ids_on(0, 1_000_000, 2)[..] else { panic!() };
    let old = format!(
        "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, start_time)
             VALUES ({execution}, 0, {parent}, 'COMPLETED', now());
         INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_codec)
             VALUES ({execution}, {parent}, 'noetl.executions.shared.{execution}', '{{}}', 'json')"
    );
    run(&mut deployment.shard(0).await, &old).await;
    let claim = format!(
        "INSERT INTO noetl.subscription_dedup (subscription_id, dedup_key, execution_id, state, expires_at)
         VALUES (0, 'old', {execution}, 1, now() + interval '1 day')"
    );
    run(&mut deployment.cluster().await, &claim).await;
    let (code, document) = deployment.check(&[]).await;
    assert_eq!(code, 0, "{document:#}");
}

/// A path gets the registration that its logs show.
async fn a_path_gets_the_registration_that_its_logs_show(deployment: &Deployment, server: &Server) {
    let register = async |path: &str| server.register(path).await["subscription"]["id"].as_str().unwrap().to_owned();
    let (mut earlier, mut latest) = (BTreeMap::new(), BTreeMap::new());
    for path in ["lost", "restored", "twice/restored", "twice/kept"] {
        server.register_entry(path, &json!({ "kind": "subscription" })).await;
        let id = register(path).await;
        server.transition("activate", &id, None).await;
        server.transition("deactivate", &id, None).await;
        earlier.insert(path, id);
        latest.insert(path, register(path).await);
    }
    let differences = [("live subscription not registered", 2), ("several live subscriptions", 2)];
    assert_repaired(deployment, differences, async || {
        let mut cluster = deployment.cluster().await;
        run(&mut cluster, "DELETE FROM noetl.subscription_registry WHERE path = 'lost'").await;
        for path in ["restored", "twice/restored"] {
            // The registration is restored to a time at which the earlier subscription was registered.
            let id = &earlier[path];
            let row = format!("UPDATE noetl.subscription_registry SET subscription_id = {id} WHERE path = '{path}'");
            run(&mut cluster, &row).await;
        }
        for path in ["twice/restored", "twice/kept"] {
            // The shard of the earlier subscription is restored to a time before its deactivation.
            let id = &earlier[path];
            let log = format!(
                "DELETE FROM noetl.event WHERE execution_id = {id} AND event_type = 'subscription.deactivated'"
            );
            for shard in 0..2 {
                run(&mut deployment.shard(shard).await, &log).await;
            }
        }
    })
    .await;
    for (path, id) in latest {
        assert_eq!(register(path).await, id, "{path}");
    }
    let live = "SELECT count(*) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED' AND path <> 'inbox'";
    assert_eq!(deployment.sum_over_shards(live).await, 4);
}

/// The messages of a subscription whose log is lost name its id, so it keeps it: another id would have other dedup keys.
async fn a_subscription_whose_log_is_lost_is_registered_again_under_its_id(deployment: &Deployment, server: &Server) {
    let inbox = server.subscribe("lost").await;
    server.transition("activate", &inbox, None).await;
    for n in 0..3 {
        deliver(server, &inbox, &format!("lost-{n}")).await;
    }
    deployment.until_claims_are_settled().await;
    let tenant = "UPDATE noetl.subscription_registry SET intent_tenant_id = 'acme', intent_organization_id = 'west'
                  WHERE path = 'lost'";
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

/// Differences that a person must decide are reported, and a repair leaves them.
async fn differences_that_a_person_must_decide_are_reported_and_left(deployment: &Deployment) {
    let newest = "SELECT coalesce(max(event_id), 0) FROM noetl.event";
    let later = id_on(deployment, 0, newest).await.max(id_on(deployment, 1, newest).await);
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
    let text = async { deployment.command("check").output().await.unwrap() };
    // Neither changes anything.
    let (checked, output) = tokio::join!(deployment.check(&[]), text);
    for (code, found) in [checked, deployment.check(&["--repair"]).await] {
        assert_eq!((code, left(&found)), (1, BTreeMap::from(expected)), "{found:#}");
    }
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(&format!("parent {} on shard 1 of execution {here}", there[0])), "{said}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("3 differences"));
}

/// Ids after the ranges of the leases are covered before an id is made. They exist if the cluster database was restored
/// to a time before the machine id was leased again. No server runs.
async fn ids_after_the_ranges_of_the_leases_are_covered_before_an_id_is_made(deployment: &Deployment) {
    // An id of a clock that was an hour ahead.
    let ahead = id_on(deployment, 0, "SELECT max(event_id) FROM noetl.event").await + (3_600_000 << 22);
    let event = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type)
         SELECT execution_id, {ahead}, 'call.done' FROM noetl.execution LIMIT 1"
    );
    run(&mut deployment.shard(0).await, &event).await;
    assert_repaired(deployment, [("id after range", 1)], async || {}).await;
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

    let (context, stream) = deployment.stream(0).await;
    context.publish("noetl.events.foreign", "{}".into()).await.unwrap().await.unwrap();
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, left(&found)), (1, BTreeMap::from([("foreign message", 1)])), "{found:#}");
    assert_eq!(found["differences"][0]["repairedBy"], "servers");
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
    let (code, found) = deployment.check(&["--repair"]).await;
    assert_eq!((code, left(&found)), (0, BTreeMap::from([("stream behind cursor", 1)])), "{found:#}");
    let _server = deployment.replica().await;
    eventually("the servers have published again", async || (deployment.check(&[]).await.0 == 0).then_some(())).await;
}

#[tokio::test]
async fn a_part_that_cant_be_reached_is_named_and_the_others_are_checked() {
    let mut deployment = Deployment::start(2).await;
    let proxy = deployment.shard_behind_proxy(1).await;
    let server = deployment.replica_with(&QUIET).await;
    with_messages(&deployment, &server, 20).await;
    assert!(server.stop().await.success());
    run(&mut deployment.shard(0).await, "DELETE FROM noetl.execution").await;
    proxy.set(ForwardingMode::Closed);
    deployment.nats.stop().await;
    let (code, found) = deployment.check(&[]).await;
    assert_eq!(code, 2);
    assert!(left(&found)["log without list row"] > 0, "{found:#}");
    let unchecked = found["unchecked"].as_array().unwrap().iter().map(|one| one["part"].as_str().unwrap());
    assert!(unchecked.clone().any(|part| part == "shard 1"), "{found:#}");
    assert!(!unchecked.clone().any(|part| part == "shard 0"), "{found:#}");

    proxy.set(ForwardingMode::Normal);
    deployment.nats.restart().await.unwrap();
    assert_eq!(deployment.check(&["--repair"]).await.0, 0);
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), "postgres://noetl@127.0.0.1:1/none".to_owned()));
    let output = deployment.command("check").output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("could not check: the cluster database is unavailable"));
}

/// A check needs the broker unless nothing is published.
async fn the_broker_is_needed_unless_nothing_is_published(deployment: &Deployment) {
    let mut command = deployment.command("check");
    let output = command.env_remove("NOETL_NATS_URL").output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("NOETL_NATS_URL"), "{output:?}");
    let output = command.env("NOETL_EVENT_STREAM_ENABLED", "false").output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
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
        for options in [&[][..], &["--repair"]] {
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
