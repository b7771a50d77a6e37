//! An operator finds out what became of a message: the execution of its dedup key, and its redeliveries.

use chrono::{DateTime, Utc};
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

async fn with_subscription(deployment: &Deployment) -> (Server, String) {
    let server = deployment.replica().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    let id = server.subscribe("inbox").await;
    (server, id)
}

async fn deliver(server: &Server, parent: Option<&str>, window: u32, order: u32) -> Value {
    let input = json!({
        "path": "process", "parentExecutionId": parent, "workload": { "order": order },
        "dedup": { "key": "order-17", "windowSeconds": window },
    });
    server.execute(input).await
}

async fn claim(server: &Server, parent: Option<&str>, key: &str) -> Value {
    let query = "query($parent: ID, $key: String!) { dedupClaim(parentExecutionId: $parent, key: $key) {
        executionId execution { id status path parent { subscription { id } } } firstSeenAt expiresAt duplicates } }";
    server.data(query, json!({ "parent": parent, "key": key })).await["dedupClaim"].clone()
}

fn time(value: &Value) -> DateTime<Utc> {
    serde_json::from_value(value.clone()).unwrap_or_else(|_| panic!("no time: {value}"))
}

#[tokio::test]
async fn a_claim_is_found_by_its_key_and_its_parent() {
    let deployment = Deployment::start(2).await;
    let (server, inbox) = with_subscription(&deployment).await;
    a_claim_shows_the_execution_the_window_and_the_duplicates_of_a_key(&server, &inbox).await;
    a_key_that_counts_as_new_has_another_execution_and_no_duplicates(&deployment, &server).await;
    the_duplicates_of_a_first_batch_are_counted(&server).await;
    a_claim_of_noetl_has_no_expiry_of_its_own(&deployment, &server).await;
    an_invalid_key_or_parent_is_refused_with_its_field(&server).await;
}

/// A key has the claim of its parent, and no repetition changes its window.
async fn a_claim_shows_the_execution_the_window_and_the_duplicates_of_a_key(server: &Server, inbox: &str) {
    assert_eq!(claim(server, Some(inbox), "order-17").await, Value::Null);
    let before = Utc::now();
    let first = deliver(server, Some(inbox), 600, 1).await;
    let execution = json!({
        "id": first["execution"]["id"], "status": "PENDING", "path": "process",
        "parent": { "subscription": { "id": inbox } },
    });
    let found = claim(server, Some(inbox), "order-17").await;
    assert_eq!((&found["execution"], &found["duplicates"]), (&execution, &json!(0)), "{found}");
    assert_eq!(found["executionId"], execution["id"]);
    let (seen, expires) = (time(&found["firstSeenAt"]), time(&found["expiresAt"]));
    assert!((before..=Utc::now()).contains(&seen), "{seen}");
    assert_eq!(expires - seen, chrono::Duration::seconds(600));

    // A repeated and a changed delivery, and two in one batch.
    deliver(server, Some(inbox), 600, 1).await;
    deliver(server, Some(inbox), 900, 2).await;
    let request = json!({ "entry": { "path": "process" }, "parentExecutionId": inbox, "dedup": { "key": "order-17" } });
    let query = "mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) { results { outcome } } }";
    server.data(query, json!({ "input": { "requests": [request, request] } })).await;
    let found = claim(server, Some(inbox), "order-17").await;
    assert_eq!((&found["execution"], &found["duplicates"]), (&execution, &json!(4)), "{found}");
    assert_eq!((time(&found["firstSeenAt"]), time(&found["expiresAt"])), (seen, expires));

    // The key belongs to the subscription.
    assert_eq!(claim(server, None, "order-17").await, Value::Null);
    assert_eq!(claim(server, Some(inbox), "order-18").await, Value::Null);
}

/// A claim that replaces an expired one counts from the start.
async fn a_key_that_counts_as_new_has_another_execution_and_no_duplicates(deployment: &Deployment, server: &Server) {
    let first = deliver(server, None, 600, 1).await;
    deliver(server, None, 600, 1).await;
    let expired = claim(server, None, "order-17").await;
    deployment.until_claims_are_settled().await;
    run(&mut deployment.cluster().await, "UPDATE noetl.subscription_dedup SET expires_at = now()").await;
    let second = deliver(server, None, 60, 1).await;
    let found = claim(server, None, "order-17").await;
    assert_eq!((&expired["executionId"], &expired["duplicates"]), (&first["execution"]["id"], &json!(1)));
    assert_eq!((&found["executionId"], &found["duplicates"]), (&second["execution"]["id"], &json!(0)), "{found}");
    assert!(time(&found["firstSeenAt"]) > time(&expired["firstSeenAt"]), "{found}");
}

/// The repetitions of a key within its first batch count.
async fn the_duplicates_of_a_first_batch_are_counted(server: &Server) {
    let request = json!({ "entry": { "path": "process" }, "dedup": { "key": "order-18" } });
    let query = "mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) { results { outcome } } }";
    server.data(query, json!({ "input": { "requests": [request, request, request] } })).await;
    assert_eq!(claim(server, None, "order-18").await["duplicates"], 2);
}

/// A claim of NoETL is shown without what it does not store.
async fn a_claim_of_noetl_has_no_expiry_of_its_own(deployment: &Deployment, server: &Server) {
    let insert =
        "INSERT INTO noetl.subscription_dedup (subscription_id, dedup_key, execution_id) VALUES (7, 'order-17', 9)";
    sqlx::query(insert).execute(&mut deployment.cluster().await).await.unwrap();
    let found = claim(server, Some("7"), "order-17").await;
    assert_eq!((&found["executionId"], &found["duplicates"]), (&json!("9"), &json!(0)), "{found}");
    assert_eq!((&found["execution"], &found["expiresAt"]), (&Value::Null, &Value::Null), "{found}");
    assert!(Utc::now() - time(&found["firstSeenAt"]) < chrono::Duration::minutes(1), "{found}");
}

/// An invalid argument is refused.
async fn an_invalid_key_or_parent_is_refused_with_its_field(server: &Server) {
    let query =
        "query($parent: ID, $key: String!) { dedupClaim(parentExecutionId: $parent, key: $key) { executionId } }";
    for (variables, field) in [
        (json!({ "key": "" }), "key"),
        (json!({ "key": "x".repeat(1025) }), "key"),
        (json!({ "key": "a\u{0}b" }), "key"),
        (json!({ "key": "k", "parent": "no number" }), "parentExecutionId"),
    ] {
        let response = server.send(query, variables).await.unwrap();
        let extensions = &response["errors"][0]["extensions"];
        assert_eq!(
            (&extensions["code"], &extensions["field"]),
            (&json!("INVALID_INPUT"), &json!([field])),
            "{response}"
        );
    }
}
