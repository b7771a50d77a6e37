//! Executions are found by the text of their error, among the newest failed ones.

use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, TokenFile};
use serde_json::{Value, json};

use super::execution_lists::assert_listed;

/// Executions; the second shard has those with even ids. `PARENT` is the id of a subscription.
const ROWS: &str = "
    INSERT INTO noetl.execution (execution_id, catalog_id, status, path, tenant_id, parent_execution_id, labels, error,
                                 start_time)
    SELECT one.*, timestamptz '2026-01-01' + execution_id * interval '1 second' FROM (VALUES
        (1, 0, 'FAILED', 'flow', 'default', NULL::bigint, jsonb '{\"team\": \"a\"}', 'Connection to db-1 refused'),
        (2, 0, 'FAILED', 'other', 'default', NULL, NULL, 'connection to db-2 REFUSED'),
        (3, 0, 'error', 'flow', 'default', NULL, NULL, 'No answer: 100% lost'),
        (4, 0, 'COMPLETED', 'flow', 'default', NULL, NULL, 'connection to db-4 refused'),
        (5, 0, 'FAILED', 'flow', 'acme', NULL, NULL, 'connection to db-5 refused'),
        (6, 0, 'FAILED', 'flow', 'default', NULL, NULL, NULL),
        (7, 0, 'FAILED', 'flow', 'default', PARENT, NULL, repeat('x', 9980) || ' db-7 was refused, again'),
        (8, 0, 'RUNNING', 'flow', 'default', NULL, NULL, 'refused')
    ) AS one (execution_id, catalog_id, status, path, tenant_id, parent, labels, error)";

#[tokio::test]
async fn failed_executions_are_found_by_a_part_of_their_error() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.feeds_begun().await;
    let inbox = server.subscribe("inbox").await;
    for (shard, remainder) in [(0, 1), (1, 0)] {
        let rows = ROWS.replace("PARENT", &inbox);
        deployment.on_shard(shard, &format!("{rows} WHERE execution_id % 2 = {remainder}")).await;
    }
    let team = json!([{ "name": "team", "equals": "a" }]);
    for (filter, expected) in [
        (json!({ "errorContains": "Refused" }), vec!["7", "5", "2", "1"]),
        (json!({ "errorContains": "db-2" }), vec!["2"]),
        (json!({ "errorContains": "db-9" }), vec![]),
        // The last words of the error come after its first 10,000 characters.
        (json!({ "errorContains": "again" }), vec![]),
        // Patterns are texts.
        (json!({ "errorContains": "100%" }), vec!["3"]),
        (json!({ "errorContains": "ref%d" }), vec![]),
        (json!({ "errorContains": "refused", "path": "flow" }), vec!["7", "5", "1"]),
        (json!({ "errorContains": "refused", "labels": team }), vec!["1"]),
        (json!({ "errorContains": "answer", "labels": team }), vec![]),
        (json!({ "errorContains": "refused", "statuses": ["FAILED", "RUNNING"] }), vec!["7", "5", "2", "1"]),
        (json!({ "errorContains": "refused", "statuses": ["COMPLETED", "RUNNING"] }), vec![]),
        (json!({ "errorContains": "refused", "tenantId": "acme" }), vec!["5"]),
        (json!({ "errorContains": "refused", "tenantId": "default" }), vec!["7", "2", "1"]),
        (json!({ "errorContains": "refused", "idPrefix": "2" }), vec!["2"]),
        (json!({ "errorContains": "refused", "dedupKey": "none" }), vec![]),
        (json!({ "errorContains": "refused", "parentExecutionId": inbox }), vec!["7"]),
        (json!({ "errorContains": "refused", "startedBefore": "2026-01-01T00:00:02Z" }), vec!["1"]),
    ] {
        assert_listed(&server, &filter, &expected).await;
    }
    let oldest = "{ executions(order: OLDEST, filter: { errorContains: \"refused\" }) { nodes { id } } }";
    let oldest = server.data(oldest, Value::Null).await["executions"]["nodes"].take();
    assert_eq!(oldest, json!([{ "id": "1" }, { "id": "2" }, { "id": "5" }, { "id": "7" }]));
    let of_inbox = "query($id: ID!) { subscription(by: { id: $id }) {
        refused: executions(filter: { errorContains: \"refused\" }) { nodes { id } totalCount { value } }
        others: executions(filter: { errorContains: \"answer\" }) { nodes { id } totalCount { value } } } }";
    let of_inbox = server.data(of_inbox, json!({ "id": inbox })).await["subscription"].take();
    assert_eq!(of_inbox["refused"], json!({ "nodes": [{ "id": "7" }], "totalCount": { "value": 1 } }));
    assert_eq!(of_inbox["others"], json!({ "nodes": [], "totalCount": { "value": 0 } }));

    let rerun = "mutation { rerunExecutions(input: {
        select: { filter: { errorContains: \"refused\", path: \"flow\" } }, dryRun: true }) {
            results { originId } userErrors { message } } }";
    let reruns = server.data(rerun, Value::Null).await["rerunExecutions"].take();
    assert_eq!(reruns["results"], json!([{ "originId": "7" }, { "originId": "5" }, { "originId": "1" }]), "{reruns}");
    // Only executions that have not ended are cancelled by a filter, and none of them has failed.
    let cancel = "mutation { cancelExecutions(input: { select: { filter: { errorContains: \"refused\" } } }) {
        results { executionId } userErrors { message } } }";
    let cancelled = server.data(cancel, Value::Null).await["cancelExecutions"].take();
    assert_eq!(cancelled, json!({ "results": [], "userErrors": [] }));
}

#[tokio::test]
async fn only_the_newest_5000_failed_executions_of_a_tenant_are_searched_for_an_error() {
    let (deployment, tokens) = (Deployment::start(0).await, TokenFile::new());
    let (setting, path) = tokens.setting();
    let all = tokens.add(&["--role", "admin", "--subject", "root"]);
    let of_acme = tokens.add(&["--role", "admin", "--subject", "a", "--tenant", "acme"]);
    let of_default = tokens.add(&["--role", "admin", "--subject", "d", "--tenant", "default"]);
    let server = deployment.replica_with(&[("NOETL_PROJECTOR", "false"), NO_RELAY, (setting, &path)]).await;
    let rows = "INSERT INTO noetl.execution (execution_id, catalog_id, status, path, tenant_id, error, start_time)
        SELECT 10000 + n, 0, 'FAILED', 'flow', 'acme', 'lost host ' || n || '.', timestamptz '2026-01-01' + n * interval '1 s'
        FROM generate_series(0, 5000) AS n
        UNION ALL SELECT 7, 0, 'FAILED', 'flow', 'default', 'lost host 7.', timestamptz '2025-01-01'";
    run(&mut deployment.shard(0).await, rows).await;
    let query = "query($filter: ExecutionFilter) { executions(filter: $filter) { nodes { id } totalCount { value } } }";
    let first = json!({ "errorContains": "host 0.", "startedBefore": "2026-01-01T00:00:01Z" });
    for (token, filter, expected) in [
        (&all, json!({ "errorContains": "host 1." }), vec!["10001"]),
        (&all, json!({ "errorContains": "host 0." }), vec![]),
        // The other conditions are compared among those that were searched.
        (&all, first, vec![]),
        (&all, json!({ "errorContains": "host 7." }), vec!["10007"]),
        (&all, json!({ "errorContains": "host 7.", "tenantId": "default" }), vec!["7"]),
        (&all, json!({ "errorContains": "host 0.", "tenantId": "acme" }), vec![]),
        (&of_acme, json!({ "errorContains": "host 7." }), vec!["10007"]),
        (&of_acme, json!({ "errorContains": "host 0." }), vec![]),
        (&of_acme, json!({ "errorContains": "host 7.", "tenantId": "default" }), vec![]),
        (&of_default, json!({ "errorContains": "host 7." }), vec!["7"]),
        (&of_default, json!({ "errorContains": "host 8." }), vec![]),
    ] {
        let response = server.send_as(token, query, json!({ "filter": filter })).await;
        let nodes: Vec<Value> = expected.iter().map(|id| json!({ "id": id })).collect();
        let list = json!({ "nodes": nodes, "totalCount": { "value": expected.len() } });
        assert_eq!(response["data"]["executions"], list, "{filter}: {response}");
    }
    let every = json!({ "filter": { "errorContains": "LOST" } });
    let counted = "query($filter: ExecutionFilter) { executionStats(filter: $filter) { total } }";
    let counted = server.send_as(&all, counted, every).await;
    assert_eq!(counted["data"]["executionStats"]["total"], 5000, "{counted}");
}
