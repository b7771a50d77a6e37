//! An open intent makes a subscription live only while no other lifecycle event follows the event that the intent
//! names. Such an event is the decision of a later caller.

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};

const INTENTS: &str = "SELECT count(*) FROM noetl.subscription_registry WHERE intent_after IS NOT NULL";
/// Advisory lock in the cluster database for which the writer of an intent waits.
const GATE: i64 = 77;

/// Registers a path, deactivates its subscription, and returns the subscription's id and latest event.
async fn deactivated(server: &Server) -> (String, String) {
    let id = server.subscribe("inbox").await;
    let ended = server.transition("deactivate", &id, None).await;
    (id, ended["subscription"]["lastEventId"].as_str().unwrap().to_owned())
}

async fn types(deployment: &Deployment, id: &str) -> Vec<String> {
    deployment.lifecycle(id).await.into_iter().map(|event| event.event_type).collect()
}

/// Returns the number of sessions that wait for the advisory lock `key` of a connection's database.
async fn waiting(connection: &mut PgConnection, key: &str) -> i64 {
    let query = format!(
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
         WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
           AND (classid::bigint << 32) + objid::bigint = {key}"
    );
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(connection).await.unwrap()
}

async fn until_waiting(connection: &mut PgConnection, key: &str, count: i64) {
    eventually("the sessions wait", async || (waiting(connection, key).await == count).then_some(())).await;
}

fn code(payload: &Value) -> &Value {
    &payload["userErrors"][0]["code"]
}

/// Starts an activation and a deactivation so that the deactivation is written after the activation's intent is
/// committed and before the intent is fulfilled. Returns both payloads and the log's types.
async fn deactivate_between_intent_and_event(expect: bool) -> (Value, Value, Vec<String>) {
    let deployment = Deployment::start(1).await;
    let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
    let (id, last) = deactivated(&one).await;
    let expected = expect.then_some(last.as_str());
    let (mut cluster, mut gate) = tokio::join!(deployment.cluster(), deployment.cluster());
    let (mut shard, mut log) = tokio::join!(deployment.shard(0), deployment.shard(0));
    let wait_at_gate = format!(
        "CREATE FUNCTION public.gate() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_advisory_xact_lock({GATE}); RETURN NEW; END $$;
         CREATE TRIGGER gate BEFORE UPDATE ON noetl.subscription_registry FOR EACH ROW
             WHEN (NEW.intent_after IS NOT NULL) EXECUTE FUNCTION public.gate()"
    );
    run(&mut cluster, &wait_at_gate).await;
    run(&mut gate, &format!("SELECT pg_advisory_lock({GATE})")).await;

    let steps = async {
        until_waiting(&mut cluster, &GATE.to_string(), 1).await;
        run(&mut log, &format!("SELECT pg_advisory_lock({id})")).await;
        let deactivation = other.transition("deactivate", &id, expected);
        let order = async {
            until_waiting(&mut shard, &id, 1).await;
            run(&mut gate, &format!("SELECT pg_advisory_unlock({GATE})")).await;
            until_waiting(&mut shard, &id, 2).await;
            // Locks are granted in the order of the requests: first to the deactivation.
            run(&mut log, &format!("SELECT pg_advisory_unlock({id})")).await;
        };
        tokio::join!(deactivation, order).0
    };
    let (activated, ended) = tokio::join!(one.transition("activate", &id, expected), steps);
    (activated, ended, types(&deployment, &id).await)
}

#[tokio::test]
async fn an_activation_and_a_deactivation_that_expect_the_same_event_do_not_both_succeed() {
    let (activated, ended, types) = deactivate_between_intent_and_event(true).await;
    assert_eq!(ended["subscription"]["status"], "DEACTIVATED", "{ended}");
    assert_eq!(code(&activated), &json!("STALE_VERSION"), "{activated}");
    let registered = "subscription.registered";
    assert_eq!(types, [registered, "subscription.deactivated", "subscription.deactivated"]);
}

#[tokio::test]
async fn an_activation_without_an_expected_event_follows_a_concurrent_deactivation() {
    let (activated, ended, types) = deactivate_between_intent_and_event(false).await;
    assert_eq!(ended["subscription"]["status"], "DEACTIVATED", "{ended}");
    assert_eq!(activated["subscription"]["status"], "ACTIVE", "{activated}");
    assert_eq!(types[2..], ["subscription.deactivated", "subscription.activated"]);
}

/// Leaves the intent of an activation whose caller crashed. The sweeper ignores it until [`ripen`].
async fn leave_intent(deployment: &Deployment, id: &str) {
    let mut doomed = deployment.replica_with(&[("NOETL_FAULT_POINT", "register.intended")]).await;
    let activate =
        format!("mutation {{ activateSubscription(input: {{subscriptionId: \"{id}\"}}) {{ subscription {{ id }} }} }}");
    assert!(doomed.send(&activate, Value::Null).await.is_err(), "the fault point was not reached");
    assert!(!doomed.ended().await.success());
    let young = "UPDATE noetl.subscription_registry SET updated_at = now() + interval '1 hour'";
    run(&mut deployment.cluster().await, young).await;
    assert_eq!(deployment.in_cluster(INTENTS).await, 1);
}

/// Lets the sweeper find the intent, and waits until no intent is open.
async fn ripen(deployment: &Deployment) {
    let old = "UPDATE noetl.subscription_registry SET updated_at = now() - interval '1 hour'";
    run(&mut deployment.cluster().await, old).await;
    let settled = async || (deployment.in_cluster(INTENTS).await == 0).then_some(());
    eventually("the intent is settled", settled).await;
}

#[tokio::test]
async fn the_intent_of_a_crashed_activation_does_not_undo_a_later_deactivation() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    let (id, _) = deactivated(&server).await;
    leave_intent(&deployment, &id).await;
    let ended = server.transition("deactivate", &id, None).await;
    assert_eq!(ended["subscription"]["status"], "DEACTIVATED", "{ended}");
    ripen(&deployment).await;
    assert_eq!(types(&deployment, &id).await[1..], ["subscription.deactivated", "subscription.deactivated"]);

    // The path is free: a registration makes another subscription live.
    let again = server.register("inbox").await;
    assert_eq!(again["subscription"]["status"], "REGISTERED", "{again}");
    assert_ne!(again["subscription"]["id"], json!(id));
}

#[tokio::test]
async fn the_intent_of_a_crashed_activation_is_fulfilled_if_no_event_follows() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    let (id, _) = deactivated(&server).await;
    leave_intent(&deployment, &id).await;
    ripen(&deployment).await;
    assert_eq!(types(&deployment, &id).await[1..], ["subscription.deactivated", "subscription.activated"]);
}
