//! Events without ids: a key in the execution makes a repetition a duplicate, and the server gives the ids.

use futures::future::join_all;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardMap;
use noetl_testkit::feed::run;
use noetl_testkit::mover::{buckets, moved};
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::plans::{deployment_with_plans, rows_read};
use noetl_testkit::worker::{event, event_with};
use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Value, json};

/// Returns an event with a key and without an id.
fn keyed(execution: i64, key: &str, fields: &Value) -> Value {
    let mut event = event_with(execution, 1, fields);
    event["eventId"] = Value::Null;
    event["idempotencyKey"] = json!(key);
    event
}

/// Returns the numbers of stored, repeated and refused events of a batch.
fn counts(payload: &Value) -> (u64, u64, usize) {
    let rejected = payload["rejected"].as_array().unwrap().len();
    (payload["projected"].as_u64().unwrap(), payload["duplicates"].as_u64().unwrap(), rejected)
}

/// Returns the ids and keys of the events of an execution that have keys, in the order of the log.
async fn stored(deployment: &Deployment, execution: i64) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    for shard in 0..deployment.shard_dsns.len() {
        found.extend(stored_on(deployment, shard, execution).await);
    }
    found
}

async fn stored_on(deployment: &Deployment, shard: usize, execution: i64) -> Vec<(i64, String)> {
    let query = "SELECT event_id, event_key FROM noetl.event
                 WHERE execution_id = $1 AND event_key IS NOT NULL ORDER BY event_id";
    let rows = sqlx::query_as(query).bind(execution);
    rows.fetch_all(&mut deployment.shard(shard).await).await.unwrap()
}

async fn keys(deployment: &Deployment, execution: i64) -> Vec<String> {
    stored(deployment, execution).await.into_iter().map(|(_, key)| key).collect()
}

#[tokio::test]
async fn a_key_has_one_event_in_its_execution_with_an_id_that_follows_its_log() {
    let deployment = Deployment::start(2).await;
    let (one, other) = tokio::join!(deployment.replica_with(&QUIET), deployment.replica_with(&QUIET));
    a_repeated_key_is_a_duplicate_in_its_execution_and_with_other_content_a_conflict(&deployment, &one, &other).await;
    a_key_of_a_document_is_that_of_an_event_and_is_ignored_beside_an_id(&deployment, &one).await;
    ids_of_events_with_keys_follow_their_log_in_the_order_of_the_batches(&deployment, &one, &other).await;
    of_concurrent_events_with_one_key_one_is_stored_and_those_with_other_content_are_refused(&deployment, &one, &other)
        .await;
}

/// The second replica gets what a worker repeats whose first replica died before it responded.
async fn a_repeated_key_is_a_duplicate_in_its_execution_and_with_other_content_a_conflict(
    deployment: &Deployment,
    one: &Server,
    other: &Server,
) {
    let execution = one.start_execution().await;
    let batch = [
        keyed(execution, "b", &json!({ "result": { "rows": 1 } })),
        keyed(execution, "a", &json!({})),
        keyed(execution, "b", &json!({ "result": { "rows": 1 } })),
        // Logs that do not exist yet.
        keyed(7, "a", &json!({})),
        keyed(8, "a", &json!({})),
    ];
    assert_eq!(counts(&one.project(&batch).await), (4, 1, 0));
    assert_eq!(counts(&other.project(&batch).await), (0, 5, 0));
    assert_eq!(keys(deployment, execution).await, ["b", "a"]);
    assert_eq!((keys(deployment, 7).await, keys(deployment, 8).await), (vec!["a".to_owned()], vec!["a".to_owned()]));

    let changed = [
        keyed(execution, "a", &json!({ "status": "FAILED" })),
        keyed(execution, "c", &json!({})),
        keyed(execution, "c", &json!({ "status": "FAILED" })),
    ];
    let payload = other.project(&changed).await;
    assert_eq!(counts(&payload), (1, 0, 2), "{payload}");
    for (refused, index) in payload["rejected"].as_array().unwrap().iter().zip(["0", "2"]) {
        assert_eq!((&refused["code"], &refused["eventId"]), (&json!("EVENT_ID_CONFLICT"), &Value::Null), "{refused}");
        assert_eq!(refused["field"], json!(["events", index, "idempotencyKey"]));
        assert!(refused["message"].as_str().unwrap().ends_with("it differs in: status"), "{refused}");
    }
    assert_eq!(keys(deployment, execution).await, ["b", "a", "c"]);
}

/// A document has the key of an event with the same content.
async fn a_key_of_a_document_is_that_of_an_event_and_is_ignored_beside_an_id(deployment: &Deployment, server: &Server) {
    assert_eq!(counts(&server.project(&[keyed(9, "a", &json!({}))]).await), (1, 0, 0));
    let id = stored(deployment, 9).await[0].0;
    let document = |id: Value, key: &str| {
        let (of_type, node) = ("call.done", "step");
        json!({ "execution_id": 9, "event_id": id, "event_key": key, "event_type": of_type, "node_name": node })
    };
    let events =
        [document(Value::Null, "a"), document(Value::Null, "b"), document(json!(id), "a"), document(json!(5), "a")];
    let query = "mutation($events: [JSON!]!) { projectEventDocuments(input: { events: $events }) {
        projected duplicates rejected { index } } }";
    let payload = server.data(query, json!({ "events": events })).await["projectEventDocuments"].take();
    assert_eq!(counts(&payload), (2, 2, 0), "{payload}");
    assert_eq!(keys(deployment, 9).await, ["a", "b"]);
}

/// Ends of logs: an id of the past, one within and one after the time up to which ids can follow, and one of NoETL's
/// function, which makes larger ids.
async fn ids_of_events_with_keys_follow_their_log_in_the_order_of_the_batches(
    deployment: &Deployment,
    one: &Server,
    other: &Server,
) {
    const HOUR: i64 = 3_600_000 << 22;
    let ends: [fn(i64) -> i64; 4] = [|id| id + 10, |id| id + HOUR, |id| id + 1_000 * HOUR, |id| (id >> 22 << 23) + 1];
    for end in ends {
        let execution = one.start_execution().await;
        let end = end(execution);
        assert_eq!(counts(&one.project(&[event(execution, end)]).await), (1, 0, 0));
        let mut expected = Vec::new();
        for (server, part) in [(one, "b"), (other, "a"), (one, "c")] {
            let names: Vec<String> = (10..30).rev().map(|n| format!("{part}{n}")).collect();
            let batch: Vec<Value> = names.iter().map(|name| keyed(execution, name, &json!({}))).collect();
            assert_eq!(counts(&server.project(&batch).await), (20, 0, 0));
            assert_eq!(counts(&server.project(&batch[..5]).await), (0, 5, 0));
            expected.extend(names);
        }
        let found = stored(deployment, execution).await;
        assert!(found[0].0 > end, "{} does not follow {end}", found[0].0);
        assert_eq!(found.into_iter().map(|(_, key)| key).collect::<Vec<_>>(), expected);
    }
}

/// The batches have the keys in different orders, which must not make their statements wait for each other.
async fn of_concurrent_events_with_one_key_one_is_stored_and_those_with_other_content_are_refused(
    deployment: &Deployment,
    one: &Server,
    other: &Server,
) {
    let execution = one.start_execution().await;
    for round in 0..20 {
        let batch = |status: &str| -> Vec<Value> {
            (0..10).map(|n| keyed(execution, &format!("{round}-{n}"), &json!({ "status": status }))).collect()
        };
        let (good, bad) = (batch("COMPLETED"), batch("FAILED"));
        let reversed = |batch: &[Value]| batch.iter().rev().cloned().collect::<Vec<Value>>();
        let (good_reversed, bad_reversed) = (reversed(&good), reversed(&bad));
        let sends =
            [one.project(&good), other.project(&bad), one.project(&bad_reversed), other.project(&good_reversed)];
        let counted: Vec<_> = join_all(sends).await.iter().map(counts).collect();
        let sum = counted.iter().fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        assert_eq!(sum, (10, 10, 20), "{counted:?}");
    }
    assert_eq!(stored(deployment, execution).await.len(), 200);
}

#[tokio::test]
async fn a_key_stays_known_after_its_bucket_has_moved() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    let execution = server.start_execution().await;
    let batch = [keyed(execution, "a", &json!({})), keyed(execution, "b", &json!({}))];
    assert_eq!(counts(&server.project(&batch).await), (2, 0, 0));
    let before = stored(&deployment, execution).await;
    let to = 1 - ShardMap::even(2).shard_of(Id::new(execution));
    moved(&deployment, &buckets(&[execution]), to, &[]).await;
    assert_eq!(counts(&server.project(&batch).await), (0, 2, 0));
    assert_eq!(stored_on(&deployment, usize::from(to), execution).await, before);
}

#[tokio::test]
async fn a_repeated_key_is_found_without_reading_its_log() {
    let (deployment, mut log, _postgres) = deployment_with_plans().await;
    let rows = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, event_key)
                SELECT 7, n, 'call.done', 'step', 'key ' || n FROM generate_series(1, 5000) AS n; ANALYZE noetl.event";
    run(&mut deployment.cluster().await, rows).await;
    let server = deployment.replica_with(&QUIET).await;
    log.plans();
    assert_eq!(counts(&server.project(&[keyed(7, "key 2500", &json!({}))]).await), (0, 1, 0));
    let is_search = |plan: &&Value| plan["Query Text"].as_str().is_some_and(|text| text.contains("event_key = t.key"));
    let plans = log.plans();
    let searches: Vec<f64> = plans.iter().filter(is_search).map(|plan| rows_read(&plan["Plan"])).collect();
    assert!(searches.len() == 1 && searches[0] <= 1.0, "{searches:?}");
}
