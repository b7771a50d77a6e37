//! Every outbox row reaches an end: it is delivered, or it becomes DEAD after its last attempt. A DEAD row blocks no
//! other row. Operators find DEAD rows, and retry or discard them.

use noetl_testkit::outbox::{NO_RELAY, ids, reference, references};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

const TWO_ATTEMPTS: (&str, &str) = ("NOETL_OUTBOX_MAX_ATTEMPTS", "2");

/// Fails each claim of an execution's first row at once, until the row is not claimable any more.
async fn fail_until_dead(server: &Server, claim: &Value) -> Value {
    loop {
        let claimed = server.claim(claim.clone()).await;
        let failed = server.failed(&reference(&claimed["claims"][0]), "broken", Some(1)).await;
        assert_eq!(failed["userErrors"], json!([]), "{failed}");
        if failed["dead"] == true {
            return failed;
        }
        server.retry(json!({ "statuses": ["FAILED"] }), false).await;
    }
}

const ENTRIES: &str = "query($filter: OutboxFilter) { outbox { entries(filter: $filter, first: 100) { nodes {
    entryId status statusText dead attempts lastError } } } }";

async fn entries(server: &Server, filter: Value) -> Vec<Value> {
    let listed = server.data(ENTRIES, json!({ "filter": filter })).await;
    listed["outbox"]["entries"]["nodes"].as_array().unwrap().clone()
}

async fn listed(server: &Server, filter: Value) -> Vec<String> {
    entries(server, filter).await.iter().map(|entry| entry["entryId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_row_dies_after_its_last_attempt_and_is_listed_and_retried() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY, TWO_ATTEMPTS]).await;
    a_row_is_dead_after_its_last_attempt_and_the_next_row_of_its_execution_is_claimable(&deployment, &server).await;
    a_claim_can_set_its_own_number_of_attempts(&deployment, &server).await;
    a_row_whose_last_lease_expires_becomes_dead_and_is_not_claimed_again(&deployment, &server).await;
    dead_rows_are_retried_by_filter_and_start_again_at_no_attempts(&deployment, &server).await;
    // It removes a constraint of the table.
    an_unknown_status_is_shown_with_its_text_and_the_row_is_listed(&deployment, &server).await;
}

/// A row is DEAD after its last attempt, and blocks no other row.
async fn a_row_is_dead_after_its_last_attempt_and_the_next_row_of_its_execution_is_claimable(
    deployment: &Deployment,
    server: &Server,
) {
    deployment.fill_outbox(0, &[7], 2).await;
    let failed = fail_until_dead(server, &json!({ "limit": 1 })).await;
    let expected = json!({ "index": 0, "entryId": "0-1", "retryInSeconds": null, "dead": true, "userErrors": [] });
    assert_eq!(failed, expected);
    let row = &entries(server, json!({ "statuses": ["DEAD"] })).await[0];
    let expected = json!({ "entryId": "0-1", "status": "DEAD", "statusText": "FAILED", "dead": true, "attempts": 2,
                           "lastError": "broken" });
    assert_eq!(row, &expected);
    assert_eq!(ids(&server.claim(json!({})).await), ["0-2"], "the DEAD row blocks no other row");
}

/// The number of attempts of a claim replaces that of the settings.
async fn a_claim_can_set_its_own_number_of_attempts(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &[7, 8], 1).await;
    fail_until_dead(server, &json!({ "limit": 1, "maxAttempts": 1 })).await;
    fail_until_dead(server, &json!({ "limit": 1, "maxAttempts": 4 })).await;
    let attempts: Vec<_> = deployment.outbox(0).await.iter().map(|row| row.attempts).collect();
    assert_eq!(attempts, [1, 4]);
    assert_eq!(listed(server, json!({ "statuses": ["DEAD"] })).await, ["0-2", "0-1"]);
}

/// A row whose claimants crash is never marked as failed.
async fn a_row_whose_last_lease_expires_becomes_dead_and_is_not_claimed_again(
    deployment: &Deployment,
    server: &Server,
) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &[7], 2).await;
    for _ in 0..2 {
        assert_eq!(ids(&server.claim(json!({ "limit": 1 })).await), ["0-1"]);
        deployment.on_shard(0, "UPDATE noetl.outbox SET lease_until = now() WHERE status = 'IN_FLIGHT'").await;
    }
    assert_eq!(ids(&server.claim(json!({ "limit": 1 })).await), ["0-2"], "in place of the DEAD row");
    let dead = &entries(server, json!({ "statuses": ["DEAD"] })).await[0];
    assert_eq!((&dead["entryId"], &dead["attempts"]), (&json!("0-1"), &json!(2)));
    assert!(dead["lastError"].as_str().unwrap().contains("lease"), "{dead}");
}

#[tokio::test]
async fn the_relay_gives_up_an_undeliverable_row_after_its_last_attempt() {
    let deployment = Deployment::start(1).await;
    let rows = "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload) VALUES
        (7, 1, 'nobody.listens', '{}'), (7, 2, 'noetl.executions.a.7', '{}')";
    deployment.on_shard(0, rows).await;
    let server = deployment.replica_with(&[TWO_ATTEMPTS]).await;
    eventually("the row behind the DEAD one is delivered", async || {
        (deployment.outbox_rows("outbox_id = 2 AND status = 'PUBLISHED'").await == 1).then_some(())
    })
    .await;
    assert_eq!(listed(&server, json!({ "statuses": ["DEAD"] })).await, ["0-1"]);
    assert!((server.metric(r#"noetl_outbox_dead_total{shard="0"}"#).await - 1.0).abs() < f64::EPSILON);
}

const STATS: &str = "{ outbox { stats { failed dead byShard { shard failed dead } } } }";

/// Makes two rows DEAD, and a third one FAILED for an hour.
const TWO_DEAD: &str = "
    UPDATE noetl.outbox SET status = 'FAILED', attempts = 20, available_at = 'infinity' WHERE outbox_id <= 2;
    UPDATE noetl.outbox SET status = 'FAILED', attempts = 1, available_at = now() + interval '1 hour' WHERE outbox_id = 3";

#[tokio::test]
async fn dead_rows_are_counted_and_reported_and_the_server_stays_ready() {
    let deployment = Deployment::start(1).await;
    deployment.fill_outbox(0, &[1, 2, 3, 4], 1).await;
    deployment.on_shard(0, TWO_DEAD).await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.envs([NO_RELAY, ("NOETL_LOG_FORMAT", "json")]).stderr(log.reopen().unwrap());
    let server = Server::spawn(command).await;
    eventually("the gauge shows the claimable row, without a request", async || {
        ((server.metric(r#"noetl_outbox_pending{shard="0"}"#).await - 1.0).abs() < f64::EPSILON).then_some(())
    })
    .await;
    assert!(server.metric(r#"noetl_outbox_oldest_pending_seconds{shard="0"}"#).await > 0.0);
    let stats = server.data(STATS, Value::Null).await["outbox"]["stats"].clone();
    assert_eq!(stats, json!({ "failed": 1, "dead": 2, "byShard": [{ "shard": 0, "failed": 1, "dead": 2 }] }));
    eventually("the gauge shows the DEAD rows", async || {
        ((server.metric(r#"noetl_outbox_dead{shard="0"}"#).await - 2.0).abs() < f64::EPSILON).then_some(())
    })
    .await;
    let warning = eventually("the alert is logged", async || {
        let text = std::fs::read_to_string(log.path()).unwrap();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["level"] == "WARN" && line["fields"]["dead"] == 2)
    })
    .await;
    assert_eq!(warning["fields"]["shard"], 0, "{warning}");
    assert_eq!(server.get("/readyz").await.unwrap().status(), 200);
}

/// A retried row starts again at no attempts.
async fn dead_rows_are_retried_by_filter_and_start_again_at_no_attempts(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &[1, 2, 3, 4], 1).await;
    deployment.on_shard(0, TWO_DEAD).await;
    let retried = |matched: i64, retried: i64| json!({ "matched": matched, "retried": retried, "unavailableShards": [], "userErrors": [] });
    assert_eq!(server.retry(json!({ "statuses": ["DEAD", "FAILED"] }), true).await, retried(3, 0));
    assert_eq!(server.retry(json!({ "statuses": ["DEAD"], "executionId": "1" }), false).await, retried(1, 1));
    let again: Vec<_> = deployment.outbox(0).await.iter().map(|row| row.attempts).collect();
    assert_eq!(again, [0, 20, 1, 0]);
    assert_eq!(ids(&server.claim(json!({})).await), ["0-1", "0-4"]);
    assert_eq!(listed(server, json!({ "statuses": ["DEAD"] })).await, ["0-2"]);
}

#[tokio::test]
async fn dead_rows_of_all_shards_are_discarded_by_filter_and_by_id() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    only_dead_rows_that_match_the_filter_are_discarded(&deployment, &server).await;
    single_rows_are_retried_and_discarded_by_id(&deployment, &server).await;
}

/// A discard removes DEAD rows only.
async fn only_dead_rows_that_match_the_filter_are_discarded(deployment: &Deployment, server: &Server) {
    let executions: Vec<_> = (0..2).map(|shard| deployment.ids_on(shard, 1, 4)).collect();
    for (shard, executions) in executions.iter().enumerate() {
        deployment.fill_outbox(shard, executions, 1).await;
        deployment.on_shard(shard, TWO_DEAD).await;
    }
    let discarded = |matched: i64, discarded: i64| json!({ "matched": matched, "discarded": discarded, "unavailableShards": [], "userErrors": [] });
    assert_eq!(server.discard(json!({ "statuses": ["DEAD"] }), true).await, discarded(4, 0));
    assert_eq!(deployment.outbox_rows("true").await, 8);
    assert_eq!(server.discard(json!({ "statuses": ["FAILED", "PENDING"] }), false).await, discarded(0, 0));
    let first = executions[0][0].to_string();
    assert_eq!(server.discard(json!({ "executionId": first }), false).await, discarded(1, 1));
    assert_eq!(server.discard(json!({ "minAttempts": 20 }), false).await, discarded(3, 3));
    assert_eq!(deployment.outbox_rows("true").await, 4);
    assert_eq!(listed(server, json!({})).await, ["1-4", "1-3", "0-4", "0-3"]);
}

/// A retry and a discard by id change one row.
async fn single_rows_are_retried_and_discarded_by_id(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    for shard in 0..2 {
        deployment.fill_outbox(shard, &deployment.ids_on(shard, 1, 4), 1).await;
        deployment.on_shard(shard, TWO_DEAD).await;
    }
    let dead = listed(server, json!({ "statuses": ["DEAD"] })).await;
    assert_eq!(dead.len(), 4, "{dead:?}");
    let (first, last) = (dead[0].as_str(), dead[3].as_str());
    let change = async |field: &str, changed: &str, ids: &[&str]| {
        let query = format!(
            "mutation($ids: [ID!]!) {{ it: {field}(input: {{ select: {{ ids: $ids }} }}) {{
                matched changed: {changed} userErrors {{ code }} }} }}"
        );
        server.data(&query, json!({ "ids": ids })).await["it"].take()
    };
    let discard = async |ids: &[&str]| change("discardOutbox", "discarded", ids).await;
    let done = json!({ "matched": 1, "changed": 1, "userErrors": [] });
    assert_eq!(discard(&[first]).await, done);
    let nothing = json!({ "matched": 0, "changed": 0, "userErrors": [{ "code": "NOT_FOUND" }] });
    assert_eq!(discard(&[first]).await, nothing);
    assert_eq!(change("retryOutbox", "retried", &[last]).await, done);
    assert_eq!(listed(server, json!({ "statuses": ["DEAD"] })).await, dead[1..3]);
    let bad = discard(&[first, "1"]).await;
    assert_eq!(bad["userErrors"][0]["code"], "INVALID_INPUT", "{bad}");
}

/// A status that only another program knows hides no row.
async fn an_unknown_status_is_shown_with_its_text_and_the_row_is_listed(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &[1, 2], 1).await;
    let parked = "ALTER TABLE noetl.outbox DROP CONSTRAINT outbox_status_check;
                  UPDATE noetl.outbox SET status = 'PARKED' WHERE outbox_id = 1";
    deployment.on_shard(0, parked).await;
    assert_eq!(listed(server, json!({})).await, ["0-2", "0-1"]);
    let unknown = entries(server, json!({ "statuses": ["UNKNOWN"] })).await;
    let expected = json!([{ "entryId": "0-1", "status": "UNKNOWN", "statusText": "PARKED", "dead": false, "attempts": 0,
                            "lastError": null }]);
    assert_eq!(Value::from(unknown), expected);
    assert_eq!(references(&server.claim(json!({})).await).len(), 1, "only the other row is claimed");
}
