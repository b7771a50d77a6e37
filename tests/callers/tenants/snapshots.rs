//! Snapshots are stored under the tenant and the organization of their execution.

use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// Snapshots have the owners of their executions, and one with another owner is not used. Changes the owners of all
/// snapshots of the deployment.
pub(super) async fn a_state_is_read_from_the_snapshot_of_its_tenant_only(deployment: &Deployment, server: &Server) {
    let id = |payload: Value| payload["executionId"].as_str().unwrap().to_owned();
    let acme = json!({ "path": "flow", "tenantId": "acme", "organizationId": "west" });
    let (acme, plain) = (id(server.execute(acme).await), id(server.execute(json!({ "path": "flow" })).await));
    let advance = "mutation($ids: [ID!]!) { advanceProjections(input: { executionIds: $ids }) {
        results { advanced { folded } } } }";
    let folded = async || {
        let found = server.data(advance, json!({ "ids": [acme, plain] })).await;
        let advanced = found["advanceProjections"]["results"].as_array().unwrap().clone();
        advanced.iter().map(|one| one["advanced"]["folded"].as_str().unwrap().parse::<i64>().unwrap()).sum::<i64>()
    };
    assert_eq!(folded().await, 2);
    assert_eq!(folded().await, 0, "the snapshots have all events");
    let owner = "SELECT concat_ws('/', tenant_id, organization_id) FROM noetl.projection_snapshot
                 WHERE aggregate_id = $1::text";
    assert_eq!(deployment.rows::<(String,)>(owner, &acme).await, [("acme/west".to_owned(),)]);
    assert_eq!(deployment.rows::<(String,)>(owner, &plain).await, [("default/default".to_owned(),)]);
    let snapshots = async || {
        let query = "query($a: ID!, $b: ID!) { a: execution(id: $a) { snapshot { appliedCount } }
                     b: execution(id: $b) { snapshot { appliedCount } } }";
        let found = server.data(query, json!({ "a": acme, "b": plain })).await;
        [found["a"]["snapshot"].is_object(), found["b"]["snapshot"].is_object()]
    };
    assert_eq!(snapshots().await, [true, true]);
    let move_them =
        "UPDATE noetl.projection_snapshot SET tenant_id = CASE tenant_id WHEN 'acme' THEN 'default' ELSE 'acme' END";
    for shard in 0..2 {
        deployment.on_shard(shard, move_them).await;
    }
    assert_eq!(snapshots().await, [false, false]);
}
