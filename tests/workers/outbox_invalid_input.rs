//! Invalid input to the outbox is refused with a code and a field. A shard that is down does not delay the other
//! shards.

use noetl_local::{Postgres, PostgresOptions};
use noetl_testkit::outbox::{NO_RELAY, ids, references};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

const MUTATIONS: [(&str, &str); 6] = [
    ("claimOutbox", "ClaimOutboxInput"),
    ("renewOutboxLeases", "RenewOutboxLeasesInput"),
    ("markOutboxPublished", "MarkOutboxPublishedInput"),
    ("markOutboxFailed", "MarkOutboxFailedInput"),
    ("retryOutbox", "RetryOutboxInput"),
    ("discardOutbox", "DiscardOutboxInput"),
];

/// Mutations with a result for each item.
const ITEMS: [&str; 3] = ["markOutboxPublished", "markOutboxFailed", "renewOutboxLeases"];

/// Returns the error of the request or, if it has none, of its last item.
async fn refused(server: &Server, mutation: &str, input: &Value) -> Option<Value> {
    let (_, kind) = MUTATIONS.iter().find(|(name, _)| *name == mutation).unwrap();
    let errors = "userErrors { code field message retryable }";
    let results = if ITEMS.contains(&mutation) { format!("results {{ index {errors} }}") } else { String::new() };
    let query = format!("mutation($input: {kind}!) {{ it: {mutation}(input: $input) {{ {results} {errors} }} }}");
    let payload = server.send(&query, json!({ "input": input })).await.unwrap()["data"]["it"].take();
    let of_item = payload["results"].as_array().and_then(|results| results.last()?["userErrors"].get(0).cloned());
    payload["userErrors"].get(0).cloned().or(of_item)
}

fn cases() -> Vec<(&'static str, Value, &'static str)> {
    let mut cases = Vec::new();
    for limit in [0, -1, 1001, 5000, i32::MIN] {
        cases.push(("claimOutbox", json!({ "select": { "all": true }, "limit": limit }), "limit"));
    }
    for seconds in [0, -1, 3601, 86_400, i32::MAX] {
        cases.push(("claimOutbox", json!({ "select": { "all": true }, "leaseSeconds": seconds }), "leaseSeconds"));
    }
    for attempts in [0, -1, 1001, i32::MAX] {
        cases.push(("claimOutbox", json!({ "select": { "all": true }, "maxAttempts": attempts }), "maxAttempts"));
    }
    for shard in [-1, 2, 65_536, i32::MAX] {
        cases.push(("claimOutbox", json!({ "select": { "all": true }, "shard": shard }), "shard"));
    }
    let select = |filter: Value| json!({ "select": { "filter": filter } });
    for pool in ["", "a b", "a.b", "*", &"x".repeat(65)] {
        cases.push(("claimOutbox", select(json!({ "pools": ["gpu", pool] })), "select.filter.pools.1"));
    }
    cases.push(("claimOutbox", select(json!({ "pools": vec!["a"; 101] })), "select.filter.pools"));
    cases.push(("claimOutbox", select(json!({ "pools": [] })), "select.filter.pools"));
    cases.push(("claimOutbox", select(json!({ "pools": null, "subjectPrefix": "a" })), "select.filter.pools"));
    cases.push(("claimOutbox", select(json!({ "pools": ["a"], "subjectPrefix": "" })), "select.filter.subjectPrefix"));
    cases.push(("claimOutbox", select(json!({ "subjectPrefix": "a\0" })), "select.filter.subjectPrefix"));
    cases.push(("claimOutbox", select(json!({})), "select.filter"));
    cases.push(("claimOutbox", json!({ "select": { "all": false } }), "select.all"));
    for claimant in ["", "a\0", &"x".repeat(257)] {
        cases.push(("claimOutbox", json!({ "select": { "all": true }, "claimant": claimant }), "claimant"));
    }
    let not_ids =
        ["", "1", "-", "0-", "-1", "0--1", "0-01", "00-1", "0-1-1", "0-9223372036854775808", "65536-1", "x-1"];
    // The ids of shards that do not exist are added.
    for id in not_ids.into_iter().chain(["2-1", "9-1"]) {
        let claims = json!([{ "entryId": "0-1", "lease": "99999" }, { "entryId": id, "lease": "1" }]);
        cases.push(("markOutboxPublished", json!({ "claims": claims }), "claims.1.entryId"));
        cases.push(("renewOutboxLeases", json!({ "claims": claims }), "claims.1.entryId"));
        let failure = json!({ "entryId": id, "lease": "1", "error": "no" });
        cases.push(("markOutboxFailed", json!({ "failures": [failure] }), "failures.0.entryId"));
    }
    for lease in ["", "x", "-1", "1.5", "9223372036854775808"] {
        let bad = json!({ "entryId": "0-1", "lease": lease });
        cases.push(("markOutboxPublished", json!({ "claims": [bad.clone()] }), "claims.0.lease"));
        cases.push(("renewOutboxLeases", json!({ "claims": [bad] }), "claims.0.lease"));
        let failure = json!({ "entryId": "0-1", "lease": lease, "error": "no" });
        cases.push(("markOutboxFailed", json!({ "failures": [failure] }), "failures.0.lease"));
    }
    for seconds in [0, -1, 86_401, i32::MAX] {
        let failure = json!({ "entryId": "0-1", "lease": "99999", "error": "no" });
        let bad = json!({ "failures": [failure], "maxDelaySeconds": seconds });
        cases.push(("markOutboxFailed", bad, "maxDelaySeconds"));
    }
    let many: Vec<Value> = (0..1001).map(|n| json!({ "entryId": format!("0-{n}"), "lease": "1" })).collect();
    for seconds in [0, -1, 3601, i32::MAX] {
        let claim = json!({ "entryId": "0-1", "lease": "99999" });
        cases.push(("renewOutboxLeases", json!({ "claims": [claim], "leaseSeconds": seconds }), "leaseSeconds"));
    }
    // The number of items is checked before the items are.
    let malformed = vec![json!({ "entryId": "x", "lease": "x", "error": "" }); 1001];
    let failures: Vec<Value> =
        (0..1001).map(|n| json!({ "entryId": format!("0-{n}"), "lease": "1", "error": "" })).collect();
    for failures in [failures, malformed.clone(), Vec::new()] {
        cases.push(("markOutboxFailed", json!({ "failures": failures }), "failures"));
    }
    let without_error = |mut item: Value| {
        item.as_object_mut().unwrap().remove("error");
        item
    };
    let malformed: Vec<Value> = malformed.into_iter().map(without_error).collect();
    for claims in [many, malformed, Vec::new()] {
        cases.push(("markOutboxPublished", json!({ "claims": claims }), "claims"));
        cases.push(("renewOutboxLeases", json!({ "claims": claims }), "claims"));
    }
    for bulk in ["retryOutbox", "discardOutbox"] {
        let by = |filter: Value| json!({ "select": { "filter": filter } });
        cases.push((bulk, by(json!({ "executionId": "x" })), "select.filter.executionId"));
        cases.push((bulk, by(json!({ "minAttempts": 0 })), "select.filter.minAttempts"));
        cases.push((bulk, json!({ "select": { "all": true }, "reason": "a\0b" }), "reason"));
        cases.push((bulk, json!({ "select": { "ids": ["0-1", "1"] } }), "select.ids.1"));
        cases.push((bulk, json!({ "select": { "ids": ["0-1", "9-1"] } }), "select.ids.1"));
    }
    cases
}

#[tokio::test]
async fn invalid_input_is_refused_with_its_field_and_changes_no_row() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.fill_outbox(0, &[1, 2], 2).await;
    server.claim(json!({ "limit": 1 })).await;
    let before = deployment.outbox(0).await;
    for (mutation, input, field) in cases() {
        let field: Vec<&str> = field.split('.').collect();
        let error = refused(&server, mutation, &input).await.unwrap_or_else(|| panic!("{mutation} {input}"));
        assert_eq!((&error["code"], &error["field"]), (&json!("INVALID_INPUT"), &json!(field)), "{mutation} {input}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.contains("row"), "the API calls it an entry: {message}");
    }
    assert_eq!(deployment.outbox(0).await, before);
    for query in ["after: \"x\"", "first: 0", "first: 101", "filter: {executionId: \"x\"}"] {
        let answer =
            server.send(&format!("{{ outbox {{ entries({query}) {{ nodes {{ id }} }} }} }}"), Value::Null).await;
        assert_eq!(answer.unwrap()["errors"][0]["extensions"]["code"], "INVALID_INPUT", "{query}");
    }
    let many = json!({ "claims": vec![json!({ "entryId": "x", "lease": "x" }); 1500] });
    let message = refused(&server, "renewOutboxLeases", &many).await.unwrap()["message"].take();
    assert_eq!(message, "claims has 1500 items; 1 to 1000 are allowed");
}

/// Returns a deployment of two shards. The second shard is on a PostgreSQL server of its own.
async fn with_own_shard() -> (Deployment, Postgres, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = PostgresOptions::new(folder.path().join("postgres"));
    options.settings = vec![("fsync".into(), "off".into()), ("shared_buffers".into(), "16MB".into())];
    let own = Postgres::start(options).await.unwrap();
    own.create_databases(&["own".to_owned()]).await.unwrap();
    let mut deployment = Deployment::unmigrated(1).await;
    deployment.shard_dsns.push(own.dsn("own"));
    deployment.env.push(("NOETL_SHARDS".to_owned(), deployment.shard_dsns.join(",")));
    deployment.migrate().await;
    (deployment, own, folder)
}

#[tokio::test]
async fn a_shard_that_is_down_is_named_and_does_not_delay_the_others() {
    let (deployment, mut own, _folder) = with_own_shard().await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    for shard in 0..2 {
        deployment.fill_outbox(shard, &deployment.ids_on(shard, 1, 10), 1).await;
    }
    let claimed = server.claim(json!({ "limit": 4 })).await;
    assert_eq!(claimed["unavailableShards"], json!([]));
    own.kill_9().await;

    let rest = server.claim(json!({})).await;
    assert_eq!((ids(&rest).len(), &rest["unavailableShards"], &rest["userErrors"]), (8, &json!([1]), &json!([])));
    let only = server.claim(json!({ "shard": 1 })).await;
    assert_eq!((ids(&only).len(), &only["unavailableShards"]), (0, &json!([1])));
    let settled = server.published(&references(&claimed)).await;
    assert_eq!((&settled["published"], &settled["stale"]), (&json!(2), &json!([])));
    assert_eq!(settled["userErrors"][0]["code"], "SHARD_UNAVAILABLE", "{settled}");
    assert_eq!(settled["userErrors"][0]["retryable"], true, "{settled}");
    let is_there = |claim: &Value| claim["entryId"].as_str().unwrap().starts_with("1-");
    let there = references(&claimed).into_iter().find(is_there).unwrap();
    let failed = server.failed(&there, "no", None).await;
    assert_eq!(failed["userErrors"][0]["code"], "SHARD_UNAVAILABLE", "{failed}");
    assert_eq!(server.retry(json!({ "statuses": ["FAILED"] }), false).await["unavailableShards"], json!([1]));
    let query = "{ outbox { stats { pending unavailableShards } entries { unavailableShards nodes { id } } } }";
    let outbox = server.data(query, Value::Null).await["outbox"].clone();
    assert_eq!(outbox["stats"]["pending"], 0);
    assert_eq!(
        (&outbox["stats"]["unavailableShards"], &outbox["entries"]["unavailableShards"]),
        (&json!([1]), &json!([1]))
    );
    let scaler = server.get("/scaler/outbox").await.unwrap();
    assert_eq!(scaler.status(), 200);
    assert_eq!(scaler.json::<Value>().await.unwrap()["unavailableShards"], json!([1]));

    own.restart().await.unwrap();
    eventually("the rows of the shard can be settled again", async || {
        let settled = server.published(&references(&claimed)).await;
        (settled["userErrors"] == json!([])).then_some(())
    })
    .await;
    assert_eq!(ids(&server.claim(json!({})).await).len(), 8);
}

#[tokio::test]
async fn the_scaler_endpoint_returns_503_if_no_shard_can_be_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut own = Postgres::start(PostgresOptions::new(folder.path().join("postgres"))).await.unwrap();
    own.create_databases(&["own".to_owned()]).await.unwrap();
    let mut deployment = Deployment::unmigrated(0).await;
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), own.dsn("own")));
    deployment.migrate().await;
    let server = deployment.replica().await;
    assert_eq!(server.get("/scaler/outbox").await.unwrap().status(), 200);
    own.kill_9().await;
    let answer = server.get("/scaler/outbox").await.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.json::<Value>().await.unwrap()["error"].is_string());
}
