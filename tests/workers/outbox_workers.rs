//! Workers claim the entries of their pools. They extend their leases and report failures in batches.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use futures::future::join_all;
use noetl_testkit::outbox::{NO_RELAY, ids, reference, references};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};
use tokio::sync::Mutex;

const RENAMED: &str =
    "UPDATE noetl.outbox SET subject = 'noetl.executions.' || CASE WHEN outbox_id % 2 = 1 THEN 'a' ELSE 'b' END
                       || '.' || execution_id";

fn of_pool(pool: &str, limit: i64, lease: i64) -> Value {
    json!({ "select": { "filter": { "pools": [pool] } }, "limit": limit, "leaseSeconds": lease })
}

fn outcomes(payload: &Value) -> Vec<Value> {
    let results = payload["results"].as_array().unwrap().iter();
    results.map(|one| json!([one["index"], one["entryId"], one["userErrors"][0]["code"]])).collect()
}

#[tokio::test]
async fn a_worker_claims_entries_of_its_pools_and_extends_its_leases() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    a_claim_selects_by_pool_and_by_subject_and_names_its_claimant(&deployment, &server).await;
    an_entry_is_selected_by_the_subject_that_its_claim_shows(&deployment, &server).await;
    an_entry_outside_the_selection_is_not_overtaken(&deployment, &server).await;
    an_extended_lease_keeps_its_entries_and_an_expired_one_is_not_extended(&deployment, &server).await;
    a_limit_a_lease_and_a_delay_that_are_null_have_their_defaults(&deployment, &server).await;
}

/// A claim takes the entries of its pools and of its prefix, and its entries name the claimant.
async fn a_claim_selects_by_pool_and_by_subject_and_names_its_claimant(deployment: &Deployment, server: &Server) {
    deployment.fill_outbox(0, &[1, 2, 3, 4, 5], 1).await;
    let subjects = "UPDATE noetl.outbox SET subject = (ARRAY['noetl.executions.gpu.1', 'noetl.commands.gpu.2',
                    'noetl.executions.gpux.3', 'noetl.executions.shared.4', NULL])[outbox_id]";
    deployment.on_shard(0, subjects).await;
    let claim = async |filter: Value| {
        let input = json!({ "select": { "filter": filter }, "claimant": "worker-7", "leaseSeconds": 600 });
        ids(&server.claim(input).await)
    };
    assert_eq!(claim(json!({ "pools": ["gpu"], "subjectPrefix": "noetl.events." })).await, [""; 0]);
    assert_eq!(claim(json!({ "pools": ["gpu", "other"], "subjectPrefix": "noetl.commands." })).await, ["0-2"]);
    assert_eq!(claim(json!({ "pools": ["gpu"] })).await, ["0-1"]);
    assert_eq!(claim(json!({ "pools": ["gpu"] })).await, [""; 0], "the pool gpux is another one");
    assert_eq!(claim(json!({ "subjectPrefix": "noetl.executions.s" })).await, ["0-4"]);
    // An entry without a stored subject has the one that the claim shows.
    assert_eq!(claim(json!({ "subjectPrefix": "noetl.events.default.default.5." })).await, ["0-5"]);

    let query = "{ outbox { entries { nodes { entryId status claimant leaseExpiresAt } } } }";
    let list = async || server.data(query, Value::Null).await["outbox"]["entries"]["nodes"].take();
    let entries = list().await;
    assert_eq!(entries[2], json!({ "entryId": "0-3", "status": "PENDING", "claimant": null, "leaseExpiresAt": null }));
    let expires: DateTime<Utc> = serde_json::from_value(entries[0]["leaseExpiresAt"].clone()).unwrap();
    assert!(expires > Utc::now() + chrono::Duration::minutes(9), "{entries}");
    assert_eq!((&entries[0]["status"], &entries[0]["claimant"]), (&json!("IN_FLIGHT"), &json!("worker-7")));

    // A failed entry has no claimant. A delivered one keeps it.
    let rest = server.claim(json!({ "claimant": "worker-8" })).await;
    server.failed(&reference(&rest["claims"][0]), "no", None).await;
    let lease = "SELECT outbox_id, lease_token FROM noetl.outbox WHERE outbox_id = 1 AND $1 = 1";
    let (_, lease): (i64, i64) = deployment.rows(lease, "1").await[0];
    server.published(&[json!({ "entryId": "0-1", "lease": lease.to_string() })]).await;
    let entries = list().await;
    assert_eq!((&entries[2]["status"], &entries[2]["claimant"]), (&json!("FAILED"), &Value::Null), "{entries}");
    assert_eq!(
        (&entries[4]["status"], &entries[4]["claimant"]),
        (&json!("PUBLISHED"), &json!("worker-7")),
        "{entries}"
    );
    assert_eq!(entries[4]["leaseExpiresAt"], Value::Null);
}

/// The database forms the subject of a row without one in the same way as a claim shows it.
async fn an_entry_is_selected_by_the_subject_that_its_claim_shows(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    let rows = "INSERT INTO noetl.outbox (execution_id, event_id, payload, tenant_id)
                SELECT n, n, '{}', name FROM unnest(ARRAY['default', ' a. *b ', '-x-', 'ä ö', 'a__b', '...', 'North-1'])
                WITH ORDINALITY AS given (name, n)";
    deployment.on_shard(0, rows).await;
    let all = server.claim(json!({ "leaseSeconds": 600 })).await;
    deployment.on_shard(0, "UPDATE noetl.outbox SET status = 'PENDING', lease_until = NULL, attempts = 0").await;
    for shown in all["claims"].as_array().unwrap() {
        let select = json!({ "filter": { "subjectPrefix": shown["subject"] } });
        let found = server.claim(json!({ "select": select, "leaseSeconds": 600 })).await;
        assert_eq!(ids(&found), [shown["entryId"].as_str().unwrap()], "{shown}");
    }
}

/// The order of an execution holds across pools.
async fn an_entry_outside_the_selection_is_not_overtaken(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    // Entries 1, 3 and 5 of the execution are for the pool a, entries 2, 4 and 6 for the pool b.
    deployment.fill_outbox(0, &[7], 6).await;
    deployment.on_shard(0, RENAMED).await;
    assert_eq!(ids(&server.claim(of_pool("b", 10, 600)).await), [""; 0], "the first entry is for the other pool");
    let first = server.claim(of_pool("a", 10, 600)).await;
    assert_eq!(ids(&first), ["0-1"], "the third entry must not overtake the second");
    assert_eq!(ids(&server.claim(of_pool("b", 10, 600)).await), [""; 0], "the first entry is in flight");
    server.failed(&references(&first)[0], "no", Some(1)).await;
    assert_eq!(ids(&server.claim(of_pool("b", 10, 600)).await), [""; 0], "the first entry is tried again");
    let dead = "UPDATE noetl.outbox SET available_at = 'infinity', attempts = 20 WHERE outbox_id = 1";
    deployment.on_shard(0, dead).await;
    let second = server.claim(of_pool("b", 10, 600)).await;
    assert_eq!(ids(&second), ["0-2"], "no entry waits for a DEAD one");
    server.published(&references(&second)).await;
    assert_eq!(ids(&server.claim(of_pool("a", 10, 600)).await), ["0-3"]);
}

#[tokio::test]
async fn concurrent_workers_of_two_pools_deliver_each_execution_in_order() {
    const EXECUTIONS: i64 = 12;
    const ROWS: i64 = 7;
    let deployment = Deployment::start(1).await;
    let servers = [deployment.replica_with(&[NO_RELAY]).await, deployment.replica_with(&[NO_RELAY]).await];
    deployment.fill_outbox(0, &(1..=EXECUTIONS).collect::<Vec<_>>(), ROWS).await;
    let mixed = "UPDATE noetl.outbox SET subject = 'noetl.executions.' ||
                 CASE WHEN (outbox_id * 7 + execution_id) % 3 = 0 THEN 'a' ELSE 'b' END || '.' || execution_id";
    deployment.on_shard(0, mixed).await;
    // Holder and delivered entries of each execution.
    let delivered: Mutex<BTreeMap<String, Vec<String>>> = Mutex::default();
    let held: Mutex<BTreeMap<String, usize>> = Mutex::default();
    let work = async |worker: usize| {
        let server = &servers[worker % 2];
        let pool = if worker < 4 { "a" } else { "b" };
        while deployment.outbox_rows("status <> 'PUBLISHED'").await > 0 {
            let claimed = server.claim(of_pool(pool, 3, 600)).await;
            let claims = claimed["claims"].as_array().unwrap();
            for claim in claims {
                let subject = claim["subject"].as_str().unwrap();
                assert!(subject.starts_with(&format!("noetl.executions.{pool}.")), "{subject}");
                let execution = claim["executionId"].as_str().unwrap().to_owned();
                let holder = *held.lock().await.entry(execution.clone()).or_insert(worker);
                assert_eq!(holder, worker, "execution {execution} is in flight with two holders");
                let entry = claim["entryId"].as_str().unwrap().to_owned();
                delivered.lock().await.entry(execution).or_default().push(entry);
            }
            for claim in claims {
                held.lock().await.remove(claim["executionId"].as_str().unwrap());
            }
            let settled = server.published(&references(&claimed)).await;
            assert_eq!(settled["stale"], json!([]));
        }
    };
    join_all((0..8).map(work)).await;
    let delivered = delivered.into_inner();
    assert_eq!(delivered.len(), usize::try_from(EXECUTIONS).unwrap());
    for (execution, entries) in delivered {
        let number = |id: &String| id.strip_prefix("0-").unwrap().parse::<i64>().unwrap();
        let numbers: Vec<i64> = entries.iter().map(number).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "execution {execution}: {numbers:?}");
        assert_eq!(numbers.len(), usize::try_from(ROWS).unwrap(), "execution {execution}");
    }
}

/// A lease can be extended until it expires or its entry is settled.
async fn an_extended_lease_keeps_its_entries_and_an_expired_one_is_not_extended(
    deployment: &Deployment,
    server: &Server,
) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &[1, 2], 2).await;
    let short = server.claim(json!({ "leaseSeconds": 5 })).await;
    assert_eq!(ids(&short), ["0-1", "0-2", "0-3", "0-4"]);
    let of = |execution: &str| -> Vec<Value> {
        let claims = short["claims"].as_array().unwrap().iter();
        claims.filter(|claim| claim["executionId"] == execution).map(reference).collect()
    };
    let unknown = json!({ "entryId": "0-99", "lease": "1" });
    let renewed = server.renewed(&[of("1"), vec![unknown]].concat(), 600).await;
    assert_eq!(renewed["userErrors"], json!([]));
    let expected = [json!([0, "0-1", null]), json!([1, "0-3", null]), json!([2, "0-99", "STALE_LEASE"])];
    assert_eq!(outcomes(&renewed), expected, "{renewed}");
    assert_eq!(renewed["results"][2]["userErrors"][0]["field"], json!(["claims", "2", "lease"]));
    let until: DateTime<Utc> = serde_json::from_value(renewed["results"][0]["leaseExpiresAt"].clone()).unwrap();
    assert!(until > Utc::now() + chrono::Duration::minutes(9), "{renewed}");
    assert_eq!(
        server.renewed(&of("1")[..1], 1).await["results"][0]["leaseExpiresAt"],
        renewed["results"][0]["leaseExpiresAt"]
    );

    // After the other leases have expired, another caller claims the first entry of the second execution.
    let second = eventually("the other leases have expired", async || {
        let claimed = server.claim(json!({ "limit": 1, "leaseSeconds": 600 })).await;
        (!ids(&claimed).is_empty()).then_some(claimed)
    })
    .await;
    assert_eq!(ids(&second), ["0-2"]);
    assert_eq!(ids(&server.claim(json!({})).await), [""; 0], "the extended leases hold the first execution");
    let late = server.renewed(&of("2"), 600).await;
    let stale = [json!([0, "0-2", "STALE_LEASE"]), json!([1, "0-4", "STALE_LEASE"])];
    assert_eq!(outcomes(&late), stale, "the execution would have two lease holders: {late}");
    let settled = server.published(&of("1")).await;
    assert_eq!((&settled["published"], &settled["stale"]), (&json!(2), &json!([])));
    let after = server.renewed(&of("1")[..1], 600).await;
    assert_eq!(outcomes(&after), [json!([0, "0-1", "STALE_LEASE"])], "it is delivered");
}

/// An argument that is null has the default that an absent one has.
async fn a_limit_a_lease_and_a_delay_that_are_null_have_their_defaults(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &(1..=101).collect::<Vec<_>>(), 1).await;
    let send = async |call: &str| {
        server.data(&format!("mutation($n: Int) {{ it: {call} }}"), json!({ "n": null })).await["it"].take()
    };
    let assert_default_lease = |claim: &Value| {
        let expires: DateTime<Utc> = serde_json::from_value(claim["leaseExpiresAt"].clone()).unwrap();
        assert!((15..=30).contains(&(expires - Utc::now()).num_seconds()), "{claim}");
    };
    let claimed = "claimOutbox(input: { select: { all: true }, limit: $n, leaseSeconds: $n }) {
        claims { entryId lease leaseExpiresAt } }";
    let claimed = send(claimed).await;
    assert_eq!(ids(&claimed).len(), 100);
    let claim = &claimed["claims"][0];
    assert_default_lease(claim);
    let tried =
        "UPDATE noetl.outbox SET attempts = 9, lease_until = now() + interval '10 seconds' WHERE status = 'IN_FLIGHT'";
    deployment.on_shard(0, tried).await;
    let claim = format!("entryId: {}, lease: {}", claim["entryId"], claim["lease"]);
    let renewed = format!(
        "renewOutboxLeases(input: {{ claims: [{{ {claim} }}], leaseSeconds: $n }}) {{ results {{ leaseExpiresAt }} }}"
    );
    assert_default_lease(&send(&renewed).await["results"][0]);
    let failed = format!(
        "markOutboxFailed(input: {{ failures: [{{ {claim}, error: \"no\" }}], maxDelaySeconds: $n }}) {{
            results {{ retryInSeconds }} }}"
    );
    assert_eq!(send(&failed).await["results"], json!([{ "retryInSeconds": 256 }]));
}

#[tokio::test]
async fn failures_in_a_batch_have_a_result_each() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    for shard in 0..2 {
        deployment.fill_outbox(shard, &deployment.ids_on(shard, 1, 2), 1).await;
    }
    let claimed = server.claim(json!({ "maxAttempts": 1 })).await;
    let again = server.claim(json!({})).await;
    assert_eq!((ids(&claimed).len(), ids(&again).len()), (4, 0));
    let mut failures: Vec<Value> = references(&claimed);
    failures[1]["lease"] = json!("99999");
    failures.insert(0, json!({ "entryId": "0-x", "lease": "1" }));
    failures.push(json!({ "entryId": "7-1", "lease": "1" }));
    for failure in &mut failures {
        failure["error"] = json!("broken");
    }
    let payload = server.failed_batch(&failures, None).await;
    let results = payload["results"].as_array().unwrap();
    let codes: Vec<_> = results.iter().map(|one| one["userErrors"][0]["code"].as_str().unwrap_or("DONE")).collect();
    assert_eq!(codes, ["INVALID_INPUT", "DONE", "STALE_LEASE", "DONE", "DONE", "INVALID_INPUT"], "{payload}");
    let fields = json!([results[0]["userErrors"][0]["field"], results[5]["userErrors"][0]["field"]]);
    assert_eq!(fields, json!([["failures", "0", "entryId"], ["failures", "5", "entryId"]]));
    assert_eq!(results[1]["dead"], true, "the only attempt failed");
    assert_eq!(deployment.outbox_rows("status = 'FAILED' AND last_error = 'broken'").await, 3);
    let mixed = [vec![json!({ "entryId": "x", "lease": "1" })], references(&claimed)[1..2].to_vec()].concat();
    let marked = server.published(&mixed).await;
    assert_eq!(
        (&marked["published"], &marked["userErrors"][0]["code"]),
        (&json!(1), &json!("INVALID_INPUT")),
        "{marked}"
    );
}
