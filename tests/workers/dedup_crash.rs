//! The execution of a claimed key exists exactly once in the end, wherever the process died, with or without a retry.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noetl_testkit::{Deployment, Server, eventually, sleep_in_scenario};
use serde_json::{Value, json};

const RESERVED_CLAIMS: &str = "SELECT count(*) FROM noetl.subscription_dedup WHERE state = 0";
const CLAIMS: &str = "SELECT count(*) FROM noetl.subscription_dedup";
const INTENTS: &str = "SELECT count(*) FROM noetl.subscription_registry WHERE intent_after IS NOT NULL";
const LIVE: &str = "SELECT count(*) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'";

fn message(inbox: &str, key: &str) -> Value {
    json!({ "entry": { "path": "process" }, "parentExecutionId": inbox, "dedup": { "key": key, "windowSeconds": 3600 } })
}

/// Creates catalog entries and a live subscription with a replica that stops afterwards. Returns the subscription's id.
async fn with_subscription(deployment: &Deployment) -> String {
    let server = deployment.replica().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let id = server.register("inbox").await["subscription"]["id"].as_str().unwrap().to_owned();
    assert!(server.stop().await.success());
    id
}

/// Point that a replica reaches in the background, so that its response may be received before it dies.
const BACKGROUND_POINT: &str = "execute.settled";

/// Sends a request to a replica that dies at a fault point during the request.
async fn die_at(deployment: &Deployment, point: &str, query: &str, variables: Value) {
    let mut doomed = deployment.replica_with(&[("NOETL_FAULT_POINT", point)]).await;
    let answer = doomed.send(query, variables).await;
    assert!(answer.is_err() || point == BACKGROUND_POINT, "{point} was not reached: {answer:?}");
    assert!(!doomed.ended().await.success());
}

const EXECUTE: &str = "mutation($input: ExecuteInput!) { execute(input: $input) { execution { id } outcome } }";

/// Panics unless there are exactly `executions` execution rows, started events and outbox rows.
async fn assert_whole(deployment: &Deployment, executions: i64) {
    for what in [
        "SELECT count(*) FROM noetl.execution",
        "SELECT count(*) FROM noetl.event WHERE event_type = 'playbook_started'",
        "SELECT count(*) FROM noetl.outbox",
    ] {
        assert_eq!(deployment.sum_over_shards(what).await, executions, "{what}");
    }
}

async fn claims_settled(deployment: &Deployment) {
    let settled = async || (deployment.in_cluster(RESERVED_CLAIMS).await == 0).then_some(());
    eventually("every claim is settled", settled).await;
}

async fn claimed_execution(deployment: &Deployment) -> i64 {
    deployment.in_cluster("SELECT execution_id FROM noetl.subscription_dedup").await
}

/// The fault points of an execute request, each with a flag: the key is claimed at this point.
const EXECUTE_POINTS: [(&str, bool); 4] =
    [("execute.validated", false), ("execute.claimed", true), ("execute.created", true), (BACKGROUND_POINT, true)];

#[tokio::test]
async fn a_claim_is_finished_after_a_crash_without_a_retry() {
    let cases = EXECUTE_POINTS.map(async |(point, claimed)| {
        let deployment = Deployment::start(2).await;
        let inbox = with_subscription(&deployment).await;
        die_at(&deployment, point, EXECUTE, json!({ "input": message(&inbox, "m-1") })).await;
        assert_eq!(deployment.in_cluster(CLAIMS).await, i64::from(claimed), "{point}");
        let _fresh = deployment.replica().await;
        claims_settled(&deployment).await;
        assert_whole(&deployment, i64::from(claimed)).await;
    });
    join_all(cases).await;
}

#[tokio::test]
async fn a_retry_after_a_crash_returns_the_claimed_execution() {
    let cases = EXECUTE_POINTS.map(async |(point, claimed)| {
        let deployment = Deployment::start(2).await;
        let inbox = with_subscription(&deployment).await;
        die_at(&deployment, point, EXECUTE, json!({ "input": message(&inbox, "m-1") })).await;
        let claimed = if claimed { Some(claimed_execution(&deployment).await) } else { None };
        let fresh = deployment.replica().await;
        let retry = fresh.execute(message(&inbox, "m-1")).await;
        let outcome = if claimed.is_some() { "DUPLICATE" } else { "STARTED" };
        assert_eq!(retry["outcome"], outcome, "{point}: {retry}");
        assert_eq!(retry["execution"]["status"], "PENDING", "{point}: the response came before the execution exists");
        let id: i64 = retry["execution"]["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(claimed.unwrap_or(id), id, "{point}");
        claims_settled(&deployment).await;
        assert_whole(&deployment, 1).await;
        let again = fresh.execute(message(&inbox, "m-1")).await;
        assert_eq!(again["execution"]["id"], retry["execution"]["id"], "{point}");
    });
    join_all(cases).await;
}

#[tokio::test]
async fn a_reserved_claim_never_expires() {
    let deployment = Deployment::start(2).await;
    let inbox = with_subscription(&deployment).await;
    let mut message = message(&inbox, "m-1");
    message["dedup"]["windowSeconds"] = json!(1);
    die_at(&deployment, "execute.claimed", EXECUTE, json!({ "input": message })).await;
    let claimed = claimed_execution(&deployment).await;
    // The window ends while no server runs. The next request must finish the claim instead of replacing it.
    sleep_in_scenario(Duration::from_millis(1200)).await;
    let retry = deployment.replica().await.execute(message).await;
    assert_eq!(retry["execution"]["id"], claimed.to_string(), "{retry}");
    assert_eq!(retry["outcome"], "DUPLICATE");
    assert_whole(&deployment, 1).await;
}

/// Executes under one client's keys until the server is killed, and counts the acknowledged requests. Returns the
/// acknowledged keys with their execution ids.
async fn stream(
    server: &Server,
    inbox: &str,
    round: usize,
    client: usize,
    count: &AtomicUsize,
) -> Vec<(String, String)> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        // Two clients use each key.
        let key = format!("{round}-{}-{n}", client / 2);
        let Ok(answer) = server.send(EXECUTE, json!({ "input": message(inbox, &key) })).await else {
            break;
        };
        // A server that is being killed may return an error. An error acknowledges nothing.
        if let Some(id) = answer["data"]["execute"]["execution"]["id"].as_str() {
            acknowledged.push((key, id.to_owned()));
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
    acknowledged
}

#[tokio::test]
async fn every_acknowledged_execution_exists_once_after_random_kills() {
    let deployment = Deployment::start(2).await;
    let inbox = with_subscription(&deployment).await;
    let mut acknowledged: HashMap<String, String> = HashMap::new();
    for round in 0..5 {
        let mut replicas = [deployment.replica().await, deployment.replica().await];
        let pids = replicas.each_ref().map(Server::pid);
        let count = AtomicUsize::new(0);
        let clients = (0..12).map(|client| stream(&replicas[client % 2], &inbox, round, client, &count));
        let killing = async {
            // Two clients use each key, so these requests have at least 12 keys.
            let enough = async || (count.load(Ordering::SeqCst) >= 24).then_some(());
            eventually("requests are acknowledged", enough).await;
            for pid in pids.map(|pid| Pid::from_raw(pid.cast_signed())) {
                sleep_in_scenario(Duration::from_millis(60 + u64::from(rand_byte()))).await;
                kill(pid, Signal::SIGKILL).unwrap();
            }
        };
        let (answers, ()) = tokio::join!(join_all(clients), killing);
        for (key, id) in answers.into_iter().flatten() {
            let first = acknowledged.entry(key.clone()).or_insert_with(|| id.clone());
            assert_eq!(*first, id, "two executions were acknowledged under {key}");
        }
        for replica in &mut replicas {
            replica.ended().await;
        }
    }
    let _fresh = deployment.replica().await;
    claims_settled(&deployment).await;

    let mut cluster = deployment.cluster().await;
    let claims: Vec<(String, i64)> = sqlx::query_as("SELECT dedup_key, execution_id FROM noetl.subscription_dedup")
        .fetch_all(&mut cluster)
        .await
        .unwrap();
    let claims: BTreeMap<String, String> = claims.into_iter().map(|(key, id)| (key, id.to_string())).collect();
    assert!(acknowledged.len() >= 60, "too few requests were acknowledged: {}", acknowledged.len());
    for (key, id) in &acknowledged {
        assert_eq!(claims.get(key), Some(id), "the acknowledged claim of {key} is wrong or missing");
    }
    assert_whole(&deployment, i64::try_from(claims.len()).unwrap()).await;
    let existing = "SELECT count(*) FROM noetl.execution WHERE execution_id = $1";
    for (key, id) in &claims {
        let counts: Vec<(i64,)> = deployment.rows(existing, id).await;
        assert_eq!(counts.iter().map(|(count,)| count).sum::<i64>(), 1, "the execution of {key}");
    }
}

fn rand_byte() -> u8 {
    uuid::Uuid::new_v4().as_bytes()[0]
}

const REGISTER: &str = "mutation { registerSubscription(input: {path: \"inbox\"}) { subscription { id } } }";
const REGISTER_POINTS: [&str; 3] = ["register.reserved", "register.intended", "register.created"];

/// Creates a deployment in which a replica died at a fault point of a registration. `register.intended` is reached only
/// if the path was registered before.
async fn died_registering(point: &str) -> Deployment {
    let deployment = Deployment::start(2).await;
    let inbox = with_subscription(&deployment).await;
    if point == "register.reserved" {
        let forget = "DELETE FROM noetl.subscription_registry";
        sqlx::query(forget).execute(&mut deployment.cluster().await).await.unwrap();
    }
    let server = deployment.replica().await;
    server.transition("deactivate", &inbox, None).await;
    assert!(server.stop().await.success());
    die_at(&deployment, point, REGISTER, json!({})).await;
    assert_eq!(deployment.in_cluster(INTENTS).await, 1, "{point}");
    deployment
}

#[tokio::test]
async fn a_registration_is_finished_after_a_crash_without_a_retry() {
    let cases = REGISTER_POINTS.map(async |point| {
        let deployment = died_registering(point).await;
        let fresh = deployment.replica().await;
        eventually("the intent is fulfilled", async || (deployment.in_cluster(INTENTS).await == 0).then_some(())).await;
        assert_eq!(deployment.sum_over_shards(LIVE).await, 1, "{point}");
        let found = fresh.register("inbox").await;
        assert_eq!(found["subscription"]["status"], "REGISTERED", "{point}: {found}");
        assert_eq!(deployment.sum_over_shards(LIVE).await, 1, "{point}");
    });
    join_all(cases).await;
}

#[tokio::test]
async fn registering_again_after_a_crash_returns_the_reserved_subscription() {
    let cases = REGISTER_POINTS.map(async |point| {
        let deployment = died_registering(point).await;
        let intended = deployment.in_cluster("SELECT subscription_id FROM noetl.subscription_registry").await;
        let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
        let answers = join_all((0..16).map(|n| [&one, &other][n % 2].register("inbox"))).await;
        for answer in answers {
            assert_eq!(answer["subscription"]["id"], intended.to_string(), "{point}: {answer}");
        }
        assert_eq!(deployment.sum_over_shards(LIVE).await, 1, "{point}");
    });
    join_all(cases).await;
}

#[tokio::test]
async fn finishing_a_registration_does_not_revive_a_deactivated_subscription() {
    let deployment = died_registering("register.created").await;
    let fresh = deployment.replica().await;
    let live = deployment.in_cluster("SELECT subscription_id FROM noetl.subscription_registry").await;
    let ended = fresh.transition("deactivate", &live.to_string(), None).await;
    assert_eq!(ended["subscription"]["status"], "DEACTIVATED", "{ended}");
    eventually("the intent is settled", async || (deployment.in_cluster(INTENTS).await == 0).then_some(())).await;
    let registered = "SELECT count(*) FROM noetl.source_subscription";
    assert_eq!(deployment.sum_over_shards(registered).await, 2, "a subscription was registered without a request");
    assert_eq!(deployment.sum_over_shards(LIVE).await, 0);
}
