//! Tenants in a database that NoETL's own server made: only its events and the payloads of its outbox rows name them.

use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, TokenFile, eventually};
use serde_json::{Value, json};

/// The tables of an existing NoETL server.
const NOETL: &str = include_str!("../../fixtures/noetl.sql");
/// Its rows: a completed execution and a running one are listed.
const ROWS: &str = include_str!("../../fixtures/noetl_rows.sql");
const COMPLETED: &str = "316000000000000001";
const RUNNING: &str = "320000000000000002";
const UNLISTED: &str = "320000000000000005";

#[tokio::test]
async fn executions_and_outbox_rows_of_noetl_belong_to_the_tenants_that_it_wrote() {
    let (deployment, tokens) = (Deployment::unmigrated(0).await, TokenFile::new());
    let mut shard = deployment.shard(0).await;
    run(&mut shard, NOETL).await;
    run(&mut shard, ROWS).await;
    let tenants = format!(
        "ALTER TABLE noetl.event ADD COLUMN tenant_id TEXT NOT NULL DEFAULT 'default',
                                 ADD COLUMN organization_id TEXT NOT NULL DEFAULT 'default';
         UPDATE noetl.event SET tenant_id = 'acme', organization_id = 'west' WHERE execution_id IN ({RUNNING}, {COMPLETED});
         INSERT INTO noetl.event (execution_id, catalog_id, event_id, event_type, node_name, tenant_id)
         VALUES ({UNLISTED}, 1, 420000000000000001, 'playbook_started', 'work/flow', 'globex');
         UPDATE noetl.outbox SET payload = payload || '{{\"tenant_id\": \"acme\", \"organization_id\": \"west\"}}'
         WHERE execution_id = {RUNNING}"
    );
    run(&mut shard, &tenants).await;
    deployment.migrate().await;
    let acme = tokens.add(&["--role", "admin", "--tenant", "acme"]);
    let globex = tokens.add(&["--role", "admin", "--tenant", "globex"]);
    let (name, path) = tokens.setting();
    let server = deployment.replica_with(&[(name, &path), NO_RELAY]).await;
    let query = "{ executions { nodes { id tenantId organizationId } }
                   outbox { entries { nodes { executionId tenantId organizationId } } } }";
    let found = async |token: &str| server.send_as(token, query, Value::Null).await["data"].take();
    let listed = async |token: &str, count: usize| {
        eventually("the fill has corrected the list", async || {
            let data = found(token).await;
            (data["executions"]["nodes"].as_array()?.len() == count).then_some(data)
        })
        .await
    };
    let of_acme = listed(&acme, 2).await;
    let execution = |id: &str, tenant: &str, organization: &str| json!({ "id": id, "tenantId": tenant, "organizationId": organization });
    let expected = [execution(RUNNING, "acme", "west"), execution(COMPLETED, "acme", "west")];
    let mut nodes = of_acme["executions"]["nodes"].as_array().unwrap().clone();
    nodes.sort_by_key(|node| std::cmp::Reverse(node["id"].to_string()));
    assert_eq!(nodes, expected);
    let entry = json!([{ "executionId": RUNNING, "tenantId": "acme", "organizationId": "west" }]);
    assert_eq!(of_acme["outbox"]["entries"]["nodes"], entry);
    let of_globex = listed(&globex, 1).await;
    assert_eq!(of_globex["executions"]["nodes"], json!([execution(UNLISTED, "globex", "default")]));
    assert_eq!(of_globex["outbox"]["entries"]["nodes"], json!([]));
}
