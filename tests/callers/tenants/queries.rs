//! Checks of the queries.

use serde_json::{Value, json};

use super::world::{Side, World, texts};

/// Fields that show no data of a tenant return the same to each.
pub(super) async fn catalog(world: &World, own: &Side, _: &Side) {
    let query = "{ catalogEntry(by: {path: \"inbox/globex\"}) { path } catalogEntries(first: 100) { nodes { path } }
        flow: catalogEntry(by: {path: \"flow\"}) { executions(first: 100) { nodes { tenantId } } }
        validateCatalogEntry(input: {content: \"kind: agent\", path: \"a\"}) { entry { kind } } }";
    let found = world.data(own, query).await;
    assert_eq!(found["catalogEntry"]["path"], "inbox/globex");
    assert_eq!(found["validateCatalogEntry"]["entry"]["kind"], "AGENT");
    let tenants = texts(&found["flow"]["executions"]["nodes"], "tenantId");
    assert!(!tenants.is_empty() && tenants.iter().all(|tenant| *tenant == own.tenant), "{tenants:?}");
    let paths = texts(&found["catalogEntries"]["nodes"], "path");
    assert!(
        ["flow", "inbox/acme", "inbox/globex"].iter().all(|path| paths.iter().any(|found| found == path)),
        "{paths:?}"
    );
}

pub(super) async fn server(world: &World, own: &Side, _: &Side) {
    let query = "{ server { version } replicas { machineId } shards { available } eventStream { shards { shard } } viewer { tenant } }";
    let found = world.data(own, query).await;
    assert_eq!((&found["viewer"]["tenant"], &found["shards"][1]["available"]), (&json!(own.tenant), &json!(true)));
    assert_eq!(found["eventStream"]["shards"].as_array().unwrap().len(), 2);
    assert!(!found["replicas"].as_array().unwrap().is_empty());
}

pub(super) async fn dedup_claim(world: &World, own: &Side, other: &Side) {
    let query = format!(
        "{{ keyed: dedupClaim(key: \"order-17\") {{ executionId execution {{ id tenantId }} }}
           part: dedupClaim(parentExecutionId: \"{}\", key: \"part-1\") {{ executionId }}
           foreign: dedupClaim(parentExecutionId: \"{}\", key: \"part-1\") {{ executionId }} }}",
        own.executions[0], other.executions[0]
    );
    let found = world.data(own, &query).await;
    let expected = json!({
        "keyed": { "executionId": own.executions[0], "execution": { "id": own.executions[0], "tenantId": own.tenant } },
        "part": { "executionId": own.child }, "foreign": null,
    });
    assert_eq!(found, expected);
}

pub(super) async fn event(world: &World, own: &Side, other: &Side) {
    for shard in 0..2 {
        let event = world.data(own, &first_event(&own.executions[shard])).await["events"]["nodes"][0]["id"].take();
        let query =
            |of: &str| format!("{{ event(executionId: \"{of}\", eventId: {event}) {{ tenantId organizationId }} }}");
        let found = world.data(own, &query(&own.executions[shard])).await;
        assert_eq!(found, json!({ "event": { "tenantId": own.tenant, "organizationId": "default" } }));
        assert_eq!(world.data(other, &query(&own.executions[shard])).await, json!({ "event": null }));
    }
}

fn first_event(execution: &str) -> String {
    format!("{{ events(executionId: \"{execution}\", first: 1) {{ nodes {{ id tenantId }} }} }}")
}

pub(super) async fn events(world: &World, own: &Side, other: &Side) {
    for log in own.all().iter().chain(&own.logs).chain([&own.subscription]) {
        let found = world.data(own, &first_event(log)).await["events"]["nodes"].take();
        assert_eq!(texts(&found, "tenantId"), [own.tenant], "{log}");
        // The other tenant has an event of its own in one of these logs.
        let foreign = texts(&world.data(other, &first_event(log)).await["events"]["nodes"], "tenantId");
        assert!(!foreign.iter().any(|tenant| tenant == own.tenant), "{log}");
    }
    let log = format!("executionId: \"{}\",", own.executions[0]);
    let lists = [
        log.clone(),
        format!("{log} order: ARRIVAL,"),
        String::new(),
        "filter: { types: [\"playbook_started\"] },".to_owned(),
        format!("filter: {{ executionIds: [\"{}\", \"{}\"] }},", own.executions[0], other.executions[0]),
    ];
    for list in lists {
        let query = format!("{{ events({list} first: 100) {{ nodes {{ tenantId }} totalCount {{ value }} }} }}");
        let found = world.data(own, &query).await["events"].take();
        let tenants = texts(&found["nodes"], "tenantId");
        assert!(!tenants.is_empty() && tenants.iter().all(|tenant| tenant == own.tenant), "{list} {tenants:?}");
        assert_eq!(found["totalCount"]["value"], tenants.len(), "{list}");
    }
    let foreign = format!("{{ events(filter: {{ tenantId: \"{}\" }}) {{ nodes {{ tenantId }} }} }}", other.tenant);
    assert_eq!(world.data(own, &foreign).await["events"]["nodes"], json!([]));
}

pub(super) async fn execution(world: &World, own: &Side, other: &Side) {
    let query = |id: &str| {
        format!(
            "{{ execution(id: \"{id}\") {{ id tenantId organizationId status workload error executionPool steps {{ nodes {{ name }} }}
                snapshot {{ version }} parent {{ execution {{ id }} }} events {{ nodes {{ tenantId }} }}
                children {{ nodes {{ id tenantId }} totalCount {{ value }} }} }} }}"
        )
    };
    for id in own.all().iter().chain(&own.logs) {
        let found = world.data(own, &query(id)).await["execution"].take();
        let has_parent = id == &own.child;
        let parent = if has_parent { json!({ "execution": { "id": own.executions[0] } }) } else { Value::Null };
        let expected = (json!(id), json!(own.tenant), parent);
        assert_eq!((found["id"].clone(), found["tenantId"].clone(), found["parent"].clone()), expected);
        let tenants = texts(&found["events"]["nodes"], "tenantId");
        assert!(!tenants.is_empty() && tenants.iter().all(|tenant| tenant == own.tenant), "{tenants:?}");
        assert_eq!(world.data(other, &query(id)).await, json!({ "execution": null }));
        let past = format!(
            "{{ executionState(executionId: \"{id}\", at: {{ time: \"2999-01-01T00:00:00Z\" }}) {{
                execution {{ tenantId }} }} }}"
        );
        let expected = json!({ "executionState": { "execution": { "tenantId": own.tenant } } });
        assert_eq!(world.data(own, &past).await, expected);
        assert_eq!(world.data(other, &past).await, json!({ "executionState": null }));
    }
    // The other tenant's listed executions have this parent too.
    let children = world.data(own, &query(&own.executions[0])).await["execution"]["children"].take();
    assert_eq!(texts(&children["nodes"], "id"), std::slice::from_ref(&own.child));
    assert_eq!(children["totalCount"]["value"], 1);
}

pub(super) async fn execution_stats(world: &World, own: &Side, other: &Side) {
    let query = |filter: &str| {
        format!("{{ executionStats(filter: {{ {filter} }}) {{ total byStatus {{ count }} byPath {{ count }} }} }}")
    };
    let stats = world.data(own, &query("")).await["executionStats"].take();
    let listed = format!("SELECT count(*) FROM noetl.execution WHERE tenant_id = '{}'", own.tenant);
    let listed = world.count(&listed).await;
    assert!(listed > 0);
    for counts in ["byStatus", "byPath"] {
        let counts = stats[counts].as_array().unwrap().iter().map(|group| group["count"].as_i64().unwrap());
        assert_eq!(counts.sum::<i64>(), listed, "{stats}");
    }
    assert_eq!(stats["total"], json!(listed));
    let theirs = world.data(own, &query(&format!("tenantId: \"{}\"", other.tenant))).await;
    assert_eq!(theirs["executionStats"]["total"], 0);
}

pub(super) async fn execution_history(world: &World, own: &Side, other: &Side) {
    let times = "SELECT to_char(now() AT TIME ZONE 'UTC' - interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),
                        to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
    let (from, to): (String, String) =
        sqlx::query_as(times).fetch_one(&mut world.deployment.cluster().await).await.unwrap();
    let started = async |filter: &str| {
        let query = format!(
            "{{ executionHistory(interval: HOUR, from: \"{from}\", to: \"{to}\", filter: {{ {filter} }}) {{
                buckets {{ started }} }} }}"
        );
        let history = world.data(own, &query).await["executionHistory"].take();
        history["buckets"].as_array().unwrap().iter().map(|bucket| bucket["started"].as_i64().unwrap()).sum::<i64>()
    };
    let listed = format!(
        "SELECT count(*) FROM noetl.execution WHERE tenant_id = '{}' AND start_time > now() - interval '1 day'",
        own.tenant
    );
    let listed = world.count(&listed).await;
    assert!(listed > 0);
    assert_eq!(started("").await, listed);
    assert_eq!(started(&format!("tenantId: \"{}\"", other.tenant)).await, 0);
}

/// Each tenant has an execution of the same path on each shard, whose only step has the name of the tenant.
pub(super) async fn step_stats(world: &World, own: &Side, _: &Side) {
    let from = if own.tenant == "acme" { 3_000_000 } else { 4_000_000 };
    for shard in 0..2 {
        let (id, tenant) = (world.deployment.ids_on(shard, from, 1)[0], own.tenant);
        let rows = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, tenant_id)
             VALUES ({id}, {id} + 1, 'step.enter', '{tenant}', '{tenant}'),
                    ({id}, {id} + 2, 'command.completed', '{tenant}', '{tenant}'),
                    ({id}, {id} + 3, 'playbook.completed', 'stepped', '{tenant}');
             INSERT INTO noetl.execution (execution_id, catalog_id, status, path, tenant_id)
             VALUES ({id}, 0, 'COMPLETED', 'stepped', '{tenant}')"
        );
        world.deployment.on_shard(shard, &rows).await;
    }
    let query = "{ stepStats(path: \"stepped\") { executions steps { name executions } } }";
    let expected = json!({ "executions": 2, "steps": [{ "name": own.tenant, "executions": 2 }] });
    assert_eq!(world.data(own, query).await["stepStats"], expected);
}

pub(super) async fn executions(world: &World, own: &Side, other: &Side) {
    let query = |filter: &str| {
        format!(
            "{{ executions(first: 100, filter: {{ {filter} }}) {{
                nodes {{ id tenantId }} unavailableShards totalCount {{ value }} }} }}"
        )
    };
    let all = world.data(own, &query("")).await["executions"].take();
    let (ids, tenants) = (texts(&all["nodes"], "id"), texts(&all["nodes"], "tenantId"));
    assert_eq!(all["totalCount"]["value"], ids.len());
    assert!(tenants.iter().all(|tenant| tenant == own.tenant), "{tenants:?}");
    assert!(own.all().iter().all(|id| ids.contains(id)), "{ids:?}");
    let none = world.data(own, &query(&format!("tenantId: \"{}\"", other.tenant))).await;
    assert_eq!(none["executions"]["nodes"], json!([]));
    let labelled = world.data(own, &query("labels: [{ name: \"team\", equals: \"a\" }]")).await["executions"].take();
    let (ids, tenants) = (texts(&labelled["nodes"], "id"), texts(&labelled["nodes"], "tenantId"));
    assert!(ids.contains(&own.executions[1]) && tenants.iter().all(|tenant| tenant == own.tenant), "{labelled}");
    assert_eq!(labelled["totalCount"]["value"], ids.len());
    let children = world.data(own, &query(&format!("parentExecutionId: \"{}\"", other.executions[0]))).await;
    let mut of_other = texts(&children["executions"]["nodes"], "id");
    of_other.sort();
    let mut listed = own.listed.clone();
    listed.sort();
    assert_eq!(of_other, listed, "own executions, whose parent belongs to the other tenant");
}

pub(super) async fn outbox(world: &World, own: &Side, other: &Side) {
    let query = |filter: &str| {
        format!(
            "{{ outbox {{ stats {{ pending }}
                entries(first: 100, filter: {{ {filter} }}) {{ nodes {{ executionId tenantId organizationId }}
                    totalCount {{ value }} }} }} }}"
        )
    };
    let found = world.data(own, &query("")).await["outbox"].take();
    let pending = world.count(&pending(own.tenant)).await;
    assert!(pending > 0);
    assert_eq!(found["stats"]["pending"], pending);
    let tenants = texts(&found["entries"]["nodes"], "tenantId");
    assert!(tenants.iter().all(|tenant| tenant == own.tenant), "{tenants:?}");
    assert_eq!(found["entries"]["totalCount"]["value"], tenants.len());
    let other_states = format!(
        "INSERT INTO noetl.outbox (event_id, payload, status, available_at, attempts, lease_until, tenant_id)
         SELECT 77, '{{}}', status, available_at, 1, now() + interval '1 hour', tenant
         FROM unnest(ARRAY['{}', '{}']) AS tenant
         CROSS JOIN (VALUES ('IN_FLIGHT', now()), ('FAILED', now() + interval '1 hour'), ('FAILED', 'infinity'))
             AS state (status, available_at)",
        own.tenant, other.tenant
    );
    for shard in 0..2 {
        world.deployment.on_shard(shard, &other_states).await;
    }
    let stats =
        world.data(own, "{ outbox { stats { pending inFlight failed dead } } }").await["outbox"]["stats"].take();
    assert_eq!(stats, json!({ "pending": pending, "inFlight": 2, "failed": 2, "dead": 2 }));
    let subjects =
        world.data(own, "{ outbox { subjects { pending inFlight failed dead } } }").await["outbox"]["subjects"].take();
    let sum = |of: &str| subjects.as_array().unwrap().iter().map(|subject| subject[of].as_i64().unwrap()).sum::<i64>();
    assert_eq!((sum("pending"), sum("inFlight"), sum("failed"), sum("dead")), (pending, 2, 2, 2));
    for shard in 0..2 {
        world.deployment.on_shard(shard, "DELETE FROM noetl.outbox WHERE event_id = 77").await;
    }
    let executions = texts(&found["entries"]["nodes"], "executionId");
    assert!(own.all().iter().all(|id| executions.contains(id)), "{executions:?}");
    for foreign in [format!("tenantId: \"{}\"", other.tenant), format!("executionId: \"{}\"", other.listed[0])] {
        assert_eq!(world.data(own, &query(&foreign)).await["outbox"]["entries"]["nodes"], json!([]));
    }
}

/// Returns a query that counts the claimable rows of a tenant on a shard.
pub(super) fn pending(tenant: &str) -> String {
    format!(
        "SELECT count(*) FROM noetl.outbox WHERE status = 'PENDING'
           AND '{tenant}' IN (tenant_id, payload ->> 'tenant_id')"
    )
}

pub(super) async fn subscription(world: &World, own: &Side, other: &Side) {
    let query = |by: &str| {
        format!(
            "{{ subscription(by: {{ {by} }}) {{ id tenantId organizationId events {{ nodes {{ tenantId }} }}
                executions {{ nodes {{ id }} }} }} }}"
        )
    };
    for by in [format!("id: \"{}\"", own.subscription), format!("path: \"inbox/{}\"", own.tenant)] {
        let found = world.data(own, &query(&by)).await["subscription"].take();
        assert_eq!((&found["id"], &found["tenantId"]), (&json!(own.subscription), &json!(own.tenant)));
        assert!(texts(&found["events"]["nodes"], "tenantId").iter().all(|tenant| tenant == own.tenant));
        assert_eq!(world.data(other, &query(&by)).await, json!({ "subscription": null }));
    }
}

pub(super) async fn subscriptions(world: &World, own: &Side, other: &Side) {
    let query = |filter: &str| {
        format!(
            "{{ subscriptions(first: 100, filter: {{ {filter} }}) {{ nodes {{ id tenantId }} totalCount {{ value }} }} }}"
        )
    };
    let all = world.data(own, &query("")).await["subscriptions"].take();
    assert_eq!(texts(&all["nodes"], "id"), std::slice::from_ref(&own.subscription));
    assert_eq!(all["totalCount"]["value"], 1);
    assert!(texts(&all["nodes"], "tenantId").iter().all(|tenant| tenant == own.tenant));
    let foreign = world.data(own, &query(&format!("tenantId: \"{}\"", other.tenant))).await;
    assert_eq!(foreign["subscriptions"]["nodes"], json!([]));
}

pub(super) async fn nodes(world: &World, own: &Side, other: &Side) {
    let event = world.data(own, &first_event(&own.executions[0])).await["events"]["nodes"][0]["id"].take();
    let entry = "{ outbox { entries(first: 1) { nodes { id } } } }";
    let entry = world.data(own, entry).await["outbox"]["entries"]["nodes"][0]["id"].take();
    let ids = [json!(own.executions[0]), json!(own.subscription), event, entry];
    let query = format!("{{ nodes(ids: {}) {{ id }} }}", Value::from(ids.to_vec()));
    let found: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    assert_eq!(world.data(own, &query).await, json!({ "nodes": found }));
    assert_eq!(world.data(other, &query).await, json!({ "nodes": [null, null, null, null] }));
    for id in &ids {
        let query = format!("{{ node(id: {id}) {{ id }} }}");
        assert_eq!(world.data(own, &query).await, json!({ "node": { "id": id } }));
        assert_eq!(world.data(other, &query).await, json!({ "node": null }));
    }
}
