//! A lease settles its rows once, a stale lease changes nothing, and a failed row backs off for the specified time.

use noetl_testkit::outbox::{NO_RELAY, ids, reference, references};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

/// Empties the outbox, and writes the entry `0-1`.
async fn one_row(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &[7], 1).await;
}

async fn claimed_after_expiry(server: &Server) -> Value {
    eventually("the row is claimable again", async || {
        let claimed = server.claim(json!({})).await;
        (!ids(&claimed).is_empty()).then_some(claimed)
    })
    .await
}

fn code(payload: &Value) -> &Value {
    &payload["userErrors"][0]["code"]
}

#[tokio::test]
async fn a_lease_settles_its_rows_once_and_a_failed_row_backs_off() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    a_settlement_with_a_stale_lease_is_reported_and_changes_nothing(&deployment, &server).await;
    results_have_the_entry_so_that_a_stale_claimant_sees_its_holder(&deployment, &server).await;
    a_published_row_stays_published_and_is_counted_once(&deployment, &server).await;
    an_expired_lease_still_settles_if_the_row_was_not_claimed_again(&deployment, &server).await;
    a_failed_row_backs_off_1_2_4_to_256_seconds_on_the_database_clock(&deployment, &server).await;
    a_stored_error_is_truncated_to_2000_characters(&deployment, &server).await;
}

#[tokio::test]
async fn each_lease_and_each_row_of_all_shards_is_settled_and_retried_on_its_own() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    each_lease_of_one_entry_has_its_own_result(&deployment, &server).await;
    a_retry_makes_the_rows_that_match_its_filter_due(&deployment, &server).await;
}

/// A settlement with a lease that is not the current one changes no row.
async fn a_settlement_with_a_stale_lease_is_reported_and_changes_nothing(deployment: &Deployment, server: &Server) {
    one_row(deployment, server).await;
    let stale = server.claim(json!({ "leaseSeconds": 1 })).await;
    let live = claimed_after_expiry(server).await;
    let before = deployment.outbox(0).await;
    let nothing = json!({ "published": 0, "stale": ["0-1"], "userErrors": [] });
    assert_eq!(server.published(&references(&stale)).await, nothing);
    let failed = server.failed(&references(&stale)[0], "no", None).await;
    assert_eq!(
        (code(&failed), &failed["userErrors"][0]["field"]),
        (&json!("STALE_LEASE"), &json!(["failures", "0", "lease"]))
    );
    for (id, lease) in [("0-1", "9999"), ("0-2", "1")] {
        let unknown = json!({ "entryId": id, "lease": lease });
        assert_eq!(server.published(std::slice::from_ref(&unknown)).await["stale"], json!([id]));
        assert_eq!(code(&server.failed(&unknown, "no", None).await), "STALE_LEASE");
    }
    assert_eq!(deployment.outbox(0).await, before);
    assert_eq!(server.published(&references(&live)).await["published"], 1);
}

/// A claim between two references to it with another lease.
fn between_stale(claim: &Value) -> Vec<Value> {
    let stale = json!({ "entryId": claim["entryId"], "lease": "999999" });
    vec![stale.clone(), claim.clone(), stale]
}

/// Each reference of a request has a result, also if several name one entry.
async fn each_lease_of_one_entry_has_its_own_result(deployment: &Deployment, server: &Server) {
    deployment.fill_outbox(1, &deployment.ids_on(1, 1, 2), 1).await;
    let claims = references(&server.claim(json!({})).await);
    let codes = |payload: &Value| -> Vec<Value> {
        let results = payload["results"].as_array().unwrap().iter();
        results.map(|result| result["userErrors"][0]["code"].clone()).collect()
    };
    let expected = [json!("STALE_LEASE"), json!(null), json!("STALE_LEASE")];
    let renewed = server.renewed(&between_stale(&claims[0]), 60).await;
    assert_eq!(codes(&renewed), expected, "{renewed}");
    assert!(renewed["results"][0]["leaseExpiresAt"].is_null(), "{renewed}");
    for _ in 0..2 {
        let published = server.published(&between_stale(&claims[0])).await;
        assert_eq!(published["stale"].as_array().unwrap().len(), 2, "{published}");
    }
    let failure = |claim: Value| json!({ "entryId": claim["entryId"], "lease": claim["lease"], "error": "no" });
    let failures: Vec<Value> = between_stale(&claims[1]).into_iter().map(failure).collect();
    let failed = server.failed_batch(&failures, None).await;
    assert_eq!(codes(&failed), expected, "{failed}");
    assert_eq!(
        (&failed["results"][0]["retryInSeconds"], &failed["results"][1]["retryInSeconds"]),
        (&json!(null), &json!(1))
    );
}

/// A result has the entry as it is, with its holder, also if the settlement is refused.
async fn results_have_the_entry_so_that_a_stale_claimant_sees_its_holder(deployment: &Deployment, server: &Server) {
    one_row(deployment, server).await;
    let old = server.claim(json!({ "claimant": "old" })).await["claims"][0].take();
    deployment.on_shard(0, "UPDATE noetl.outbox SET lease_until = now() - interval '1 second'").await;
    let claim = "mutation { claimOutbox(input: { select: { all: true }, claimant: \"new\" }) {
        claims { entryId lease entry { id status claimant attempts } } } }";
    let claimed = server.data(claim, Value::Null).await["claimOutbox"]["claims"][0].take();
    let entry = json!({ "id": "outbox-0-1", "status": "IN_FLIGHT", "claimant": "new", "attempts": 2 });
    assert_eq!((&claimed["entryId"], &claimed["entry"]), (&json!("0-1"), &entry));

    let fields = "results { entryId entry { status claimant } userErrors { code } }";
    let send = async |mutation: &str, list: &str, lease: &Value, more: &str| {
        let query = format!(
            "mutation($lease: ID!) {{ it: {mutation}(input: {{ {list}: [
                {{ entryId: \"outbox-0-1\", lease: $lease {more} }}, {{ entryId: \"0-77\", lease: \"1\" {more} }},
                {{ entryId: \"x\", lease: \"1\" {more} }}] }}) {{ {fields} }} }}"
        );
        server.data(&query, json!({ "lease": lease })).await["it"]["results"].take()
    };
    let held = json!({ "status": "IN_FLIGHT", "claimant": "new" });
    let others = [
        json!({ "entryId": "0-77", "entry": null, "userErrors": [{ "code": "STALE_LEASE" }] }),
        json!({ "entryId": "x", "entry": null, "userErrors": [{ "code": "INVALID_INPUT" }] }),
    ];
    for (mutation, list, more) in [
        ("renewOutboxLeases", "claims", ""),
        ("markOutboxPublished", "claims", ""),
        ("markOutboxFailed", "failures", "error: \"no\""),
    ] {
        let stale = send(mutation, list, &old["lease"], more).await;
        let first = json!({ "entryId": "0-1", "entry": held, "userErrors": [{ "code": "STALE_LEASE" }] });
        assert_eq!(stale, json!([first, others[0], others[1]]), "{mutation}");
    }
    let done = send("markOutboxPublished", "claims", &claimed["lease"], "").await;
    let delivered = json!({ "status": "PUBLISHED", "claimant": "new" });
    assert_eq!(done[0], json!({ "entryId": "0-1", "entry": delivered, "userErrors": [] }));
}

/// Of repeated settlements, one is counted, and none is refused.
async fn a_published_row_stays_published_and_is_counted_once(deployment: &Deployment, server: &Server) {
    one_row(deployment, server).await;
    let claimed = references(&server.claim(json!({})).await);
    let twice = [claimed[0].clone(), claimed[0].clone()];
    let answers = futures::future::join_all((0..8).map(|_| server.published(&twice))).await;
    let counted: i64 = answers.iter().map(|answer| answer["published"].as_i64().unwrap()).sum();
    assert_eq!(counted, 1);
    assert!(
        answers.iter().all(|answer| answer["stale"] == json!([])),
        "settling again with the same lease is not stale: {answers:?}"
    );
    let published = deployment.outbox(0).await;
    assert_eq!(code(&server.failed(&claimed[0], "no", None).await), "STALE_LEASE");
    assert_eq!(server.retry(json!({ "statuses": ["FAILED"] }), false).await["matched"], 0);
    assert_eq!(server.claim(json!({})).await["claims"], json!([]));
    assert_eq!((deployment.outbox(0).await, published[0].status.as_str()), (published.clone(), "PUBLISHED"));
}

/// An expired lease settles its row until another claim takes it.
async fn an_expired_lease_still_settles_if_the_row_was_not_claimed_again(deployment: &Deployment, server: &Server) {
    one_row(deployment, server).await;
    let claimed = references(&server.claim(json!({ "leaseSeconds": 1 })).await);
    eventually("the lease has expired", async || {
        (deployment.outbox_rows("lease_until < now()").await == 1).then_some(())
    })
    .await;
    assert_eq!(server.published(&claimed).await, json!({ "published": 1, "stale": [], "userErrors": [] }));
}

/// The delay of a failed row doubles with each attempt, up to its maximum.
async fn a_failed_row_backs_off_1_2_4_to_256_seconds_on_the_database_clock(deployment: &Deployment, server: &Server) {
    one_row(deployment, server).await;
    for (attempts, seconds) in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256].into_iter().enumerate() {
        let claimed = server.claim(json!({})).await;
        assert_eq!(claimed["claims"][0]["attempts"], attempts + 1);
        let failed = server.failed(&references(&claimed)[0], "no", None).await;
        let expected =
            json!({ "index": 0, "entryId": "0-1", "retryInSeconds": seconds, "dead": false, "userErrors": [] });
        assert_eq!(failed, expected);
        let row = &deployment.outbox(0).await[0];
        assert_eq!((row.status.as_str(), row.delay_micros), ("FAILED", seconds * 1_000_000));
        // The row does not become due before the retry.
        deployment.on_shard(0, "UPDATE noetl.outbox SET available_at = now() + interval '1 hour'").await;
        assert_eq!(server.retry(json!({ "statuses": ["FAILED"] }), false).await["retried"], 1);
    }
    for (most, seconds) in [(5, 5), (86_400, 256), (1, 1)] {
        let claimed = server.claim(json!({})).await;
        let failed = server.failed(&references(&claimed)[0], "no", Some(most)).await;
        assert_eq!(failed["retryInSeconds"], seconds);
        assert_eq!(deployment.outbox(0).await[0].delay_micros, seconds * 1_000_000);
        if most > 1 {
            server.retry(json!({ "statuses": ["FAILED"] }), false).await;
        }
    }
    // The last failure backs off for one second. Then the row is claimable without a retry.
    let claimed = claimed_after_expiry(server).await;
    assert_eq!(deployment.outbox_rows("locked_at >= available_at").await, 1, "{claimed}");
}

/// A long error is stored in part, and a NUL in it is replaced.
async fn a_stored_error_is_truncated_to_2000_characters(deployment: &Deployment, server: &Server) {
    one_row(deployment, server).await;
    let claim = async || reference(&server.claim(json!({})).await["claims"][0]);
    // 9.9 MB: 3.3 million characters of three bytes each.
    server.failed(&claim().await, &"€".repeat(3_300_000), None).await;
    assert_eq!(deployment.outbox(0).await[0].last_error, Some("€".repeat(2000)));
    server.retry(json!({ "statuses": ["FAILED"] }), false).await;
    assert_eq!(server.failed(&claim().await, "a\0b", None).await["userErrors"], json!([]));
    assert_eq!(deployment.outbox(0).await[0].last_error, Some("a\u{fffd}b".to_owned()));
}

/// A retry changes the rows that match its filter, and no others.
async fn a_retry_makes_the_rows_that_match_its_filter_due(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    let (here, there) = (deployment.ids_on(0, 1, 2), deployment.ids_on(1, 1, 2));
    deployment.fill_outbox(0, &here, 1).await;
    deployment.fill_outbox(1, &there, 1).await;
    let fail_all = async || {
        for claim in references(&server.claim(json!({})).await) {
            assert_eq!(server.failed(&claim, "no", None).await["userErrors"], json!([]));
        }
    };
    fail_all().await;
    let retried = |matched: i64, retried: i64| json!({ "matched": matched, "retried": retried, "unavailableShards": [], "userErrors": [] });
    // The rows become due in an hour, so that no row becomes due during the test.
    for shard in 0..2 {
        deployment.on_shard(shard, "UPDATE noetl.outbox SET available_at = now() + interval '1 hour'").await;
    }
    assert_eq!(server.retry(json!({ "statuses": ["FAILED"] }), true).await, retried(4, 0));
    assert_eq!(server.retry(json!({ "minAttempts": 2 }), false).await, retried(0, 0));
    assert_eq!(server.retry(json!({ "statuses": ["PENDING"] }), false).await, retried(0, 0));
    assert_eq!(server.retry(json!({ "executionId": here[0].to_string() }), false).await, retried(1, 1));
    assert_eq!(ids(&server.claim(json!({})).await), ["0-1"]);
    assert_eq!(server.retry(json!({ "statuses": ["FAILED"], "minAttempts": 1 }), false).await, retried(3, 3));
    assert_eq!(ids(&server.claim(json!({})).await).len(), 3);
}
