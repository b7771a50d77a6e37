//! A write that a shard's database refuses fails alone. The other items of the batch, and the other executions of the
//! shard, are written and reported.

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Server, eventually, execute_input};
use serde_json::{Value, json};

const EXECUTIONS: &str = "SELECT count(*) FROM noetl.execution";

/// Registers the playbooks `good` and `bad` on a replica whose relay leaves the outbox alone.
async fn replica(deployment: &Deployment) -> Server {
    let server = deployment.feed_replica().await;
    for path in ["good", "bad"] {
        server.register_entry(path, &json!({ "kind": "playbook" })).await;
    }
    server
}

/// Makes a shard refuse executions of the playbook `bad` with this error code.
async fn refuse_bad(deployment: &Deployment, shard: usize, code: &str) {
    let refuse = format!(
        "CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN
             IF NEW.path = 'bad' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END IF;
             RETURN NEW;
         END $$;
         CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON noetl.execution
             FOR EACH ROW EXECUTE FUNCTION public.refuse()"
    );
    run(&mut deployment.shard(shard).await, &refuse).await;
}

/// Starts a batch, which must not fail as a whole, and returns its results.
async fn batch(server: &Server, requests: Vec<Value>) -> Vec<Value> {
    let query = "mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) {
        results { execution { id path shard } outcome userErrors { code message retryable } } userErrors { code } } }";
    let requests: Vec<Value> = requests.into_iter().map(execute_input).collect();
    let response = server.send(query, json!({ "input": { "requests": requests } })).await.unwrap();
    assert_eq!(response.get("errors"), None, "{response:.1000}");
    assert_eq!(response["data"]["executeBatch"]["userErrors"], json!([]));
    response["data"]["executeBatch"]["results"].as_array().unwrap().clone()
}

fn keyed(path: &str, key: usize) -> Value {
    json!({ "path": path, "dedup": { "key": format!("m-{key}"), "windowSeconds": 3600 } })
}

#[tokio::test]
async fn a_refused_statement_of_one_shard_fails_only_its_own_items_of_a_batch() {
    let deployment = Deployment::start(2).await;
    let server = replica(&deployment).await;
    run(&mut deployment.shard(1).await, "ALTER TABLE noetl.outbox RENAME TO gone").await;
    let mut requests: Vec<Value> = (0..20).map(|_| json!({ "path": "good" })).collect();
    requests.extend((0..20).map(|key| keyed("good", key)));
    let results = batch(&server, requests).await;
    let (started, refused): (Vec<&Value>, Vec<&Value>) =
        results.iter().partition(|result| result["outcome"] == "STARTED");
    assert!(!started.is_empty() && !refused.is_empty(), "{results:?}");
    for result in &started {
        assert_eq!((&result["execution"]["shard"], &result["userErrors"]), (&json!(0), &json!([])), "{result}");
    }
    for result in &refused {
        assert_eq!(result["userErrors"][0]["code"], "INTERNAL", "{result}");
        assert_eq!((&result["execution"], &result["outcome"]), (&Value::Null, &Value::Null), "{result}");
    }
    assert_eq!(deployment.sum_over_shards(EXECUTIONS).await, i64::try_from(started.len()).unwrap());
}

#[tokio::test]
async fn a_refused_statement_of_one_shard_fails_only_its_own_items_of_a_bulk_transition() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    for n in 0..16 {
        let path = format!("inbox/{n}");
        server.register_entry(&path, &json!({ "kind": "subscription" })).await;
        server.register(&path).await;
    }
    let refuse = "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
                  $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON noetl.event FOR EACH ROW EXECUTE FUNCTION public.refuse()";
    run(&mut deployment.shard(1).await, refuse).await;
    let query =
        "mutation { transitionSubscriptions(input: { action: ACTIVATE, select: { all: true }, dryRun: false }) {
        results { subscription { shard status } applied userErrors { code } } unavailableShards userErrors { code } } }";
    let response = server.send(query, Value::Null).await.unwrap();
    assert_eq!(response.get("errors"), None, "{response}");
    let payload = &response["data"]["transitionSubscriptions"];
    assert_eq!((&payload["unavailableShards"], &payload["userErrors"]), (&json!([]), &json!([])), "{payload}");
    let results = payload["results"].as_array().unwrap();
    assert_eq!(results.len(), 16, "{payload}");
    for shard in [0, 1] {
        let of_shard = results.iter().filter(|result| result["subscription"]["shard"] == shard);
        let outcome = if shard == 0 {
            json!([true, "ACTIVE", []])
        } else {
            json!([false, "REGISTERED", [{ "code": "INTERNAL" }]])
        };
        let outcomes: Vec<Value> = of_shard
            .map(|result| json!([result["applied"], result["subscription"]["status"], result["userErrors"]]))
            .collect();
        assert!(!outcomes.is_empty() && outcomes.iter().all(|one| *one == outcome), "{shard}: {outcomes:?}");
    }
}

#[tokio::test]
async fn a_refused_creation_fails_alone() {
    let deployment = Deployment::start(1).await;
    let server = replica(&deployment).await;
    a_duplicate_does_not_fail_with_another_creation_of_its_shard(&deployment, &server).await;
    a_refused_creation_does_not_fail_the_others_of_its_shard(&deployment, &server).await;
}

/// A creation that the database refuses fails alone.
async fn a_refused_creation_does_not_fail_the_others_of_its_shard(deployment: &Deployment, server: &Server) {
    refuse_bad(deployment, 0, "P0001").await;
    let path = |n: usize| if [3, 17, 18].contains(&n) { "bad" } else { "good" };
    let request = |n: usize| if n.is_multiple_of(2) { keyed(path(n), 100 + n) } else { json!({ "path": path(n) }) };
    let before = deployment.sum_over_shards(EXECUTIONS).await;
    let results = batch(server, (0..40).map(request).collect()).await;
    for (n, result) in results.iter().enumerate() {
        if path(n) == "good" {
            assert_eq!((&result["outcome"], &result["userErrors"]), (&json!("STARTED"), &json!([])), "{n}: {result}");
        } else {
            assert_eq!(result["userErrors"][0]["code"], "INTERNAL", "{n}: {result}");
        }
    }
    assert_eq!(deployment.sum_over_shards(EXECUTIONS).await - before, 37);
    let reserved = "SELECT count(*) FROM noetl.subscription_dedup WHERE state = 0";
    let settled = async || (deployment.in_cluster(reserved).await == 1).then_some(());
    eventually("only the key of the refused creation stays reserved", settled).await;
}

/// A duplicate needs no creation, so none that fails affects it.
async fn a_duplicate_does_not_fail_with_another_creation_of_its_shard(deployment: &Deployment, server: &Server) {
    let firsts = batch(server, (0..5).map(|key| keyed("good", key)).collect()).await;
    // The code of a statement that waited too long for a lock: another attempt may succeed.
    refuse_bad(deployment, 0, "55P03").await;
    let mut requests: Vec<Value> = (0..5).map(|key| keyed("good", key)).collect();
    requests.push(json!({ "path": "bad" }));
    let results = batch(server, requests).await;
    for (first, again) in firsts.iter().zip(&results) {
        assert_eq!((&again["outcome"], &again["userErrors"]), (&json!("DUPLICATE"), &json!([])), "{again}");
        assert_eq!(again["execution"], first["execution"]);
    }
    assert_eq!(results[5]["userErrors"][0]["code"], "TIMEOUT", "{}", results[5]);
}
