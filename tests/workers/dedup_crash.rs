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
const INTENTS: &str = "SELECT count(*) FROM noetl.subscription_registry WHERE intent_after IS NOT NULL";
const LIVE: &str = "SELECT count(*) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'";

fn message(inbox: &str, key: &str) -> Value {
    json!({ "entry": { "path": "process" }, "parentExecutionId": inbox, "dedup": { "key": key, "windowSeconds": 3600 } })
}

/// Creates catalog entries and a live subscription. Returns the subscription's id.
async fn with_subscription(server: &Server) -> String {
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    server.subscribe("inbox").await
}

/// Point that a replica reaches in the background, so that its response may be received before it dies.
const BACKGROUND_POINT: &str = "execute.settled";

/// Starts a replica for each of these fault points, at which it dies.
async fn doomed_replicas(deployment: &Deployment, points: &[&str]) -> Vec<Server> {
    join_all(points.iter().map(async |point| deployment.replica_with(&[("NOETL_FAULT_POINT", *point)]).await)).await
}

/// Sends a request to a replica that dies at a fault point during the request.
async fn die(mut doomed: Server, point: &str, query: &str, variables: Value) {
    let answer = doomed.send(query, variables).await;
    assert!(answer.is_err() || point == BACKGROUND_POINT, "{point} was not reached: {answer:?}");
    assert!(!doomed.ended().await.success(), "{point}");
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

/// Panics unless the executions of the claims are exactly those that exist, each on one shard.
async fn assert_each_exists(deployment: &Deployment, claims: &BTreeMap<String, i64>) {
    let mut existing: Vec<i64> = Vec::new();
    for shard in 0..deployment.shard_dsns.len() {
        let ids = sqlx::query_scalar::<_, i64>("SELECT execution_id FROM noetl.execution");
        existing.extend(ids.fetch_all(&mut deployment.shard(shard).await).await.unwrap());
    }
    existing.sort_unstable();
    let mut claimed: Vec<i64> = claims.values().copied().collect();
    claimed.sort_unstable();
    assert_eq!(existing, claimed);
}

async fn claims_settled(deployment: &Deployment) {
    let settled = async || (deployment.in_cluster(RESERVED_CLAIMS).await == 0).then_some(());
    eventually("every claim is settled", settled).await;
}

/// Returns the execution of each claimed key.
async fn claimed_executions(deployment: &Deployment) -> BTreeMap<String, i64> {
    let claims = "SELECT dedup_key, execution_id FROM noetl.subscription_dedup";
    let claims: Vec<(String, i64)> = sqlx::query_as(claims).fetch_all(&mut deployment.cluster().await).await.unwrap();
    claims.into_iter().collect()
}

/// The fault points of an execute request, each with a flag: the key is claimed at this point.
const EXECUTE_POINTS: [(&str, bool); 4] =
    [("execute.validated", false), ("execute.claimed", true), ("execute.created", true), (BACKGROUND_POINT, true)];

/// Executes once for each of [`EXECUTE_POINTS`], with a replica that dies at this point. The key is the name of the
/// point. Returns the parent of the executions, and the execution of each claimed key.
async fn died_executing(deployment: &Deployment) -> (String, BTreeMap<String, i64>) {
    let points = EXECUTE_POINTS.map(|(point, _)| point);
    let doomed = doomed_replicas(deployment, &points).await;
    let inbox = with_subscription(&doomed[0]).await;
    let deaths = doomed.into_iter().zip(points).map(|(doomed, point)| {
        let message = message(&inbox, point);
        die(doomed, point, EXECUTE, json!({ "input": message }))
    });
    join_all(deaths).await;
    let claimed = claimed_executions(deployment).await;
    for (point, is_claimed) in EXECUTE_POINTS {
        assert_eq!(claimed.contains_key(point), is_claimed, "{point}");
    }
    (inbox, claimed)
}

#[tokio::test]
async fn a_claim_is_finished_after_a_crash_without_a_retry() {
    let deployment = Deployment::start(2).await;
    let (_, claimed) = died_executing(&deployment).await;
    let _fresh = deployment.replica().await;
    claims_settled(&deployment).await;
    assert_whole(&deployment, i64::try_from(claimed.len()).unwrap()).await;
    assert_each_exists(&deployment, &claimed).await;
}

#[tokio::test]
async fn a_retry_after_a_crash_returns_the_claimed_execution() {
    let deployment = Deployment::start(2).await;
    let (inbox, claimed) = died_executing(&deployment).await;
    let fresh = deployment.replica().await;
    for (point, is_claimed) in EXECUTE_POINTS {
        let retry = fresh.execute(message(&inbox, point)).await;
        let outcome = if is_claimed { "DUPLICATE" } else { "STARTED" };
        assert_eq!(retry["outcome"], outcome, "{point}: {retry}");
        assert_eq!(retry["execution"]["status"], "PENDING", "{point}: the response came before the execution exists");
        let id: i64 = retry["execution"]["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(claimed.get(point).copied().unwrap_or(id), id, "{point}");
        let again = fresh.execute(message(&inbox, point)).await;
        assert_eq!(again["execution"]["id"], retry["execution"]["id"], "{point}");
    }
    claims_settled(&deployment).await;
    assert_whole(&deployment, 4).await;
}

#[tokio::test]
async fn a_reserved_claim_never_expires() {
    let deployment = Deployment::start(2).await;
    let doomed = deployment.replica_with(&[("NOETL_FAULT_POINT", "execute.claimed")]).await;
    let inbox = with_subscription(&doomed).await;
    let mut message = message(&inbox, "m-1");
    message["dedup"]["windowSeconds"] = json!(1);
    die(doomed, "execute.claimed", EXECUTE, json!({ "input": message })).await;
    let claimed = claimed_executions(&deployment).await["m-1"];
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
    let (mut inbox, mut acknowledged) = (String::new(), HashMap::<String, String>::new());
    for round in 0..3 {
        let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
        if round == 0 {
            inbox = with_subscription(&one).await;
        }
        let mut replicas = [one, other];
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

    let claims = claimed_executions(&deployment).await;
    assert!(acknowledged.len() >= 36, "too few requests were acknowledged: {}", acknowledged.len());
    for (key, id) in &acknowledged {
        let claimed = claims.get(key).map(i64::to_string);
        assert_eq!(claimed.as_ref(), Some(id), "the acknowledged claim of {key} is wrong or missing");
    }
    assert_whole(&deployment, i64::try_from(claims.len()).unwrap()).await;
    assert_each_exists(&deployment, &claims).await;
}

fn rand_byte() -> u8 {
    uuid::Uuid::new_v4().as_bytes()[0]
}

const REGISTER: &str =
    "mutation($path: String!) { registerSubscription(input: {path: $path}) { subscription { id } } }";
/// The fault points of a registration. The first one is reached only if the path was registered before.
const REGISTER_POINTS: [&str; 3] = ["register.intended", "register.reserved", "register.created"];

/// Registers a path again for each of [`REGISTER_POINTS`], with a replica that dies at this point. The path is the name
/// of the point, and its subscription was deactivated.
async fn died_registering(deployment: &Deployment) {
    let doomed = doomed_replicas(deployment, &REGISTER_POINTS).await;
    for path in REGISTER_POINTS {
        let id = doomed[0].subscribe(path).await;
        doomed[0].transition("deactivate", &id, None).await;
    }
    // A path is reserved only if the registry does not have it.
    let forget = "DELETE FROM noetl.subscription_registry WHERE path = 'register.reserved'";
    sqlx::query(forget).execute(&mut deployment.cluster().await).await.unwrap();
    let deaths = doomed.into_iter().zip(REGISTER_POINTS);
    join_all(deaths.map(|(doomed, point)| die(doomed, point, REGISTER, json!({ "path": point })))).await;
    assert_eq!(deployment.in_cluster(INTENTS).await, 3);
}

async fn intents_fulfilled(deployment: &Deployment) {
    let fulfilled = async || (deployment.in_cluster(INTENTS).await == 0).then_some(());
    eventually("every intent is fulfilled", fulfilled).await;
}

#[tokio::test]
async fn a_registration_is_finished_after_a_crash_without_a_retry() {
    let deployment = Deployment::start(2).await;
    died_registering(&deployment).await;
    let fresh = deployment.replica().await;
    intents_fulfilled(&deployment).await;
    assert_eq!(deployment.sum_over_shards(LIVE).await, 3);
    for path in REGISTER_POINTS {
        let found = fresh.register(path).await;
        assert_eq!(found["subscription"]["status"], "REGISTERED", "{path}: {found}");
    }
    assert_eq!(deployment.sum_over_shards(LIVE).await, 3, "a path has two live subscriptions");
}

#[tokio::test]
async fn registering_again_after_a_crash_returns_the_reserved_subscription() {
    let deployment = Deployment::start(2).await;
    died_registering(&deployment).await;
    let intended = "SELECT path, subscription_id FROM noetl.subscription_registry";
    let intended: Vec<(String, i64)> =
        sqlx::query_as(intended).fetch_all(&mut deployment.cluster().await).await.unwrap();
    assert_eq!(intended.len(), 3, "{intended:?}");
    let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
    for (path, id) in &intended {
        let answers = join_all((0..16).map(|n| [&one, &other][n % 2].register(path))).await;
        for answer in answers {
            assert_eq!(answer["subscription"]["id"], id.to_string(), "{path}: {answer}");
        }
    }
    assert_eq!(deployment.sum_over_shards(LIVE).await, 3);
}

#[tokio::test]
async fn finishing_a_registration_does_not_revive_a_deactivated_subscription() {
    let deployment = Deployment::start(2).await;
    let doomed = deployment.replica_with(&[("NOETL_FAULT_POINT", "register.created")]).await;
    doomed.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    die(doomed, "register.created", REGISTER, json!({ "path": "inbox" })).await;
    assert_eq!(deployment.in_cluster(INTENTS).await, 1);
    let fresh = deployment.replica().await;
    let live = deployment.in_cluster("SELECT subscription_id FROM noetl.subscription_registry").await;
    let ended = fresh.transition("deactivate", &live.to_string(), None).await;
    assert_eq!(ended["subscription"]["status"], "DEACTIVATED", "{ended}");
    intents_fulfilled(&deployment).await;
    let registered = "SELECT count(*) FROM noetl.source_subscription";
    assert_eq!(deployment.sum_over_shards(registered).await, 1, "a subscription was registered without a request");
    assert_eq!(deployment.sum_over_shards(LIVE).await, 0);
}
