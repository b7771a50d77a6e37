//! A worker that names its claim stores events only while no other worker has claimed the entry.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardMap;
use noetl_testkit::mover::{buckets, moved};
use noetl_testkit::outbox::{NO_RELAY, reference};
use noetl_testkit::worker::{event, event_with};
use noetl_testkit::{Deployment, Server, TokenFile, eventually};
use serde_json::{Value, json};

/// Starts an execution, and claims its entry for a second. Returns the execution and the reference to the claim.
async fn claimed(server: &Server) -> (i64, Value) {
    let execution = server.start_execution().await;
    let claim = server.claim(json!({ "leaseSeconds": 1 })).await["claims"][0].take();
    assert_eq!(claim["executionId"], execution.to_string());
    (execution, reference(&claim))
}

async fn claimed_again(server: &Server) -> Value {
    eventually("the entry is claimable again", async || {
        server.claim(json!({ "leaseSeconds": 60 })).await["claims"].get(0).map(reference)
    })
    .await
}

fn outcome(payload: &Value) -> Value {
    let code = |error: &Value| (error["code"].clone(), error["field"].clone());
    let errors: Vec<_> = payload["userErrors"].as_array().unwrap().iter().map(code).collect();
    let rejected: Vec<_> = payload["rejected"].as_array().unwrap().iter().map(code).collect();
    json!([payload["projected"], payload["duplicates"], payload["settled"], rejected, errors])
}

#[tokio::test]
async fn a_claim_covers_the_events_of_its_execution_until_another_worker_claims_the_entry() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    a_worker_whose_entry_was_claimed_by_another_one_changes_nothing(&deployment, &server).await;
    a_claim_of_before_a_move_of_its_bucket_still_stores_events(&deployment, &server).await;
    // It leaves entries that are not claimed.
    events_of_other_executions_and_claims_that_name_no_entry_are_refused(&deployment, &server).await;
}

/// A worker whose claim was replaced stores nothing and settles nothing.
async fn a_worker_whose_entry_was_claimed_by_another_one_changes_nothing(deployment: &Deployment, server: &Server) {
    let (execution, late) = claimed(server).await;
    let begun = event_with(execution, execution + 10, &json!({ "type": "step.enter" }));
    // The lease may have expired: the entry still belongs to its claim.
    assert_eq!(outcome(&server.project_under(&late, &[begun], false).await), json!([1, 0, false, [], []]));

    let current = claimed_again(server).await;
    let failed = event_with(execution, execution + 11, &json!({ "type": "playbook.failed", "error": "lost" }));
    let stale = json!([0, 0, false, [], [["STALE_LEASE", ["claim"]]]]);
    for settle in [false, true] {
        let payload = server.project_under(&late, std::slice::from_ref(&failed), settle).await;
        assert_eq!(outcome(&payload), stale, "{payload}");
    }
    let completed = event_with(execution, execution + 12, &json!({ "type": "playbook.completed" }));
    let payload = server.project_under(&current, std::slice::from_ref(&completed), true).await;
    assert_eq!(outcome(&payload), json!([1, 0, true, [], []]), "{payload}");
    // The response was lost. The first worker is still refused.
    let payload = server.project_under(&current, std::slice::from_ref(&completed), true).await;
    assert_eq!(outcome(&payload), json!([0, 1, true, [], []]), "{payload}");
    assert_eq!(outcome(&server.project_under(&late, &[failed], false).await), stale);
    let query = "query($id: ID!) { execution(id: $id) { status error } }";
    let read = server.data(query, json!({ "id": execution.to_string() })).await;
    assert_eq!(read["execution"], json!({ "status": "COMPLETED", "error": null }));
    assert_eq!(deployment.outbox_rows("status = 'PUBLISHED'").await, 1);
}

/// A claim covers the events of its own execution.
async fn events_of_other_executions_and_claims_that_name_no_entry_are_refused(
    deployment: &Deployment,
    server: &Server,
) {
    let (execution, claim) = claimed(server).await;
    let settled = deployment.outbox_rows("status = 'PUBLISHED'").await;
    let mut events = vec![event(execution, execution + 10)];
    let mut other = execution;
    while events.len() < 3 {
        // One of each shard.
        other = server.execute(json!({ "path": "run" })).await["executionId"].as_str().unwrap().parse().unwrap();
        events.push(event(other, other + 10));
    }
    let payload = server.project_under(&claim, &events, true).await;
    let refused = |index: usize| json!(["INVALID_INPUT", ["events", index.to_string(), "executionId"]]);
    assert_eq!(outcome(&payload), json!([1, 0, false, [refused(1), refused(2)], []]), "{payload}");
    assert_eq!(deployment.outbox_rows("status = 'PUBLISHED'").await, settled, "an entry was settled with {other}");

    let one = [event(execution, execution + 11)];
    for (claim, code, field) in [
        (json!({ "entryId": claim["entryId"], "lease": "12" }), "STALE_LEASE", json!(["claim"])),
        (json!({ "entryId": "7-1", "lease": "12" }), "INVALID_INPUT", json!(["claim", "entryId"])),
        (json!({ "entryId": "x", "lease": "12" }), "INVALID_INPUT", json!(["claim", "entryId"])),
        (json!({ "entryId": claim["entryId"], "lease": "x" }), "INVALID_INPUT", json!(["claim", "lease"])),
        (Value::Null, "INVALID_INPUT", json!(["settle"])),
    ] {
        let payload = server.project_under(&claim, &one, true).await;
        assert_eq!(outcome(&payload), json!([0, 0, false, [], [[code, field]]]), "{payload}");
    }
}

/// Half of the workers are late: another worker claims their entry while they send their events.
#[tokio::test]
async fn no_event_of_a_worker_is_stored_after_another_one_has_claimed_its_entry() {
    const ROUNDS: i64 = 20;
    const WORKERS: usize = 4;
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    let (mut stored, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        let (execution, late) = claimed(&server).await;
        deployment.leases_pass().await;
        let sends = (0..WORKERS).map(async |worker| {
            let first = execution + 10 + 10 * i64::try_from(worker).unwrap();
            server.project_under(&late, &[event(execution, first), event(execution, first + 1)], false).await
        });
        let next = async {
            let claim = claimed_again(&server).await;
            let before: BTreeSet<(i64, i64)> = deployment.committed().await;
            (claim, before)
        };
        let (payloads, (claim, before)) = tokio::join!(join_all(sends), next);
        for payload in payloads {
            match payload["projected"].as_u64().unwrap() {
                2 => stored += 1,
                _ => refused += 1,
            }
        }
        assert_eq!(deployment.committed().await, before, "an event was stored after the claim");
        let last = event_with(execution, execution + 100, &json!({ "type": "playbook.completed" }));
        let payload = server.project_under(&claim, &[last], true).await;
        assert_eq!(payload["settled"], true, "{payload}");
    }
    assert!(stored > 0 && refused > 0, "{stored} batches were stored and {refused} refused");
}

/// A claim stays valid while its bucket moves, and after it.
async fn a_claim_of_before_a_move_of_its_bucket_still_stores_events(deployment: &Deployment, server: &Server) {
    let (execution, claim) = claimed(server).await;
    let from = ShardMap::even(2).shard_of(Id::new(execution));
    // The server learns the new place while it stores events.
    let (has_moved, mut next) = (AtomicBool::new(false), execution + 10);
    let moving = async {
        moved(deployment, &buckets(&[execution]), 1 - from, &[]).await;
        has_moved.store(true, Ordering::Relaxed);
    };
    let sending = async {
        while !has_moved.load(Ordering::Relaxed) {
            let payload = server.project_under(&claim, &[event(execution, next)], false).await;
            assert_eq!(outcome(&payload), json!([1, 0, false, [], []]), "{payload}");
            next += 1;
        }
    };
    tokio::join!(moving, sending);
    for settle in [false, true] {
        let payload = server.project_under(&claim, &[event(execution, next)], settle).await;
        assert_eq!(outcome(&payload), json!([1, 0, settle, [], []]), "{payload}");
        next += 1;
    }
}

#[tokio::test]
async fn a_claim_belongs_to_its_tenant_and_only_callers_that_may_settle_can_settle_with_it() {
    const PROJECT: &str = "mutation($input: ProjectEventsInput!) { projectEvents(input: $input) {
        projected settled userErrors { code field } } }";
    let tokens = TokenFile::new();
    let of = |role, tenant| tokens.add(&["--role", role, "--tenant", tenant, "--subject", role]);
    let (owner, importer, foreign) = (of("worker", "acme"), of("importer", "acme"), of("worker", "globex"));
    let admin = tokens.add(&["--role", "admin", "--subject", "root"]);
    let deployment = Deployment::start(1).await;
    let (name, path) = tokens.setting();
    let server = deployment.replica_with(&[NO_RELAY, (name, &path)]).await;
    let entry = "mutation { registerCatalogEntry(input: {path: \"run\", content: \"kind: playbook\"}) { userErrors { code } } }";
    server.send_as(&admin, entry, Value::Null).await;
    let started = "mutation {
        execute(input: {entry: {path: \"run\"}}) { executionId }
        claimOutbox(input: {select: {all: true}}) { claims { entryId lease } } }";
    let started = server.send_as(&owner, started, Value::Null).await;
    let execution: i64 = started["data"]["execute"]["executionId"].as_str().unwrap().parse().unwrap();
    let input = |offset: i64, settle: bool| {
        let claim = &started["data"]["claimOutbox"]["claims"][0];
        json!({ "input": { "claim": claim, "settle": settle, "events": [event(execution, execution + offset)] } })
    };
    let stale = server.send_as(&foreign, PROJECT, input(10, true)).await;
    let refused = json!({ "projected": 0, "settled": false,
        "userErrors": [{ "code": "STALE_LEASE", "field": ["claim"] }] });
    assert_eq!(stale["data"]["projectEvents"], refused, "{stale}");
    let forbidden = server.send_as(&importer, PROJECT, input(10, true)).await;
    assert_eq!(forbidden["errors"][0]["extensions"]["code"], "FORBIDDEN", "{forbidden}");
    let stored = server.send_as(&importer, PROJECT, input(10, false)).await;
    assert_eq!(stored["data"]["projectEvents"], json!({ "projected": 1, "settled": false, "userErrors": [] }));
    let settled = server.send_as(&owner, PROJECT, input(11, true)).await;
    assert_eq!(settled["data"]["projectEvents"], json!({ "projected": 1, "settled": true, "userErrors": [] }));
}
