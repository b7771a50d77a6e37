//! Concurrent calls share statements, and each gets its own result, error and cancellation.

use futures::future::join_all;
use nix::sys::signal::Signal;
use noetl_testkit::feed::run;
use noetl_testkit::outbox::references;
use noetl_testkit::worker::{event, event_with};
use noetl_testkit::{Deployment, QUIET, Server, eventually};
use serde_json::{Value, json};
use sqlx::PgConnection;

const STARTED: &str = "SELECT count(*) FROM noetl.event WHERE event_type = 'playbook_started'";
const RESERVED: &str = "SELECT count(*) FROM noetl.subscription_dedup WHERE state = 0";
const LOCK_HELD: &str = "SELECT FROM noetl.subscription_dedup WHERE dedup_key = 'held' FOR UPDATE";
const WAITING_FOR_A_ROW: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'transactionid'";
const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass";

/// Starts a replica without background work, with the playbooks `good` and `bad`.
async fn replica(deployment: &Deployment) -> Server {
    let server = deployment.replica_with(&QUIET).await;
    for path in ["good", "bad"] {
        server.register_entry(path, &json!({ "kind": "playbook" })).await;
    }
    server
}

fn keyed(path: &str, key: &str) -> Value {
    json!({ "path": path, "dedup": { "key": key, "windowSeconds": 3600 } })
}

/// Runs `calls` while the table is locked, and releases the lock when a statement waits for it. So the calls that follow
/// the first ones wait at the same time.
async fn while_locked<T>(connection: &mut PgConnection, table: &str, calls: impl Future<Output = T>) -> T {
    run(connection, &format!("BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE")).await;
    let release = async {
        let waits = async || {
            let waiting: i64 = sqlx::query_scalar(WAITING).bind(table).fetch_one(&mut *connection).await.unwrap();
            (waiting > 0).then_some(())
        };
        eventually("a statement waits for the table", waits).await;
        run(connection, "ROLLBACK").await;
    };
    tokio::join!(calls, release).0
}

#[tokio::test]
async fn calls_that_share_a_statement_have_their_own_results() {
    let deployment = Deployment::start(2).await;
    let server = replica(&deployment).await;
    // It claims all entries.
    a_row_that_two_callers_settle_at_the_same_time_is_counted_once(&deployment, &server).await;
    concurrent_requests_to_execute_share_their_statements(&deployment, &server).await;
    concurrent_small_batches_of_events_are_counted_for_each_caller(&deployment, &server).await;
}

/// Requests that wait at the same time have fewer statements than they would have alone.
async fn concurrent_requests_to_execute_share_their_statements(deployment: &Deployment, server: &Server) {
    server.execute(keyed("good", "the catalog entry is cached")).await;
    deployment.until_claims_are_settled().await;
    let (before, started) =
        (server.metric("noetl_sql_statements_total").await, deployment.sum_over_shards(STARTED).await);
    let calls = join_all((0..60).map(|key| server.execute(keyed("good", &format!("m-{key}")))));
    let answers = while_locked(&mut deployment.cluster().await, "noetl.subscription_dedup", calls).await;
    assert!(answers.iter().all(|answer| answer["outcome"] == "STARTED"), "{answers:?}");
    let ids: std::collections::HashSet<&str> =
        answers.iter().map(|answer| answer["executionId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 60);
    let statements = server.metric("noetl_sql_statements_total").await - before;
    // Alone, each request has a claim, a creation and a settlement.
    assert!(statements < 120.0, "{statements} statements for 60 requests");
    assert_eq!(deployment.sum_over_shards(STARTED).await - started, 60);
    let settled = async || (deployment.in_cluster(RESERVED).await == 0).then_some(());
    eventually("every claim is settled", settled).await;
}

#[tokio::test]
async fn a_call_that_waits_or_is_refused_fails_alone_although_it_shares_a_statement() {
    let deployment = Deployment::start(1).await;
    let server = replica(&deployment).await;
    a_key_that_another_transaction_holds_delays_only_its_own_caller(&deployment, &server).await;
    // Each of the others leaves a trigger.
    an_execution_that_the_database_refuses_fails_only_its_own_caller(&deployment, &server).await;
    an_event_that_the_database_refuses_fails_only_its_own_caller(&deployment, &server).await;
}

/// An execution that the database refuses fails no other one of its statement.
async fn an_execution_that_the_database_refuses_fails_only_its_own_caller(deployment: &Deployment, server: &Server) {
    // A refused value, and an error for which the statement can't be divided.
    for code in ["23514", "XX000"] {
        let refuse = format!(
            "CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN
                 IF NEW.path = 'bad' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END IF;
                 RETURN NEW;
             END $$;
             CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON noetl.execution
                 FOR EACH ROW EXECUTE FUNCTION public.refuse()"
        );
        run(&mut deployment.shard(0).await, &refuse).await;
        let query = "mutation($input: ExecuteInput!) { execute(input: $input) { outcome userErrors { code } } }";
        let call = async |n: usize| {
            let path = if n % 8 == 3 { "bad" } else { "good" };
            let input = noetl_testkit::execute_input(keyed(path, &format!("{code}-{n}")));
            (path, server.send(query, json!({ "input": input })).await.unwrap())
        };
        let before = deployment.sum_over_shards(STARTED).await;
        let calls = join_all((0..40).map(call));
        for (path, response) in while_locked(&mut deployment.shard(0).await, "noetl.execution", calls).await {
            let answer = &response["data"]["execute"];
            if path == "good" {
                assert_eq!(answer["outcome"], "STARTED", "{code}: {response}");
            } else {
                assert_eq!(response["errors"][0]["extensions"]["code"], "INTERNAL", "{code}: {response}");
            }
        }
        assert_eq!(deployment.sum_over_shards(STARTED).await - before, 35, "{code}");
    }
}

/// A request that waits for a key delays no other one for long.
async fn a_key_that_another_transaction_holds_delays_only_its_own_caller(deployment: &Deployment, server: &Server) {
    let held = server.execute(keyed("good", "held")).await;
    let mut holder = deployment.cluster().await;
    run(&mut holder, &format!("BEGIN; {LOCK_HELD}")).await;
    // Another waiter, which gives up after 1.4 s: until then, each statement waits for this waiter, then for the holder.
    let mut waiter = deployment.cluster().await;
    run(&mut waiter, "SET lock_timeout = '1400ms'").await;
    let waits = tokio::spawn(async move { sqlx::raw_sql(LOCK_HELD).execute(&mut waiter).await });
    let waiting = async || (deployment.in_cluster(WAITING_FOR_A_ROW).await > 0).then_some(());
    eventually("the other waiter waits", waiting).await;
    let query = "mutation($input: ExecuteInput!) { execute(input: $input) { outcome userErrors { code } } }";
    let execute = async |key: &str| {
        server.send(query, json!({ "input": noetl_testkit::execute_input(keyed("good", key)) })).await.unwrap()
    };
    // The first request is alone in its statement; the others, with the held key among them, share the next one.
    let calls = join_all((0..60).map(async |n| {
        let key = if n == 30 { "held".to_owned() } else { format!("m-{n}") };
        execute(&key).await
    }));
    for (n, response) in calls.await.into_iter().enumerate() {
        let answer = &response["data"]["execute"];
        if n == 30 {
            assert_eq!(answer["userErrors"][0]["code"], "TIMEOUT", "{response}");
        } else {
            assert_eq!(answer["outcome"], "STARTED", "{response}");
        }
    }
    let alone = execute("held").await;
    assert_eq!(alone["data"]["execute"]["userErrors"][0]["code"], "TIMEOUT", "{alone}");
    run(&mut holder, "ROLLBACK").await;
    assert!(waits.await.unwrap().is_err(), "the other waiter gave up");
    let again = server.execute(keyed("good", "held")).await;
    assert_eq!((&again["outcome"], &again["executionId"]), (&json!("DUPLICATE"), &held["executionId"]));
}

#[tokio::test]
async fn a_cached_catalog_entry_is_never_used_after_a_newer_one_was_registered_elsewhere() {
    let deployment = Deployment::start(2).await;
    let (server, other) = (replica(&deployment).await, replica(&deployment).await);
    let query = "mutation($input: ExecuteInput!) {
        execute(input: $input) { outcome execution { workload catalogEntry { version } } } }";
    for round in 0..15 {
        let content = json!({ "kind": "playbook", "workload": { "round": round } });
        let version = other.register_entry("changing", &content).await;
        let calls = (0..4).map(async |n| {
            // Requests with and without a key, and with a workload of their own.
            let mut input = json!({ "entry": { "path": "changing" }, "workload": { "n": n } });
            if n > 0 {
                input["dedup"] = json!({ "key": format!("{round}-{n}") });
            }
            server.data(query, json!({ "input": input })).await["execute"].take()
        });
        for (n, answer) in join_all(calls).await.into_iter().enumerate() {
            assert_eq!(answer["outcome"], "STARTED", "{answer}");
            assert_eq!(answer["execution"]["workload"], json!({ "round": round, "n": n }), "after {version}");
        }
    }
    assert_eq!(deployment.in_cluster("SELECT count(*) FROM noetl.subscription_dedup").await, 45, "one claim per key");
}

#[tokio::test]
async fn a_graceful_stop_settles_claims_and_writes_the_audit_events_of_duplicates() {
    let deployment = Deployment::start(2).await;
    let mut server = replica(&deployment).await;
    let inbox = server.subscribe("inbox").await;
    let message = |key: usize| {
        let mut message = keyed("good", &format!("m-{key}"));
        message["parentExecutionId"] = json!(inbox);
        message
    };
    let batch = |copies: usize| -> Vec<Value> {
        (0..50 * copies).map(|key| noetl_testkit::execute_input(message(key % 50))).collect()
    };
    let query = "mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) { results { outcome } } }";
    server.data(query, json!({ "input": { "requests": batch(1) } })).await;
    let mut shards = [deployment.shard(0).await, deployment.shard(1).await];
    for shard in &mut shards {
        run(shard, "BEGIN; LOCK TABLE noetl.event IN EXCLUSIVE MODE").await;
    }
    let repeated = server.data(query, json!({ "input": { "requests": batch(4) } })).await;
    let results = repeated["executeBatch"]["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["outcome"] == "DUPLICATE"), "{results:?}");
    // No audit event was written before the server is asked to stop.
    server.signal(Signal::SIGTERM);
    for shard in &mut shards {
        run(shard, "ROLLBACK").await;
    }
    assert!(server.ended().await.success());
    let audits = "SELECT count(*) FROM noetl.event WHERE event_type = 'subscription.message.deduplicated'";
    assert_eq!(deployment.sum_over_shards(audits).await, 200);
    assert_eq!(deployment.in_cluster(RESERVED).await, 0);
}

/// Batches that share a statement have results of their own.
async fn concurrent_small_batches_of_events_are_counted_for_each_caller(deployment: &Deployment, server: &Server) {
    for round in 0..10 {
        // Two callers send each of the first events, and one of them sends it with other content in every third pair.
        let call = async |n: i64| {
            let (execution, id) = (1000 + n / 2, 10 * round + 1);
            let shared = match n % 6 {
                5 => event_with(execution, id, &json!({ "nodeName": "other" })),
                _ => event(execution, id),
            };
            (n, server.project(&[shared, event(5000 + n, id), event(5000 + n, id + 1)]).await)
        };
        let answers = join_all((0..60).map(call)).await;
        let (mut projected, mut duplicates, mut conflicts) = (0, 0, 0);
        for (n, answer) in &answers {
            let rejected = answer["rejected"].as_array().unwrap();
            let count = |field: &str| answer[field].as_u64().unwrap();
            assert_eq!(count("projected") + count("duplicates") + rejected.len() as u64, 3, "{answer}");
            assert!(count("projected") >= 2, "the caller's own events are stored: {answer}");
            assert!(
                rejected.iter().all(|one| one["index"] == 0 && one["code"] == "EVENT_ID_CONFLICT"),
                "{n}: {answer}"
            );
            projected += count("projected");
            duplicates += count("duplicates");
            conflicts += rejected.len();
        }
        assert_eq!((projected, duplicates, conflicts), (150, 20, 10), "round {round}");
    }
    assert_eq!(
        deployment.sum_over_shards("SELECT count(*) FROM noetl.event WHERE event_type = 'call.done'").await,
        1500
    );
}

/// An event that the database refuses fails no other one of its statement.
async fn an_event_that_the_database_refuses_fails_only_its_own_caller(deployment: &Deployment, server: &Server) {
    let refuse = "CREATE FUNCTION public.refuse_event() RETURNS trigger LANGUAGE plpgsql AS
                  $$ BEGIN
                      IF NEW.node_name = 'bad' THEN RAISE EXCEPTION 'refused' USING ERRCODE = 'XX000'; END IF;
                      RETURN NEW;
                  END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON noetl.event
                      FOR EACH ROW EXECUTE FUNCTION public.refuse_event()";
    run(&mut deployment.shard(0).await, refuse).await;
    let call = async |n: i64| {
        let bad = n % 8 == 3;
        let event = event_with(1000 + n, 1, &json!({ "nodeName": if bad { "bad" } else { "step" } }));
        (bad, server.project(&[event]).await)
    };
    let calls = join_all((0..40).map(call));
    let answers = while_locked(&mut deployment.shard(0).await, "noetl.event", calls).await;
    for (bad, answer) in &answers {
        let expected = if *bad { (0, 1) } else { (1, 0) };
        let rejected = answer["rejected"].as_array().unwrap();
        assert_eq!((answer["projected"].as_u64().unwrap(), rejected.len()), expected, "{answer}");
    }
}

/// Settlements that share a statement are counted once.
async fn a_row_that_two_callers_settle_at_the_same_time_is_counted_once(deployment: &Deployment, server: &Server) {
    join_all((0..80).map(|n| server.execute(keyed("good", &format!("settled-{n}"))))).await;
    let rows = references(&server.claim(json!({ "limit": 100 })).await);
    assert_eq!(rows.len(), 80);
    // Each row is settled by two of 40 callers.
    let calls = (0..40).map(|n| {
        let own: Vec<Value> = (0..4).map(|k| rows[(n * 2 + k) % 80].clone()).collect();
        async { server.published(&{ own }).await }
    });
    let answers = join_all(calls).await;
    let published: u64 = answers.iter().map(|answer| answer["published"].as_u64().unwrap()).sum();
    assert_eq!(published, 80);
    assert!(answers.iter().all(|answer| answer["stale"] == json!([])), "{answers:?}");
    assert_eq!(deployment.outbox_rows("status = 'PUBLISHED'").await, 80);
}
