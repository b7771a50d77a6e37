//! Within its window, a dedup key has exactly one execution, for any number of requests.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::{Deployment, Server, eventually, execute_input, repeated, sleep_in_scenario};
use serde_json::{Value, json};

const EXECUTIONS: &str = "SELECT count(*) FROM noetl.execution";
const STARTED: &str = "SELECT count(*) FROM noetl.event WHERE event_type = 'playbook_started'";
const OUTBOX: &str = "SELECT count(*) FROM noetl.outbox";
const DEDUPLICATED: &str = "SELECT count(*) FROM noetl.event WHERE event_type = 'subscription.message.deduplicated'";
const LOST_AUDITS: &str = "noetl_duplicate_audits_lost_total";
const CLAIMS: &str = "SELECT count(*) FROM noetl.subscription_dedup";
const WITH_KEY: &str = "SELECT count(*) FROM noetl.subscription_dedup WHERE dedup_key = 'm-1'";

/// Starts a server with a playbook `process` and a live subscription of `inbox`. Returns the server and the
/// subscription's id.
async fn with_subscription(deployment: &Deployment, subscription: &Value) -> (Server, String) {
    let server = deployment.replica().await;
    let id = register_inbox(&server, subscription).await;
    (server, id)
}

/// Registers a playbook `process` and a subscription of `inbox`, and returns the subscription's id.
async fn register_inbox(server: &Server, subscription: &Value) -> String {
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    server.register_entry("inbox", subscription).await;
    server.register("inbox").await["subscription"]["id"].as_str().unwrap().to_owned()
}

fn message(parent: Option<&str>, key: &str) -> Value {
    json!({ "path": "process", "parentExecutionId": parent, "workload": { "n": 1 }, "dedup": { "key": key } })
}

/// Returns the number of executions with this parent.
async fn started(deployment: &Deployment, parent: &str) -> usize {
    let children = "SELECT execution_id FROM noetl.execution WHERE parent_execution_id = $1";
    deployment.rows::<(i64,)>(children, parent).await.len()
}

fn lasting(mut message: Value, seconds: u32) -> Value {
    message["dedup"]["windowSeconds"] = seconds.into();
    message
}

fn id(payload: &Value) -> &str {
    payload["execution"]["id"].as_str().unwrap_or_else(|| panic!("{payload}"))
}

/// Returns the number of executions.
async fn executions(deployment: &Deployment) -> i64 {
    deployment.sum_over_shards(EXECUTIONS).await
}

async fn assert_executions(deployment: &Deployment, count: i64) {
    for what in [EXECUTIONS, STARTED, OUTBOX] {
        assert_eq!(deployment.sum_over_shards(what).await, count, "{what}");
    }
}

/// Audit events are written in the background.
async fn assert_audits(deployment: &Deployment, what: &str, count: i64) {
    let written = eventually("the audit events are written", async || {
        Some(deployment.sum_over_shards(what).await).filter(|&written| written >= count)
    })
    .await;
    assert_eq!(written, count, "{what}");
}

#[tokio::test]
async fn a_hundred_concurrent_requests_with_one_key_start_one_execution() {
    let deployment = Deployment::start(2).await;
    let (one, inbox) = with_subscription(&deployment, &json!({ "kind": "subscription" })).await;
    let other = deployment.replica().await;
    let execute = "mutation($input: ExecuteInput!) { execute(input: $input) {
        executionId outcome userErrors { code message retryable } } }";
    let request = async |n: usize| {
        let variables = json!({ "input": execute_input(message(Some(&inbox), "m-1")) });
        repeated(async || [&one, &other][n % 2].data(execute, variables.clone()).await["execute"].take()).await
    };
    let answers = join_all((0..100).map(request)).await;
    let ids: HashSet<&str> = answers
        .iter()
        .map(|(answer, _)| answer["executionId"].as_str().unwrap_or_else(|| panic!("{answer}")))
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let count = |outcome: &str| answers.iter().filter(|(answer, _)| answer["outcome"] == outcome).count();
    let outcomes = (count("STARTED"), count("DUPLICATE"));
    let sent: usize = answers.iter().map(|(_, times)| times).sum();
    // The request that starts the execution may get an error from a busy server. Its repetition is a duplicate.
    assert!(outcomes == (1, 99) || outcomes == (0, 100) && sent > 100, "{outcomes:?} of {sent} requests");
    assert_executions(&deployment, 1).await;

    let execution = ids.into_iter().next().unwrap();
    let audit = "SELECT context FROM noetl.event
                 WHERE execution_id = $1 AND event_type = 'subscription.message.deduplicated'";
    // Audit events are written in the background. Those that were not written are counted.
    let noted = eventually("each duplicate is noted or counted as lost", async || {
        let lost = one.metric(LOST_AUDITS).await + other.metric(LOST_AUDITS).await;
        let noted: Vec<(Value,)> = deployment.rows(audit, &inbox).await;
        let accounted = f64::from(u32::try_from(noted.len()).unwrap()) + lost;
        (accounted >= 99.0).then_some(noted)
    })
    .await;
    assert!(noted.len() < sent, "{} noted of {sent} requests", noted.len());
    for (context,) in noted {
        assert_eq!((&context["dedup_key"], &context["execution_id"]), (&json!("m-1"), &json!(execution)));
    }
    let (registered, _) = repeated(async || one.register("inbox").await).await;
    assert_eq!(registered["subscription"]["status"], "REGISTERED", "an audit event is not a lifecycle event");
}

#[tokio::test]
async fn a_key_is_free_again_after_the_window_of_its_request_or_its_subscription() {
    let deployment = Deployment::start(2).await;
    let (server, inbox) = with_subscription(&deployment, &json!({ "kind": "subscription" })).await;
    tokio::join!(
        a_key_counts_as_new_after_its_window(&deployment, &server, &inbox),
        the_default_window_is_the_one_of_the_subscription(&deployment, &server),
    );
    assert_executions(&deployment, 6).await;
}

/// A fresh claim replaces an expired one, for one of many requests.
async fn a_key_counts_as_new_after_its_window(deployment: &Deployment, server: &Server, inbox: &str) {
    let ask = async || server.execute(lasting(message(Some(inbox), "m-1"), 1)).await;
    let first = ask().await;
    assert_eq!(first["outcome"], "STARTED");
    deployment.until_claims_are_settled().await;
    sleep_in_scenario(Duration::from_millis(1100)).await;
    let second = ask().await;
    assert_eq!(second["outcome"], "STARTED", "{second}");
    assert_ne!(id(&first), id(&second));
    assert_eq!(started(deployment, inbox).await, 2);
    assert_eq!(deployment.in_cluster(WITH_KEY).await, 1, "a fresh claim replaces the expired one");
    deployment.until_claims_are_settled().await;
    sleep_in_scenario(Duration::from_millis(1100)).await;
    let racing = join_all((0..20).map(|_| server.execute(lasting(message(Some(inbox), "m-1"), 60)))).await;
    assert_eq!(racing.iter().filter(|answer| answer["outcome"] == "STARTED").count(), 1, "{racing:?}");
    assert_eq!(started(deployment, inbox).await, 3);
}

/// A request that names no window has that of its subscription.
async fn the_default_window_is_the_one_of_the_subscription(deployment: &Deployment, server: &Server) {
    let content = json!({ "kind": "subscription", "dedup": { "window_secs": 1 } });
    server.register_entry("short", &content).await;
    let short = server.register("short").await["subscription"]["id"].as_str().unwrap().to_owned();
    let first = server.execute(message(Some(&short), "default")).await;
    // Without a subscription, the default window is 300 seconds.
    let alone = server.execute(message(None, "default")).await;
    let ends = "SELECT extract(epoch FROM expires_at - seen_at)::bigint FROM noetl.subscription_dedup
                WHERE dedup_key = 'default'";
    let mut cluster = deployment.cluster().await;
    let mut windows: Vec<i64> = sqlx::query_scalar(ends).fetch_all(&mut cluster).await.unwrap();
    windows.sort_unstable();
    assert_eq!(windows, [1, 300]);
    deployment.until_claims_are_settled().await;
    sleep_in_scenario(Duration::from_millis(1100)).await;
    assert_ne!(id(&server.execute(message(Some(&short), "default")).await), id(&first));
    assert_eq!(id(&server.execute(message(None, "default")).await), id(&alone));
}

#[tokio::test]
async fn a_key_in_its_parent_execution_identifies_a_request() {
    let deployment = Deployment::start(2).await;
    let (server, inbox) = with_subscription(&deployment, &json!({ "kind": "subscription" })).await;
    server.register_entry("other", &json!({ "kind": "playbook" })).await;
    an_invalid_request_does_not_claim_the_key(&deployment, &server, &inbox).await;
    a_key_is_scoped_to_its_parent_execution(&deployment, &server, &inbox).await;
    only_the_key_identifies_a_duplicate(&deployment, &server, &inbox).await;
    a_different_request_is_a_conflict_if_it_asks_for_strictness(&deployment, &server, &inbox).await;
}

/// Each parent has keys of its own, and so has the absence of a parent.
async fn a_key_is_scoped_to_its_parent_execution(deployment: &Deployment, server: &Server, inbox: &str) {
    let outbox = server.subscribe("outbox").await;
    let parent = server.execute(json!({ "path": "process" })).await;
    let scopes = [None, Some(inbox), Some(outbox.as_str()), Some(id(&parent))];
    let mut ids = HashSet::new();
    for scope in scopes {
        let first = server.execute(message(scope, "scope")).await;
        assert_eq!(first["outcome"], "STARTED", "{scope:?}");
        let again = server.execute(message(scope, "scope")).await;
        assert_eq!((id(&again), &again["outcome"]), (id(&first), &json!("DUPLICATE")), "{scope:?}");
        ids.insert(id(&first).to_owned());
    }
    assert_eq!(ids.len(), 4);
    // One audit event in each subscription's log, none in other logs.
    assert_audits(deployment, DEDUPLICATED, 2).await;
}

/// Returns requests with the same key as `message(parent, key)` and another content.
fn different(parent: &str, key: &str) -> Vec<Value> {
    let changes = [
        ("workload", json!({ "n": 2 })),
        ("executionPool", json!("gpu")),
        ("path", json!("other")),
        ("labels", json!([{ "name": "a", "value": "b" }])),
        ("inheritLabels", json!(true)),
    ];
    let different = |(field, value): (&str, Value)| {
        let mut request = message(Some(parent), key);
        request[field] = value;
        request
    };
    changes.map(different).into()
}

/// A request with a used key is a duplicate, whatever else it contains.
async fn only_the_key_identifies_a_duplicate(deployment: &Deployment, server: &Server, inbox: &str) {
    let before = executions(deployment).await;
    let first = server.execute(message(Some(inbox), "only")).await;
    assert_eq!((&first["outcome"], &first["differs"]), (&json!("STARTED"), &Value::Null));
    let outcome = async |request: Value| {
        let answer = server.execute(request).await;
        assert_eq!((id(&answer), &answer["userErrors"]), (id(&first), &json!([])), "{answer}");
        assert_eq!(answer["executionId"], first["execution"]["id"], "{answer}");
        json!([answer["outcome"], answer["differs"]])
    };
    for request in different(inbox, "only") {
        assert_eq!(outcome(request).await, json!(["DUPLICATE", true]));
    }
    // Another order of JSON keys or a newer version of the playbook does not make the request different.
    server.register_entry("process", &json!({ "kind": "playbook", "workload": { "x": 1 } })).await;
    assert_eq!(outcome(message(Some(inbox), "only")).await, json!(["DUPLICATE", false]));
    assert_executions(deployment, before + 1).await;
    let differing = "SELECT count(*) FROM noetl.event
                     WHERE event_type = 'subscription.message.deduplicated' AND context @> '{\"differs\": true}'";
    assert_audits(deployment, DEDUPLICATED, 2 + 6).await;
    assert_audits(deployment, differing, 5).await;
}

/// A strict request with a used key and other content is refused.
async fn a_different_request_is_a_conflict_if_it_asks_for_strictness(
    deployment: &Deployment,
    server: &Server,
    inbox: &str,
) {
    let before = executions(deployment).await;
    let strict = |mut request: Value| {
        request["dedup"]["rejectDifferent"] = true.into();
        request
    };
    // The first request of a key may ask for it too; it is compared with itself only.
    let first = server.execute(strict(message(Some(inbox), "strict"))).await;
    assert_eq!(first["outcome"], "STARTED", "{first}");
    for request in different(inbox, "strict") {
        let answer = server.execute(strict(request)).await;
        let error = &answer["userErrors"][0];
        assert_eq!(error["code"], "IDEMPOTENCY_MISMATCH", "{answer}");
        assert_eq!(error["field"], json!(["dedup", "key"]));
        assert_eq!(error["retryable"], false);
        assert!(error["message"].as_str().unwrap().contains(id(&first)), "{error}");
        assert_eq!(json!([answer["execution"], answer["outcome"], answer["differs"]]), json!([null, null, null]));
    }
    let again = server.execute(strict(message(Some(inbox), "strict"))).await;
    assert_eq!((id(&again), &again["outcome"], &again["differs"]), (id(&first), &json!("DUPLICATE"), &json!(false)));
    assert_executions(deployment, before + 1).await;
}

/// A request that is refused leaves its key free.
async fn an_invalid_request_does_not_claim_the_key(deployment: &Deployment, server: &Server, inbox: &str) {
    let bad = [
        (json!({ "path": "nowhere" }), "NOT_FOUND", "entry.path"),
        (json!({ "path": "inbox" }), "WRONG_KIND", "entry.path"),
        (json!({ "parentExecutionId": "1" }), "NOT_FOUND", "parentExecutionId"),
        (json!({ "workload": [1] }), "INVALID_INPUT", "workload"),
        (json!({ "executionPool": "a.b" }), "INVALID_INPUT", "executionPool"),
    ];
    for (change, code, field) in bad {
        let mut request = message(Some(inbox), "invalid");
        request.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = server.execute(request).await;
        assert_eq!(answer["userErrors"][0]["code"], code, "{answer}");
        let field: Vec<&str> = field.split('.').collect();
        assert_eq!(answer["userErrors"][0]["field"], json!(field), "{answer}");
    }
    assert_eq!(deployment.in_cluster(CLAIMS).await, 0);
    assert_eq!(server.execute(message(Some(inbox), "invalid")).await["outcome"], "STARTED");
    assert_executions(deployment, 1).await;
}

async fn execute_batch(server: &Server, requests: Vec<Value>) -> Value {
    let query = "mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) {
        results { index execution { id path workload } outcome differs userErrors { code field } }
        userErrors { code field message } } }";
    let requests: Vec<Value> = requests.into_iter().map(execute_input).collect();
    server.data(query, json!({ "input": { "requests": requests } })).await["executeBatch"].clone()
}

#[tokio::test]
async fn a_batch_of_1_to_1000_requests_has_a_result_for_each() {
    let deployment = Deployment::start(3).await;
    let (server, inbox) = with_subscription(&deployment, &json!({ "kind": "subscription" })).await;
    a_batch_accepts_1_to_1000_requests(&deployment, &server).await;
    batch_results_are_in_the_order_of_the_requests(&deployment, &server, &inbox).await;
}

/// Each request of a batch has its own result, at its index.
async fn batch_results_are_in_the_order_of_the_requests(deployment: &Deployment, server: &Server, inbox: &str) {
    // Each group of ten requests has five new keys, two duplicates of the first, one different request with a used key
    // that is rejected in every second group, one request without a key, and one invalid request of one of three kinds.
    let request = |n: usize| {
        let decade = n / 10 * 10;
        let plain = |n: usize| json!({ "path": "process", "parentExecutionId": inbox, "workload": { "n": n } });
        let keyed = |n: usize, key: usize| {
            let mut request = plain(n);
            request["dedup"] = json!({ "key": format!("m-{key}") });
            request
        };
        match n % 10 {
            5 | 6 => keyed(decade, decade),
            7 => {
                let mut request = keyed(n, decade + 1);
                request["dedup"]["rejectDifferent"] = (decade / 10).is_multiple_of(2).into();
                request
            }
            8 => plain(n),
            9 => match decade / 10 % 3 {
                0 => json!({ "path": "nowhere" }),
                1 => json!({ "catalogId": "no number" }),
                _ => json!({ "path": "" }),
            },
            _ => keyed(n, n),
        }
    };
    let answer = execute_batch(server, (0..1000).map(request).collect()).await;
    assert_eq!(answer["userErrors"], json!([]));
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 1000);
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["index"], n);
        let (started, error) = (&results[n / 10 * 10], &result["userErrors"][0]);
        match n % 10 {
            5 | 6 => {
                assert_eq!(
                    (&result["outcome"], &result["differs"]),
                    (&json!("DUPLICATE"), &json!(false)),
                    "{n}: {result}"
                );
                assert_eq!(id(result), id(started), "{n}");
            }
            7 if n / 10 % 2 == 0 => assert_eq!(error["code"], "IDEMPOTENCY_MISMATCH", "{n}: {result}"),
            7 => {
                assert_eq!(
                    (&result["outcome"], &result["differs"]),
                    (&json!("DUPLICATE"), &json!(true)),
                    "{n}: {result}"
                );
                assert_eq!(id(result), id(&results[n / 10 * 10 + 1]), "{n}");
            }
            9 => {
                let (code, field) =
                    [("NOT_FOUND", "path"), ("INVALID_INPUT", "catalogId"), ("INVALID_INPUT", "path")][n / 10 % 3];
                let field = json!(["requests", n.to_string(), "entry", field]);
                assert_eq!((&error["code"], &error["field"]), (&json!(code), &field), "{n}: {result}");
            }
            _ => {
                assert_eq!(result["outcome"], "STARTED", "{n}: {result}");
                assert_eq!(result["execution"]["workload"], json!({ "n": n }), "{n}");
            }
        }
    }
    assert_executions(deployment, 600).await;
    assert_audits(deployment, DEDUPLICATED, 250).await;

    let again = execute_batch(server, (0..5).map(request).collect()).await;
    for (first, second) in results.iter().zip(again["results"].as_array().unwrap()) {
        assert_eq!((id(second), &second["outcome"]), (id(first), &json!("DUPLICATE")));
    }
}

/// A batch of another size starts nothing.
async fn a_batch_accepts_1_to_1000_requests(deployment: &Deployment, server: &Server) {
    let good = json!({ "path": "process" });
    let mut with_malformed = vec![good.clone(); 1000];
    with_malformed.push(json!({ "catalogId": "no number" }));
    let batches = [vec![], vec![good; 1001], with_malformed, vec![json!({ "catalogId": "no number" }); 1001]];
    for requests in batches {
        let count = requests.len();
        let answer = execute_batch(server, requests).await;
        assert_eq!(answer["results"].as_array().unwrap().len(), 0, "{count}");
        let error = &answer["userErrors"][0];
        assert_eq!((&error["code"], &error["field"]), (&json!("INVALID_INPUT"), &json!(["requests"])), "{count}");
    }
    assert_executions(deployment, 0).await;
}

/// A failover of a shard can lose an execution whose claim is settled in the cluster database.
#[tokio::test]
async fn a_repetition_starts_an_execution_that_its_shard_has_lost() {
    let deployment = Deployment::start(2).await;
    // A projector could store the execution again, from the events that it read before they are deleted here.
    let server = deployment.replica_without_projector().await;
    let inbox = register_inbox(&server, &json!({ "kind": "subscription" })).await;
    let first = server.execute(message(Some(&inbox), "m-1")).await;
    assert_eq!(first["outcome"], "STARTED");
    let settled = "SELECT count(*) FROM noetl.subscription_dedup WHERE state = 1";
    eventually("the claim is settled", async || (deployment.in_cluster(settled).await == 1).then_some(())).await;
    for shard in 0..2 {
        for table in ["outbox", "event", "execution"] {
            let lose = format!("DELETE FROM noetl.{table} WHERE execution_id = {}", id(&first));
            deployment.on_shard(shard, &lose).await;
        }
    }
    let mut different = message(Some(&inbox), "m-1");
    different["workload"] = json!({ "n": 2 });
    let different = server.execute(different).await;
    assert_eq!((&different["outcome"], &different["execution"]), (&json!("DUPLICATE"), &Value::Null));

    let again = server.execute(message(Some(&inbox), "m-1")).await;
    assert_eq!((&again["outcome"], id(&again)), (&json!("DUPLICATE"), id(&first)));
    assert_executions(&deployment, 1).await;
    let third = server.execute(message(Some(&inbox), "m-1")).await;
    assert_eq!((&third["outcome"], id(&third)), (&json!("DUPLICATE"), id(&first)));
    assert_executions(&deployment, 1).await;
}
